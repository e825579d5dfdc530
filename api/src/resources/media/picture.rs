//! Pictures of profiles, groups and newsletters in a request: named by a URL, or as the body itself.

use model::error::CallError;
use model::field::{Body, rule};
use network::operation::picture::Picture;
use salvo::http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use shard::media::sniff;

use super::receive;
use crate::openapi::binary;
use crate::request_context::ChannelCall;

/// The field with the URL of a picture.
pub const PICTURE_URL: &str = "picture_url";

/// The types that a picture as a body may have.
const FORMATS: [&str; 3] = ["image/jpeg", "image/png", "image/webp"];

/// The types of a body that is a picture, for the OpenAPI document.
pub fn picture_content() -> Vec<(&'static str, Value)> {
    FORMATS.map(|format| (format, binary())).into()
}

/// Reads `{ "picture_url": URI }`.
pub fn parse_source(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required(PICTURE_URL, rule::web_url))
}

/// The rule between the picture and the `other` fields of a patch, as JSON Schema: a picture is set or cleared, and
/// `clear_picture: false` alone is no change.
pub fn set_or_cleared(other: &[&str]) -> Value {
    let named = |field: &str| json!({ "required": [field] });
    let changes: Vec<Value> = other.iter().copied().chain([PICTURE_URL]).map(named).collect();
    let clear = |how: bool| json!({ "clear_picture": { "const": how } });
    json!({
        "dependentSchemas": {
            "clear_picture": {
                "anyOf": [
                    { "properties": clear(true), "not": named(PICTURE_URL) },
                    { "properties": clear(false), "anyOf": changes },
                ],
            },
        },
    })
}

impl ChannelCall {
    /// Fetches the picture that a body names as `picture_url`, and converts it for the network.
    ///
    /// # Errors
    /// As [`Self::can_operate`]; `media_fetch_failed`, `media_fetch_blocked`, `media_too_large` above 5 MB,
    /// `invalid_request` for bytes that are no picture.
    pub async fn fetch_picture(&mut self, url: &str) -> Result<Picture, CallError> {
        // Checked first, so that a channel that cannot change a picture refuses before up to 5 MB are fetched.
        self.can_operate().await?;
        self.cluster().picture_at(self.customer_id(), url, PICTURE_URL, &self.context()).await
    }

    /// Returns the picture of a body that is one itself, or that names one as `picture_url`.
    ///
    /// # Errors
    /// As [`Self::fetch_picture`], and `bad_request` for a body that is neither.
    pub async fn picture(&mut self) -> Result<Picture, CallError> {
        let kind = self.http.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("image/") {
            let url = parse_source(&self.object().await?)?;
            return self.fetch_picture(&url).await;
        }
        if !FORMATS.contains(&sniff::essence(kind)) {
            return Err(CallError::bad_request(format!("send a picture as {}", FORMATS.join(", "))));
        }
        self.can_operate().await?;
        let app = self.app.clone();
        let received = receive::file(self.customer_id(), &mut self.http, app.cluster.media()).await?;
        self.cluster().picture_of(self.customer_id(), received.spooled, "file").await
    }
}

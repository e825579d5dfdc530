//! `POST /v1/channels/{id}/media` and `.../media/from-url`: files for later sends, even if the channel is offline.

use model::error::CallError;
use model::field::{Body, rule};
use model::id::MediaId;
use model::issue::{IssueCode, Violation};
use model::target::LONGEST_URL;
use serde_json::{Value, json};
use shard::call::media::MediaWork;
use shard::cluster::MediaRoom;
use shard::media::record::{MediaDirection, MediaRow};
use shard::media::sniff;
use shard::media::spool::Spooled;

use super::MediaUpload;
use super::receive::{self, Received};
use crate::failure;
use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;

pub async fn upload(call: &mut ChannelCall) -> Outcome {
    // Charged before up to 25 MB are received, not after.
    call.settle().await?;
    call.has_media_room(None).await?;
    let app = call.app.clone();
    let received = receive::file(call.customer_id(), &mut call.http, app.cluster.media()).await?;
    if received.spooled.size == 0 {
        return Err(Violation::new(IssueCode::Empty, "must not be empty").at(&["file"]));
    }
    store(call, received).await
}

pub async fn from_url(call: &mut ChannelCall) -> Outcome {
    let (url, mime_type, filename) = parse_source(&call.object().await?)?;
    call.settle().await?;
    call.has_media_room(None).await?;

    let fetching = call.cluster().fetch_media(call.customer_id(), &url, &call.context()).await;
    let fetched = fetching.map_err(|error| error.told(&url, "url"))?;
    let received = Received {
        spooled: fetched.spooled,
        declared: mime_type.or(fetched.mime_type),
        filename: filename.or(fetched.filename),
    };
    store(call, received).await
}

/// Parses the body of `from-url`: the URL, and optionally a type and a name for its bytes.
pub fn parse_source(body: &Body) -> Result<(String, Option<String>, Option<String>), CallError> {
    body.read(|fields| {
        let wants = || json!({ "format": "uri" });
        let url = fields.required("url", rule::described(wants, rule::text(1..=LONGEST_URL)));
        let mime_type = fields.optional("mime_type", mime_type);
        let filename = fields.optional("filename", filename);
        Some((url?, mime_type, filename))
    })
}

/// The two bodies of an upload, as JSON Schema.
pub fn content() -> Vec<(&'static str, Value)> {
    let form = json!({
        "type": "object",
        "required": ["file"],
        "properties": {
            "file": { "type": "string", "format": "binary", "minLength": 1 },
            "filename": rule::wants(filename),
            "mime_type": rule::wants(mime_type),
        },
    });
    let bytes = json!({ "type": "string", "format": "binary", "minLength": 1 });
    vec![("multipart/form-data", form), ("application/octet-stream", bytes)]
}

/// Stores the bytes, and then the row that refers to them.
async fn store(call: &mut ChannelCall, received: Received) -> Outcome {
    let Received { spooled, declared, filename } = received;
    let mime_type = sniff::settle(&spooled.head, declared.as_deref());
    let room = call.has_media_room(Some(spooled.size)).await?;
    let row = Box::new(new_row(call, &spooled, mime_type, filename));
    let work = match room {
        Some(MediaRoom { limit, elsewhere }) => MediaWork::AddWithin { row, limit, elsewhere },
        None => MediaWork::Add(row),
    };
    let (app, channel) = (call.app.clone(), call.channel.id);
    app.cluster.media().keep(channel, spooled).await?;
    let row = call.ask(work).await?.ok_or_else(|| failure::unexpected(&"nothing"))?;
    Ok(Reply::created(&MediaUpload::of(app.cluster.media(), row)?))
}

impl ChannelCall {
    /// Fails when the account's quota has no room for the bytes; see [`Cluster::media_room`](shard::cluster::Cluster).
    async fn has_media_room(&self, size: Option<u64>) -> Result<Option<MediaRoom>, CallError> {
        self.cluster().media_room(self.customer_id(), self.channel.id, size, &self.context()).await
    }
}

fn new_row(call: &ChannelCall, spooled: &Spooled, mime_type: String, filename: Option<String>) -> MediaRow {
    let retention = call.cluster().media().retention();
    let (customer, channel) = (call.customer_id(), call.channel.id);
    let mut row =
        MediaRow::new(MediaId::new(), customer, channel, MediaDirection::Upload, mime_type, call.now, retention);
    row.filename = filename;
    row.with_bytes(spooled.stored(None))
}

/// Validates a MIME type in a body.
fn mime_type(value: &Value) -> Result<String, Violation> {
    let wants = || json!({ "pattern": sniff::MIME_PATTERN });
    let text = rule::described(wants, rule::text(1..=sniff::LONGEST_MIME))(value)?;
    judged_mime_type(text)
}

/// Validates a MIME type.
pub fn judged_mime_type(text: String) -> Result<String, Violation> {
    if sniff::is_mime_type(&text) {
        Ok(text)
    } else {
        Err(Violation::new(IssueCode::Format, "must be a MIME type such as image/png, of at most 255 characters"))
    }
}

/// Validates a file name in a body.
fn filename(value: &Value) -> Result<String, Violation> {
    let wants = || json!({ "pattern": FILENAME });
    judged_filename(&rule::described(wants, rule::text(1..=LONGEST_FILENAME))(value)?)
}

/// The longest file name, in characters.
const LONGEST_FILENAME: usize = 255;

/// What [`judged_filename`] accepts, as a regular expression: no control characters, and no blank last segment.
const FILENAME: &str =
    r"^[^\u0000-\u001f\u007f-\u009f]*[^/\\\s\u0000-\u001f\u007f-\u009f][^/\\\u0000-\u001f\u007f-\u009f]*$";

/// Validates a file name, and returns the last path segment. Control characters are refused.
pub fn judged_filename(text: &str) -> Result<String, Violation> {
    let name = text.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    if name.is_empty() || text.chars().any(char::is_control) {
        return Err(Violation::new(IssueCode::Format, "must be the name of a file"));
    }
    if name.chars().count() > LONGEST_FILENAME {
        return Err(Violation::new(IssueCode::TooLong, format!("at most {LONGEST_FILENAME} characters")));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_is_the_last_part_of_what_was_given() {
        assert_eq!(judged_filename("C:\\temp\\a.png").unwrap(), "a.png");
        assert_eq!(judged_filename("../../etc/passwd").unwrap(), "passwd");
        assert_eq!(judged_filename("Größe.pdf").unwrap(), "Größe.pdf");
        assert_eq!(judged_filename("a/").unwrap_err().code, IssueCode::Format);
        assert_eq!(judged_filename("a\nb").unwrap_err().code, IssueCode::Format);
        assert_eq!(judged_filename(&"ä".repeat(256)).unwrap_err().code, IssueCode::TooLong);
    }
}

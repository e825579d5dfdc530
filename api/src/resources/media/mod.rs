//! A channel's media, and the links that serve it.

mod link;
mod list;
mod picture;
mod range;
mod receive;
mod upload;

use model::error::{CallError, ErrorCode as E};
use model::id::MediaId;
use model::media::{MediaState, Sha256Hex};
use model::page::ListId;
use model::time::Timestamp;
use salvo::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use shard::call::media::MediaWork;
use shard::media::record::{MediaDirection, MediaRow};
use shard::media::store::MediaStore;

pub use self::picture::{PICTURE_URL, parse_source, picture_content, set_or_cleared};
use crate::reply::{Outcome, Reply, view_of};
use crate::request_context::ChannelCall;
use crate::route::{DELETE, GET, POST, Route};

/// Error codes of calls that fetch bytes from a URL.
pub const FETCHED: &[E] = &[E::MediaFetchFailed, E::MediaFetchBlocked, E::MediaTooLarge];

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(POST, "/v1/channels/{id}/media", upload::upload)
            .doc("upload_media", "Upload a file to send later")
            .about("As a form, or as the raw bytes with their `Content-Type` and, in `X-Filename`, their name.")
            .content_body(upload::content())
            .created::<MediaUpload>()
            .errors(&[E::MediaTooLarge, E::PlanLimit]),
        Route::channel(POST, "/v1/channels/{id}/media/from-url", upload::from_url)
            .doc("upload_media_from_url", "Fetch a file to send later")
            .body(upload::parse_source, json!({ "url": "https://example.com/a.png" }))
            .created::<MediaUpload>()
            .errors(FETCHED)
            .errors(&[E::PlanLimit]),
        Route::channel(GET, "/v1/channels/{id}/media", list::list)
            .doc("list_media", "List a channel's media, the newest first")
            .query(|query| list::asked(query, ListId::only()))
            .page::<MediaUpload>(),
        Route::channel(GET, "/v1/channels/{id}/media/{media_id}", show)
            .doc("get_media", "Get media, with a new link")
            .ok::<MediaUpload>()
            .errors(&[E::MediaGone]),
        Route::channel(DELETE, "/v1/channels/{id}/media/{media_id}", delete)
            .doc("delete_media", "Delete media")
            .no_content(),
        Route::public(GET, "/v1/media/{token}", link::serve)
            .doc("download_media", "Get the bytes behind a link")
            .about("Needs no key, only the link. Supports `Range` and `If-None-Match`.")
            .header("Range", "The range of bytes to return.", json!({ "type": "string" }))
            .header("If-None-Match", "The `ETag` of the copy that the client has.", json!({ "type": "string" }))
            .content("*/*")
            .content_as(StatusCode::PARTIAL_CONTENT, "*/*")
            .empty(StatusCode::NOT_MODIFIED)
            .refusal(StatusCode::RANGE_NOT_SATISFIABLE)
            .errors(&[E::MediaTokenMalformed, E::MediaTokenTampered, E::MediaTokenExpired, E::MediaGone]),
    ]
}

/// Stored media with a link to its bytes.
#[derive(Serialize, JsonSchema)]
struct MediaUpload {
    id: MediaId,
    url: String,
    mime_type: String,
    /// Size in bytes; `null` if unknown.
    size_bytes: Option<u64>,
    sha256: Option<Sha256Hex>,
    filename: Option<String>,
    direction: MediaDirection,
    created_at: Timestamp,
    expires_at: Timestamp,
}

impl MediaUpload {
    /// The view of a row, with a fresh link.
    ///
    /// # Errors
    /// 503 while the cluster is not formed.
    fn of(media: &MediaStore, row: MediaRow) -> Result<Self, CallError> {
        let (url, size_bytes) = (media.link(&row)?, row.size);
        Ok(view_of!(move row => id, mime_type, sha256, filename, direction, created_at, expires_at; url, size_bytes))
    }
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let row = work(call, MediaWork::Get).await?;
    match row.state {
        MediaState::Ready | MediaState::Pending => Ok(Reply::ok(&MediaUpload::of(call.cluster().media(), row)?)),
        MediaState::Gone | MediaState::Failed | MediaState::Skipped => Err(CallError::media_gone(Some(row.expires_at))),
    }
}

async fn delete(call: &mut ChannelCall) -> Outcome {
    work(call, MediaWork::Delete).await?;
    Ok(Reply::no_content())
}

/// Runs an action on the media that the path names.
async fn work(call: &mut ChannelCall, what: impl FnOnce(MediaId) -> MediaWork) -> Result<MediaRow, CallError> {
    let missing = CallError::not_found("media", call.parameter("media_id"));
    let Some(id) = call.id::<MediaId>("media_id") else { return Err(missing) };
    // Deleted rows are kept only for their links.
    call.ask(what(id)).await?.filter(|row| !row.deleted).ok_or(missing)
}

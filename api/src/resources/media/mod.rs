//! Media of a channel, and the links that serve it (interface 4.4, supplement 8).

mod link;
mod list;
mod picture;
mod range;
mod receive;
mod upload;

use model::error::ApiError;
use model::id::MediaId;
use model::media::{MediaState, Sha256Hex};
use model::time::Timestamp;
use serde::Serialize;
use shard::call::{Done, Work};
use shard::media::call::MediaWork;
use shard::media::record::{MediaDirection, MediaRow};
use shard::media::store::MediaStore;

use crate::exchange::ChannelCall;
use crate::failure;
use crate::reply::{Outcome, Reply};
use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/channels/{id}/media").channel(upload::upload),
        Route::post("/v1/channels/{id}/media/from-url").channel(upload::from_url),
        Route::get("/v1/channels/{id}/media").channel(list::list),
        Route::get("/v1/channels/{id}/media/{media_id}").channel(show),
        Route::delete("/v1/channels/{id}/media/{media_id}").channel(delete),
        Route::get("/v1/media/{token}").public(link::serve),
    ]
}

/// MediaUpload (supplement 8.1).
#[derive(Serialize)]
struct MediaUpload {
    id: MediaId,
    url: String,
    mime_type: String,
    size_bytes: Option<u64>,
    sha256: Option<Sha256Hex>,
    filename: Option<String>,
    direction: MediaDirection,
    created_at: Timestamp,
    expires_at: Timestamp,
}

impl MediaUpload {
    /// With a fresh link.
    ///
    /// # Errors
    /// 503 while the cluster is not formed.
    fn of(media: &MediaStore, row: MediaRow) -> Result<Self, ApiError> {
        Ok(Self {
            url: media.link(&row)?,
            id: row.id,
            mime_type: row.mime_type,
            size_bytes: row.size,
            sha256: row.sha256,
            filename: row.filename,
            direction: row.direction,
            created_at: row.created_at,
            expires_at: row.expires_at,
        })
    }
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let row = work(call, MediaWork::Get).await?;
    match row.state {
        MediaState::Ready | MediaState::Pending => Ok(Reply::ok(&MediaUpload::of(call.cluster().media(), row)?)),
        MediaState::Gone | MediaState::Failed | MediaState::Skipped => Err(ApiError::media_gone(Some(row.expires_at))),
    }
}

async fn delete(call: &mut ChannelCall) -> Outcome {
    work(call, MediaWork::Delete).await?;
    Ok(Reply::no_content())
}

/// Does something to the media that the path names.
async fn work(call: &mut ChannelCall, what: impl FnOnce(MediaId) -> MediaWork) -> Result<MediaRow, ApiError> {
    let missing = ApiError::not_found("media", call.parameter("media_id"));
    let Some(id) = call.id::<MediaId>("media_id") else { return Err(missing) };
    match call.work(Work::Media(what(id))).await? {
        // What was deleted is kept for its links alone.
        Done::Media(row) => row.filter(|row| !row.deleted).map(|row| *row).ok_or(missing),
        _ => Err(failure::unexpected_answer()),
    }
}

//! Requests to a channel's owner about media.

use model::id::MediaId;
use serde::{Deserialize, Serialize};

use crate::media::record::{MediaDirection, MediaRow};

/// Answered with `OwnerResponse::Media`, except the list, which is answered with `OwnerResponse::MediaPage`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MediaWork {
    /// Commits a row whose bytes are stored already. Idempotent for the same row.
    Add(Box<MediaRow>),
    /// As `Add`, within the account's quota of `limit` bytes, of which other shards hold `elsewhere`.
    AddWithin { row: Box<MediaRow>, limit: u64, elsewhere: u64 },
    /// Reads the present row.
    Get(MediaId),
    /// As `Get`, but waits for the bytes of `pending` media until the call's deadline.
    Await(MediaId),
    /// Newest first; without a direction, uploaded and inbound media.
    List { limit: usize, before: Option<MediaId>, direction: Option<MediaDirection> },
    /// Deletes media. Returns the row as it was; `None` if there is none to delete.
    Delete(MediaId),
    /// As `Delete`, repeated: media that is deleted already may have been deleted by the first try of this call. Owners
    /// of earlier releases do not know this request, and do not answer it.
    DeleteAgain(MediaId),
}

/// Rows of a list, and where the next page begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MediaPage {
    pub rows: Vec<MediaRow>,
    /// Set when there may be more rows. A page shorter than its limit can still have a next one.
    pub next: Option<MediaId>,
}

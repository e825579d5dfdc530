//! What is asked of a channel's owner about media.

use model::id::MediaId;
use serde::{Deserialize, Serialize};

use crate::media::record::{MediaDirection, MediaRow};

/// Answered with `OwnerResponse::Media`, but for the list: `OwnerResponse::MediaPage`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MediaWork {
    /// Commits a row whose bytes are kept already. Asking again with the same row is the same.
    Add(Box<MediaRow>),
    /// As `Add`, within what is left of the account's quota: `elsewhere` is what of it other shards hold.
    AddWithin { row: Box<MediaRow>, limit: u64, elsewhere: u64 },
    /// The row as it is.
    Get(MediaId),
    /// As `Get`, but waits for the bytes of one that is `pending`, for as long as the call has time.
    Await(MediaId),
    /// Newest first; without a direction, what was uploaded or came in.
    List { limit: usize, before: Option<MediaId>, direction: Option<MediaDirection> },
    /// The answer is the row as it was; `None` when there is none to delete.
    Delete(MediaId),
    /// As `Delete`, which may have been done before: media that is deleted already is deleted by this very call. Owners of
    /// earlier releases do not know it, and do not answer.
    DeleteAgain(MediaId),
}

/// Rows of a list, and where the next page begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MediaPage {
    pub rows: Vec<MediaRow>,
    /// Set when there may be more. A page may be short of its limit and still have a next one.
    pub next: Option<MediaId>,
}

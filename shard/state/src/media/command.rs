//! The commands about media that an owner proposes. Bytes are never in the log: they are on a quorum of the replicas,
//! or in the bucket, before a command refers to them.

use model::id::{ChannelId, MediaId};
use model::media::{MediaHandle, MediaState};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::record::{MediaRow, StoredBytes};

/// The media quota of an account, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaRoom {
    pub limit: u64,
    /// The bytes that are stored in shards other than the channel's.
    pub elsewhere: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MediaCommand {
    /// Adds a row. A known id changes nothing (`Unchanged`).
    Add(Box<MediaRow>),
    /// As `Add`, unless the account's media would then exceed `limit` bytes, of which `elsewhere` are in other shards:
    /// that changes nothing (`OverQuota`).
    AddWithin { row: Box<MediaRow>, limit: u64, elsewhere: u64 },
    /// The bytes are stored. Changes nothing if they were already, or if the media was deleted. `expires_at` restarts
    /// the retention, for bytes that were fetched again.
    Ready { channel: ChannelId, id: MediaId, stored: StoredBytes, expires_at: Option<Timestamp> },
    /// The bytes will not arrive: `failed`, `skipped` or `gone`. Changes nothing unless they could still arrive.
    GivenUp { channel: ChannelId, id: MediaId, state: MediaState },
    /// The network stores the bytes too, under this handle.
    AtNetwork { channel: ChannelId, id: MediaId, handle: MediaHandle, expires_at: Option<Timestamp> },
    /// Entries that the owner found due: their retention has ended, or the row itself has to be deleted.
    Due(Vec<(Timestamp, ChannelId, MediaId)>),
    /// The customer deletes the media.
    Delete { channel: ChannelId, id: MediaId, at: Timestamp },
}

//! What an owner asks of its shard's state machine about media. Bytes are never in the log: they are on a quorum of the
//! replicas, or in the bucket, before a command refers to them.

use model::id::{ChannelId, MediaId};
use model::media::{MediaHandle, MediaState};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::record::{MediaRow, StoredBytes};

/// What an account may keep, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaRoom {
    pub limit: u64,
    /// What is kept in other shards than the channel's.
    pub elsewhere: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MediaCommand {
    /// A new row. One whose id is known is left as it is (`Unchanged`).
    Add(Box<MediaRow>),
    /// As `Add`, unless the account's media would be more than `limit` bytes with it, of which `elsewhere` are in other
    /// shards: then nothing happens (`OverQuota`).
    AddWithin { row: Box<MediaRow>, limit: u64, elsewhere: u64 },
    /// The bytes are kept. Nothing happens when they were already, or when the media was deleted. `expires_at` starts
    /// the retention anew, for bytes that were fetched again.
    Ready { channel: ChannelId, id: MediaId, stored: StoredBytes, expires_at: Option<Timestamp> },
    /// The bytes will not come: `failed`, `skipped` or `gone`. Nothing happens unless they might.
    GivenUp { channel: ChannelId, id: MediaId, state: MediaState },
    /// The network keeps the bytes too, under this name.
    AtNetwork { channel: ChannelId, id: MediaId, handle: MediaHandle, expires_at: Option<Timestamp> },
    /// What the owner found due: the retention has passed, or the row itself is to go.
    Due(Vec<(Timestamp, ChannelId, MediaId)>),
    /// The customer deletes it.
    Delete { channel: ChannelId, id: MediaId, at: Timestamp },
}

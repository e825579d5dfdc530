//! Adapts the rows of a shard's backup for a new cluster.

use model::format::Foreign;
use model::id::NodeId;
use model::media::Sha256Hex;
use model::status::{Reason, Status};
use model::time::Timestamp;
use network::driver::RESTORED;
use raft::machine::Pairs;
use raft::record::read;

use crate::keys;
use crate::records::{ChannelRow, StatusChange, encode};
use state::media::record::MediaRow;

/// Adapts the rows of restored shards.
///
/// A session's credentials are older than what the network has seen since the backup: using them automatically could
/// reuse message keys, and would compete with the old cluster if that still runs. So no channel starts automatically; a
/// `connect` call by a person confirms that the old cluster is gone.
pub struct Restorer {
    node: NodeId,
    at: Timestamp,
    /// The number of channels that wait for a `connect` call.
    pub stopped: u64,
    /// The number of channels that were being paired, and have to start over.
    pub unpaired: u64,
}

impl Restorer {
    pub fn new(node: NodeId, at: Timestamp) -> Self {
        Self { node, at, stopped: 0, unpaired: 0 }
    }

    /// The rows that replace a row of the backup.
    ///
    /// # Errors
    /// [`Foreign`] for a row that this release cannot read.
    pub fn adapted(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<Pairs, Foreign> {
        if !keys::is_channel(&key) {
            return Ok(vec![(key, value)]);
        }
        let row: ChannelRow = read(&value)?;
        let goes_on = row.status.runs() || row.status == Status::Disconnected;
        let mark = (row.credentials && !row.deleted).then(|| (keys::auth(row.id, RESTORED), Vec::new()));
        if row.deleted || !goes_on {
            return Ok(mark.into_iter().chain([(key, value)]).collect());
        }
        let to = if row.credentials { Status::StoppedByUser } else { Status::Pending };
        match to {
            Status::StoppedByUser => self.stopped += 1,
            _ => self.unpaired += 1,
        }
        let (from, reason, at, version) = (row.status, Reason::Restored, self.at, row.version + 1);
        let change = StatusChange { from, to, reason, at, node_id: self.node, epoch: 0, details: None };
        let last_seen_at = if from == Status::Connected { Some(at) } else { row.last_seen_at };
        let row = ChannelRow {
            status: to,
            reason,
            changed_at: Some(at),
            version,
            last_seen_at,
            reconnecting_since: None,
            // The old cluster may have continued after the backup was taken.
            unwritten_from: None,
            moved_by: None,
            ..row
        };
        let changed = [(keys::status_change(row.id, at, version), encode(&change)), (key, encode(&row))];
        Ok(mark.into_iter().chain(changed).collect())
    }
}

/// The bytes that a row of a shard refers to, and their size.
///
/// # Errors
/// [`Foreign`] for a row that this release cannot read.
pub fn stored_bytes(key: &[u8], value: &[u8]) -> Result<Option<(Sha256Hex, u64)>, Foreign> {
    if !keys::is_media(key) {
        return Ok(None);
    }
    let row: MediaRow = read(value)?;
    Ok(row.kept().cloned().zip(row.size))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::id::{ChannelId, CustomerId};

    use super::*;

    #[test]
    fn no_restored_channel_starts_by_itself() {
        let mut restorer = Restorer::new(1, Timestamp(1_000));
        for status in Status::ALL {
            for credentials in [true, false] {
                let mut row = ChannelRow::new(ChannelId::new(), CustomerId::new());
                (row.status, row.credentials, row.version) = (status, credentials, 7);
                let pairs = restorer.adapted(keys::channel(row.id), encode(&row)).unwrap();
                let (key, value) = pairs.last().unwrap();
                assert_eq!(*key, keys::channel(row.id));
                let restored: ChannelRow = read(value).unwrap();
                assert!(!restored.status.runs() && restored.status != Status::Disconnected, "{status}");
                if restored != row {
                    let wanted = if credentials { Status::StoppedByUser } else { Status::Pending };
                    assert_eq!((restored.status, restored.reason, restored.version), (wanted, Reason::Restored, 8));
                    let rows = if credentials { 3 } else { 2 };
                    assert_eq!(pairs.len(), rows, "its history tells of it");
                }
                let mark = keys::auth(row.id, RESTORED);
                assert_eq!(
                    pairs.iter().any(|(key, _)| *key == mark),
                    credentials,
                    "its driver learns that its state is old"
                );
            }
        }
        assert_eq!((restorer.stopped, restorer.unpaired), (5, 5));
    }
}

//! How much log a group keeps.

/// How much log a group keeps, so that a follower that was away catches up from the log and not from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Entries that stay behind the newest snapshot.
    pub keep_entries: u64,
    /// A snapshot (a position from which the log may be purged) is taken each time that many entries were applied.
    pub snapshot_every: u64,
    /// Bytes of log after which a snapshot is taken and the log cut, whatever the number of entries.
    pub max_bytes: u64,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { keep_entries: 50_000, snapshot_every: 10_000, max_bytes: 256 << 20 }
    }
}

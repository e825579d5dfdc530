//! Limits of the log that a group keeps.

/// How much log a group keeps, so that a follower that was down catches up from the log instead of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Number of entries to keep before the newest snapshot.
    pub keep_entries: u64,
    /// Number of applied entries after which a snapshot (a position up to which the log may be purged) is taken.
    pub snapshot_every: u64,
    /// Size of the log, in bytes, at which a snapshot is taken and the log purged, whatever its number of entries.
    pub max_bytes: u64,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { keep_entries: 50_000, snapshot_every: 10_000, max_bytes: 256 << 20 }
    }
}

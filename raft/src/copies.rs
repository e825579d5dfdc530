//! Progress of the snapshots that a leader sends to its followers: reported to operators, and used to keep the log that
//! follows a snapshot.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::id::NodeId;
use parking_lot::Mutex;

/// A log may grow to this multiple of its usual size while a snapshot is being sent: the receiver needs the entries
/// after it, or otherwise another snapshot, for which the log would be purged again.
pub(crate) const LOG_KEPT: u64 = 4;

/// How long the receiver of a snapshot has to fetch the entries after it before the log is purged.
const CATCHES_UP: Duration = Duration::from_secs(60);

/// Snapshots that the leader of one group sends.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// Bytes sent of each snapshot that is being sent.
    sent: Mutex<BTreeMap<NodeId, u64>>,
    /// When the last snapshot was received.
    taken: Mutex<Option<Instant>>,
}

/// A snapshot that is being sent; it counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Copying<'a> {
    copies: &'a Copies,
    to: NodeId,
}

impl Copies {
    pub(crate) fn begin(&self, to: NodeId) -> Copying<'_> {
        self.sent.lock().insert(to, 0);
        Copying { copies: self, to }
    }

    /// Records that a node has received its snapshot.
    pub(crate) fn taken(&self) {
        *self.taken.lock() = Some(Instant::now());
    }

    /// Whether a snapshot is being sent to any node, or was just received: the entries after it are needed.
    pub(crate) fn need_log(&self) -> bool {
        self.need_log_at(Instant::now())
    }

    fn need_log_at(&self, now: Instant) -> bool {
        let is_late = |at: Instant| now.saturating_duration_since(at) >= CATCHES_UP;
        !self.sent.lock().is_empty() || self.taken.lock().is_some_and(|at| !is_late(at))
    }

    /// Bytes sent to a node, if a snapshot is being sent to it.
    pub(crate) fn sent(&self, to: NodeId) -> Option<u64> {
        self.sent.lock().get(&to).copied()
    }
}

impl Copying<'_> {
    pub(crate) fn sent(&self, bytes: usize) {
        *self.copies.sent.lock().entry(self.to).or_default() += bytes as u64;
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.copies.sent.lock().remove(&self.to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_known_as_long_as_the_snapshot_is_on_its_way() {
        let copies = Copies::default();
        assert_eq!(copies.sent(2), None);
        let copying = copies.begin(2);
        copying.sent(10);
        copying.sent(5);
        assert_eq!((copies.sent(2), copies.sent(3), copies.need_log()), (Some(15), None, true));
        drop(copying);
        assert_eq!((copies.sent(2), copies.need_log()), (None, false), "it was given up");
        copies.taken();
        let now = Instant::now();
        assert!(copies.need_log_at(now));
        assert!(!copies.need_log_at(now + CATCHES_UP));
    }
}

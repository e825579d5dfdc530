//! How far the snapshots are that a leader sends to its followers: operators watch a replica being made, and the log behind a
//! snapshot is kept.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::id::NodeId;
use parking_lot::Mutex;

/// A log may grow to so many times its usual bytes while a snapshot is on its way: whoever takes it needs the entries behind it,
/// or another snapshot, for which the log would be cut again.
pub(crate) const LOG_KEPT: u64 = 4;

/// Whoever has taken a snapshot has this long to take the entries behind it before the log is cut.
const CATCHES_UP: Duration = Duration::from_secs(60);

/// Of one group: the snapshots that its leader sends.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// The bytes that were sent of each one that is on its way.
    sent: Mutex<BTreeMap<NodeId, u64>>,
    /// When the last one was taken.
    taken: Mutex<Option<Instant>>,
}

/// A snapshot on its way; however it ends, it is counted no longer.
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

    /// Notes that a node has taken its snapshot.
    pub(crate) fn taken(&self) {
        *self.taken.lock() = Some(Instant::now());
    }

    /// Whether a snapshot is on its way to any node, or was taken a moment ago: the entries behind it are needed.
    pub(crate) fn need_log(&self) -> bool {
        self.need_log_at(Instant::now())
    }

    fn need_log_at(&self, now: Instant) -> bool {
        let is_late = |at: Instant| now.saturating_duration_since(at) >= CATCHES_UP;
        !self.sent.lock().is_empty() || self.taken.lock().is_some_and(|at| !is_late(at))
    }

    /// What was sent to a node, if a snapshot is on its way there.
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

//! How far the snapshots are that a leader sends to its followers, for operators who watch a replica being made.

use std::collections::BTreeMap;

use model::id::NodeId;
use parking_lot::Mutex;

/// A log may grow to so many times its usual bytes while a snapshot is on its way: whoever takes it needs the entries behind it,
/// or another snapshot, for which the log would be cut again.
pub(crate) const LOG_KEPT: u64 = 4;

/// Of one group: the bytes that were sent of each snapshot that is on its way.
#[derive(Debug, Default)]
pub(crate) struct Copies(Mutex<BTreeMap<NodeId, u64>>);

/// A snapshot on its way; however it ends, it is counted no longer.
#[derive(Debug)]
pub(crate) struct Copying<'a> {
    copies: &'a Copies,
    to: NodeId,
}

impl Copies {
    pub(crate) fn begin(&self, to: NodeId) -> Copying<'_> {
        self.0.lock().insert(to, 0);
        Copying { copies: self, to }
    }

    /// Whether a snapshot is on its way to any node.
    pub(crate) fn any(&self) -> bool {
        !self.0.lock().is_empty()
    }

    /// What was sent to a node, if a snapshot is on its way there.
    pub(crate) fn sent(&self, to: NodeId) -> Option<u64> {
        self.0.lock().get(&to).copied()
    }
}

impl Copying<'_> {
    pub(crate) fn sent(&self, bytes: usize) {
        *self.copies.0.lock().entry(self.to).or_default() += bytes as u64;
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.copies.0.lock().remove(&self.to);
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
        assert_eq!((copies.sent(2), copies.sent(3), copies.any()), (Some(15), None, true));
        drop(copying);
        assert_eq!((copies.sent(2), copies.any()), (None, false));
    }
}

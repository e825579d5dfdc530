//! Notices that this node's log has fallen behind what it once acknowledged.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many heartbeats in a row must not fit before the log counts as reverted: about a second, and never by accident.
const CERTAIN: u32 = 10;

/// Counts heartbeats whose base is not in this node's log.
///
/// openraft's heartbeat stands on the last entry that the leader knows this node to have synced. One that does not fit
/// shows a log that lost entries since: its folder was put back from an older copy, say. openraft's leader passes over
/// that in silence, and the node would wait for ever.
#[derive(Default)]
pub(crate) struct Reverted {
    in_a_row: AtomicU32,
}

impl Reverted {
    /// Takes how a heartbeat ended; true when it is certain that the log is older than what was acknowledged.
    pub(crate) fn is_certain(&self, fits: bool) -> bool {
        if fits {
            self.in_a_row.store(0, Ordering::Relaxed);
            return false;
        }
        self.in_a_row.fetch_add(1, Ordering::Relaxed) + 1 >= CERTAIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_conflicts_in_a_row_make_it_certain() {
        let reverted = Reverted::default();
        for _ in 0..3 {
            assert!((1..CERTAIN).all(|_| !reverted.is_certain(false)));
            assert!(!reverted.is_certain(true));
        }
        assert!((1..CERTAIN).all(|_| !reverted.is_certain(false)));
        assert!(reverted.is_certain(false));
    }
}

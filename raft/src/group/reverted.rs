//! Detects that this node's log is older than what it once acknowledged.

use std::sync::atomic::{AtomicU32, Ordering};

/// Consecutive mismatching heartbeats that make it certain: about a second of them, too many for a coincidence.
const CERTAIN: u32 = 10;

/// Counts heartbeats whose base entry is missing from this node's log.
///
/// A heartbeat of openraft refers to the last entry that the leader knows this node to have synced. A mismatch shows
/// that the log has lost entries since, for example because the data folder was restored from an older copy. openraft's
/// leader ignores the mismatch, and the node would wait forever.
#[derive(Default)]
pub(crate) struct Reverted {
    in_a_row: AtomicU32,
}

impl Reverted {
    /// Records whether a heartbeat matched; true once it is certain that the log has lost acknowledged entries.
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

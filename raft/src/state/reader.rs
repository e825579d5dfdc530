//! Reads of a group's written state, from any thread.

use std::sync::Arc;

use super::disk::{StateDisk, state_key, with_state_key};
use crate::machine::{GroupId, Pairs, View};

/// Reads one group's written state. The group's key prefix is hidden; a scan cannot leave the group.
#[derive(Clone)]
pub struct StateReader {
    pub(super) disk: Arc<StateDisk>,
    pub(super) group: GroupId,
}

impl StateReader {
    pub(crate) fn new(disk: Arc<StateDisk>, group: GroupId) -> Self {
        Self { disk, group }
    }

    /// Approximate size, in bytes, of the rows in these ranges in total. Rows that are not in tables yet do not count.
    pub fn size_between(&self, ranges: &[(Vec<u8>, Vec<u8>)]) -> u64 {
        let full = ranges.iter().map(|(from, to)| (state_key(self.group, from), state_key(self.group, to)));
        self.disk.size_between(&full.collect::<Vec<_>>())
    }

    fn pairs(&self, from: &[u8], to: &[u8], limit: usize, from_end: bool) -> Pairs {
        let mut pairs = Pairs::new();
        if from >= to {
            return pairs;
        }
        let mut iterator = self.disk.iterate(state_key(self.group, from), state_key(self.group, to));
        if from_end {
            iterator.seek_to_last()
        } else {
            iterator.seek_to_first()
        }
        while pairs.len() < limit
            && let Some((key, value)) = iterator.item()
        {
            pairs.push((key[2..].to_vec(), value.to_vec()));
            if from_end { iterator.prev() } else { iterator.next() }
        }
        if let Err(error) = iterator.status() {
            self.disk.fail("read", &error);
        }
        pairs
    }
}

impl View for StateReader {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        with_state_key(self.group, key, |full| self.disk.get(full))
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.pairs(from, to, limit, false)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.pairs(from, to, limit, true)
    }
}

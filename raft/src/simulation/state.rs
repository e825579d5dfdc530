//! A group's state on a simulated disk, with a hash that every write updates.

use crate::machine::{MemoryState, Pairs, Position, State, View};
use crate::state::disk::Fnv;
use crate::types::{LogId, Membership, SnapshotMeta, term_of};

/// Pairs and the sum of their hashes, by which replicas are compared after every entry.
#[derive(Clone, Debug, Default)]
pub(super) struct HashedState {
    pairs: MemoryState,
    pub(super) hash: u64,
}

impl HashedState {
    /// Drops the last pair, like a transfer that is cut short.
    pub(super) fn lose_last(&mut self) {
        let last = self.pairs.iter().next_back().map(|(key, _)| key.to_vec());
        if let Some(last) = last {
            self.delete(&last);
        }
    }
}

impl View for HashedState {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.pairs.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.pairs.scan(from, to, limit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.pairs.scan_back(from, to, limit)
    }
}

impl State for HashedState {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.delete(key);
        self.hash = self.hash.wrapping_add(Fnv::of_pair(key, value));
        self.pairs.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        if let Some(old) = self.pairs.get(key) {
            self.hash = self.hash.wrapping_sub(Fnv::of_pair(key, &old));
            self.pairs.delete(key);
        }
    }
}

/// A state and its position.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    pub(super) state: HashedState,
    pub(super) last: Option<LogId>,
    pub(super) membership: Membership,
}

impl Stored {
    pub(super) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.last, last_membership: self.membership.clone() }
    }

    pub(super) fn position(&self) -> Position {
        self.last.map_or(Position::default(), |id| Position { term: term_of(&id), index: id.index })
    }
}

//! The interface of replicated state machines: pure code over an ordered map of bytes. [`record`]: encoding of their
//! records.
//!
//! A machine has no clock, no randomness and no I/O: the leader puts times, ids and sealed secrets into the command, so
//! that replicas that have applied the same commands are equal. Reads and writes go through [`State`]; the host writes
//! the changes of a batch to disk together with the position that the batch reaches.

pub mod record;

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use model::format::Foreign;

/// A Raft group of this cluster: 0 is the directory, shards count from 1.
pub type GroupId = u16;

/// The directory's group.
pub const DIRECTORY_GROUP: GroupId = 0;

/// Keys and values, as a scan returns them.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Position of a command in its group's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub term: u64,
    pub index: u64,
}

/// Reads of a machine's state.
///
/// There are no errors by design: a machine cannot handle a broken disk in any sensible way. The host remembers the
/// first error, and stops the process before anything that was computed from it is written or answered.
pub trait View {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;

    /// At most `limit` pairs of `[from, to)`, ascending.
    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs;

    /// At most `limit` pairs of `[from, to)`, descending from the end.
    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs;

    /// [`scan`](Self::scan) of a range, as functions that build keys return it.
    fn scan_range(&self, (from, to): (Vec<u8>, Vec<u8>), limit: usize) -> Pairs {
        self.scan(&from, &to, limit)
    }
}

/// The smallest key greater than `key`: a scan that has read up to `key` continues there.
pub fn just_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// All pairs of `[from, to)`, ascending, read in chunks of `chunk` pairs.
pub fn scan_all(
    view: &(impl View + ?Sized),
    range: (Vec<u8>, Vec<u8>),
    chunk: usize,
) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    scan_in_order(view, range, chunk, true)
}

/// [`scan_all`] in ascending or descending order.
pub fn scan_in_order(
    view: &(impl View + ?Sized),
    (mut from, mut to): (Vec<u8>, Vec<u8>),
    chunk: usize,
    ascending: bool,
) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut rows = Pairs::new().into_iter();
    // A short chunk is the last one. This saves a seek for callers that poll for news and scan to the end each time.
    let mut is_last = false;
    std::iter::from_fn(move || {
        if let Some(row) = rows.next() {
            return Some(row);
        }
        if is_last {
            return None;
        }
        let read = if ascending { view.scan(&from, &to, chunk) } else { view.scan_back(&from, &to, chunk) };
        is_last = read.len() < chunk;
        let (last, _) = read.last()?;
        if ascending {
            from = just_after(last);
        } else {
            to.clone_from(last);
        }
        rows = read.into_iter();
        rows.next()
    })
}

/// Reads and writes of a machine's state. A read sees all earlier writes, including those of the same batch.
pub trait State: View {
    fn put(&mut self, key: &[u8], value: &[u8]);
    fn delete(&mut self, key: &[u8]);

    /// Hints that a key is absent and never existed, for example because its id was just created. Changes nothing;
    /// saves the next read of it a lookup.
    fn note_absent(&mut self, key: &[u8]) {
        let _ = key;
    }
}

/// A replicated state machine.
pub trait Machine: Send + 'static {
    /// Rebuilds the machine's memory from the state: at the start, and after a snapshot has replaced the state.
    fn restore(&mut self, state: &dyn View);

    /// Applies one committed command and returns the reply to its proposer.
    ///
    /// After a crash, the same command may be applied again to the state from before it, and must then do the same
    /// again. Effects on the outside, such as waking a task, wait for [`Machine::flushed`].
    ///
    /// # Errors
    /// [`Foreign`] for a command that this release does not understand. Other replicas may, and any substitute would
    /// make this replica differ from them: the host stops the node.
    fn apply(&mut self, at: Position, command: &[u8], state: &mut dyn State) -> Result<Bytes, Foreign>;

    /// The batch with the applied commands is written: its effects may now be published.
    fn flushed(&mut self, upto: Position) {
        let _ = upto;
    }
}

/// An in-memory state, for tests of machines without a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryState {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl MemoryState {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// All pairs, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        self.map.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    /// The pairs of a range. `BTreeMap::range` panics if the start is after the end.
    fn range(&self, from: &[u8], to: &[u8]) -> impl DoubleEndedIterator<Item = (Vec<u8>, Vec<u8>)> {
        self.map
            .range::<[u8], _>((Bound::Included(from), Bound::Excluded(to.max(from))))
            .map(|(key, value)| (key.clone(), value.clone()))
    }
}

impl View for MemoryState {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.map.get(key).cloned()
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.range(from, to).take(limit).collect()
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.range(from, to).rev().take(limit).collect()
    }
}

impl State for MemoryState {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.map.insert(key.to_vec(), value.to_vec());
    }

    fn delete(&mut self, key: &[u8]) {
        self.map.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(keys: &[&str]) -> MemoryState {
        let mut state = MemoryState::new();
        for key in keys {
            state.put(key.as_bytes(), b"v");
        }
        state
    }

    fn keys(pairs: Pairs) -> Vec<String> {
        pairs.into_iter().map(|(key, _)| String::from_utf8_lossy(&key).into_owned()).collect()
    }

    #[test]
    fn a_scan_in_chunks_reads_each_pair_once() {
        let state = state(&["a", "b", "c", "d", "e"]);
        let range = || (b"a".to_vec(), b"e".to_vec());
        for chunk in 1..7 {
            assert_eq!(keys(scan_all(&state, range(), chunk).collect()), ["a", "b", "c", "d"]);
            assert_eq!(keys(scan_in_order(&state, range(), chunk, false).collect()), ["d", "c", "b", "a"]);
        }
        assert_eq!(scan_all(&state, (b"f".to_vec(), b"g".to_vec()), 2).count(), 0);
    }

    #[test]
    fn a_scan_is_half_open_and_bounded() {
        let state = state(&["a", "b", "c", "d"]);
        assert_eq!(keys(state.scan(b"b", b"d", 10)), ["b", "c"]);
        assert_eq!(keys(state.scan(b"a", b"z", 2)), ["a", "b"]);
        assert_eq!(keys(state.scan_back(b"a", b"d", 2)), ["c", "b"]);
        assert_eq!(keys(state.scan(b"d", b"a", 10)), Vec::<String>::new());
        assert_eq!(keys(state.scan_back(b"d", b"d", 10)), Vec::<String>::new());
    }
}

//! What a replicated state machine is to the host: pure code over an ordered map of bytes. [`record`]: how machines store
//! their records.
//!
//! A machine has no clock, no randomness and no I/O of its own: the leader puts times, ids and sealed secrets into the
//! command, so that replicas that applied the same commands are equal. Reads and writes go through [`State`], which the
//! host writes to disk in one batch with the position that the batch reaches.

pub mod record;

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use model::format::Foreign;

/// A Raft group of this cluster: 0 is the directory, shards count from 1.
pub type GroupId = u16;

/// The directory's.
pub const DIRECTORY_GROUP: GroupId = 0;

/// Keys and values, as a scan returns them.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Where in its group's log a command stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub term: u64,
    pub index: u64,
}

/// Reads of a machine's state.
///
/// It has no errors by design: a machine cannot do anything sensible about a broken disk. The host remembers the first
/// one and stops the process before anything that was computed from it is written or answered.
pub trait View {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;

    /// At most `limit` pairs of `[from, to)`, ascending.
    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs;

    /// At most `limit` pairs of `[from, to)`, descending from the end.
    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs;

    /// As [`scan`](Self::scan), of a range as it is made of keys.
    fn scan_range(&self, (from, to): (Vec<u8>, Vec<u8>), limit: usize) -> Pairs {
        self.scan(&from, &to, limit)
    }
}

/// The key right behind another: where a scan goes on that has read so far.
pub fn just_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// All pairs of `[from, to)`, ascending, of which so many are read at a time.
pub fn scan_all(
    view: &(impl View + ?Sized),
    range: (Vec<u8>, Vec<u8>),
    chunk: usize,
) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    scan_in_order(view, range, chunk, true)
}

/// As [`scan_all`], from the beginning of the range or from its end.
pub fn scan_in_order(
    view: &(impl View + ?Sized),
    (mut from, mut to): (Vec<u8>, Vec<u8>),
    chunk: usize,
    ascending: bool,
) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut rows = Pairs::new().into_iter();
    // Less than was asked for is the rest: whoever waits for news scans to the end each time, and need not seek once more.
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

/// Reads and writes of a machine's state. A read sees the writes before it, also those of the same batch.
pub trait State: View {
    fn put(&mut self, key: &[u8], value: &[u8]);
    fn delete(&mut self, key: &[u8]);

    /// Says that nothing stands under a key, nor ever did, as the machine knows of one that was made a moment ago. Changes nothing:
    /// whoever asks for it soon need not look for it.
    fn note_absent(&mut self, key: &[u8]) {
        let _ = key;
    }
}

/// A replicated state machine.
pub trait Machine: Send + 'static {
    /// Rebuilds what the machine keeps in memory from the state: at start, and after a snapshot replaced the state.
    fn restore(&mut self, state: &dyn View);

    /// Applies one committed command and returns the answer that the proposer gets.
    ///
    /// The same command may come again after a crash, together with the state from before it; it then has to do the
    /// same again. What it does to the world outside (waking a task, say) waits for [`Machine::flushed`].
    ///
    /// # Errors
    /// [`Foreign`] for a command that this release does not understand. Other replicas may, and whatever was done in its
    /// place would make this one differ from them: the host stops the node.
    fn apply(&mut self, at: Position, command: &[u8], state: &mut dyn State) -> Result<Bytes, Foreign>;

    /// The batch that holds the applied commands is written: its effects may now be published.
    fn flushed(&mut self, upto: Position) {
        let _ = upto;
    }
}

/// A state in memory, for tests of machines without a disk.
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

    /// The pairs of a range. The map panics over one whose start lies behind its end.
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

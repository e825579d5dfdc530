//! Cache of rows that were just written or read. The commands of one send follow each other closely and read what the
//! previous one has written; none of that needs the database.

use std::collections::HashMap;

/// Bytes of one generation: the rows of about two hundred sends. With more channels of a shard sending in turn, a
/// channel's rows are evicted before its next send.
pub(super) const GENERATION: usize = 256 << 10;

/// Larger values are not cached when they are written: they are messages, which are not read soon.
pub(super) const LARGEST_WRITTEN: usize = 256;

/// Larger values are not cached when they are read. A row that is read once, such as a channel's, is read again.
pub(super) const LARGEST_READ: usize = 512;

/// Overhead of an entry: two vectors, and their place in the map.
const ENTRY: usize = 64;

/// The value of a key; `None` if the key is known to be absent.
type Known = Option<Vec<u8>>;

/// A cache of two generations. When the young one is full it becomes the old one, and the old one is dropped; reading
/// an entry moves it to the young one. If a key is in both, the young one is current.
pub(super) struct Recent {
    young: HashMap<Vec<u8>, Known>,
    old: HashMap<Vec<u8>, Known>,
    /// Size of the young generation.
    bytes: usize,
    generation: usize,
}

impl Recent {
    pub(super) fn new(generation: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), bytes: 0, generation }
    }

    /// The cached value of a key.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<Known> {
        if let Some(known) = self.young.get(key) {
            return Some(known.clone());
        }
        let (key, known) = self.old.remove_entry(key)?;
        let found = known.clone();
        self.keep(key, known);
        Some(found)
    }

    /// Records a write.
    pub(super) fn written(&mut self, key: Vec<u8>, value: Vec<u8>) {
        if value.len() <= LARGEST_WRITTEN {
            self.keep(key, Some(value));
        } else {
            self.remove(&key);
        }
    }

    /// Records a row that was read from the database.
    pub(super) fn read(&mut self, key: &[u8], value: &[u8]) {
        if value.len() <= LARGEST_READ {
            self.keep(key.to_vec(), Some(value.to_vec()));
        }
    }

    /// Records that a key is absent.
    pub(super) fn absent(&mut self, key: Vec<u8>) {
        self.keep(key, None);
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        self.old.remove(key);
        if let Some(known) = self.young.remove(key) {
            self.bytes -= size(key.len(), &known);
        }
    }

    fn keep(&mut self, key: Vec<u8>, known: Known) {
        let length = key.len();
        self.bytes += size(length, &known);
        if let Some(before) = self.young.insert(key, known) {
            self.bytes -= size(length, &before);
        }
        if self.bytes > self.generation {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
            self.bytes = 0;
        }
    }
}

fn size(key: usize, known: &Known) -> usize {
    key + known.as_ref().map_or(0, Vec::len) + ENTRY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    #[test]
    fn what_was_used_last_is_remembered_and_no_more_than_two_generations() {
        let mut recent = Recent::new(GENERATION);
        let size = 4 + 100 + ENTRY;
        for number in 0..10_000 {
            recent.written(key(number), vec![7; 100]);
            // The first key is read all the time, so it stays.
            assert_eq!(recent.get(&key(0)), Some(Some(vec![7; 100])), "{number}");
            assert!((recent.young.len() + recent.old.len()) * size <= 2 * (GENERATION + size));
        }
        assert_eq!(recent.get(&key(9_999)), Some(Some(vec![7; 100])));
        assert_eq!(recent.get(&key(1)), None);
    }

    #[test]
    fn that_nothing_is_there_is_remembered_until_something_is() {
        let mut recent = Recent::new(GENERATION);
        recent.absent(key(1));
        assert_eq!(recent.get(&key(1)), Some(None));
        recent.written(key(1), vec![1]);
        assert_eq!(recent.get(&key(1)), Some(Some(vec![1])));
        recent.remove(&key(1));
        assert_eq!((recent.get(&key(1)), recent.bytes), (None, 0));
    }

    #[test]
    fn a_value_that_is_too_large_takes_the_place_of_none() {
        let mut recent = Recent::new(GENERATION);
        recent.written(key(1), vec![1]);
        recent.written(key(1), vec![2; LARGEST_WRITTEN + 1]);
        assert_eq!(recent.get(&key(1)), None);
        recent.read(&key(1), &[2; LARGEST_READ]);
        assert_eq!(recent.get(&key(1)), Some(Some(vec![2; LARGEST_READ])));
        recent.read(&key(2), &[3; LARGEST_READ + 1]);
        assert_eq!(recent.get(&key(2)), None);
        recent.remove(&key(1));
        assert_eq!((recent.get(&key(1)), recent.bytes), (None, 0));
    }
}

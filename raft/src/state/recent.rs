//! Rows that were written or read a moment ago. The commands of one send come close upon each other and read what the one before
//! has written; none of that need go to the database.

use std::collections::HashMap;

/// Bytes of one generation: what some two hundred sends write and read. So many channels of a shard may send in turn until the rows
/// of each are dropped before its next send.
pub(super) const GENERATION: usize = 256 << 10;

/// Larger values are not remembered when they are written: those are messages, which nothing reads soon.
pub(super) const LARGEST_WRITTEN: usize = 256;

/// Larger values are not remembered when they are read. What is read once, such as the row of a channel, is read again.
pub(super) const LARGEST_READ: usize = 512;

/// What an entry takes beside its bytes: two vectors, and their place in the map.
const ENTRY: usize = 64;

/// What stands under a key; `None` where nothing does.
type Known = Option<Vec<u8>>;

/// Keys and values of two generations. A full one grows old, and that before it is dropped; what is read meanwhile
/// becomes young again. Of a key that stands in both the young one says what is so.
pub(super) struct Recent {
    young: HashMap<Vec<u8>, Known>,
    old: HashMap<Vec<u8>, Known>,
    /// Of the young ones.
    bytes: usize,
    generation: usize,
}

impl Recent {
    pub(super) fn new(generation: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), bytes: 0, generation }
    }

    /// What stands under a key, if that is remembered.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<Known> {
        if let Some(known) = self.young.get(key) {
            return Some(known.clone());
        }
        let (key, known) = self.old.remove_entry(key)?;
        let found = known.clone();
        self.keep(key, known);
        Some(found)
    }

    /// Notes what a key has been given.
    pub(super) fn written(&mut self, key: Vec<u8>, value: Vec<u8>) {
        if value.len() <= LARGEST_WRITTEN {
            self.keep(key, Some(value));
        } else {
            self.remove(&key);
        }
    }

    /// Notes what was found written under a key that is not remembered.
    pub(super) fn read(&mut self, key: &[u8], value: &[u8]) {
        if value.len() <= LARGEST_READ {
            self.keep(key.to_vec(), Some(value.to_vec()));
        }
    }

    /// Notes that nothing is written under a key.
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
            // The first key is read all the time, and so stays.
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

//! In-memory tail of one group's log: replication and apply read from it, even before the entries are on disk.

use std::collections::VecDeque;

use crate::types::Entry;

/// Bytes of flushed entries to keep in memory. Entries that are not flushed stay, whatever their size.
const KEEP_BYTES: usize = 1 << 20;

struct Cached {
    entry: Entry,
    size: usize,
    /// Number of the write that flushes the entry.
    write: u64,
}

/// Consecutive entries that end with the log's last one.
#[derive(Default)]
pub(crate) struct Cache {
    entries: VecDeque<Cached>,
    bytes: usize,
    /// All writes up to this number are on disk. Writes are counted rather than indexes, because an index can be
    /// truncated and written again: the completion of the first write must not count for the second.
    flushed: u64,
}

impl Cache {
    /// Index of the first entry in memory.
    pub(crate) fn first(&self) -> Option<u64> {
        self.entries.front().map(|cached| cached.entry.log_id.index)
    }

    pub(crate) fn push(&mut self, entry: Entry, size: usize, write: u64) {
        self.bytes += size;
        self.entries.push_back(Cached { entry, size, write });
    }

    /// The entries of `[from, to)` that are in memory: at least one, then up to `max_bytes`.
    pub(crate) fn read(&self, from: u64, to: u64, max_bytes: usize) -> Vec<Entry> {
        let Some(first) = self.first() else { return Vec::new() };
        let start = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let mut entries = Vec::new();
        let mut bytes = 0;
        for cached in self.entries.iter().skip(start) {
            if cached.entry.log_id.index >= to || (bytes + cached.size > max_bytes && !entries.is_empty()) {
                break;
            }
            bytes += cached.size;
            entries.push(cached.entry.clone());
        }
        entries
    }

    /// Removes the entries after `index`, or all entries for `None`.
    pub(crate) fn truncate_after(&mut self, index: Option<u64>) {
        let is_after = |last: &mut Cached| index.is_none_or(|index| last.entry.log_id.index > index);
        while let Some(cached) = self.entries.pop_back_if(is_after) {
            self.bytes -= cached.size;
        }
    }

    /// Removes the entries up to `index`.
    pub(crate) fn purge(&mut self, index: u64) {
        while let Some(cached) = self.entries.pop_front_if(|first| first.entry.log_id.index <= index) {
            self.bytes -= cached.size;
        }
    }

    /// Records that all writes up to `write` are on disk, and evicts flushed entries above [`KEEP_BYTES`].
    pub(crate) fn flushed(&mut self, write: u64) {
        self.flushed = self.flushed.max(write);
        let flushed = self.flushed;
        while self.bytes > KEEP_BYTES
            && let Some(cached) = self.entries.pop_front_if(|first| first.write <= flushed)
        {
            self.bytes -= cached.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;

    use super::*;
    use crate::types::log_id;

    fn cache(indexes: std::ops::Range<u64>, size: usize) -> Cache {
        let mut cache = Cache::default();
        for index in indexes {
            cache.push(Entry { log_id: log_id(1, index), payload: EntryPayload::Blank }, size, index);
        }
        cache
    }

    fn indexes(entries: &[Entry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.log_id.index).collect()
    }

    #[test]
    fn what_is_not_on_disk_stays_whatever_its_size() {
        let mut cache = cache(10..20, KEEP_BYTES);
        cache.flushed(14);
        assert_eq!(cache.first(), Some(15));
        cache.flushed(19);
        assert_eq!(cache.first(), Some(19));
    }

    #[test]
    fn the_completion_of_a_write_that_was_cut_off_does_not_count_for_its_successor() {
        let mut cache = cache(1..4, KEEP_BYTES);
        cache.truncate_after(Some(1));
        cache.push(Entry { log_id: log_id(2, 2), payload: EntryPayload::Blank }, KEEP_BYTES, 4);
        cache.flushed(3);
        assert_eq!(cache.first(), Some(2));
    }

    #[test]
    fn a_read_is_bounded_and_gives_at_least_one() {
        let cache = cache(5..9, 100);
        assert_eq!(indexes(&cache.read(6, 100, 1000)), [6, 7, 8]);
        assert_eq!(indexes(&cache.read(6, 8, 1000)), [6, 7]);
        assert_eq!(indexes(&cache.read(6, 9, 1)), [6]);
        assert_eq!(indexes(&cache.read(6, 9, 200)), [6, 7]);
        assert_eq!(indexes(&cache.read(6, 9, 199)), [6]);
    }
}

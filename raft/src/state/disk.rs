//! The database under `data/`: its keys, and each group's position.
//!
//! State and position of a group are written together, and their tables too (`atomic_flush`). There is no WAL: a
//! process that dies falls back to its last tables and replays the rest from the Raft log, which is purged only up to
//! what is in tables. Only the directory's group has a WAL: its members are read before any log is.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf, Bytes};
use model::id::NodeId;
use rocksdb::{
    ColumnFamily, DB, DBRawIterator, FlushOptions, Options, Range, ReadOptions, ReadTier, Snapshot, WriteBatch,
    WriteOptions,
};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::codec::{self, invalid_data};
use crate::database::{self, within};
use crate::fatal::Fatal;
use crate::folder::USUAL_BUFFER;
use crate::machine::{DIRECTORY_GROUP, GroupId};
use crate::types::{LogId, Membership, log_id, term_of};

/// Window, in entries of a file, in which deletions are counted.
const DELETION_WINDOW: usize = 16 << 10;

/// Size of the block cache: rows, and blocks of indexes and filters.
const CACHE: usize = 64 << 20;

/// log2 of the number of cache shards: enough that threads rarely contend. Nothing larger than a shard is ever cached.
const CACHE_SHARD_BITS: i32 = 4;

/// Block size of partitioned indexes and filters.
const METADATA_BLOCK: usize = 16 << 10;

/// Share of a memtable used for its bloom filter: about 50 bits a row.
const MEMORY_FILTER: f64 = 0.02;

const STATE: &str = "state";
const META: &str = "meta";

/// Keys of a group in the `meta` column family.
#[derive(Clone, Copy)]
enum Meta {
    Applied = 1,
    Membership = 2,
    /// A snapshot is being installed; see [`super::snapshot`].
    Installing = 3,
}

fn meta_key(group: GroupId, what: Meta) -> [u8; 3] {
    database::meta_key(group, what as u8)
}

/// A machine's key with the group as prefix.
pub(crate) fn state_key(group: GroupId, key: &[u8]) -> Vec<u8> {
    [&group.to_be_bytes()[..], key].concat()
}

/// Keys of up to this many bytes get their prefix without an allocation; nearly all keys are shorter.
const SHORT_KEY: usize = 126;

/// Calls `work` with a machine's key, prefixed with the group.
pub(super) fn with_state_key<T>(group: GroupId, key: &[u8], work: impl FnOnce(&[u8]) -> T) -> T {
    let mut short = [0_u8; 2 + SHORT_KEY];
    let Some(full) = short.get_mut(..2 + key.len()) else { return work(&state_key(group, key)) };
    let (prefix, rest) = full.split_at_mut(2);
    prefix.copy_from_slice(&group.to_be_bytes());
    rest.copy_from_slice(key);
    work(full)
}

/// The first key after all keys of a group.
pub(crate) fn state_end(group: GroupId) -> Vec<u8> {
    match group.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        // No key is longer than this, so no key of the last group sorts after it.
        None => vec![0xff; 64],
    }
}

/// Position of a group's state, written in the same batch as the state itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Applied {
    pub(crate) last: Option<LogId>,
    pub(crate) membership: Membership,
    /// Last index, at most the applied one, whose log entry was known to be synced at the time of the write. A log that
    /// ends before it has lost synced entries.
    pub(crate) durable: u64,
}

impl Applied {
    /// All members of the group, voters and learners.
    pub(crate) fn members(&self) -> BTreeSet<NodeId> {
        self.membership.nodes().map(|(node, ())| *node).collect()
    }
}

/// The database, and what to do when it fails.
pub(crate) struct StateDisk {
    pub(super) db: DB,
    /// Options for reading a single row; created once, because every read would allocate them otherwise.
    reads: ReadOptions,
    /// Folder of the snapshots that are being received, with a subfolder for each group.
    pub(super) installs: PathBuf,
    /// Set when a read or write has failed: nothing computed since may be written.
    failed: AtomicBool,
    /// Work on other threads that keeps the database open.
    work: TaskTracker,
    fatal: Fatal,
}

impl StateDisk {
    /// Opens or creates the state under `path`. A table is written for every `buffer` bytes.
    pub(crate) fn open(
        path: &Path,
        installs: PathBuf,
        buffer: usize,
        fatal: Fatal,
    ) -> Result<Arc<Self>, rocksdb::Error> {
        let mut options = database::options(512);
        options.set_atomic_flush(true);
        let mut state = Self::state_options();
        database::set_buffer(&mut state, buffer);
        let db = DB::open_cf_with_opts(&options, path, [(STATE, state), (META, database::meta_options())])?;
        let reads = ReadOptions::default();
        Ok(Arc::new(Self { db, reads, installs, failed: AtomicBool::new(false), work: TaskTracker::new(), fatal }))
    }

    /// Options of the state's tables; the files of a received snapshot use them too.
    pub(super) fn state_options() -> Options {
        let mut cache = rocksdb::LruCacheOptions::default();
        cache.set_capacity(CACHE);
        cache.set_num_shard_bits(CACHE_SHARD_BITS);
        let mut blocks = rocksdb::BlockBasedOptions::default();
        blocks.set_block_cache(&rocksdb::Cache::new_lru_cache_opts(&cache));
        blocks.set_bloom_filter(10.0, false);
        // A file of 64 MiB has an index of 2 MiB and a filter of 1 MiB. Unpartitioned, they are too large for a cache
        // shard, and every read of a row would load them from disk. Of partitions, those in use stay cached.
        blocks.set_index_type(rocksdb::BlockBasedIndexType::TwoLevelIndexSearch);
        blocks.set_partition_filters(true);
        blocks.set_metadata_block_size(METADATA_BLOCK);
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        blocks.set_pin_top_level_index_and_filter(true);
        let mut options = Options::default();
        options.set_block_based_table_factory(&blocks);
        options.set_write_buffer_size(USUAL_BUFFER);
        // Most requested keys are new or only in files: the filter spares a lookup in each memtable.
        options.set_memtable_whole_key_filtering(true);
        options.set_memtable_prefix_bloom_ratio(MEMORY_FILTER);
        // Rows that expire leave tombstones that slow down every scan until they are compacted: compact once half of a
        // window is tombstones.
        options.add_compact_on_deletion_collector_factory(DELETION_WINDOW, DELETION_WINDOW / 2, 0.5);
        database::compress_later(&mut options);
        options
    }

    pub(crate) fn state(&self) -> &ColumnFamily {
        self.db.cf_handle(STATE).expect("opened with this family")
    }

    fn meta(&self) -> &ColumnFamily {
        self.db.cf_handle(META).expect("opened with this family")
    }

    /// Approximate size, in bytes, of a group's state in tables on disk.
    pub(crate) fn size(&self, group: GroupId) -> u64 {
        self.size_between(&[(state_key(group, &[]), state_end(group))])
    }

    /// Approximate size, in bytes, of the tables' content in these ranges of full keys, in total. Excludes memtables;
    /// accurate to one block of a table at each end. Reads indexes only, no rows.
    pub(crate) fn size_between(&self, ranges: &[(Vec<u8>, Vec<u8>)]) -> u64 {
        let ranges: Vec<Range<'_>> = ranges.iter().map(|(from, to)| Range::new(from, to)).collect();
        self.db.get_approximate_sizes_cf(self.state(), &ranges).into_iter().sum()
    }

    /// Folder of a group's received snapshots until they are installed.
    pub(crate) fn install_folder(&self, group: GroupId) -> PathBuf {
        self.installs.join(group.to_string())
    }

    /// Runs blocking work on the database; [`StateDisk::settled`] waits for it.
    pub(crate) fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.work.spawn_blocking(work)
    }

    /// Waits until no such work is running: at the end of the process, the database would be destroyed while in use.
    pub(crate) async fn settled(&self) {
        self.work.close();
        self.work.wait().await;
    }

    /// Ends the node for a reason other than a disk error; nothing is written any more. Returns only if the host has
    /// replaced the fatal handler.
    pub(crate) fn refuse(&self, reason: String) {
        self.failed.store(true, Ordering::Release);
        (self.fatal)(reason);
    }

    /// Reports a failed read or write and ends the node. Returns only if the host has replaced the fatal handler.
    pub(crate) fn fail(&self, doing: &str, error: &dyn std::fmt::Display) {
        self.refuse(format!("cannot {doing} the state in {}: {error}", self.db.path().display()));
    }

    /// Passes a result on; reports its error.
    fn checked<T>(&self, doing: &str, result: Result<T, rocksdb::Error>) -> io::Result<T> {
        result.inspect_err(|error| self.fail(doing, error)).map_err(io::Error::other)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.checked("read", self.db.get_cf_opt(self.state(), key, &self.reads)).unwrap_or_default()
    }

    /// An unpositioned iterator over the full keys in `[from, to)`.
    pub(crate) fn iterate(&self, from: Vec<u8>, to: Vec<u8>) -> DBRawIterator<'_> {
        self.db.raw_iterator_cf_opt(self.state(), within(from, to))
    }

    /// All pairs of a group in a snapshot, with full keys. They are not cached, because they are read only once.
    pub(super) fn pairs_in<'a>(&self, snapshot: &'a Snapshot<'_>, group: GroupId) -> DBRawIterator<'a> {
        let mut options = within(state_key(group, &[]), state_end(group));
        options.fill_cache(false);
        let mut pairs = snapshot.raw_iterator_cf_opt(self.state(), options);
        pairs.seek_to_first();
        pairs
    }

    /// Flushes all writes so far to tables, so that they survive a crash.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.checked("write", self.db.flush_cfs_opt(&[self.state(), self.meta()], &FlushOptions::default()))
    }

    pub(crate) fn applied(&self, group: GroupId) -> io::Result<Applied> {
        Self::parse_applied(self.get_meta(group, Meta::Applied)?, self.get_meta(group, Meta::Membership)?)
    }

    /// Position up to which a group's state is in tables and survives a crash. Always empty for the directory's group:
    /// until another group has written, RocksDB would count what is only in an unsynced WAL as persisted.
    pub(crate) fn in_tables(&self, group: GroupId) -> io::Result<Applied> {
        if group == DIRECTORY_GROUP {
            return Ok(Applied::default());
        }
        let snapshot = self.db.snapshot();
        let mut options = ReadOptions::default();
        options.set_snapshot(&snapshot);
        options.set_read_tier(ReadTier::Persisted);
        let get = |what| self.checked("read", self.db.get_cf_opt(self.meta(), meta_key(group, what), &options));
        let found = Self::parse_applied(get(Meta::Applied)?, get(Meta::Membership)?)?;
        // Tables written between the two reads can show a later membership.
        let is_later = found.membership.log_id().as_ref() > found.last.as_ref();
        Ok(if is_later { Applied::default() } else { found })
    }

    fn get_meta(&self, group: GroupId, what: Meta) -> io::Result<Option<Vec<u8>>> {
        self.checked("read", self.db.get_cf(self.meta(), meta_key(group, what)))
    }

    /// Position in a RocksDB snapshot: it matches the state in that snapshot.
    pub(crate) fn applied_in(&self, snapshot: &Snapshot<'_>, group: GroupId) -> io::Result<Applied> {
        let get = |what| snapshot.get_cf(self.meta(), meta_key(group, what)).map_err(io::Error::other);
        Self::parse_applied(get(Meta::Applied)?, get(Meta::Membership)?)
    }

    fn parse_applied(applied: Option<Vec<u8>>, membership: Option<Vec<u8>>) -> io::Result<Applied> {
        let mut found = Applied::default();
        if let Some(bytes) = applied {
            let mut bytes = bytes.as_slice();
            if bytes.len() != 24 {
                return Err(invalid_data("the applied position is damaged"));
            }
            found.last = Some(log_id(bytes.get_u64(), bytes.get_u64()));
            found.durable = bytes.get_u64();
        }
        if let Some(bytes) = membership {
            found.membership = codec::decode(Bytes::from(bytes))?;
        }
        Ok(found)
    }

    /// Adds the position to the batch that reaches it.
    pub(crate) fn put_applied(&self, batch: &mut WriteBatch, group: GroupId, last: &LogId, durable: u64) {
        let value = [term_of(last), last.index, durable.min(last.index)].map(u64::to_be_bytes);
        batch.put_cf(self.meta(), meta_key(group, Meta::Applied), value.as_flattened());
    }

    pub(crate) fn put_membership(&self, batch: &mut WriteBatch, group: GroupId, membership: &Membership) {
        batch.put_cf(self.meta(), meta_key(group, Meta::Membership), codec::encode(membership));
    }

    pub(super) fn put_installing(&self, batch: &mut WriteBatch, group: GroupId, marker: &[u8]) {
        batch.put_cf(self.meta(), meta_key(group, Meta::Installing), marker);
    }

    pub(super) fn delete_installing(&self, batch: &mut WriteBatch, group: GroupId) {
        batch.delete_cf(self.meta(), meta_key(group, Meta::Installing));
    }

    pub(super) fn installing(&self, group: GroupId) -> io::Result<Option<Bytes>> {
        Ok(self.get_meta(group, Meta::Installing)?.map(Bytes::from))
    }

    /// Writes a group's batch. A crash may undo it; the log then replays what is missing.
    pub(crate) fn write(&self, group: GroupId, batch: WriteBatch) -> io::Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier read or write of the state has failed"));
        }
        let mut options = WriteOptions::default();
        options.disable_wal(group != DIRECTORY_GROUP);
        self.checked("write", self.db.write_opt(batch, &options))
    }

    /// Writes a group's batch that must survive a crash.
    pub(crate) fn write_through(&self, group: GroupId, batch: WriteBatch) -> io::Result<()> {
        self.write(group, batch)?;
        self.flush()
    }

    /// A group's applied index and a hash of its keys and values at that index. Equal states have equal hashes on nodes
    /// of the same version.
    pub(crate) fn hash(&self, group: GroupId) -> io::Result<(u64, u64)> {
        self.read_hash(group).inspect_err(|error| self.fail("read", error))
    }

    fn read_hash(&self, group: GroupId) -> io::Result<(u64, u64)> {
        let snapshot = self.db.snapshot();
        let index = self.applied_in(&snapshot, group)?.last.map_or(0, |id| id.index);
        let mut iterator = self.pairs_in(&snapshot, group);
        let mut hash = Fnv::default();
        while let Some((key, value)) = iterator.item() {
            hash.add(key);
            hash.add(value);
            iterator.next();
        }
        iterator.status().map_err(io::Error::other)?;
        Ok((index, hash.finish()))
    }

    /// Deletes everything of a group.
    pub(crate) fn erase(&self, group: GroupId) -> io::Result<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(self.state(), state_key(group, &[]), state_end(group));
        for what in [Meta::Applied, Meta::Membership, Meta::Installing] {
            batch.delete_cf(self.meta(), meta_key(group, what));
        }
        self.write_through(group, batch)
    }
}

/// FNV-1a over lengths and bytes: unlike the standard library's hashes, it is the same in every build.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Hash of one pair.
    pub(crate) fn of_pair(key: &[u8], value: &[u8]) -> u64 {
        let mut hash = Self::default();
        hash.add(key);
        hash.add(value);
        hash.finish()
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.add_bytes(&(bytes.len() as u64).to_be_bytes());
        self.add_bytes(bytes);
    }

    /// Adds bytes of a format that delimits its parts itself.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};

    use super::*;
    use crate::state::reader::StateReader;

    fn open(folder: &Path, buffer: usize) -> Arc<StateDisk> {
        StateDisk::open(&folder.join("data"), folder.join("i"), buffer, Arc::new(|r| panic!("{r}"))).unwrap()
    }

    /// Copies what a process that dies now would leave on disk.
    fn left_by_a_crash(folder: &Path) -> tempfile::TempDir {
        let left = tempfile::tempdir().unwrap();
        let (from, to) = (folder.join("data"), left.path().join("data"));
        std::fs::create_dir(&to).unwrap();
        let copy = |is_wanted: fn(&str) -> bool| {
            for file in std::fs::read_dir(&from).unwrap().map(|file| file.unwrap().file_name()) {
                if is_wanted(&file.to_string_lossy()) {
                    let _ = std::fs::copy(from.join(&file), to.join(&file));
                }
            }
        };
        // Copies the manifest first, and lists the other files only then: all files that it names are copied, and a
        // table that is still being written is not in it.
        copy(|name| name.starts_with("MANIFEST"));
        copy(|name| !name.starts_with("MANIFEST"));
        left
    }

    fn write(disk: &StateDisk, group: GroupId, index: u64) {
        let mut batch = WriteBatch::default();
        batch.put_cf(disk.state(), state_key(group, &index.to_be_bytes()), [7; 500]);
        disk.put_applied(&mut batch, group, &log_id(1, index), 0);
        disk.write(group, batch).unwrap();
    }

    /// Applied index of a group, and its number of rows.
    fn found(disk: &StateDisk, group: GroupId) -> (u64, u64) {
        let applied = disk.applied(group).unwrap().last.map_or(0, |last| last.index);
        let mut rows = disk.iterate(state_key(group, &[]), state_end(group));
        rows.seek_to_first();
        let mut count = 0;
        while rows.valid() {
            count += 1;
            rows.next();
        }
        (applied, count)
    }

    #[test]
    fn what_lies_in_tables_is_what_was_flushed_and_nothing_is_said_of_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let disk = open(folder.path(), USUAL_BUFFER);
        let reached = |group| disk.in_tables(group).unwrap().last.map(|last| last.index);
        for index in 1..4 {
            write(&disk, 5, index);
            write(&disk, DIRECTORY_GROUP, index);
            assert_eq!(reached(5), (index > 1).then(|| index - 1));
            disk.flush().unwrap();
            assert_eq!((reached(5), reached(DIRECTORY_GROUP)), (Some(index), None));
        }
        // A membership in tables that is later than the position does not belong to it.
        let mut batch = WriteBatch::default();
        disk.put_membership(&mut batch, 5, &Membership::new(Some(log_id(1, 4)), Default::default()));
        disk.write(5, batch).unwrap();
        assert_eq!(reached(5), Some(3));
        disk.flush().unwrap();
        assert_eq!(reached(5), None);
        write(&disk, 5, 4);
        disk.flush().unwrap();
        assert_eq!(reached(5), Some(4));
    }

    #[test]
    fn a_crash_leaves_state_and_position_of_one_moment_and_nothing_before_a_flush_is_lost() {
        const BUFFER: usize = 64 << 10;
        let folder = tempfile::tempdir().unwrap();
        let disk = open(folder.path(), BUFFER);
        // The copy is not atomic: a table that a compaction deletes meanwhile would be missing from it.
        for family in [disk.state(), disk.meta()] {
            let without_compactions = [
                ("disable_auto_compactions", "true"),
                ("level0_slowdown_writes_trigger", "1000"),
                ("level0_stop_writes_trigger", "1000"),
            ];
            disk.db.set_options_cf(family, &without_compactions).unwrap();
        }
        let mut kept = 0;
        for index in 1..=2_000 {
            write(&disk, 1, index);
            write(&disk, 2, index);
            if index % 300 != 0 {
                continue;
            }
            let left = left_by_a_crash(folder.path());
            let again = open(left.path(), BUFFER);
            for group in [1, 2] {
                let (applied, rows) = found(&again, group);
                assert_eq!(applied, rows, "position and rows");
                assert!((kept..=index).contains(&applied), "{applied} of {index}, flushed up to {kept}");
            }
            if index % 600 == 0 {
                disk.flush().unwrap();
                kept = index;
                let left = left_by_a_crash(folder.path());
                assert_eq!(found(&open(left.path(), BUFFER), 2), (kept, kept));
            }
        }
        assert!(kept > 0);
    }

    #[test]
    fn what_the_directory_says_outlives_the_process_at_once_beside_what_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let disk = open(folder.path(), USUAL_BUFFER);
        for index in 1..=50 {
            write(&disk, DIRECTORY_GROUP, index);
            write(&disk, 1, index);
            if index == 20 {
                disk.flush().unwrap();
            }
        }
        let again = left_by_a_crash(folder.path());
        let again = open(again.path(), USUAL_BUFFER);
        assert_eq!(found(&again, DIRECTORY_GROUP), (50, 50));
        assert_eq!(found(&again, 1), (20, 20));
        drop(disk);
        // After an orderly shutdown, nothing is lost.
        assert_eq!(found(&open(folder.path(), USUAL_BUFFER), 1), (50, 50));
    }

    #[test]
    fn the_size_of_a_range_is_told_to_within_a_few_blocks_once_it_is_in_tables() {
        const ROWS: u64 = 1_000;
        let folder = tempfile::tempdir().unwrap();
        let disk = open(folder.path(), USUAL_BUFFER);
        // 800 incompressible bytes.
        let row = |n: u64| -> Vec<u8> {
            let word = |part: u64| {
                let mut hash = Fnv::default();
                hash.add(&(n * 100 + part).to_be_bytes());
                hash.finish().to_be_bytes()
            };
            (0..100).flat_map(word).collect()
        };
        let mut batch = WriteBatch::default();
        for group in [1, 2] {
            (0..ROWS).for_each(|n| batch.put_cf(disk.state(), state_key(group, &n.to_be_bytes()), row(n)));
        }
        disk.write(1, batch).unwrap();
        let reader = StateReader::new(disk.clone(), 1);
        let range = |from: u64, to: u64| (from.to_be_bytes().to_vec(), to.to_be_bytes().to_vec());
        let between = |from, to| reader.size_between(&[range(from, to)]);
        assert_eq!(between(0, ROWS), 0, "in memory alone");
        disk.flush().unwrap();
        let half = between(0, ROWS / 2);
        assert!((350_000..500_000).contains(&half), "{half}");
        let whole = between(0, ROWS);
        assert!((700_000..1_000_000).contains(&whole), "{whole}");
        assert!(between(ROWS, 2 * ROWS) < 50_000, "the other group's rows lie behind it");
        let halves = [range(0, ROWS / 2), range(ROWS / 2, ROWS)];
        assert!(reader.size_between(&halves).abs_diff(whole) < 50_000);
    }

    #[test]
    fn what_was_read_from_a_file_with_a_large_index_is_read_again_from_memory() {
        const KEYS: u32 = 40_000;
        let folder = tempfile::tempdir().unwrap();
        let disk =
            StateDisk::open(folder.path(), folder.path().join("i"), USUAL_BUFFER, Arc::new(|r| panic!("{r}"))).unwrap();
        // The index has a key for each block; these keys differ only at their ends, so the index is larger than a cache
        // shard.
        let key = |n: u32| state_key(1, &[&[7; 1_000], &n.to_be_bytes()[..]].concat());
        for chunk in (0..KEYS).collect::<Vec<_>>().chunks(1_000) {
            let mut batch = WriteBatch::default();
            chunk.iter().for_each(|n| batch.put_cf(disk.state(), key(*n), [0; 100]));
            disk.write(1, batch).unwrap();
        }
        disk.db.compact_range_cf(disk.state(), None::<&[u8]>, None::<&[u8]>);
        set_perf_stats(PerfStatsLevel::EnableCount);
        let mut counted = PerfContext::default();
        let mut bytes_read = || {
            counted.reset();
            (0..KEYS).step_by(1_000).for_each(|n| assert!(disk.get(&key(n)).is_some()));
            counted.metric(PerfMetric::BlockReadByte)
        };
        let (first, second) = (bytes_read(), bytes_read());
        assert!(first > 0 && second == 0, "{first} bytes were read from disk, and then {second}");
        set_perf_stats(PerfStatsLevel::Disable);
    }
}

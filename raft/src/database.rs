//! Options that both databases of a node share: buffers of rows in memory, and tables.

use rocksdb::{DBCompressionType, Options, ReadOptions};

use crate::machine::GroupId;

/// Options of a database that keeps this many files open.
pub(crate) fn options(open_files: i32) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_max_background_jobs(2);
    options.set_keep_log_file_num(4);
    options.set_max_open_files(open_files);
    options.set_paranoid_checks(true);
    options.set_bytes_per_sync(1 << 20);
    options
}

/// Options of the column family with a few small rows for each group.
pub(crate) fn meta_options() -> Options {
    let mut options = Options::default();
    options.set_write_buffer_size(2 << 20);
    options
}

/// Key of such a row.
pub(crate) fn meta_key(group: GroupId, what: u8) -> [u8; 3] {
    let [high, low] = group.to_be_bytes();
    [high, low, what]
}

/// Reads of `[from, to)`.
pub(crate) fn within(from: Vec<u8>, to: Vec<u8>) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_lower_bound(from);
    options.set_iterate_upper_bound(to);
    options
}

/// Buffers this many bytes before a table is written, in a single allocation that is returned to the system.
///
/// By default, RocksDB allocates 1 MiB at a time, and the C library keeps such blocks once some were freed: after a
/// busy period, a node keeps the memory of all memtables that ever existed at once. An allocation of more than 32 MiB
/// is always its own mapping, and only pages that were written take memory. A memtable counts as full when three
/// quarters of its last block are used, so the single block is a third larger than the buffer.
pub(crate) fn set_buffer(options: &mut Options, bytes: usize) {
    options.set_write_buffer_size(bytes);
    options.set_arena_block_size(bytes + bytes / 3);
}

/// Compresses tables when they are written a second time, but not when they are flushed: there are only a few flushed
/// tables at a time, and each is soon merged with others. Ingested files are compressed.
pub(crate) fn compress_later(options: &mut Options) {
    // RocksDB uses the last one for all further levels.
    options.set_compression_per_level(&[DBCompressionType::None, DBCompressionType::Lz4]);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use rocksdb::DB;

    use super::*;

    #[test]
    fn a_table_is_written_once_as_much_has_gathered_as_was_asked_for() {
        const BUFFER: u64 = 2 << 20;
        const ROW: u64 = 1_000;
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        set_buffer(&mut options, BUFFER as usize);
        let db = DB::open(&options, folder.path()).unwrap();
        let gathered = || db.property_int_value("rocksdb.num-entries-active-mem-table").unwrap().unwrap();
        let mut rows = 0_u64;
        // The row that finds the memtable full goes to the next one.
        while gathered() == rows {
            db.put(rows.to_be_bytes(), [7; ROW as usize]).unwrap();
            rows += 1;
        }
        let bytes = (rows - 1) * ROW;
        assert!((BUFFER * 8 / 10..=BUFFER).contains(&bytes), "{bytes} bytes of rows");
    }

    #[test]
    fn a_table_is_compressed_once_it_is_written_a_second_time() {
        const ROWS: u64 = 1_000;
        const ROW: usize = 1_000;
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        compress_later(&mut options);
        let db = DB::open(&options, folder.path()).unwrap();
        for row in 0..ROWS {
            db.put(row.to_be_bytes(), [7; ROW]).unwrap();
        }
        let bytes = || db.live_files().unwrap().iter().map(|file| file.size).sum::<usize>();
        db.flush().unwrap();
        let fresh = bytes();
        db.compact_range(None::<&[u8]>, None::<&[u8]>);
        let merged = bytes();
        assert!(fresh > ROWS as usize * ROW && merged < fresh / 10, "{fresh} and then {merged} bytes");
    }
}

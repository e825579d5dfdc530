//! What the two databases of a node have in common: their options, the memory in which rows gather before a table is written, and
//! how that table is.

use rocksdb::{DBCompressionType, Options, ReadOptions};

use crate::machine::GroupId;

/// Of a database that keeps so many files open.
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

/// Of the family that holds a few small rows of each group.
pub(crate) fn meta_options() -> Options {
    let mut options = Options::default();
    options.set_write_buffer_size(2 << 20);
    options
}

/// The key of such a row.
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

/// Lets so many bytes gather before a table is written, in one piece of memory that goes back to the system with it.
///
/// By itself RocksDB asks for 1 MiB at a time, and the C library keeps such pieces once some were given back: a node that has been
/// busy keeps the memory of all tables that were ever there at once. A piece of more than 32 MiB is always a mapping of its own,
/// and takes memory only where it was written to. A table is full when three quarters of its last piece are used, so that the only
/// piece is by a third larger than what is to gather.
pub(crate) fn set_buffer(options: &mut Options, bytes: usize) {
    options.set_write_buffer_size(bytes);
    options.set_arena_block_size(bytes + bytes / 3);
}

/// Compresses what is written into tables a second time, and not what comes from memory: there are a few such tables at a time, and
/// each is soon written once more, together with the others. Files that are put in place whole are compressed.
pub(crate) fn compress_later(options: &mut Options) {
    // RocksDB takes the last for all levels that follow.
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
        // The row that finds the memory full is the first of the next table.
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

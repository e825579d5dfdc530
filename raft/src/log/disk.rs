//! The database under `raft/`: its keys, and reads of what is on disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use rocksdb::{ColumnFamily, DB, IteratorMode, Options, WriteBatch, WriteOptions};

use super::mark::Mark;
use crate::codec::{self, invalid_data};
use crate::database::{self, within};
use crate::fatal::Fatal;
use crate::machine::{GroupId, just_after};
use crate::types::{Entry, LogId, Vote};

const LOG: &str = "log";
const META: &str = "meta";

/// Keys of a group in the `meta` column family.
#[derive(Clone, Copy)]
pub(crate) enum Meta {
    Vote = 1,
    Committed = 2,
    Purged = 3,
    /// The group's log was erased, and deleting its state was to follow.
    Erased = 4,
}

/// Key of a log entry: group and index, both big-endian, so that a group's entries are contiguous and in order.
pub(crate) fn log_key(group: GroupId, index: u64) -> [u8; 10] {
    let mut key = [0; 10];
    key[..2].copy_from_slice(&group.to_be_bytes());
    key[2..].copy_from_slice(&index.to_be_bytes());
    key
}

/// The first key after all entries of a group.
pub(crate) fn log_end(group: GroupId) -> Vec<u8> {
    just_after(&log_key(group, u64::MAX))
}

pub(crate) fn meta_key(group: GroupId, what: Meta) -> [u8; 3] {
    database::meta_key(group, what as u8)
}

/// The part of a group's log that is on disk.
pub(crate) struct Recovered {
    pub(crate) vote: Option<Vote>,
    pub(crate) committed: Option<LogId>,
    pub(crate) purged: Option<LogId>,
    /// Index of the first entry; if there is none, the index that the next one gets.
    pub(crate) first: u64,
    /// Id of the last entry; if there is none, of the last purged one.
    pub(crate) last: Option<LogId>,
    /// Average size of an entry in bytes, sampled at the end of the log.
    pub(crate) entry_bytes: u64,
    /// Whether the group was once removed from this node.
    pub(crate) erased: bool,
}

/// The database, how far it is synced, and what to do when it fails.
pub(crate) struct Disk {
    db: DB,
    /// Locked by the writer's thread only.
    mark: Mutex<Mark>,
    /// Number of the last synced write.
    synced: AtomicU64,
    fatal: Fatal,
}

impl Disk {
    /// Opens or creates the logs under `path`; the number of the last synced write is kept beside them. A table is
    /// written for every `buffer` bytes.
    ///
    /// # Errors
    /// When they cannot be read, or have lost synced writes; the message names the file.
    pub(crate) fn open(path: &Path, buffer: usize, fatal: Fatal) -> io::Result<Arc<Self>> {
        let mark_path = path.with_extension("synced");
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", mark_path.display()));
        // `CURRENT` exists once RocksDB has created the database; the mark is created before that.
        let was_made = path.join("CURRENT").exists();
        let (mark, noted) = match (was_made || mark_path.exists()).then(|| Mark::open(&mark_path)) {
            Some(Ok(found)) => found,
            Some(Err(error)) if path.exists() => return Err(named(error)),
            // Also if an earlier start failed to create the mark, on a full disk for example: it created no log then.
            Some(Err(_)) | None => (Mark::create(&mark_path).map_err(named)?, 0),
        };
        if noted > 0 && !was_made {
            return Err(lost(path, noted));
        }
        let db = Self::open_db(path, buffer).map_err(io::Error::other)?;
        let found = db.latest_sequence_number();
        if found < noted {
            return Err(lost(&last_replayed(path), noted - found));
        }
        Ok(Arc::new(Self { db, mark: Mutex::new(mark), synced: AtomicU64::new(noted), fatal }))
    }

    fn open_db(path: &Path, buffer: usize) -> Result<DB, rocksdb::Error> {
        let mut options = database::options(256);
        // A recycled file is overwritten in place: a sync needs no journal entry for the file's size.
        options.set_recycle_log_file_num(8);
        // The meta family is rarely flushed, and keeps all WAL files since its last flush.
        options.set_max_total_wal_size(8 * buffer as u64);
        // Without this, an older WAL file that is missing or truncated between two writes goes unnoticed: RocksDB
        // replays the later files all the same.
        options.set_track_and_verify_wals_in_manifest(true);
        let mut log = Options::default();
        database::set_buffer(&mut log, buffer);
        log.set_max_write_buffer_number(3);
        database::compress_later(&mut log);
        DB::open_cf_with_opts(&options, path, [(LOG, log), (META, database::meta_options())])
    }

    /// Writes a batch, syncs it, and updates the mark. Nothing may be written after an error: later writes may depend
    /// on the failed one.
    pub(crate) fn write_synced(&self, batch: WriteBatch) -> io::Result<()> {
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        let written = self.db.write_opt(batch, &synced).map_err(io::Error::other);
        let noted = written.and_then(|()| {
            let number = self.written();
            self.mark.lock().note(number)?;
            self.synced.store(number, Ordering::Release);
            Ok(())
        });
        noted.inspect_err(|error| self.fail("write", error))
    }

    /// Flushes the meta family; later writes go to another WAL file.
    #[cfg(test)]
    pub(crate) fn flush_meta(&self) {
        self.db.flush_cf(self.meta()).expect("a disk that works");
    }

    /// Blocks all writes until the guard is dropped, without acknowledging any: simulates a disk that hangs.
    #[cfg(test)]
    pub(crate) fn stand_still(&self) -> parking_lot::MutexGuard<'_, Mark> {
        self.mark.lock()
    }

    /// Number of the last write, synced or not.
    pub(crate) fn written(&self) -> u64 {
        self.db.latest_sequence_number()
    }

    /// Number of the last synced write.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    pub(crate) fn path(&self) -> &Path {
        self.db.path()
    }

    /// Ends the node for a reason other than a disk error. Returns only if the host has replaced the fatal handler.
    pub(crate) fn refuse(&self, reason: String) {
        (self.fatal)(reason);
    }

    /// Reports a failed read or write and ends the node. Returns only if the host has replaced the fatal handler.
    pub(crate) fn fail(&self, doing: &str, error: &io::Error) {
        (self.fatal)(format!("cannot {doing} the Raft log in {}: {error}", self.db.path().display()));
    }

    pub(crate) fn log(&self) -> &ColumnFamily {
        self.db.cf_handle(LOG).expect("opened with this family")
    }

    pub(crate) fn meta(&self) -> &ColumnFamily {
        self.db.cf_handle(META).expect("opened with this family")
    }

    fn get_meta(&self, group: GroupId, what: Meta) -> io::Result<Option<Bytes>> {
        let value = self.db.get_cf(self.meta(), meta_key(group, what)).map_err(io::Error::other)?;
        Ok(value.map(Bytes::from))
    }

    /// Entries of `[from, to)`: at least one, then up to `max_bytes`. A gap is an error. It means damage unless the log
    /// was purged meanwhile, which the caller has to check before it reports the error.
    pub(crate) fn try_read(&self, group: GroupId, from: u64, to: u64, max_bytes: usize) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        let range = within(log_key(group, from).to_vec(), log_key(group, to).to_vec());
        for pair in self.db.iterator_cf_opt(self.log(), range, IteratorMode::Start) {
            let (_, value) = pair.map_err(io::Error::other)?;
            bytes += value.len();
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            let entry = codec::get_entry(Bytes::from(value))?;
            let expected = from + entries.len() as u64;
            if entry.log_id.index != expected {
                let found = entry.log_id.index;
                return Err(invalid_data(format!(
                    "the log of group {group} has entry {found} where {expected} should be"
                )));
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Reads a group's position and votes from disk.
    pub(crate) fn recover(&self, group: GroupId) -> io::Result<Recovered> {
        self.try_recover(group).inspect_err(|error| self.fail("read", error))
    }

    fn try_recover(&self, group: GroupId) -> io::Result<Recovered> {
        let vote = self.get_meta(group, Meta::Vote)?.map(codec::decode).transpose()?;
        let committed: Option<LogId> = self.get_meta(group, Meta::Committed)?.map(codec::decode).transpose()?;
        let purged: Option<LogId> = self.get_meta(group, Meta::Purged)?.map(codec::decode).transpose()?;
        let erased = self.get_meta(group, Meta::Erased)?.is_some();
        let mut first = purged.map_or(0, |id| id.index + 1);
        let range = || within(log_key(group, first).to_vec(), log_end(group));
        let entries = |mode| self.db.iterator_cf_opt(self.log(), range(), mode);
        let mut last = None;
        let (mut count, mut bytes) = (0_u64, 0_u64);
        for pair in entries(IteratorMode::End).take(64) {
            let (_, value) = pair.map_err(io::Error::other)?;
            count += 1;
            bytes += value.len() as u64;
            if last.is_none() {
                last = Some(codec::get_entry(Bytes::from(value))?.log_id);
            }
        }
        if let Some(pair) = entries(IteratorMode::Start).next() {
            first = codec::get_entry(Bytes::from(pair.map_err(io::Error::other)?.1))?.log_id.index;
        }
        let last = last.max(purged);
        // The commit position is written without a sync and may lag, but it must not be ahead of the log.
        let committed = committed.min(last);
        let entry_bytes = bytes.checked_div(count).unwrap_or(0);
        Ok(Recovered { vote, committed, purged, first, last, entry_bytes, erased })
    }
}

fn lost(file: &Path, writes: u64) -> io::Error {
    let file = file.display();
    invalid_data(format!(
        "{file} is damaged, cut off or gone: {writes} writes that had been synced are not there; take this node out of the \
         cluster and join it again with an empty data folder"
    ))
}

/// The WAL file at which RocksDB ended its replay, according to its `LOG` file; the folder if that does not say.
fn last_replayed(path: &Path) -> PathBuf {
    let told = std::fs::read_to_string(path.join("LOG")).unwrap_or_default();
    let number = told
        .lines()
        .filter_map(|line| line.split_once("Recovering log #"))
        .filter_map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok())
        .next_back();
    number.map_or_else(|| path.to_owned(), |number| path.join(format!("{number:06}.log")))
}

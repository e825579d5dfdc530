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

/// What the meta family holds of a group.
#[derive(Clone, Copy)]
pub(crate) enum Meta {
    Vote = 1,
    Committed = 2,
    Purged = 3,
    /// All of it was erased here, and its state was to follow.
    Erased = 4,
}

/// Log key: group, index. Both big-endian, so that a group's entries lie together and in order.
pub(crate) fn log_key(group: GroupId, index: u64) -> [u8; 10] {
    let mut key = [0; 10];
    key[..2].copy_from_slice(&group.to_be_bytes());
    key[2..].copy_from_slice(&index.to_be_bytes());
    key
}

/// The first key behind all indexes of a group.
pub(crate) fn log_end(group: GroupId) -> Vec<u8> {
    just_after(&log_key(group, u64::MAX))
}

pub(crate) fn meta_key(group: GroupId, what: Meta) -> [u8; 3] {
    database::meta_key(group, what as u8)
}

/// What of a group's log is on disk.
pub(crate) struct Recovered {
    pub(crate) vote: Option<Vote>,
    pub(crate) committed: Option<LogId>,
    pub(crate) purged: Option<LogId>,
    /// The index of the first entry, or of the one that would come next if there is none.
    pub(crate) first: u64,
    /// The last entry's id, or the purged one's when there is no entry.
    pub(crate) last: Option<LogId>,
    /// Bytes of an average entry, of a sample at the end.
    pub(crate) entry_bytes: u64,
    /// The group was once removed here.
    pub(crate) erased: bool,
}

/// The database, how far it was synced, and what to do when it fails.
pub(crate) struct Disk {
    db: DB,
    /// Only the writer's thread takes it.
    mark: Mutex<Mark>,
    /// The number of the last write that is synced.
    synced: AtomicU64,
    fatal: Fatal,
}

impl Disk {
    /// Opens the logs under `path`, or makes them; what they were synced up to is noted beside them. A table is written each
    /// time that `buffer` bytes have gathered.
    ///
    /// # Errors
    /// When they cannot be read, or have lost what had been synced; the text names the file.
    pub(crate) fn open(path: &Path, buffer: usize, fatal: Fatal) -> io::Result<Arc<Self>> {
        let mark_path = path.with_extension("synced");
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", mark_path.display()));
        // The database's own pointer to its files is there once the database was made; the mark was made before it.
        let was_made = path.join("CURRENT").exists();
        let (mark, noted) = match (was_made || mark_path.exists()).then(|| Mark::open(&mark_path)) {
            Some(Ok(found)) => found,
            Some(Err(error)) if path.exists() => return Err(named(error)),
            // Also where a process ended while it made the mark, for want of room, say: it made no log then.
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
        // A recycled file is written in place: the file system has no new size to journal at every sync.
        options.set_recycle_log_file_num(8);
        // The small family is written rarely, and holds every write-ahead file since it was written.
        options.set_max_total_wal_size(8 * buffer as u64);
        // Else an older write-ahead file that is gone, or ends early between two writes, leaves a hole that nothing shows: the
        // files after it are replayed all the same.
        options.set_track_and_verify_wals_in_manifest(true);
        let mut log = Options::default();
        database::set_buffer(&mut log, buffer);
        log.set_max_write_buffer_number(3);
        database::compress_later(&mut log);
        DB::open_cf_with_opts(&options, path, [(LOG, log), (META, database::meta_options())])
    }

    /// Writes a batch, syncs it, and notes that. After an error nothing may be written any more: what comes after it may
    /// depend on it.
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

    /// Has what the small family holds written to a table; what comes next goes to another write-ahead file.
    #[cfg(test)]
    pub(crate) fn flush_meta(&self) {
        self.db.flush_cf(self.meta()).expect("a disk that works");
    }

    /// Lets no write be done, nor anybody be told so, for as long as the guard lives: a disk that stands still.
    #[cfg(test)]
    pub(crate) fn stand_still(&self) -> parking_lot::MutexGuard<'_, Mark> {
        self.mark.lock()
    }

    /// The number of the last write, synced or not.
    pub(crate) fn written(&self) -> u64 {
        self.db.latest_sequence_number()
    }

    /// The number of the last write that was synced.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    pub(crate) fn path(&self) -> &Path {
        self.db.path()
    }

    /// Ends the node for a reason other than the disk's. Returns only where the host replaced what happens then.
    pub(crate) fn refuse(&self, reason: String) {
        (self.fatal)(reason);
    }

    /// Reports a read or write that failed; does not return unless the host replaced what happens then.
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

    /// Entries of `[from, to)`, at most `max_bytes` of them but at least one. A gap is damage, unless the log was cut
    /// meanwhile: the caller knows, and reports it.
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

    /// Reads where a group's log stands.
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
        // The commit position is written without a sync, so it can be behind; it cannot be ahead of the log.
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

/// The write-ahead file at which the database ended its replay, by what it wrote about that; the folder if it did not.
fn last_replayed(path: &Path) -> PathBuf {
    let told = std::fs::read_to_string(path.join("LOG")).unwrap_or_default();
    let number = told
        .lines()
        .filter_map(|line| line.split_once("Recovering log #"))
        .filter_map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok())
        .next_back();
    number.map_or_else(|| path.to_owned(), |number| path.join(format!("{number:06}.log")))
}

//! The folder in which a simulator persists its state across processes.
//!
//! `state` consists of records followed by their hash, and is replaced atomically; `files` holds the bytes of media and
//! pictures, each file written once. After a crash the folder holds the last complete state.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use model::msgpack;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::engine::{Snapshot, StoredError};
use crate::wire::transfer::Digest;

/// Magic at the start of the state file, followed by the format number.
const KIND: &str = "gateway simulator state ";

/// The format that is written, and the highest that can be read.
const FORMAT: u32 = 1;

/// Length of the hash at the end of the file.
const HASH: usize = 32;

/// Largest record, in bytes; a greater length indicates damage.
const MOST_RECORD: usize = 1024 * 1024 * 1024;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot be used: {1}")]
    Io(PathBuf, io::Error),
    #[error("another simulator uses the folder")]
    InUse(PathBuf),
    #[error("has format {format}, and this release understands formats up to {FORMAT}")]
    Newer { path: PathBuf, format: u32 },
    #[error("is damaged: {reason}")]
    Damaged { path: PathBuf, reason: String },
}

/// A folder that only this process uses.
pub struct Store {
    folder: PathBuf,
    /// The files in the folder, with their hashes.
    files: HashMap<String, Digest>,
    _lock: File,
}

/// The contents of a folder.
pub struct Found {
    pub snapshot: Snapshot,
    /// Whether the previous process shut down in order, and so wrote everything.
    pub ended_in_order: bool,
}

/// The first record.
#[derive(Serialize, Deserialize)]
struct Head {
    files: Vec<(String, Digest)>,
}

impl Store {
    /// Opens a folder and reads its contents; creates the folder if it does not exist.
    ///
    /// # Errors
    /// [`StoreError`]; the contents stay unchanged.
    pub fn open(folder: &Path) -> Result<(Self, Option<Found>), StoreError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| StoreError::Io(path, error)
        };
        let files = folder.join("files");
        fs::create_dir_all(&files).map_err(failed(folder))?;
        let lock = File::create(folder.join("lock")).map_err(failed(folder))?;
        lock.try_lock().map_err(|_| StoreError::InUse(folder.to_owned()))?;
        let mut store = Self { folder: folder.to_owned(), files: HashMap::new(), _lock: lock };
        let path = store.state_file();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                store.begin().map_err(failed(folder))?;
                return Ok((store, None));
            }
            Err(error) => return Err(StoreError::Io(path, error)),
        };
        let (head, records) = parse(&bytes, &path)?;
        let damaged = |reason: String| StoreError::Damaged { path: path.clone(), reason };
        let mut contents = HashMap::new();
        for (name, sha256) in &head.files {
            let path = store.file(name);
            let bytes = Bytes::from(fs::read(&path).map_err(failed(&path))?);
            if Digest::from(Sha256::digest(&bytes)) != *sha256 {
                return Err(StoreError::Damaged { path, reason: "it holds other bytes than were written".into() });
            }
            contents.insert(name.clone(), bytes);
        }
        store.files = head.files.into_iter().collect();
        let snapshot =
            Snapshot::read(records.into_iter(), contents).map_err(|error: StoredError| damaged(error.to_string()))?;
        let ended_in_order = store.begin().map_err(failed(folder))?;
        Ok((store, Some(Found { snapshot, ended_in_order })))
    }

    /// Marks the folder as in use and returns whether the previous process shut down in order. Files that belong to no
    /// state are deleted.
    fn begin(&self) -> io::Result<bool> {
        let marker = self.marker();
        let ended_in_order = !marker.exists();
        File::create(&marker)?.sync_all()?;
        File::open(&self.folder)?.sync_all()?;
        for entry in fs::read_dir(self.folder.join("files"))? {
            let entry = entry?;
            if entry.file_name().to_str().is_none_or(|name| !self.files.contains_key(name)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(ended_in_order)
    }

    /// Replaces the contents of the folder; `ends_in_order` is set for the final write of a process.
    ///
    /// # Errors
    /// The state cannot be written; the folder keeps its previous contents.
    pub fn write(&mut self, snapshot: &Snapshot, ends_in_order: bool) -> io::Result<()> {
        let mut files = HashMap::new();
        let mut wrote = false;
        for (name, bytes) in &snapshot.files {
            let known = self.files.get(name).copied();
            let sha256 = match known {
                Some(sha256) => sha256,
                None => {
                    wrote = true;
                    self.write_file(name, bytes)?
                }
            };
            files.insert(name.clone(), sha256);
        }
        if wrote {
            File::open(self.folder.join("files"))?.sync_all()?;
        }
        let head = Head { files: files.clone().into_iter().collect() };
        self.write_state(&head, snapshot)?;
        if ends_in_order {
            fs::remove_file(self.marker())?;
            File::open(&self.folder)?.sync_all()?;
        }
        for gone in self.files.keys().filter(|name| !files.contains_key(*name)) {
            // A file that cannot be deleted takes space but does no harm.
            let _ = fs::remove_file(self.file(gone));
        }
        self.files = files;
        Ok(())
    }

    fn write_file(&self, name: &str, bytes: &Bytes) -> io::Result<Digest> {
        let mut file = File::create(self.file(name))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(Sha256::digest(bytes).into())
    }

    fn write_state(&self, head: &Head, snapshot: &Snapshot) -> io::Result<()> {
        let temporary = self.folder.join("state.tmp");
        let mut out =
            Hashed { out: BufWriter::with_capacity(1024 * 1024, File::create(&temporary)?), hash: Sha256::new() };
        out.put(format!("{KIND}{FORMAT}\n").as_bytes())?;
        out.record(&msgpack::to_vec_named(head).map_err(io::Error::other)?)?;
        snapshot.write(|record| out.record(record))?;
        let Hashed { mut out, hash } = out;
        out.write_all(&Digest::from(hash.finalize()))?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&temporary, self.state_file())?;
        File::open(&self.folder)?.sync_all()
    }

    /// The marker exists while a process runs, and after one was killed.
    fn marker(&self) -> PathBuf {
        self.folder.join("running")
    }

    fn state_file(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join("files").join(name)
    }
}

/// Writes and hashes at the same time.
struct Hashed {
    out: BufWriter<File>,
    hash: Sha256,
}

impl Hashed {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes)
    }

    fn record(&mut self, record: &[u8]) -> io::Result<()> {
        let length = u32::try_from(record.len()).map_err(io::Error::other)?;
        self.put(&length.to_le_bytes())?;
        self.put(record)
    }
}

/// Splits a file into its first record and the others.
fn parse<'a>(bytes: &'a [u8], path: &Path) -> Result<(Head, Vec<&'a [u8]>), StoreError> {
    let damaged = |reason: &str| StoreError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
    let rest = bytes.strip_prefix(KIND.as_bytes()).ok_or_else(|| damaged("it is no state of a simulator"))?;
    let end = rest.iter().take(10).position(|byte| *byte == b'\n').ok_or_else(|| damaged("it names no format"))?;
    let format = std::str::from_utf8(&rest[..end]).ok().and_then(|text| text.parse::<u32>().ok());
    match format.ok_or_else(|| damaged("it names no format"))? {
        FORMAT => {}
        format => return Err(StoreError::Newer { path: path.to_owned(), format }),
    }
    let hashed = bytes.len().checked_sub(HASH).ok_or_else(|| damaged("it is cut off"))?;
    if Digest::from(Sha256::digest(&bytes[..hashed]))[..] != bytes[hashed..] {
        return Err(damaged("its hash is another one"));
    }
    let mut left = rest.get(end + 1..rest.len() - HASH).ok_or_else(|| damaged("it is cut off"))?;
    let mut records = Vec::new();
    while !left.is_empty() {
        let (length, after) = left.split_first_chunk::<4>().ok_or_else(|| damaged("a record is cut off"))?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > MOST_RECORD || length > after.len() {
            return Err(damaged("a record is cut off"));
        }
        let (record, after) = after.split_at(length);
        records.push(record);
        left = after;
    }
    let (head, records) = records.split_first().ok_or_else(|| damaged("it holds nothing"))?;
    let head = msgpack::from_slice(head).map_err(|error| damaged(&error.to_string()))?;
    Ok((head, records.to_vec()))
}

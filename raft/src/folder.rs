//! The data folder of a host: the node it belongs to, its format, and the lock against concurrent use.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use model::id::NodeId;
use thiserror::Error;
use uuid::Uuid;

/// Usual number of bytes of rows, and of log, that are buffered in memory before a table is written.
pub const USUAL_BUFFER: usize = 32 << 20;

/// Format of everything in the folder. A node refuses a folder of another format.
const FORMAT: u32 = 1;
const STAMP: &str = "raft-store";

/// Error texts of full disks; RocksDB passes on only the text.
const FULL: [&str; 2] = ["no space left on device", "quota exceeded"];

/// Why a host did not start.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("{path}: {reason}")]
    Folder { path: PathBuf, reason: String },
    /// The folder is intact, and can be opened once there is space.
    #[error("{path}: {reason}")]
    NoRoom { path: PathBuf, reason: String },
    #[error("cannot start the log writer: {0}")]
    Thread(std::io::Error),
    #[error("the timing does not work: {0}")]
    Timing(String),
    #[error("this processor lacks the instructions SSE 4.2 and PCLMULQDQ, with which checksums are made")]
    Processor,
}

impl StartError {
    /// Why a folder cannot be opened.
    pub fn of_folder(path: &Path, reason: String) -> Self {
        let (path, said) = (path.to_owned(), reason.to_lowercase());
        match FULL.iter().any(|full| said.contains(full)) {
            true => Self::NoRoom { path, reason },
            false => Self::Folder { path, reason },
        }
    }
}

/// An open data folder; the lock is released when it is dropped.
pub(crate) struct StoreFolder {
    pub(crate) path: PathBuf,
    _lock: File,
}

impl StoreFolder {
    /// Opens a node's folder, or creates it.
    pub(crate) fn open(path: &Path, node: NodeId, storage_id: Uuid) -> Result<Self, StartError> {
        // RocksDB is compiled for these instructions (build-rocksdb.sh).
        #[cfg(target_arch = "x86_64")]
        if !(is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq")) {
            return Err(StartError::Processor);
        }
        let failed = StartError::of_folder;
        fs::create_dir_all(path).map_err(|error| failed(path, error.to_string()))?;
        let stamp_path = path.join(STAMP);
        let io = |error: std::io::Error| failed(&stamp_path, error.to_string());
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&stamp_path).map_err(io)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => failed(&stamp_path, "is locked: another process uses this folder".into()),
            TryLockError::Error(error) => io(error),
        })?;
        let mut found = String::new();
        file.read_to_string(&mut found).map_err(io)?;
        let wanted = format!("format {FORMAT}\nnode {node}\nstorage {storage_id}\n");
        if found.is_empty() {
            if path.join("raft").exists() {
                return Err(failed(&stamp_path, "is empty, but the folder holds data: it is damaged".into()));
            }
            file.write_all(wanted.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
            File::open(path).and_then(|folder| folder.sync_all()).map_err(io)?;
        } else if found != wanted {
            let found = found.trim_end().replace('\n', ", ");
            let wanted = wanted.trim_end().replace('\n', ", ");
            return Err(failed(&stamp_path, format!("says \"{found}\", and this node is \"{wanted}\"")));
        } else if !path.join("raft").exists() && (path.join("data").exists() || path.join("heard").exists()) {
            return Err(failed(&path.join("raft"), "is gone, and with it what this node has promised".into()));
        }
        Ok(Self { path: path.to_owned(), _lock: file })
    }

    /// Folder of logs and votes.
    pub(crate) fn logs(&self) -> PathBuf {
        self.path.join("raft")
    }

    /// Folder of the machines' state.
    pub(crate) fn state(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Folder of the other nodes' sync positions.
    pub(crate) fn heard(&self) -> PathBuf {
        self.path.join("heard")
    }

    /// Folder of snapshots that are being received.
    pub(crate) fn installs(&self) -> PathBuf {
        self.path.join("install")
    }
}

/// Result of a file system call; the default value if the file or folder does not exist.
pub(crate) fn unless_missing<T: Default>(result: std::io::Result<T>) -> std::io::Result<T> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        result => result,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn refusal(path: &Path, node: NodeId, storage_id: Uuid) -> String {
        StoreFolder::open(path, node, storage_id).err().unwrap().to_string()
    }

    #[test]
    fn a_folder_is_one_nodes_and_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let id = Uuid::from_u128(7);
        let open = StoreFolder::open(folder.path(), 1, id).unwrap();
        assert!(refusal(folder.path(), 1, id).contains("another process"));
        drop(open);
        assert!(refusal(folder.path(), 2, id).contains("node 1"));
        assert!(refusal(folder.path(), 1, Uuid::from_u128(8)).contains("storage"));
        StoreFolder::open(folder.path(), 1, id).unwrap();
    }

    #[test]
    fn a_folder_whose_log_alone_is_gone_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        StoreFolder::open(folder.path(), 1, Uuid::nil()).unwrap();
        // The process ended before it created the log.
        StoreFolder::open(folder.path(), 1, Uuid::nil()).unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        let text = refusal(folder.path(), 1, Uuid::nil());
        assert!(text.contains("is gone") && text.contains("raft"), "{text}");
    }

    #[test]
    fn a_folder_whose_stamp_is_lost_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("raft")).unwrap();
        let text = refusal(folder.path(), 1, Uuid::nil());
        assert!(text.contains("damaged") && text.contains(&folder.path().display().to_string()), "{text}");
    }
}

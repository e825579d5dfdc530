//! The content of one file of a disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use super::unsynced::Unsynced;

/// A file's bytes, and which of them are not on the disk yet. The file has a lock of its own, which is held during a
/// write or a sync, so that a sync knows exactly what it has covered.
pub(super) struct Content(Mutex<State>);

struct State {
    /// Dangling unless some program has the file open.
    file: Weak<File>,
    length: u64,
    modified: SystemTime,
    unsynced: Unsynced,
}

impl Content {
    /// A new file. Its name is on the disk once its folder is synced.
    pub(super) fn new(file: &Arc<File>) -> Self {
        let file = Arc::downgrade(file);
        Self(Mutex::new(State { file, length: 0, modified: SystemTime::now(), unsynced: Unsynced::default() }))
    }

    /// A file that existed before the mount.
    pub(super) fn found(length: u64, modified: SystemTime) -> Self {
        let unsynced = Unsynced::on_disk(length);
        Self(Mutex::new(State { file: Weak::new(), length, modified, unsynced }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn length(&self) -> u64 {
        self.lock().length
    }

    pub(super) fn modified(&self) -> SystemTime {
        self.lock().modified
    }

    pub(super) fn set_modified(&self, modified: SystemTime) {
        self.lock().modified = modified;
    }

    /// The file handle that is open already, or one opened now at this path.
    pub(super) fn open(&self, path: Option<&Path>) -> io::Result<Arc<File>> {
        let mut state = self.lock();
        if let Some(file) = state.file.upgrade() {
            return Ok(file);
        }
        let path = path.ok_or(io::ErrorKind::NotFound)?;
        let file = Arc::new(OpenOptions::new().read(true).write(true).open(path)?);
        state.file = Arc::downgrade(&file);
        Ok(file)
    }

    /// Writes. `room` is called with the number of bytes by which the file grows, and may grant fewer.
    pub(super) fn write(&self, file: &File, at: u64, bytes: &[u8], room: impl FnOnce(u64) -> u64) -> io::Result<usize> {
        let mut state = self.lock();
        // The gap between the end and the first byte is a hole.
        let grows = (at + bytes.len() as u64).saturating_sub(state.length).min(bytes.len() as u64);
        let granted = if grows == 0 { 0 } else { room(grows) };
        let written = bytes.len() - (grows - granted) as usize;
        if written == 0 && !bytes.is_empty() {
            return Err(nix::errno::Errno::ENOSPC.into());
        }
        let end = at + written as u64;
        state.unsynced.keep(file, at, end)?;
        file.write_all_at(&bytes[..written], at)?;
        state.length = state.length.max(end);
        state.modified = SystemTime::now();
        Ok(written)
    }

    /// Truncates or extends the file. Returns by how many bytes it became shorter.
    pub(super) fn set_length(&self, file: &File, length: u64) -> io::Result<u64> {
        let mut state = self.lock();
        state.unsynced.keep_behind(file, length)?;
        file.set_len(length)?;
        let freed = state.length.saturating_sub(length);
        state.length = length;
        state.modified = SystemTime::now();
        Ok(freed)
    }

    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        let mut state = self.lock();
        file.sync_data()?;
        let length = state.length;
        state.unsynced.synced(length);
        Ok(())
    }

    pub(super) fn sync_failed(&self) {
        self.lock().unsynced.sync_failed();
    }

    /// Restores what is on the disk. Returns how many pages were lost.
    pub(super) fn revert(&self, path: &Path, survives: impl FnMut() -> bool) -> io::Result<usize> {
        let file = self.open(Some(path))?;
        let mut state = self.lock();
        let length = state.length;
        let (length, lost) = state.unsynced.revert(&file, length, survives)?;
        state.length = length;
        Ok(lost)
    }

    /// Changes a file without its users' knowledge, on the disk as well.
    pub(super) fn damage(&self, path: &Path, damage: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let file = self.open(Some(path))?;
        let mut state = self.lock();
        damage(&file)?;
        state.length = file.metadata()?.len();
        state.unsynced = Unsynced::on_disk(state.length);
        Ok(())
    }
}

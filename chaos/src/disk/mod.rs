//! A disk that fails on command: a FUSE file system over a folder.
//!
//! It passes everything through to the folder that it is mounted over, and tracks what was synced. So syncs can fail,
//! writes can run out of space, both can be slow, and a power cut loses what a real one may lose: unsynced bytes, and
//! names in unsynced folders. It needs root and `/dev/fuse`.

mod content;
mod faults;
mod fuse;
mod leftovers;
mod store;
#[cfg(test)]
mod tests;
mod tree;
mod unsynced;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use fuser::{BackgroundSession, Config, MountOption};
use nix::mount::{MntFlags, umount2};

pub use faults::{Faults, Files, Loss, Lost};

use store::Store;

/// Requests handled at the same time, so that a slow sync does not delay all others.
const THREADS: usize = 4;

/// A folder on a disk with faults, until this value is dropped. The folder then has what a program last saw in it.
///
/// A process that still has files of it open after the drop gets EIO for every call.
pub struct FaultyDisk {
    store: Arc<Store>,
    path: PathBuf,
    /// Its threads end when no program has a file of the disk open any more.
    _session: BackgroundSession,
}

impl FaultyDisk {
    /// Mounts a disk over a folder, whose contents count as synced. The system's table of mounts shows the name.
    ///
    /// # Errors
    /// When the folder contains anything but files and folders, or when this process may not mount.
    pub fn mount(name: &str, folder: &Path) -> anyhow::Result<Self> {
        leftovers::remove();
        let path = fs::canonicalize(folder).with_context(|| folder.display().to_string())?;
        let store = Arc::new(Store::open(&path)?);
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName(leftovers::source(name)), MountOption::DefaultPermissions];
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        let session = fuser::spawn_mount(fuse::Mounted(store.clone()), &path, &config).with_context(|| {
            format!("cannot mount over {}: a disk with faults wants root, /dev/fuse and leave to mount", path.display())
        })?;
        Ok(Self { store, path, _session: session })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the faults of the disk.
    pub fn set(&self, faults: Faults) {
        self.store.set(faults);
    }

    /// Cuts the power: unsynced data is lost, and files that are open fail from now on. Kill the processes that use the
    /// disk before, as a power cut would.
    ///
    /// # Errors
    /// When the folder beneath cannot be changed.
    pub fn crash(&self, loss: Loss) -> anyhow::Result<Lost> {
        self.store.crash(loss).with_context(|| format!("a power cut of {}", self.path.display()))
    }

    /// Flips a bit of the byte at `at` in a file, whose path is relative to the root of the disk.
    ///
    /// # Errors
    /// When there is no such file or byte.
    pub fn flip_bit(&self, file: &Path, at: u64) -> anyhow::Result<()> {
        let flip = |open: &fs::File| {
            let mut byte = [0];
            open.read_exact_at(&mut byte, at)?;
            open.write_all_at(&[byte[0] ^ 0x10], at)
        };
        self.store.damage(file, flip).with_context(|| format!("a flipped bit in {}", file.display()))
    }

    /// Truncates a file, whose path is relative to the root of the disk, to a length in bytes.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn cut(&self, file: &Path, length: u64) -> anyhow::Result<()> {
        self.store.damage(file, |open| open.set_len(length)).with_context(|| format!("{} cut off", file.display()))
    }
}

impl Drop for FaultyDisk {
    fn drop(&mut self) {
        self.store.close();
        // A lazy unmount: a process that still uses the disk keeps it until it ends.
        if let Err(error) = umount2(&self.path, MntFlags::MNT_DETACH) {
            tracing::warn!(%error, path = %self.path.display(), "cannot unmount a disk with faults");
        }
    }
}

//! A disk that fails when it is told to: a file system of our own (FUSE) over a folder.
//!
//! It passes everything through to the folder over which it is mounted, and knows what of it was synced. So syncs can
//! fail, writes find no room, both take their time, and a power cut takes what a real one may take: bytes that were not
//! synced, and names in folders that were not synced. It wants root and `/dev/fuse`.

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

/// Requests at the same time: a slow sync does not hold up everything else.
const THREADS: usize = 4;

/// A folder on a disk with faults, until this value goes. The folder then has what a program last saw in it.
///
/// Whoever still has files of it open when it goes gets EIO for every call.
pub struct FaultyDisk {
    store: Arc<Store>,
    path: PathBuf,
    /// Its threads end when nobody has a file of the disk open any more.
    _session: BackgroundSession,
}

impl FaultyDisk {
    /// Mounts it over a folder; what is in there is on the disk. The name is shown in the system's table of mounts.
    ///
    /// # Errors
    /// When the folder holds more than files and folders, or when this process may not mount.
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

    /// Where its files are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What goes wrong from now on, in place of what did.
    pub fn set(&self, faults: Faults) {
        self.store.set(faults);
    }

    /// A power cut: what was not synced is lost, and files that are open fail from now on. Whoever lives on the disk is
    /// to be killed before, as a power cut would.
    ///
    /// # Errors
    /// When the folder beneath cannot be changed.
    pub fn crash(&self, loss: Loss) -> anyhow::Result<Lost> {
        self.store.crash(loss).with_context(|| format!("a power cut of {}", self.path.display()))
    }

    /// Flips a bit of the byte at `at`, of a file that is named from the root of the disk.
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

    /// Cuts a file, named from the root of the disk, to a length in bytes.
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
        // A process that still lives on it keeps it, unseen, until it ends.
        if let Err(error) = umount2(&self.path, MntFlags::MNT_DETACH) {
            tracing::warn!(%error, path = %self.path.display(), "cannot unmount a disk with faults");
        }
    }
}

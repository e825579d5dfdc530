//! A folder as a disk: operations on files, what of them is on the disk, and the faults in between.
//!
//! The folder itself always holds what a program sees, so that the leftovers of a run can be inspected. What a power
//! cut would restore is kept beside it: changed pages in memory, deleted files as links in [`KEPT`].

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::SystemTime;

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::statvfs::{Statvfs, statvfs};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::content::Content;
use super::faults::{Faults, Loss, Lost};
use super::tree::{Folder, Ino, Node, ROOT, Tree, What};

/// Hidden folder for files that were deleted but are still on the disk.
const KEPT: &str = ".kept";

/// An open file or folder.
#[derive(Clone)]
enum Open {
    File(Arc<OpenFile>),
    /// Its entries when it was opened, as files may be deleted while it is read.
    Folder(Arc<Vec<(Ino, bool, OsString)>>),
}

struct OpenFile {
    ino: Ino,
    file: Arc<File>,
    content: Arc<Content>,
}

#[derive(Default)]
struct Handles {
    open: HashMap<u64, Open>,
    last: u64,
}

pub(super) struct Store {
    /// Path of the folder by its descriptor, which the mount over it does not hide.
    root: PathBuf,
    _root: File,
    /// Whether the power is on. Changes hold the lock for reading, so that a power cut waits for them and blocks new
    /// ones.
    power: RwLock<bool>,
    tree: Mutex<Tree>,
    handles: Mutex<Handles>,
    faults: RwLock<Faults>,
    room: Mutex<Option<u64>>,
}

/// A file or folder as `stat` shows it.
pub(super) struct Facts {
    pub(super) ino: Ino,
    pub(super) is_folder: bool,
    pub(super) length: u64,
    pub(super) mode: u32,
    pub(super) names: usize,
    pub(super) modified: SystemTime,
}

impl Store {
    /// Opens a folder with all its contents, which count as synced.
    pub(super) fn open(folder: &Path) -> anyhow::Result<Self> {
        let named = || folder.display().to_string();
        let handle = File::open(folder).with_context(named)?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        let kept = root.join(KEPT);
        if kept.exists() {
            fs::remove_dir_all(&kept).with_context(named)?;
        }
        let facts = handle.metadata().with_context(named)?;
        let mut tree = Tree::new(facts.mode(), facts.modified()?);
        fill(&mut tree, ROOT, &root).with_context(named)?;
        fs::create_dir(&kept).with_context(named)?;
        Ok(Self {
            root,
            _root: handle,
            power: RwLock::new(true),
            tree: Mutex::new(tree),
            handles: Mutex::default(),
            faults: RwLock::default(),
            room: Mutex::new(None),
        })
    }

    pub(super) fn set(&self, faults: Faults) {
        *lock(&self.room) = faults.free;
        *self.faults.write().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    pub(super) fn faults(&self) -> RwLockReadGuard<'_, Faults> {
        self.faults.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes every call fail with EIO from now on, and removes the kept files.
    pub(super) fn close(&self) {
        *self.power.write().unwrap_or_else(PoisonError::into_inner) = false;
        lock(&self.handles).open.clear();
        // The folder may be gone already; then there is nothing to remove.
        let _ = fs::remove_dir_all(self.root.join(KEPT));
    }

    /// Drops everything that is not on the disk, and all open files.
    pub(super) fn crash(&self, loss: Loss) -> io::Result<Lost> {
        let _off = self.power.write().unwrap_or_else(PoisonError::into_inner);
        lock(&self.handles).open.clear();
        let mut tree = lock(&self.tree);
        let mut chance = match loss {
            Loss::Everything => None,
            Loss::SomePages { seed } => Some(SmallRng::seed_from_u64(seed)),
        };
        let mut survives = || chance.as_mut().is_some_and(|chance| chance.random());
        let mut lost = Lost::default();
        if !survives() {
            let reverted = tree.revert()?;
            lost.names = reverted.gone.len().max(reverted.back.len());
            for path in reverted.gone {
                fs::remove_file(self.root.join(path))?;
            }
            for (ino, path) in reverted.back {
                fs::hard_link(self.kept(ino), self.root.join(path))?;
            }
        }
        tree.all_synced();
        fs::remove_dir_all(self.root.join(KEPT))?;
        fs::create_dir(self.root.join(KEPT))?;
        let mut files = tree.files();
        files.sort_by(|(path, _), (other, _)| path.cmp(other));
        for (path, content) in files {
            lost.pages += content.revert(&self.root.join(path), &mut survives)?;
        }
        Ok(lost)
    }

    /// Changes the bytes of a file on the disk.
    pub(super) fn damage(&self, path: &Path, damage: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let _off = self.power.write().unwrap_or_else(PoisonError::into_inner);
        let tree = lock(&self.tree);
        tree.file(tree.at(path)?)?.damage(&self.root.join(path), damage)
    }

    pub(super) fn facts(&self, ino: Ino) -> io::Result<Facts> {
        facts(&lock(&self.tree), ino)
    }

    pub(super) fn look_up(&self, folder: Ino, name: &OsStr) -> io::Result<Facts> {
        let _on = self.on()?;
        let mut tree = lock(&self.tree);
        let ino = tree.find(folder, name)?;
        tree.looked_up(ino);
        facts(&tree, ino)
    }

    pub(super) fn forget(&self, ino: Ino, lookups: u64) {
        lock(&self.tree).forgotten(ino, lookups);
    }

    pub(super) fn open_folder(&self, ino: Ino) -> io::Result<u64> {
        let _on = self.on()?;
        let tree = lock(&self.tree);
        let mut found = Vec::new();
        for (name, ino) in tree.folder(ino)?.entries() {
            found.push((ino, matches!(tree.get(ino)?.what, What::Folder(_)), name.clone()));
        }
        Ok(self.opened(Open::Folder(Arc::new(found))))
    }

    pub(super) fn entries(&self, handle: u64) -> io::Result<Arc<Vec<(Ino, bool, OsString)>>> {
        match lock(&self.handles).open.get(&handle) {
            Some(Open::Folder(found)) => Ok(found.clone()),
            _ => Err(Errno::EIO.into()),
        }
    }

    pub(super) fn open_file(&self, ino: Ino) -> io::Result<u64> {
        let _on = self.on()?;
        let open = self.opened_file(&lock(&self.tree), ino)?;
        Ok(self.opened(Open::File(Arc::new(open))))
    }

    fn opened_file(&self, tree: &Tree, ino: Ino) -> io::Result<OpenFile> {
        let content = tree.file(ino)?.clone();
        let path = tree.path(ino).map(|path| self.root.join(path));
        Ok(OpenFile { ino, file: content.open(path.as_deref())?, content })
    }

    fn opened(&self, open: Open) -> u64 {
        let mut handles = lock(&self.handles);
        handles.last += 1;
        let handle = handles.last;
        handles.open.insert(handle, open);
        handle
    }

    pub(super) fn release(&self, handle: u64) {
        lock(&self.handles).open.remove(&handle);
    }

    /// A power cut closes all files, whose handles are unknown afterwards.
    fn file(&self, handle: u64) -> io::Result<Arc<OpenFile>> {
        match lock(&self.handles).open.get(&handle) {
            Some(Open::File(open)) => Ok(open.clone()),
            _ => Err(Errno::EIO.into()),
        }
    }

    fn path_of_open(&self, open: &OpenFile) -> Option<PathBuf> {
        lock(&self.tree).path(open.ino)
    }

    pub(super) fn read(&self, handle: u64, at: u64, size: usize) -> io::Result<Vec<u8>> {
        let _on = self.on()?;
        let open = self.file(handle)?;
        let mut bytes = vec![0; size];
        let mut filled = 0;
        while filled < size {
            match open.file.read_at(&mut bytes[filled..], at + filled as u64)? {
                0 => break,
                more => filled += more,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    pub(super) fn write(&self, handle: u64, at: u64, bytes: &[u8]) -> io::Result<usize> {
        let (delay, failing) = {
            let faults = self.faults();
            (faults.write_delay, faults.failing_writes.clone())
        };
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let _on = self.on()?;
        let open = self.file(handle)?;
        if failing.is_some_and(|files| files.has(self.path_of_open(&open).as_deref())) {
            return Err(Errno::EIO.into());
        }
        open.content.write(&open.file, at, bytes, |wanted| self.take_room(wanted))
    }

    pub(super) fn sync(&self, handle: u64) -> io::Result<()> {
        let failing = self.slow_sync();
        let _on = self.on()?;
        let open = self.file(handle)?;
        if failing.is_some_and(|files| files.has(self.path_of_open(&open).as_deref())) {
            open.content.sync_failed();
            return Err(Errno::EIO.into());
        }
        open.content.sync(&open.file)
    }

    pub(super) fn sync_folder(&self, ino: Ino) -> io::Result<()> {
        let failing = self.slow_sync();
        let _on = self.on()?;
        let mut tree = lock(&self.tree);
        let path = tree.path(ino).ok_or(Errno::ENOENT)?;
        if failing.is_some_and(|files| files.has(Some(&path))) {
            return Err(Errno::EIO.into());
        }
        File::open(self.root.join(path))?.sync_all()?;
        let free = tree.synced(ino)?;
        self.drop_kept(&free)
    }

    fn slow_sync(&self) -> Option<super::faults::Files> {
        let (delay, failing) = {
            let faults = self.faults();
            (faults.sync_delay, faults.failing_syncs.clone())
        };
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        failing
    }

    /// Reserves space for later writes, as far as the folder's own file system can.
    pub(super) fn allocate(&self, handle: u64, mode: i32, at: i64, length: i64) -> io::Result<()> {
        use nix::fcntl::{FallocateFlags, fallocate};
        // Other modes would change bytes without a copy of what is on the disk.
        if FallocateFlags::from_bits_truncate(mode) != FallocateFlags::FALLOC_FL_KEEP_SIZE {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let _on = self.on()?;
        let open = self.file(handle)?;
        Ok(fallocate(&*open.file, FallocateFlags::FALLOC_FL_KEEP_SIZE, at, length)?)
    }

    pub(super) fn set_length(&self, ino: Ino, length: u64) -> io::Result<()> {
        let _on = self.on()?;
        let open = self.opened_file(&lock(&self.tree), ino)?;
        let freed = open.content.set_length(&open.file, length)?;
        self.give_room(freed);
        Ok(())
    }

    pub(super) fn set_mode(&self, ino: Ino, mode: u32) -> io::Result<()> {
        let _on = self.on()?;
        let mut tree = lock(&self.tree);
        if let Some(path) = tree.path(ino) {
            fs::set_permissions(self.root.join(path), fs::Permissions::from_mode(mode))?;
        }
        let node = tree.get_mut(ino)?;
        node.mode = node.mode & !0o7777 | mode & 0o7777;
        Ok(())
    }

    pub(super) fn set_modified(&self, ino: Ino, modified: SystemTime) -> io::Result<()> {
        let _on = self.on()?;
        let mut tree = lock(&self.tree);
        if let Some(path) = tree.path(ino) {
            File::open(self.root.join(path))?.set_modified(modified)?;
        }
        match &mut tree.get_mut(ino)?.what {
            What::File(content) => content.set_modified(modified),
            What::Folder(folder) => folder.modified = modified,
        }
        Ok(())
    }

    pub(super) fn create(&self, folder: Ino, name: &OsStr, mode: u32) -> io::Result<(Facts, u64)> {
        let _on = self.on()?;
        let mut tree = lock(&self.tree);
        let path = self.root.join(tree.path_of(folder, name)?);
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(mode & 0o7777).open(path).map(Arc::new)?;
        self.will_change(&mut tree, folder, name)?;
        let content = Arc::new(Content::new(&file));
        let ino = tree.add(folder, name, What::File(content.clone()), file.metadata()?.mode())?;
        tree.looked_up(ino);
        let handle = self.opened(Open::File(Arc::new(OpenFile { ino, file, content })));
        Ok((facts(&tree, ino)?, handle))
    }

    pub(super) fn make_folder(&self, folder: Ino, name: &OsStr, mode: u32) -> io::Result<Facts> {
        let _on = self.on()?;
        let mut tree = lock(&self.tree);
        let path = self.root.join(tree.path_of(folder, name)?);
        fs::DirBuilder::new().mode(mode & 0o7777).create(&path)?;
        let free = tree.synced_name(folder, name)?;
        self.drop_kept(&free)?;
        let what = What::Folder(Folder::empty(SystemTime::now()));
        let ino = tree.add(folder, name, what, fs::metadata(&path)?.mode())?;
        tree.looked_up(ino);
        facts(&tree, ino)
    }

    pub(super) fn link(&self, ino: Ino, folder: Ino, name: &OsStr) -> io::Result<Facts> {
        let _on = self.on()?;
        let mut tree = lock(&self.tree);
        let from = tree.path(ino).ok_or(Errno::ENOENT)?;
        let to = tree.path_of(folder, name)?;
        fs::hard_link(self.root.join(from), self.root.join(to))?;
        self.will_change(&mut tree, folder, name)?;
        tree.bind(folder, name, ino)?;
        tree.looked_up(ino);
        facts(&tree, ino)
    }

    pub(super) fn remove_file(&self, folder: Ino, name: &OsStr) -> io::Result<()> {
        let _on = self.on()?;
        let mut tree = lock(&self.tree);
        let path = self.root.join(tree.path_of(folder, name)?);
        let content = tree.file(tree.find(folder, name)?)?.clone();
        self.will_change(&mut tree, folder, name)?;
        fs::remove_file(path)?;
        if tree.unbind(folder, name)? {
            self.give_room(content.length());
        }
        Ok(())
    }

    pub(super) fn remove_folder(&self, folder: Ino, name: &OsStr) -> io::Result<()> {
        let _on = self.on()?;
        let mut tree = lock(&self.tree);
        fs::remove_dir(self.root.join(tree.path_of(folder, name)?))?;
        let ino = tree.find(folder, name)?;
        let free = tree.synced(ino)?;
        tree.unbind(folder, name)?;
        self.drop_kept(&free)
    }

    pub(super) fn rename(&self, from: (Ino, &OsStr), to: (Ino, &OsStr), replace: bool) -> io::Result<()> {
        let _on = self.on()?;
        let mut tree = lock(&self.tree);
        let ino = tree.find(from.0, from.1)?;
        let replaced = tree.find(to.0, to.1).ok();
        if replaced.is_some() && !replace {
            return Err(Errno::EEXIST.into());
        }
        if replaced == Some(ino) {
            return Ok(());
        }
        let paths = (tree.path_of(from.0, from.1)?, tree.path_of(to.0, to.1)?);
        let is_file = tree.file(ino).is_ok();
        if is_file {
            self.will_change(&mut tree, from.0, from.1)?;
            self.will_change(&mut tree, to.0, to.1)?;
        }
        fs::rename(self.root.join(paths.0), self.root.join(paths.1))?;
        if let Some(replaced) = replaced {
            let freed = tree.file(replaced).map_or(0, |content| content.length());
            if tree.unbind(to.0, to.1)? {
                self.give_room(freed);
            }
        }
        if !is_file {
            for (folder, name) in [from, to] {
                let free = tree.synced_name(folder, name)?;
                self.drop_kept(&free)?;
            }
        }
        // Bound first: a file without any name might be dropped.
        tree.bind(to.0, to.1, ino)?;
        tree.unbind(from.0, from.1)?;
        Ok(())
    }

    pub(super) fn space(&self) -> io::Result<(Statvfs, Option<u64>)> {
        Ok((statvfs(&self.root)?, *lock(&self.room)))
    }

    /// To be called before a name changes: keeps the file that the disk has there, if this is the first change since a
    /// sync.
    fn will_change(&self, tree: &mut Tree, folder: Ino, name: &OsStr) -> io::Result<()> {
        let path = self.root.join(tree.path_of(folder, name)?);
        let Some(ino) = tree.will_change(folder, name)? else { return Ok(()) };
        match fs::hard_link(path, self.kept(ino)) {
            // Kept already under another of its names.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    }

    fn drop_kept(&self, files: &[Ino]) -> io::Result<()> {
        files.iter().try_for_each(|ino| fs::remove_file(self.kept(*ino)))
    }

    fn kept(&self, ino: Ino) -> PathBuf {
        self.root.join(KEPT).join(ino.to_string())
    }

    fn on(&self) -> io::Result<RwLockReadGuard<'_, bool>> {
        let on = self.power.read().unwrap_or_else(PoisonError::into_inner);
        if *on { Ok(on) } else { Err(Errno::EIO.into()) }
    }

    fn take_room(&self, wanted: u64) -> u64 {
        let mut room = lock(&self.room);
        let Some(left) = room.as_mut() else { return wanted };
        let granted = wanted.min(*left);
        *left -= granted;
        granted
    }

    fn give_room(&self, bytes: u64) {
        if let Some(left) = lock(&self.room).as_mut() {
            *left += bytes;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the contents of a folder to the tree.
fn fill(tree: &mut Tree, folder: Ino, path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        if facts.is_dir() {
            let what = What::Folder(Folder::empty(facts.modified()?));
            let ino = tree.add(folder, &entry.file_name(), what, facts.mode())?;
            fill(tree, ino, &entry.path())?;
        } else if facts.is_file() {
            let content = Content::found(facts.len(), facts.modified()?);
            tree.add(folder, &entry.file_name(), What::File(Arc::new(content)), facts.mode())?;
        } else {
            let what = format!("{} is neither file nor folder", entry.path().display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
    }
    Ok(())
}

fn facts(tree: &Tree, ino: Ino) -> io::Result<Facts> {
    let node: &Node = tree.get(ino)?;
    let (is_folder, length, modified) = match &node.what {
        What::File(content) => (false, content.length(), content.modified()),
        What::Folder(folder) => (true, 4096, folder.modified),
    };
    Ok(Facts { ino, is_folder, length, mode: node.mode, names: node.names(), modified })
}

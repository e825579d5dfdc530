//! The names of a disk: the files and folders under them now, and those under them on the disk.
//!
//! A name in a folder is on the disk once the folder was synced. Until then the folder remembers what the disk has
//! under it. Folders themselves are on the disk once created, renamed or removed, as few programs sync a folder's
//! parent.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use nix::errno::Errno;

use super::content::Content;

/// Inode number of a file or folder. Never reused.
pub(super) type Ino = u64;

pub(super) const ROOT: Ino = 1;

/// A file or a folder.
pub(super) struct Node {
    pub(super) what: What,
    pub(super) mode: u32,
    /// Its names. A folder has one; a deleted file has none.
    places: Vec<(Ino, OsString)>,
    /// Under how many names the disk has it that have changed since.
    promised: usize,
    /// The number of the kernel's lookups that it has not forgotten.
    lookups: u64,
}

pub(super) enum What {
    File(Arc<Content>),
    Folder(Folder),
}

pub(super) struct Folder {
    entries: BTreeMap<OsString, Ino>,
    /// What the disk has under names that changed since the last sync.
    changed: BTreeMap<OsString, Option<Ino>>,
    pub(super) modified: SystemTime,
}

impl Folder {
    pub(super) fn empty(modified: SystemTime) -> Self {
        Self { entries: BTreeMap::new(), changed: BTreeMap::new(), modified }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&OsString, Ino)> {
        self.entries.iter().map(|(name, ino)| (name, *ino))
    }
}

/// What a power cut does to names.
#[derive(Default)]
pub(super) struct Reverted {
    /// Paths of files that must disappear.
    pub(super) gone: Vec<PathBuf>,
    /// Files that must reappear, with their paths.
    pub(super) back: Vec<(Ino, PathBuf)>,
}

pub(super) struct Tree {
    nodes: HashMap<Ino, Node>,
    last: Ino,
}

impl Tree {
    pub(super) fn new(mode: u32, modified: SystemTime) -> Self {
        let what = What::Folder(Folder::empty(modified));
        let root = Node { what, mode, places: Vec::new(), promised: 0, lookups: 1 };
        Self { nodes: HashMap::from([(ROOT, root)]), last: ROOT }
    }

    pub(super) fn get(&self, ino: Ino) -> io::Result<&Node> {
        self.nodes.get(&ino).ok_or_else(|| Errno::ESTALE.into())
    }

    pub(super) fn get_mut(&mut self, ino: Ino) -> io::Result<&mut Node> {
        self.nodes.get_mut(&ino).ok_or_else(|| Errno::ESTALE.into())
    }

    pub(super) fn folder(&self, ino: Ino) -> io::Result<&Folder> {
        match &self.get(ino)?.what {
            What::Folder(folder) => Ok(folder),
            What::File(_) => Err(Errno::ENOTDIR.into()),
        }
    }

    fn folder_mut(&mut self, ino: Ino) -> io::Result<&mut Folder> {
        match &mut self.get_mut(ino)?.what {
            What::Folder(folder) => Ok(folder),
            What::File(_) => Err(Errno::ENOTDIR.into()),
        }
    }

    pub(super) fn file(&self, ino: Ino) -> io::Result<&Arc<Content>> {
        match &self.get(ino)?.what {
            What::File(content) => Ok(content),
            What::Folder(_) => Err(Errno::EISDIR.into()),
        }
    }

    /// All files that have a name, with one of their paths.
    pub(super) fn files(&self) -> Vec<(PathBuf, Arc<Content>)> {
        let files = self.nodes.iter().filter_map(|(ino, node)| match &node.what {
            What::File(content) => Some((self.path(*ino)?, content.clone())),
            What::Folder(_) => None,
        });
        files.collect()
    }

    pub(super) fn find(&self, folder: Ino, name: &OsStr) -> io::Result<Ino> {
        self.folder(folder)?.entries.get(name).copied().ok_or_else(|| Errno::ENOENT.into())
    }

    /// The file or folder at a path from the root.
    pub(super) fn at(&self, path: &std::path::Path) -> io::Result<Ino> {
        path.iter().try_fold(ROOT, |folder, name| self.find(folder, name))
    }

    /// One of the paths of a file or folder, from the root; `None` if it was deleted.
    pub(super) fn path(&self, ino: Ino) -> Option<PathBuf> {
        if ino == ROOT {
            return Some(PathBuf::new());
        }
        let (folder, name) = self.nodes.get(&ino)?.places.first()?;
        Some(self.path(*folder)?.join(name))
    }

    /// The path of a name in a folder, whether or not it exists.
    pub(super) fn path_of(&self, folder: Ino, name: &OsStr) -> io::Result<PathBuf> {
        self.folder(folder)?;
        Ok(self.path(folder).ok_or(Errno::ENOENT)?.join(name))
    }

    /// Adds a file or folder under its first name.
    pub(super) fn add(&mut self, folder: Ino, name: &OsStr, what: What, mode: u32) -> io::Result<Ino> {
        self.last += 1;
        let ino = self.last;
        self.nodes.insert(ino, Node { what, mode, places: Vec::new(), promised: 0, lookups: 0 });
        self.bind(folder, name, ino)?;
        Ok(ino)
    }

    /// To be called before a name changes that the disk may have. If this is the first change since a sync, returns the
    /// file that the disk has under it: the caller must keep it.
    pub(super) fn will_change(&mut self, folder: Ino, name: &OsStr) -> io::Result<Option<Ino>> {
        let folder = self.folder_mut(folder)?;
        if folder.changed.contains_key(name) {
            return Ok(None);
        }
        let on_disk = folder.entries.get(name).copied();
        folder.changed.insert(name.to_owned(), on_disk);
        if let Some(ino) = on_disk {
            self.get_mut(ino)?.promised += 1;
        }
        Ok(on_disk)
    }

    pub(super) fn bind(&mut self, folder: Ino, name: &OsStr, ino: Ino) -> io::Result<()> {
        let into = self.folder_mut(folder)?;
        into.entries.insert(name.to_owned(), ino);
        into.modified = SystemTime::now();
        self.get_mut(ino)?.places.push((folder, name.to_owned()));
        Ok(())
    }

    /// Removes a name. Returns whether it was the last of the file or folder.
    pub(super) fn unbind(&mut self, folder: Ino, name: &OsStr) -> io::Result<bool> {
        let from = self.folder_mut(folder)?;
        let ino = from.entries.remove(name).ok_or(Errno::ENOENT)?;
        from.modified = SystemTime::now();
        let node = self.get_mut(ino)?;
        node.places.retain(|(at, called)| (*at, called.as_os_str()) != (folder, name));
        let last = node.places.is_empty();
        self.drop_unused(ino);
        Ok(last)
    }

    /// Marks a folder as synced. Returns the files that the disk no longer has under any name.
    pub(super) fn synced(&mut self, folder: Ino) -> io::Result<Vec<Ino>> {
        let changed = std::mem::take(&mut self.folder_mut(folder)?.changed);
        Ok(self.released(changed.into_values().flatten()))
    }

    /// Marks a single name as synced.
    pub(super) fn synced_name(&mut self, folder: Ino, name: &OsStr) -> io::Result<Vec<Ino>> {
        let changed = self.folder_mut(folder)?.changed.remove(name);
        Ok(self.released(changed.flatten().into_iter()))
    }

    fn released(&mut self, files: impl Iterator<Item = Ino>) -> Vec<Ino> {
        let mut free = Vec::new();
        for ino in files {
            let Some(node) = self.nodes.get_mut(&ino) else { continue };
            node.promised -= 1;
            if node.promised == 0 {
                free.push(ino);
                self.drop_unused(ino);
            }
        }
        free
    }

    /// Marks everything as synced.
    pub(super) fn all_synced(&mut self) {
        for folder in self.folders() {
            // This cannot fail, as all of `folders` are folders.
            let _ = self.synced(folder);
        }
    }

    /// Restores the names that the disk has. The files of `back` are kept until `all_synced`.
    pub(super) fn revert(&mut self) -> io::Result<Reverted> {
        let mut reverted = Reverted::default();
        let mut binds = Vec::new();
        for folder in self.folders() {
            for (name, on_disk) in self.folder(folder)?.changed.clone() {
                let now = self.folder(folder)?.entries.get(&name).copied();
                if now == on_disk {
                    continue;
                }
                let path = self.path_of(folder, &name)?;
                if now.is_some() {
                    self.unbind(folder, &name)?;
                    reverted.gone.push(path.clone());
                }
                if let Some(ino) = on_disk {
                    binds.push((folder, name, ino));
                    reverted.back.push((ino, path));
                }
            }
        }
        for (folder, name, ino) in binds {
            self.bind(folder, &name, ino)?;
        }
        Ok(reverted)
    }

    fn folders(&self) -> Vec<Ino> {
        let is_folder = |node: &Node| matches!(node.what, What::Folder(_));
        self.nodes.iter().filter(|(_, node)| is_folder(node)).map(|(ino, _)| *ino).collect()
    }

    pub(super) fn looked_up(&mut self, ino: Ino) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.lookups += 1;
        }
    }

    pub(super) fn forgotten(&mut self, ino: Ino, lookups: u64) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.lookups = node.lookups.saturating_sub(lookups);
            self.drop_unused(ino);
        }
    }

    fn drop_unused(&mut self, ino: Ino) {
        let unused = |node: &Node| node.places.is_empty() && node.promised == 0 && node.lookups == 0;
        if ino != ROOT && self.nodes.get(&ino).is_some_and(unused) {
            self.nodes.remove(&ino);
        }
    }
}

impl Node {
    /// The number of its names.
    pub(super) fn names(&self) -> usize {
        self.places.len()
    }
}

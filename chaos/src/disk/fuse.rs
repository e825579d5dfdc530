//! The disk as a FUSE file system.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::store::{Facts, Store};

/// The kernel must cache neither names nor attributes, as a power cut changes both without its knowledge.
const FRESH: Duration = Duration::ZERO;
/// Inode numbers are never reused.
const ONCE: Generation = Generation(0);
const BLOCK: u32 = 4096;

/// The files of a [`Store`], for the kernel.
pub(super) struct Mounted(pub(super) Arc<Store>);

/// Replies with a result, or with its error.
macro_rules! answer {
    ($reply:ident, $outcome:expr, $found:pat => $answer:expr) => {
        match $outcome {
            Ok($found) => $answer,
            Err(error) => $reply.error(Errno::from(error)),
        }
    };
}

fn attributes(facts: &Facts) -> FileAttr {
    FileAttr {
        ino: INodeNo(facts.ino),
        size: facts.length,
        blocks: facts.length.div_ceil(512),
        atime: facts.modified,
        mtime: facts.modified,
        ctime: facts.modified,
        crtime: facts.modified,
        kind: kind(facts.is_folder),
        perm: (facts.mode & 0o7777) as u16,
        nlink: facts.names.max(1) as u32,
        uid: nix::unistd::getuid().as_raw(),
        gid: nix::unistd::getgid().as_raw(),
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

fn kind(is_folder: bool) -> FileType {
    if is_folder { FileType::Directory } else { FileType::RegularFile }
}

impl Filesystem for Mounted {
    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.0.look_up(parent.0, name), facts => reply.entry(&FRESH, &attributes(&facts), ONCE));
    }

    fn forget(&self, _req: &Request, ino: INodeNo, lookups: u64) {
        self.0.forget(ino.0, lookups);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.0.facts(ino.0), facts => reply.attr(&FRESH, &attributes(&facts)));
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = || -> io::Result<Facts> {
            if let Some(length) = size {
                self.0.set_length(ino.0, length)?;
            }
            if let Some(mode) = mode {
                self.0.set_mode(ino.0, mode)?;
            }
            match mtime {
                Some(TimeOrNow::SpecificTime(time)) => self.0.set_modified(ino.0, time)?,
                Some(TimeOrNow::Now) => self.0.set_modified(ino.0, SystemTime::now())?,
                None => {}
            }
            self.0.facts(ino.0)
        };
        answer!(reply, set(), facts => reply.attr(&FRESH, &attributes(&facts)));
    }

    fn mkdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let made = self.0.make_folder(parent.0, name, mode & !umask);
        answer!(reply, made, facts => reply.entry(&FRESH, &attributes(&facts), ONCE));
    }

    fn create(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.0.create(parent.0, name, mode & !umask);
        answer!(reply, made, (facts, handle) => {
            reply.created(&FRESH, &attributes(&facts), ONCE, FileHandle(handle), FopenFlags::empty());
        });
    }

    fn link(&self, _req: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.0.link(ino.0, parent.0, name);
        answer!(reply, linked, facts => reply.entry(&FRESH, &attributes(&facts), ONCE));
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.0.remove_file(parent.0, name), () => reply.ok());
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.0.remove_folder(parent.0, name), () => reply.ok());
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return reply.error(Errno::EINVAL);
        }
        let renamed = self.0.rename((parent.0, name), (new_parent.0, new_name), flags.is_empty());
        answer!(reply, renamed, () => reply.ok());
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.0.open_file(ino.0);
        answer!(reply, opened, handle => reply.opened(FileHandle(handle), FopenFlags::empty()));
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer!(reply, self.0.read(handle.0, offset, size as usize), bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        answer!(reply, self.0.write(handle.0, offset, data), written => reply.written(written as u32));
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer!(reply, self.0.sync(handle.0), () => reply.ok());
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.release(handle.0);
        reply.ok();
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.0.open_folder(ino.0);
        answer!(reply, opened, handle => reply.opened(FileHandle(handle), FopenFlags::empty()));
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let found = match self.0.entries(handle.0) {
            Ok(found) => found,
            Err(error) => return reply.error(Errno::from(error)),
        };
        // The kernel knows the parent itself; here it needs only the names.
        let own = [(ino.0, true, OsStr::new(".")), (ino.0, true, OsStr::new(".."))].into_iter();
        let entries = own.chain(found.iter().map(|(ino, is_folder, name)| (*ino, *is_folder, name.as_os_str())));
        for (number, (ino, is_folder, name)) in entries.enumerate().skip(offset as usize) {
            if reply.add(INodeNo(ino), number as u64 + 1, kind(is_folder), name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _req: &Request, _ino: INodeNo, handle: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.0.release(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _req: &Request, ino: INodeNo, _handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer!(reply, self.0.sync_folder(ino.0), () => reply.ok());
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        answer!(reply, self.0.space(), (found, left) => {
            let unit = found.fragment_size();
            let free = |blocks: u64| left.map_or(blocks, |left| blocks.min(left / unit));
            reply.statfs(
                found.blocks(),
                free(found.blocks_free()),
                free(found.blocks_available()),
                found.files(),
                found.files_free(),
                found.block_size() as u32,
                found.name_max() as u32,
                unit as u32,
            );
        });
    }

    /// ENOSYS tells the kernel not to ask again, which saves a request before each write.
    fn getxattr(&self, _req: &Request, _ino: INodeNo, _name: &OsStr, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        _req: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocated = self.0.allocate(handle.0, mode, offset as i64, length as i64);
        answer!(reply, allocated, () => reply.ok());
    }
}

//! The folder of one node: `<aa>/<sha256>`, where `aa` are the hash's first characters, and temporary files in `tmp`.
//!
//! Everything here waits for the disk, and is called on threads where that blocks nobody.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::try_unfold;
use model::media::Sha256Hex;
use model::time::Timestamp;
use network::driver::{ByteStream, MEDIA_PIECE};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use super::BlobError;

/// How long a check of a file against its hash is valid, while the file looks unchanged.
const VERIFIED_FOR: Duration = Duration::from_secs(600);

/// Checks that are remembered.
const MOST_VERIFIED: usize = 20_000;

/// Metadata by which a file is known to be unchanged.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    size: u64,
    modified: SystemTime,
}

pub struct Local {
    folder: PathBuf,
    temporary: PathBuf,
    /// Held while a file is put in place, renewed or removed, so that none is removed that was just stored again.
    changing: Mutex<()>,
    verified: Mutex<HashMap<Sha256Hex, (FileStamp, Instant)>>,
}

impl Local {
    /// Creates the folders, and removes the temporary files of an earlier run.
    pub fn open(folder: PathBuf) -> Result<Self, BlobError> {
        let temporary = folder.join("tmp");
        let made = || -> io::Result<()> {
            fs::create_dir_all(&temporary)?;
            for entry in fs::read_dir(&temporary)? {
                fs::remove_file(entry?.path())?;
            }
            sync_folder(&folder)
        };
        made().map_err(BlobError::Disk)?;
        Ok(Self { folder, temporary, changing: Mutex::default(), verified: Mutex::default() })
    }

    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    fn path(&self, sha256: &Sha256Hex) -> PathBuf {
        self.folder.join(sha256.0.get(..2).unwrap_or_default()).join(&sha256.0)
    }

    /// Whether there is a file, good or bad.
    pub fn has(&self, sha256: &Sha256Hex) -> bool {
        self.path(sha256).is_file()
    }

    /// Durably moves a complete temporary file, whose bytes are known to have this hash, to its place. If a good file
    /// is there already, that one is renewed instead.
    pub fn adopt(&self, from: &Path, sha256: &Sha256Hex) -> Result<(), BlobError> {
        if self.renew(sha256)? {
            return Ok(());
        }
        let put = || -> io::Result<()> {
            let file = File::open(from)?;
            file.sync_all()?;
            let path = self.path(sha256);
            let folder = path.parent().unwrap_or(&self.folder);
            let _changing = self.changing.lock();
            if !folder.is_dir() {
                fs::create_dir_all(folder)?;
                sync_folder(&self.folder)?;
            }
            // The file may have been spooled a while ago.
            file.set_modified(SystemTime::from(Timestamp::now()))?;
            fs::rename(from, &path)?;
            sync_folder(folder)?;
            self.note_verified(sha256, stamp(&file)?);
            Ok(())
        };
        put().map_err(BlobError::of_disk)
    }

    /// Marks a good file as just stored; false if there is none.
    pub fn renew(&self, sha256: &Sha256Hex) -> Result<bool, BlobError> {
        if self.verify(sha256)?.is_none() {
            return Ok(false);
        }
        let _changing = self.changing.lock();
        let renewed = File::options().write(true).open(self.path(sha256)).and_then(|file| {
            file.set_modified(SystemTime::from(Timestamp::now()))?;
            self.note_verified(sha256, stamp(&file)?);
            Ok(())
        });
        match renewed.map_err(BlobError::of_disk) {
            Ok(()) => Ok(true),
            Err(BlobError::Missing) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The size of a file whose bytes have their hash; `None` if there is none. A damaged file is removed, and fetched
    /// again from another replica.
    pub fn verify(&self, sha256: &Sha256Hex) -> Result<Option<u64>, BlobError> {
        // A name from another node must lead to no file outside this folder, since a file of another hash is removed.
        if !sha256.is_well_formed() {
            return Ok(None);
        }
        let path = self.path(sha256);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(BlobError::Disk(error)),
        };
        let now = stamp(&file).map_err(BlobError::Disk)?;
        if let Some((then, at)) = self.verified.lock().get(sha256)
            && *then == now
            && at.elapsed() < VERIFIED_FOR
        {
            return Ok(Some(now.size));
        }
        let good = hash(&mut file).is_ok_and(|found| found == *sha256);
        if !good {
            tracing::error!(path = %path.display(), "damaged media was found and removed");
            metrics::counter!("gateway_media_damaged_total").increment(1);
            let _changing = self.changing.lock();
            // A file that was stored again meanwhile stays.
            if stamp_of(&path).is_some_and(|found| found == now) {
                fs::remove_file(&path).map_err(BlobError::of_disk)?;
            }
            return Ok(None);
        }
        self.note_verified(sha256, now);
        Ok(Some(now.size))
    }

    fn note_verified(&self, sha256: &Sha256Hex, stamp: FileStamp) {
        let mut verified = self.verified.lock();
        if verified.len() >= MOST_VERIFIED {
            verified.clear();
        }
        verified.insert(sha256.clone(), (stamp, Instant::now()));
    }

    /// A piece of a good file.
    pub fn read(&self, sha256: &Sha256Hex, offset: u64, length: usize) -> Result<Bytes, BlobError> {
        let mut file = self.open_at(sha256, offset)?;
        let mut piece = vec![0; length];
        file.read_exact(&mut piece).map_err(BlobError::Disk)?;
        Ok(piece.into())
    }

    /// A range of a good file, read on demand. The file may be removed meanwhile.
    pub fn stream(&self, sha256: &Sha256Hex, range: Range<u64>) -> Result<ByteStream, BlobError> {
        let file = tokio::fs::File::from_std(self.open_at(sha256, range.start)?);
        let pieces = try_unfold((file, range.end - range.start), async |(mut file, left)| {
            if left == 0 {
                return Ok(None);
            }
            let most = usize::try_from(left).map_or(MEDIA_PIECE, |left| left.min(MEDIA_PIECE));
            let mut piece = BytesMut::with_capacity(most);
            let read = (&mut file).take(most as u64).read_buf(&mut piece).await?;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            Ok(Some((piece.freeze(), (file, left - read as u64))))
        });
        Ok(pieces.boxed())
    }

    fn open_at(&self, sha256: &Sha256Hex, offset: u64) -> Result<File, BlobError> {
        self.verify(sha256)?.ok_or(BlobError::Missing)?;
        let mut file = File::open(self.path(sha256)).map_err(BlobError::of_disk)?;
        file.seek(SeekFrom::Start(offset)).map_err(BlobError::Disk)?;
        Ok(file)
    }

    /// Calls `with` for each hash whose file has not been stored for `grace`: there may be millions.
    pub fn each_old(&self, grace: Duration, mut with: impl FnMut(Sha256Hex) -> io::Result<()>) -> io::Result<()> {
        for part in fs::read_dir(&self.folder)? {
            let part = part?.path();
            if part == self.temporary || !part.is_dir() {
                continue;
            }
            for file in fs::read_dir(part)? {
                let file = file?;
                // A file that is gone meanwhile is not old.
                let is_old = stamp_of(&file.path()).is_some_and(|stamp| is_older(stamp.modified, grace));
                if is_old && let Ok(name) = file.file_name().into_string() {
                    with(Sha256Hex(name))?;
                }
            }
        }
        Ok(())
    }

    /// Removes a file that nobody refers to, unless it was stored again meanwhile.
    pub fn remove_old(&self, sha256: &Sha256Hex, grace: Duration) -> io::Result<bool> {
        let _changing = self.changing.lock();
        let path = self.path(sha256);
        if !stamp_of(&path).is_some_and(|stamp| is_older(stamp.modified, grace)) {
            return Ok(false);
        }
        fs::remove_file(path)?;
        self.verified.lock().remove(sha256);
        Ok(true)
    }
}

fn is_older(modified: SystemTime, grace: Duration) -> bool {
    // A time in the future counts as recent.
    modified.elapsed().is_ok_and(|age| age >= grace)
}

fn stamp(file: &File) -> io::Result<FileStamp> {
    let metadata = file.metadata()?;
    Ok(FileStamp { size: metadata.len(), modified: metadata.modified()? })
}

fn stamp_of(path: &Path) -> Option<FileStamp> {
    let metadata = fs::metadata(path).ok()?;
    Some(FileStamp { size: metadata.len(), modified: metadata.modified().ok()? })
}

fn hash(file: &mut File) -> io::Result<Sha256Hex> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; MEDIA_PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(Sha256Hex(hex::encode(hash.finalize()))),
            read => hash.update(&piece[..read]),
        }
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Local) {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::open(folder.path().join("blobs")).unwrap();
        (folder, local)
    }

    fn put(local: &Local, bytes: &[u8]) -> Sha256Hex {
        let from = local.temporary().join("new");
        fs::write(&from, bytes).unwrap();
        let sha256 = Sha256Hex(hex::encode(Sha256::digest(bytes)));
        local.adopt(&from, &sha256).unwrap();
        sha256
    }

    #[tokio::test]
    async fn what_was_put_is_read_back_whole_and_in_parts() {
        let (_folder, local) = store();
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
        let sha256 = put(&local, &bytes);
        assert_eq!(local.verify(&sha256).unwrap(), Some(200_000));
        assert_eq!(local.read(&sha256, 100, 50).unwrap(), bytes[100..150]);
        let pieces: Vec<_> = local.stream(&sha256, 5..150_000).unwrap().collect().await;
        let read: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.unwrap()).collect();
        assert_eq!(read, bytes[5..150_000]);
    }

    #[test]
    fn damage_is_found_and_never_read() {
        let (_folder, local) = store();
        let sha256 = put(&local, b"as it was");
        fs::write(local.path(&sha256), b"as it is!").unwrap();
        assert!(matches!(local.read(&sha256, 0, 1), Err(BlobError::Missing)));
        assert!(!local.has(&sha256));
        put(&local, b"as it was");
        assert_eq!(local.read(&sha256, 0, 2).unwrap(), "as");
    }

    #[test]
    fn a_name_that_is_no_hash_leads_to_no_file() {
        let (folder, local) = store();
        let outside = folder.path().join("precious");
        fs::write(&outside, b"bytes").unwrap();
        for name in ["./../precious", outside.to_str().unwrap(), "..", ""] {
            let named = Sha256Hex(name.to_owned());
            assert!(matches!(local.read(&named, 0, 1), Err(BlobError::Missing)), "{name}");
            assert!(!local.renew(&named).unwrap(), "{name}");
        }
        assert_eq!(fs::read(&outside).unwrap(), b"bytes");
    }

    #[test]
    fn what_is_stored_again_is_young_again() {
        let (_folder, local) = store();
        let sha256 = put(&local, b"bytes");
        let age = Duration::from_secs(7200);
        let file = File::options().write(true).open(local.path(&sha256)).unwrap();
        file.set_modified(SystemTime::from(Timestamp::now()) - age).unwrap();
        let grace = Duration::from_secs(3600);
        let old = || {
            let mut old = Vec::new();
            let note = |sha256| {
                old.push(sha256);
                Ok(())
            };
            local.each_old(grace, note).unwrap();
            old
        };
        assert_eq!(old(), std::slice::from_ref(&sha256));
        put(&local, b"bytes");
        assert!(old().is_empty());
        assert!(!local.remove_old(&sha256, grace).unwrap());
        file.set_modified(SystemTime::from(Timestamp::now()) - age).unwrap();
        assert!(local.remove_old(&sha256, grace).unwrap());
        assert!(!local.has(&sha256));
    }

    #[test]
    fn temporary_files_of_an_earlier_life_are_removed() {
        let (folder, local) = store();
        fs::write(local.temporary().join("left"), b"x").unwrap();
        drop(local);
        let local = Local::open(folder.path().join("blobs")).unwrap();
        assert_eq!(fs::read_dir(local.temporary()).unwrap().count(), 0);
    }
}

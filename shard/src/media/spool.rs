//! Incoming bytes of unknown length: streamed to a temporary file, hashed and measured as they arrive.
//!
//! A file that is not kept is removed on drop; those that a crash leaves are removed at the next start.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use model::error::CallError;
use model::id::CustomerId;
use model::media::{LARGEST_MEDIA, Sha256Hex};
use network::driver::ByteStream;
use raft::room::{Level, Room};
use raft::supervise;
use sha2::{Digest, Sha256};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use super::blobs::BlobError;
use super::record::StoredBytes;
use super::sniff;
use crate::shares::{Share, Shares};

/// How many files of accounts a node receives at once; one more is refused.
const MOST_SPOOLS: usize = 256;

/// How many of them may be of one account: a slow or heavy sender leaves places to the others.
const MOST_OF_ONE: usize = 32;

/// How many files the node itself receives at once, from the network and from other nodes: more than it ever requests,
/// and independent of accounts.
const MOST_OF_THE_NODE: usize = 64;

/// How many bytes may arrive before the free disk space is checked again.
const ROOM_CHECK: u64 = 1 << 20;

/// Small pieces are gathered up to this size before they go to the file: each write wakes a thread, and a sender may
/// send single bytes. There is no file before: uploads that begin and go no further cost no disk space.
const GATHERED: usize = 32 * 1024;

/// How many seeks the search for a picture's dimensions may make. In a photograph they come after EXIF, the colour
/// profile and the like, of which each seek skips up to 64 KiB; but a JPEG may begin with six million segments of four
/// bytes, and each seek costs two system calls.
const MOST_JUMPS: u32 = 1_024;

/// Size of the file's write buffer.
const WRITE_BUFFER: usize = 128 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Over 25 MB; `size` is what was seen.
    #[error("over 25 MB: {size} bytes or more")]
    TooLarge { size: u64 },
    /// The maximum number of files is being received, in all or for this account.
    #[error("too many files are received at once")]
    Busy,
    /// The source of the bytes failed.
    #[error("the bytes ended early: {0}")]
    Source(io::Error),
    #[error(transparent)]
    Disk(#[from] BlobError),
}

impl From<SpoolError> for CallError {
    fn from(error: SpoolError) -> Self {
        match error {
            SpoolError::TooLarge { size } => Self::media_too_large(size),
            SpoolError::Busy => Self::worker_at_capacity(),
            SpoolError::Source(_) => Self::bad_request("the body broke off"),
            SpoolError::Disk(error) => error.into(),
        }
    }
}

/// For whom a file is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Account(CustomerId),
    /// Bytes from the network, and from other replicas.
    Node,
}

/// The places for files that are being received.
pub(super) struct Places {
    accounts: Shares,
    node: Shares,
}

impl Places {
    pub fn new() -> Self {
        Self::with(MOST_SPOOLS)
    }

    fn with(most: usize) -> Self {
        Self { accounts: Shares::new(most, MOST_OF_ONE), node: Shares::new(MOST_OF_THE_NODE, MOST_OF_THE_NODE) }
    }

    fn take(&self, whom: For) -> Result<Share, SpoolError> {
        let place = match whom {
            For::Account(customer) => self.accounts.try_take(customer),
            For::Node => self.node.try_take(CustomerId(Uuid::nil())),
        };
        place.ok_or(SpoolError::Busy)
    }
}

/// A file that is being filled.
pub struct Spool {
    file: Option<File>,
    gathered: Vec<u8>,
    path: Temporary,
    hash: Sha256,
    size: u64,
    head: Vec<u8>,
    room: Arc<Room>,
    /// The size at which the free disk space is checked again.
    look_at: u64,
    _place: Share,
}

/// A file that is complete and not kept yet.
#[derive(Debug)]
pub struct Spooled {
    path: Temporary,
    pub size: u64,
    pub sha256: Sha256Hex,
    /// The first 4 KiB.
    pub head: Bytes,
    /// Width and height of a picture, in pixels.
    pub dimensions: Option<(u32, u32)>,
}

/// Path of a temporary file, which is removed on drop.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // The file may have been moved to where it is kept.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Spool {
    pub(super) async fn create(folder: &Path, places: &Places, whom: For, room: Arc<Room>) -> Result<Self, SpoolError> {
        is_roomy(&room)?;
        let place = places.take(whom)?;
        let path = Temporary(folder.join(Uuid::new_v4().simple().to_string()));
        let (gathered, hash, head) = (Vec::new(), Sha256::new(), Vec::new());
        Ok(Self { file: None, gathered, path, hash, size: 0, head, room, look_at: ROOM_CHECK, _place: place })
    }

    /// Appends a piece; waits if the disk is behind.
    ///
    /// # Errors
    /// [`SpoolError::TooLarge`] above 25 MB, and errors of the disk.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), SpoolError> {
        self.size += piece.len() as u64;
        if self.size > LARGEST_MEDIA {
            return Err(SpoolError::TooLarge { size: self.size });
        }
        if self.size >= self.look_at {
            self.look_at = self.size + ROOM_CHECK;
            is_roomy(&self.room)?;
        }
        let room = sniff::HEAD - self.head.len();
        self.head.extend_from_slice(&piece[..piece.len().min(room)]);
        self.hash.update(piece);
        if self.gathered.len() + piece.len() <= GATHERED {
            self.gathered.extend_from_slice(piece);
            return Ok(());
        }
        self.put(piece).await.map_err(BlobError::of_disk)?;
        Ok(())
    }

    /// Writes the gathered bytes, and then the piece.
    async fn put(&mut self, piece: &[u8]) -> io::Result<&mut File> {
        let file = match &mut self.file {
            Some(file) => file,
            missing => {
                let mut file = File::create_new(&self.path.0).await?;
                file.set_max_buf_size(WRITE_BUFFER);
                missing.insert(file)
            }
        };
        file.write_all(&self.gathered).await?;
        self.gathered.clear();
        file.write_all(piece).await?;
        Ok(file)
    }

    /// Appends a whole stream, and finishes.
    ///
    /// # Errors
    /// As [`Spool::write`], and [`SpoolError::Source`] if the stream fails.
    pub async fn fill(mut self, mut bytes: ByteStream) -> Result<Spooled, SpoolError> {
        while let Some(piece) = bytes.next().await {
            self.write(&piece.map_err(SpoolError::Source)?).await?;
        }
        self.finish().await
    }

    /// The size so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Ends the file. It does not survive a crash before it is kept.
    ///
    /// # Errors
    /// Errors of the disk.
    pub async fn finish(mut self) -> Result<Spooled, SpoolError> {
        let file = self.put(&[]).await.map_err(BlobError::of_disk)?;
        file.flush().await.map_err(BlobError::of_disk)?;
        let path = self.path.0.clone();
        let is_picture = sniff::sniff(&self.head).is_some_and(|kind| kind.starts_with("image/"));
        let dimensions = if is_picture { supervise::on_thread(move || dimensions(&path)).await } else { Ok(None) };
        Ok(Spooled {
            path: self.path,
            size: self.size,
            sha256: Sha256Hex(hex::encode(self.hash.finalize())),
            head: Bytes::from(self.head),
            dimensions: dimensions.unwrap_or_default(),
        })
    }
}

impl Spooled {
    pub(super) fn path(&self) -> &Path {
        &self.path.0
    }

    /// For the row, once the bytes are kept.
    pub fn stored(&self, mime_type: Option<String>) -> StoredBytes {
        StoredBytes {
            sha256: self.sha256.clone(),
            size: self.size,
            width: self.dimensions.map(|(width, _)| width),
            height: self.dimensions.map(|(_, height)| height),
            mime_type,
        }
    }
}

/// Incoming bytes take disk space that the log may need, so they are refused when little is left.
fn is_roomy(room: &Room) -> Result<(), BlobError> {
    if room.large() == Level::Enough {
        return Ok(());
    }
    metrics::counter!("gateway_refused_for_room_total", "what" => "media").increment(1);
    Err(BlobError::NoSpace)
}

/// The dimensions of a picture, if its format is known.
fn dimensions(path: &Path) -> Option<(u32, u32)> {
    let file = BufReader::new(std::fs::File::open(path).ok()?);
    let size = imagesize::reader_size(Searched { file, jumps: MOST_JUMPS }).ok()?;
    Some((u32::try_from(size.width).ok()?, u32::try_from(size.height).ok()?))
}

/// A file with a limited number of seeks.
struct Searched {
    file: BufReader<std::fs::File>,
    jumps: u32,
}

impl Read for Searched {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.file.read(into)
    }
}

impl BufRead for Searched {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.file.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.file.consume(amount);
    }
}

impl Seek for Searched {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.jumps = self.jumps.checked_sub(1).ok_or(io::ErrorKind::InvalidData)?;
        self.file.seek(to)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
pub(super) mod tests {
    use raft::room::{Mark, Marks};

    use super::*;

    /// A room whose low mark is passed, or not.
    fn room(folder: &Path, is_low: bool) -> Arc<Room> {
        let never = Mark { percent: 0, most_bytes: 0, least_bytes: 0 };
        let low = if is_low { Mark { percent: 201, most_bytes: u64::MAX, ..never } } else { never };
        Room::watch(Marks { low, full: never }, Vec::new(), folder.to_owned()).unwrap()
    }

    async fn create(folder: &Path, places: &Places, whom: For) -> Result<Spool, SpoolError> {
        Spool::create(folder, places, whom, room(folder, false)).await
    }

    pub async fn spool(folder: &Path) -> Spool {
        create(folder, &Places::new(), For::Node).await.unwrap()
    }

    fn files(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[tokio::test]
    async fn bytes_are_hashed_and_measured_as_they_come() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = spool(folder.path()).await;
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x07\0\0\0\x09\x08\x02\0\0\0".to_vec();
        png.resize(10_000, 0);
        for piece in png.chunks(999) {
            spool.write(piece).await.unwrap();
        }
        let spooled = spool.finish().await.unwrap();
        assert_eq!((spooled.size, spooled.head.len(), spooled.dimensions), (10_000, 4096, Some((7, 9))));
        assert_eq!(spooled.sha256.0, hex::encode(Sha256::digest(&png)));
        assert_eq!(std::fs::read(spooled.path()).unwrap(), png);
        drop(spooled);
        assert_eq!(files(folder.path()), 0);
    }

    #[test]
    fn the_sides_of_a_picture_are_looked_for_behind_so_many_pieces_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jpeg");
        let behind = |pieces: usize| {
            let frame = [0xff, 0xc0, 0, 17, 8, 0, 5, 0, 7, 3];
            let jpeg = [&[0xff_u8, 0xd8][..], &[0xff, 0xfe, 0, 2].repeat(pieces), &frame].concat();
            std::fs::write(&path, jpeg).unwrap();
            dimensions(&path)
        };
        let some = MOST_JUMPS as usize - 16;
        assert_eq!((behind(1), behind(some)), (Some((7, 5)), Some((7, 5))));
        assert_eq!(behind(MOST_JUMPS as usize), None);
    }

    #[tokio::test]
    async fn small_pieces_are_gathered_before_they_go_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = spool(folder.path()).await;
        for _ in 0..64 {
            spool.write(&[7; 512]).await.unwrap();
        }
        assert_eq!(files(folder.path()), 0, "there is no file yet");
        spool.write(&[7]).await.unwrap();
        assert!(spool.gathered.is_empty());
        assert_eq!(files(folder.path()), 1);
        let spooled = spool.finish().await.unwrap();
        assert_eq!(std::fs::read(spooled.path()).unwrap(), vec![7; GATHERED + 1]);
    }

    #[tokio::test]
    async fn more_than_25_mb_is_refused_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = spool(folder.path()).await;
        let piece = vec![0; 1024 * 1024];
        for _ in 0..25 {
            spool.write(&piece).await.unwrap();
        }
        assert_eq!(spool.size(), LARGEST_MEDIA);
        assert!(matches!(spool.write(&[0]).await, Err(SpoolError::TooLarge { size: 26_214_401 })));
        drop(spool);
        assert_eq!(files(folder.path()), 0);
    }

    #[tokio::test]
    async fn only_so_many_come_in_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (places, account) = (Places::with(1), || For::Account(CustomerId::random()));
        let first = create(folder.path(), &places, account()).await.unwrap();
        assert!(matches!(create(folder.path(), &places, account()).await, Err(SpoolError::Busy)));
        assert!(create(folder.path(), &places, For::Node).await.is_ok(), "the node has places of its own");
        drop(first);
        assert!(create(folder.path(), &places, account()).await.is_ok());
    }

    #[tokio::test]
    async fn one_account_has_its_share_of_the_places_and_the_others_have_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let (places, greedy) = (Places::new(), For::Account(CustomerId::random()));
        let mut taken = Vec::new();
        for _ in 0..MOST_OF_ONE {
            taken.push(create(folder.path(), &places, greedy).await.unwrap());
        }
        assert!(matches!(create(folder.path(), &places, greedy).await, Err(SpoolError::Busy)));
        assert!(create(folder.path(), &places, For::Account(CustomerId::random())).await.is_ok());
        taken.pop();
        assert!(create(folder.path(), &places, greedy).await.is_ok());
        drop(taken);
        assert!(places.accounts.is_idle(), "nothing is kept of those who are done");
    }

    #[tokio::test]
    async fn nothing_comes_in_where_there_is_little_room_and_what_is_coming_ends() {
        let folder = tempfile::tempdir().unwrap();
        let low = room(folder.path(), true);
        let refused = Spool::create(folder.path(), &Places::new(), For::Node, low.clone()).await;
        assert!(matches!(refused, Err(SpoolError::Disk(BlobError::NoSpace))));
        let mut spool = spool(folder.path()).await;
        spool.room = low;
        let piece = vec![0; 1 << 19];
        spool.write(&piece).await.unwrap();
        assert!(matches!(spool.write(&piece).await, Err(SpoolError::Disk(BlobError::NoSpace))));
        drop(spool);
        assert_eq!(files(folder.path()), 0);
    }
}

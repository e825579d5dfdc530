//! Bytes of unknown length on their way in: streamed to a temporary file, hashed and measured as they come.
//!
//! A file that is not kept is removed when its owner goes; those that a crash leaves are swept at the next start.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use model::error::ApiError;
use model::media::{LARGEST_MEDIA, Sha256Hex};
use network::driver::ByteStream;
use sha2::{Digest, Sha256};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use super::blobs::BlobError;
use super::record::StoredBytes;
use super::sniff;

/// How many files come in at once on a node; one more is refused.
pub const MOST_SPOOLS: usize = 256;

/// What the file holds back from the disk.
const WRITE_BUFFER: usize = 128 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Over 25 MB (interface 8.2); as much was seen.
    #[error("over 25 MB: {size} bytes or more")]
    TooLarge { size: u64 },
    /// As many come in as may.
    #[error("too many files come in at once")]
    Busy,
    /// Where the bytes come from failed.
    #[error("the bytes broke off: {0}")]
    Source(io::Error),
    #[error(transparent)]
    Disk(#[from] BlobError),
}

impl From<SpoolError> for ApiError {
    fn from(error: SpoolError) -> Self {
        match error {
            SpoolError::TooLarge { size } => Self::media_too_large(size),
            SpoolError::Busy => Self::worker_at_capacity(),
            SpoolError::Source(_) => Self::bad_request("the body broke off"),
            SpoolError::Disk(error) => error.into(),
        }
    }
}

/// A file that is being filled.
pub struct Spool {
    file: File,
    place: Place,
    hash: Sha256,
    size: u64,
    head: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

/// A file that is complete and not kept yet.
#[derive(Debug)]
pub struct Spooled {
    place: Place,
    pub size: u64,
    pub sha256: Sha256Hex,
    /// The first 4 KiB.
    pub head: Bytes,
    /// Of a picture, in pixels.
    pub dimensions: Option<(u32, u32)>,
}

/// A temporary file's path; removes the file when it goes.
#[derive(Debug)]
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        // It may have been moved to where it is kept.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Spool {
    pub(super) async fn create(folder: &Path, slots: &Arc<Semaphore>) -> Result<Self, SpoolError> {
        let permit = slots.clone().try_acquire_owned().map_err(|_| SpoolError::Busy)?;
        let place = Place(folder.join(Uuid::new_v4().simple().to_string()));
        let mut file = File::create_new(&place.0).await.map_err(BlobError::of_disk)?;
        file.set_max_buf_size(WRITE_BUFFER);
        Ok(Self { file, place, hash: Sha256::new(), size: 0, head: Vec::new(), _permit: permit })
    }

    /// Adds a piece; waits when the disk is behind.
    ///
    /// # Errors
    /// [`SpoolError::TooLarge`] above 25 MB, and what the disk says.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), SpoolError> {
        self.size += piece.len() as u64;
        if self.size > LARGEST_MEDIA {
            return Err(SpoolError::TooLarge { size: self.size });
        }
        let room = sniff::HEAD - self.head.len();
        self.head.extend_from_slice(&piece[..piece.len().min(room)]);
        self.hash.update(piece);
        Ok(self.file.write_all(piece).await.map_err(BlobError::of_disk)?)
    }

    /// Adds all of a stream, and finishes.
    ///
    /// # Errors
    /// As [`Spool::write`], and [`SpoolError::Source`] when the stream fails.
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

    /// Ends the file. It is safe from a crash once it is kept, and not before.
    ///
    /// # Errors
    /// What the disk says.
    pub async fn finish(mut self) -> Result<Spooled, SpoolError> {
        self.file.flush().await.map_err(BlobError::of_disk)?;
        let path = self.place.0.clone();
        let is_picture = sniff::sniff(&self.head).is_some_and(|kind| kind.starts_with("image/"));
        let dimensions =
            if is_picture { tokio::task::spawn_blocking(move || dimensions(&path)).await } else { Ok(None) };
        Ok(Spooled {
            place: self.place,
            size: self.size,
            sha256: Sha256Hex(hex::encode(self.hash.finalize())),
            head: Bytes::from(self.head),
            dimensions: dimensions.unwrap_or_default(),
        })
    }
}

impl Spooled {
    pub(super) fn path(&self) -> &Path {
        &self.place.0
    }

    /// For the row, once it is kept.
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

/// The size of a picture, when its format is known.
fn dimensions(path: &Path) -> Option<(u32, u32)> {
    let size = imagesize::size(path).ok()?;
    Some((u32::try_from(size.width).ok()?, u32::try_from(size.height).ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    async fn spool(folder: &Path) -> Spool {
        Spool::create(folder, &Arc::new(Semaphore::new(1))).await.unwrap()
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
        let slots = Arc::new(Semaphore::new(1));
        let first = Spool::create(folder.path(), &slots).await.unwrap();
        assert!(matches!(Spool::create(folder.path(), &slots).await, Err(SpoolError::Busy)));
        drop(first);
        assert!(Spool::create(folder.path(), &slots).await.is_ok());
    }
}

//! Uploads and downloads of media. Bytes pass through an unnamed temporary file and are never whole in memory: the
//! library reads and writes them in blocking code, and again when a host fails.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use model::media::{LARGEST_MEDIA, MediaHandle, MediaKind};
use model::time::Timestamp;
use network::driver::{ByteStream, MEDIA_PIECE, MediaError, SessionError, Uploaded};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::io::ReaderStream;
use wacore::download::{DownloadWriter, MediaType};
use wacore::upload::{EncryptedMediaInfo, UploadSource, encrypt_media_streaming};
use whatsapp_rust::download::DownloadParams;
use whatsapp_rust::features::{MediaRetryResult, MediaReuploadRequest};
use whatsapp_rust::{Client, ErrorChainExt};

use crate::media::{CameWith, Handle};
use crate::pieces::Pieces;

/// Uploads, and downloads, that a node runs at a time; others wait. An account has at most eight of either, however
/// slow its proxies are.
const AT_ONCE: usize = 16;

/// Uploads whose bytes still come from the caller, who may be slow, or that wait as a file for an upload slot. Each
/// takes a thread or a file.
const COMING_AT_ONCE: usize = 64;

/// Pieces of an upload that may wait to be encrypted.
const READ_AHEAD: usize = 4;

/// How long the network is assumed to keep an upload.
const KEPT_FOR: Duration = Duration::from_secs(7 * 86_400);

#[derive(Clone)]
pub struct Transfers {
    uploads: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
    coming: Arc<Semaphore>,
}

impl Transfers {
    pub fn new() -> Self {
        let places = |most| Arc::new(Semaphore::new(most));
        Self { uploads: places(AT_ONCE), downloads: places(AT_ONCE), coming: places(COMING_AT_ONCE) }
    }

    /// Encrypts media into a file and uploads it.
    ///
    /// # Errors
    /// The source, the network or the session failed, or the network refused the media.
    pub async fn upload(&self, client: &Client, kind: MediaKind, bytes: ByteStream) -> Result<Uploaded, MediaError> {
        let coming = self.coming.acquire().await;
        let (file, sealed) = seal(kind, bytes).await?;
        let length = sealed_length(&file)?;
        let _place = self.uploads.acquire().await;
        drop(coming);
        let sealed = client.upload_stream(Sealed { file: Arc::new(file), length }, sealed, media_type(kind)).await;
        let stored = sealed.map_err(|error| failed(&error))?;
        let handle = Handle {
            kind,
            url: stored.url,
            direct_path: stored.direct_path,
            key: stored.media_key.to_vec(),
            sha256: stored.file_sha256.to_vec(),
            sealed_sha256: stored.file_enc_sha256.to_vec(),
            length: stored.file_length,
            key_at: Some(stored.media_key_timestamp),
            message: None,
        };
        let handle = handle.named().ok_or_else(|| MediaError::Source("its handle cannot be written".into()))?;
        Ok(Uploaded { handle, expires_at: Timestamp::now().plus(KEPT_FOR) })
    }

    /// Downloads media. If the network has lost it, asks the phone that has it, once, to upload it again.
    ///
    /// # Errors
    /// The network or the session failed, or the media is refused as too large; [`MediaError::Gone`] if nobody has it
    /// any more.
    pub async fn download(&self, client: &Client, handle: &MediaHandle) -> Result<ByteStream, MediaError> {
        let handle = Handle::read(handle).ok_or(MediaError::Gone)?;
        match self.fetch(client, &handle).await {
            Err(MediaError::Gone) => {
                let direct_path = uploaded_again(client, &handle).await.ok_or(MediaError::Gone)?;
                self.fetch(client, &Handle { direct_path, ..handle }).await
            }
            fetched => fetched,
        }
    }

    async fn fetch(&self, client: &Client, handle: &Handle) -> Result<ByteStream, MediaError> {
        if handle.length > LARGEST_MEDIA {
            let text = format!("media may have at most {LARGEST_MEDIA} bytes here");
            return Err(MediaError::Refused { code: 413, text });
        }
        // The library appends the path to the host's name unchecked.
        if !is_path(&handle.direct_path) {
            return Err(MediaError::Gone);
        }
        let _place = self.downloads.acquire().await;
        let asked = DownloadParams::encrypted(
            handle.direct_path.clone(),
            &handle.key,
            &handle.sha256,
            &handle.sealed_sha256,
            handle.length,
            media_type(handle.kind),
        );
        let file = Bounded { file: nameless().map_err(|error| source(&error))?, written: 0 };
        let opened = client.download_from_params_to_writer(&asked, file).await.map_err(|error| failed(&error))?;
        Ok(ReaderStream::with_capacity(tokio::fs::File::from_std(opened.file), MEDIA_PIECE).boxed())
    }
}

/// Asks the account's phone to upload media again; returns the new path. The phone may be off, or not have it.
async fn uploaded_again(client: &Client, handle: &Handle) -> Option<String> {
    let CameWith { chat, id, from_me, author } = handle.message.as_ref()?;
    let author = author.as_deref().and_then(|author| author.parse().ok());
    let request = MediaReuploadRequest {
        msg_id: id,
        chat_jid: &chat.parse().ok()?,
        media_key: &handle.key,
        is_from_me: *from_me,
        participant: author.as_ref(),
    };
    match client.media_reupload().request(&request).await {
        Ok(MediaRetryResult::Success { direct_path }) => Some(direct_path),
        Ok(answer) => {
            tracing::debug!(?answer, "the phone does not give lost media again");
            None
        }
        Err(error) => {
            tracing::debug!(%error, "the phone could not be asked for lost media");
            None
        }
    }
}

fn media_type(kind: MediaKind) -> MediaType {
    match kind {
        MediaKind::Image => MediaType::Image,
        MediaKind::Video => MediaType::Video,
        MediaKind::Audio => MediaType::Audio,
        MediaKind::Document => MediaType::Document,
        MediaKind::Sticker => MediaType::Sticker,
    }
}

/// Whether a value from a message is a path on the network's hosts; without the slash it could extend the host's name.
fn is_path(told: &str) -> bool {
    told.starts_with('/')
}

fn nameless() -> io::Result<File> {
    tempfile::tempfile()
}

fn source(error: &io::Error) -> MediaError {
    MediaError::Source(error.to_string())
}

fn sealed_length(file: &File) -> Result<u64, MediaError> {
    file.metadata().map(|about| about.len()).map_err(|error| source(&error))
}

fn failed(error: &anyhow::Error) -> MediaError {
    match error.http_status() {
        Some(404 | 410) => MediaError::Gone,
        Some(code) if code < 500 && code != 429 => MediaError::Refused { code, text: error.to_string() },
        _ => MediaError::Session(SessionError::Unreachable(error.to_string())),
    }
}

/// Encrypts bytes into a file, as they come.
async fn seal(kind: MediaKind, mut bytes: ByteStream) -> Result<(File, EncryptedMediaInfo), MediaError> {
    let (pieces, mut waiting) = mpsc::channel(READ_AHEAD);
    let sealing = tokio::task::spawn_blocking(move || -> anyhow::Result<(File, EncryptedMediaInfo)> {
        let mut file = nameless()?;
        let coming = Pieces::new(|| Ok(waiting.blocking_recv()));
        let sealed = encrypt_media_streaming(coming, io::BufWriter::new(&mut file), media_type(kind))?;
        Ok((file, sealed))
    });
    while let Some(piece) = bytes.next().await {
        let piece = piece.map_err(|error| source(&error))?;
        if pieces.send(piece).await.is_err() {
            // The encryption has failed; its result says why.
            break;
        }
    }
    drop(pieces);
    match sealing.await {
        Ok(sealed) => sealed.map_err(|error| MediaError::Source(error.to_string())),
        Err(error) => Err(MediaError::Source(error.to_string())),
    }
}

/// The encrypted media to upload. The library reads it once for each host that it tries.
struct Sealed {
    file: Arc<File>,
    length: u64,
}

impl UploadSource for Sealed {
    fn len(&self) -> u64 {
        self.length
    }

    fn reader_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(At { file: Arc::clone(&self.file), offset }))
    }
}

/// Reads a file from an offset. A file has one position, but there may be several readers.
struct At {
    file: Arc<File>,
    offset: u64,
}

impl Read for At {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = std::os::unix::fs::FileExt::read_at(&*self.file, into, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// A file that refuses more bytes than media may have.
struct Bounded {
    file: File,
    written: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written + bytes.len() as u64 > LARGEST_MEDIA {
            return Err(io::Error::other("the media has more bytes than it said"));
        }
        let count = self.file.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl DownloadWriter for Bounded {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.written = length;
        self.file.set_len(length)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn no_message_leads_to_another_host_than_the_network_s() {
        assert!(is_path("/v/t62.7118-24/1?ccb=11"));
        for elsewhere in ["@evil.example/x", ".evil.example/x", ":8443@10.0.0.1/x", "x", ""] {
            assert!(!is_path(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn a_file_takes_no_more_than_media_may_have() {
        let mut file = Bounded { file: nameless().unwrap(), written: LARGEST_MEDIA - 3 };
        assert_eq!(file.write(b"abc").unwrap(), 3);
        assert!(file.write(b"d").is_err());
        file.truncate(0).unwrap();
        assert_eq!(file.write(b"d").unwrap(), 1);
    }
}

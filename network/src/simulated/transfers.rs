//! Media transfers: uploads and downloads over the connection that all sessions share.
//!
//! Pieces are sent through a queue of their own ([`super::outgoing`]) and only as far as the network has granted room;
//! incoming pieces are requested one by one. A transfer whose caller drops it is cancelled.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use model::media::MediaHandle;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

use super::outgoing::Place;
use super::session::SimulatedSession;
use crate::driver::{ByteStream, MEDIA_PIECE, MediaError, SessionError, Uploaded};
use crate::wire::transfer::{NetworkTransfer, NodeTransfer, TRANSFER_WINDOW, TransferNumber};
use crate::wire::{NodeFrame, SessionNumber, encode};

/// Concurrent uploads per connection; others wait. The network holds an upload in memory until it is complete.
const UPLOADS: usize = 16;

/// Timeout of a transfer when either side is silent.
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum number of frames that wait for a transfer: its window, and the frame that ends it.
const WAITING: usize = TRANSFER_WINDOW as usize + 4;

/// The transfers of a connection.
pub struct Transfers {
    running: Mutex<Running>,
    numbers: AtomicU64,
    uploads: Semaphore,
}

#[derive(Default)]
struct Running {
    lines: HashMap<TransferNumber, Line>,
    closed: bool,
}

struct Line {
    session: SessionNumber,
    frames: mpsc::Sender<NetworkTransfer>,
}

impl Transfers {
    pub fn new() -> Self {
        Self { running: Mutex::default(), numbers: AtomicU64::new(1), uploads: Semaphore::new(UPLOADS) }
    }

    /// Hands a frame to its transfer. Frames for a transfer that has ended are dropped.
    pub fn hear(&self, transfer: TransferNumber, frame: NetworkTransfer) {
        let mut running = self.running.lock();
        let fits = running.lines.get(&transfer).is_none_or(|line| line.frames.try_send(frame).is_ok());
        if !fits {
            // The network sends more than was requested, or the caller is gone: the transfer is over in both cases.
            running.lines.remove(&transfer);
        }
    }

    /// Ends the transfers of a session that has ended.
    pub fn end_session(&self, session: SessionNumber) {
        self.running.lock().lines.retain(|_, line| line.session != session);
    }

    /// Ends all transfers and refuses new ones.
    pub fn close(&self) {
        let mut running = self.running.lock();
        running.closed = true;
        running.lines.clear();
        self.uploads.close();
    }

    async fn upload_place(&self) -> Result<SemaphorePermit<'_>, SessionError> {
        match tokio::time::timeout(SILENCE, self.uploads.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(SessionError::Ended),
            Err(_) => Err(SessionError::Unreachable("too many uploads run already".into())),
        }
    }
}

/// A transfer of a session. If dropped before it is over, it is cancelled at the network.
struct Transfer {
    session: Arc<SimulatedSession>,
    number: TransferNumber,
    frames: mpsc::Receiver<NetworkTransfer>,
    over: bool,
}

impl Transfer {
    fn begin(session: &Arc<SimulatedSession>, first: NodeTransfer) -> Result<Self, SessionError> {
        session.check_logged_in()?;
        let transfers = &session.connection.transfers;
        let number = transfers.numbers.fetch_add(1, Ordering::Relaxed);
        let (sender, frames) = mpsc::channel(WAITING);
        {
            let mut running = transfers.running.lock();
            if running.closed {
                return Err(SessionError::Ended);
            }
            running.lines.insert(number, Line { session: session.number, frames: sender });
        }
        let transfer = Self { session: Arc::clone(session), number, frames, over: false };
        // If the session ended between the first check and the insertion, nothing would remove the entry.
        session.check_logged_in()?;
        transfer.tell(first)?;
        Ok(transfer)
    }

    fn encode(&self, frame: NodeTransfer) -> Result<Bytes, SessionError> {
        let frame = NodeFrame::Transfer { session: self.session.number, transfer: self.number, frame };
        encode(&frame).map_err(|error| SessionError::Unreachable(error.to_string()))
    }

    /// Sends a small frame.
    fn tell(&self, frame: NodeTransfer) -> Result<(), SessionError> {
        let bytes = self.encode(frame)?;
        let told = self.session.connection.outgoing.push_media_now(Some(&self.session), bytes);
        told.map_err(|_| SessionError::Ended)
    }

    async fn send_piece(&self, bytes: Bytes) -> Result<(), SessionError> {
        let bytes = self.encode(NodeTransfer::Piece(bytes))?;
        let sent = self.session.connection.outgoing.push(Place::Media, &self.session, bytes).await;
        sent.map_err(|_| self.session.why_silent())
    }

    /// The next frame from the network; a refusal or a failure is an error and ends the transfer.
    async fn next(&mut self) -> Result<NetworkTransfer, MediaError> {
        let Ok(frame) = tokio::time::timeout(SILENCE, self.frames.recv()).await else {
            return Err(SessionError::Unreachable("the network did not go on with the media".into()).into());
        };
        let frame = frame.ok_or_else(|| self.session.why_silent())?;
        self.over |= !matches!(frame, NetworkTransfer::Room { .. } | NetworkTransfer::Piece(_));
        match frame {
            NetworkTransfer::Refused { code, text } => Err(MediaError::Refused { code, text }),
            NetworkTransfer::Gone => Err(MediaError::Gone),
            NetworkTransfer::Broken(why) => Err(SessionError::Unreachable(why).into()),
            frame => Ok(frame),
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.session.connection.transfers.running.lock().lines.remove(&self.number);
        if !self.over
            && let Ok(bytes) = self.encode(NodeTransfer::Cancel)
        {
            // Sent in the name of the connection, because an ended session may not write. On a closed connection the
            // frame is not needed.
            let _ = self.session.connection.outgoing.push_media_now(None, bytes);
        }
    }
}

/// The granted room; any other frame is unexpected before the end.
fn room_in(frame: NetworkTransfer) -> Result<u32, MediaError> {
    match frame {
        NetworkTransfer::Room { pieces } => Ok(pieces),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> MediaError {
    SessionError::Unreachable("the network answered something else".into()).into()
}

/// Uploads bytes to the network.
pub async fn upload(
    session: &Arc<SimulatedSession>,
    mime_type: &str,
    size: u64,
    mut bytes: ByteStream,
) -> Result<Uploaded, MediaError> {
    let _place = session.connection.transfers.upload_place().await?;
    let mut transfer = Transfer::begin(session, NodeTransfer::Upload { mime_type: mime_type.to_owned(), size })?;
    let mut hash = Sha256::new();
    let mut left = size;
    let mut room = 0;
    let source = |why: &str| MediaError::Source(why.to_owned());
    loop {
        // Handle the network's frames first: it may have refused.
        let next = tokio::select! {
            biased;
            frame = transfer.next() => {
                room += room_in(frame?)?;
                continue;
            }
            next = tokio::time::timeout(SILENCE, bytes.next()), if room > 0 => next,
        };
        let next = next.map_err(|_| source("they do not come"))?;
        let Some(chunk) = next else { break };
        let mut chunk = chunk.map_err(|error| source(&error.to_string()))?;
        left = left.checked_sub(chunk.len() as u64).ok_or_else(|| source("there are more than was said"))?;
        while !chunk.is_empty() {
            while room == 0 {
                room += room_in(transfer.next().await?)?;
            }
            let piece = chunk.split_to(chunk.len().min(MEDIA_PIECE));
            hash.update(&piece);
            transfer.send_piece(piece).await?;
            room -= 1;
        }
    }
    if left > 0 {
        return Err(source("there are fewer than was said"));
    }
    transfer.tell(NodeTransfer::Finish { sha256: hash.finalize().into() })?;
    loop {
        match transfer.next().await? {
            NetworkTransfer::Room { .. } => {}
            NetworkTransfer::Stored(stored) => return Ok(stored),
            _ => return Err(unexpected()),
        }
    }
}

/// Downloads bytes from the network. Returns after the first frame, so that a refusal is an error here.
pub async fn download(session: &Arc<SimulatedSession>, handle: &MediaHandle) -> Result<ByteStream, MediaError> {
    let mut transfer = Transfer::begin(session, NodeTransfer::Download { handle: handle.clone() })?;
    let first = transfer.next().await?;
    let incoming = Incoming { transfer, hash: Sha256::new(), first: Some(first) };
    let pieces = stream::try_unfold(incoming, |mut incoming| async move {
        let piece = incoming.next_piece().await?;
        Ok(piece.map(|piece| (piece, incoming)))
    });
    Ok(pieces.boxed())
}

struct Incoming {
    transfer: Transfer,
    hash: Sha256,
    first: Option<NetworkTransfer>,
}

impl Incoming {
    /// The next piece; `None` when the download is complete and its hash is correct.
    async fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
        let frame = match self.first.take() {
            Some(first) => first,
            None => self.transfer.next().await.map_err(io::Error::other)?,
        };
        match frame {
            NetworkTransfer::Piece(piece) => {
                self.hash.update(&piece);
                self.transfer.tell(NodeTransfer::Room { pieces: 1 }).map_err(io::Error::other)?;
                Ok(Some(piece))
            }
            NetworkTransfer::Finish { sha256 } if self.hash.finalize_reset()[..] == sha256 => Ok(None),
            NetworkTransfer::Finish { .. } => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the bytes are not those that were stored"))
            }
            _ => Err(io::Error::other(unexpected())),
        }
    }
}

//! Media transfers between the simulator and one node.
//!
//! The engine decides and stores the bytes. This module transports them, a window of pieces at a time, through a queue
//! of their own beside that of the sessions.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use model::media::MediaHandle;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use super::engine::{Granted, SessionId};
use crate::driver::MEDIA_PIECE;
use crate::wire::NetworkFrame;
use crate::wire::transfer::{Digest, NetworkTransfer, NodeTransfer, TRANSFER_WINDOW, TransferNumber};

/// Maximum number of pieces that wait for a node: 16 MiB.
pub const MEDIA_QUEUE: usize = 256;

/// Maximum number of concurrent transfers per node.
const MOST_TRANSFERS: usize = 256;

/// Timeout of a transfer when the node is silent.
const SILENCE: Duration = Duration::from_secs(120);

/// The network's code for bytes that do not match their announced size or hash.
const BAD_MEDIA: u16 = 400;

/// The transfers of one connection.
pub struct Transfers {
    shared: Arc<Shared>,
    connection: u64,
    /// The queue to the node.
    queue: mpsc::Sender<NetworkFrame>,
    running: HashMap<TransferNumber, Running>,
}

enum Running {
    /// Receiving bytes from the node.
    Upload(Box<Upload>),
    /// A task sends the answer.
    Answering { room: Arc<Semaphore>, task: AbortOnDropHandle<()> },
}

struct Upload {
    session: SessionId,
    size: u64,
    granted: Granted,
    bytes: BytesMut,
    hash: Sha256,
    heard: Instant,
}

/// One transfer's access to the queue.
#[derive(Clone)]
struct Line {
    transfer: TransferNumber,
    queue: mpsc::Sender<NetworkFrame>,
}

impl Line {
    /// Queues a frame once there is room; `false` if the connection is gone.
    async fn say(&self, frame: NetworkTransfer) -> bool {
        let frame = NetworkFrame::Transfer { transfer: self.transfer, frame };
        matches!(tokio::time::timeout(SILENCE, self.queue.send(frame)).await, Ok(Ok(())))
    }
}

impl Transfers {
    pub fn new(shared: Arc<Shared>, connection: u64, queue: mpsc::Sender<NetworkFrame>) -> Self {
        Self { shared, connection, queue, running: HashMap::new() }
    }

    /// Handles a frame from the node.
    ///
    /// # Errors
    /// The connection is gone, or the node does not read.
    pub async fn take(&mut self, session: u64, transfer: TransferNumber, frame: NodeTransfer) -> io::Result<()> {
        let session = SessionId { connection: self.connection, number: session };
        let line = Line { transfer, queue: self.queue.clone() };
        let said = match frame {
            NodeTransfer::Upload { .. } | NodeTransfer::Download { .. } if !self.has_room() => {
                line.say(NetworkTransfer::Broken("too many transfers run already".into())).await
            }
            NodeTransfer::Upload { size, .. } => self.begin_upload(session, line, size).await,
            NodeTransfer::Piece(bytes) => self.take_piece(line, &bytes).await,
            NodeTransfer::Finish { sha256 } => self.finish_upload(line, sha256).await,
            NodeTransfer::Download { handle } => self.begin_download(session, line, &handle).await,
            NodeTransfer::Room { pieces } => {
                if let Some(Running::Answering { room, .. }) = self.running.get(&transfer) {
                    room.add_permits(pieces.min(TRANSFER_WINDOW) as usize);
                }
                true
            }
            NodeTransfer::Cancel => {
                self.running.remove(&transfer);
                true
            }
        };
        if said { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// Whether another transfer may start; drops finished and silent ones first.
    fn has_room(&mut self) -> bool {
        self.running.retain(|_, running| match running {
            Running::Upload(upload) => upload.heard.elapsed() < SILENCE,
            Running::Answering { task, .. } => !task.is_finished(),
        });
        self.running.len() < MOST_TRANSFERS
    }

    async fn begin_upload(&mut self, session: SessionId, line: Line, size: u64) -> bool {
        match self.shared.with(|engine, now| engine.begin_upload(now, session, size)) {
            Ok(granted) => {
                let (bytes, hash) = (BytesMut::new(), Sha256::new());
                let upload = Upload { session, size, granted, bytes, hash, heard: Instant::now() };
                self.running.insert(line.transfer, Running::Upload(Box::new(upload)));
                line.say(NetworkTransfer::Room { pieces: TRANSFER_WINDOW }).await
            }
            Err(refusal) => line.say(refusal).await,
        }
    }

    async fn take_piece(&mut self, line: Line, piece: &Bytes) -> bool {
        let Some(Running::Upload(upload)) = self.running.get_mut(&line.transfer) else { return true };
        let held = (upload.bytes.len() + piece.len()) as u64;
        let answer = if piece.len() > MEDIA_PIECE || held > upload.size {
            NetworkTransfer::Refused { code: BAD_MEDIA, text: "there are more bytes than was said".into() }
        } else if upload.granted.breaks && held * 2 >= upload.size {
            broken_by_fault()
        } else {
            upload.bytes.extend_from_slice(piece);
            upload.hash.update(piece);
            upload.heard = Instant::now();
            return line.say(NetworkTransfer::Room { pieces: 1 }).await;
        };
        self.running.remove(&line.transfer);
        line.say(answer).await
    }

    async fn finish_upload(&mut self, line: Line, sha256: Digest) -> bool {
        let Some(Running::Upload(upload)) = self.running.remove(&line.transfer) else { return true };
        let Upload { session, size, granted, bytes, hash, .. } = *upload;
        if granted.breaks {
            return line.say(broken_by_fault()).await;
        }
        if bytes.len() as u64 != size || hash.finalize()[..] != sha256 {
            let text = "the bytes are not what was said".into();
            return line.say(NetworkTransfer::Refused { code: BAD_MEDIA, text }).await;
        }
        let shared = Arc::clone(&self.shared);
        self.answer(line, |line, _| async move {
            tokio::time::sleep(granted.delay).await;
            let bytes = bytes.freeze();
            // A failure means that the connection is gone, and nobody waits any more.
            let stored = shared.with(|engine, now| engine.finish_upload(now, session, sha256, bytes));
            let _ = line.say(stored.map_or_else(|refusal| refusal, NetworkTransfer::Stored)).await;
        });
        true
    }

    async fn begin_download(&mut self, session: SessionId, line: Line, handle: &MediaHandle) -> bool {
        match self.shared.with(|engine, now| engine.begin_download(now, session, handle)) {
            Ok((granted, sha256, bytes)) => {
                self.answer(line, |line, room| async move {
                    tokio::time::sleep(granted.delay).await;
                    if give(&line, &room, bytes, granted.breaks).await {
                        // A failure means that the connection is gone.
                        let _ = line.say(NetworkTransfer::Finish { sha256 }).await;
                    }
                });
                true
            }
            Err(refusal) => line.say(refusal).await,
        }
    }

    /// Starts the task that answers a transfer and ends with the connection.
    fn answer<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        line: Line,
        task: impl FnOnce(Line, Arc<Semaphore>) -> F,
    ) {
        let room = Arc::new(Semaphore::new(TRANSFER_WINDOW as usize));
        let transfer = line.transfer;
        let task = AbortOnDropHandle::new(self.shared.tasks.spawn(task(line, Arc::clone(&room))));
        self.running.insert(transfer, Running::Answering { room, task });
    }
}

fn broken_by_fault() -> NetworkTransfer {
    NetworkTransfer::Broken("broken off by fault".into())
}

/// Sends bytes as the node grants room; `false` if not all were sent.
async fn give(line: &Line, room: &Semaphore, mut bytes: Bytes, breaks: bool) -> bool {
    let enough = if breaks { bytes.len() / 2 } else { 0 };
    while bytes.len() > enough {
        let Ok(Ok(place)) = tokio::time::timeout(SILENCE, room.acquire()).await else { return false };
        place.forget();
        let piece = bytes.split_to(bytes.len().min(MEDIA_PIECE));
        if !line.say(NetworkTransfer::Piece(piece)).await {
            return false;
        }
    }
    if breaks {
        // A failure means that the connection is gone.
        let _ = line.say(broken_by_fault()).await;
    }
    !breaks
}

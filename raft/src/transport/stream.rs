//! Write half of a connection, the same on both sides.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::Class;
use super::frame::{self, Kind, MAX_FRAME, Message};

/// A frame is closed once it reaches this size; a single message may be larger.
const FULL: usize = 256 << 10;
/// Larger buffers are released after use.
const KEEP: usize = 1 << 20;

/// A message to be sent.
pub(super) struct Outgoing {
    pub(super) message: Message,
    /// How long it may wait for others to share its frame. Zero sends it, and all queued messages, at once.
    pub(super) patience: Duration,
}

impl Outgoing {
    pub(super) fn new(kind: Kind, id: u64, service: u16, body: Bytes, patience: Duration) -> Self {
        Self { message: Message { kind, id, service, body }, patience }
    }
}

/// Writes the queue's messages until the queue ends or the stream fails. Skips messages that are no longer `wanted`
/// when their turn comes: on a slow link, cancelled requests would delay those that replace them.
///
/// For calls, the task yields before it closes a frame, so that ready tasks enqueue theirs first: a frame costs the
/// same for one message or many. Raft's messages do not wait for other tasks, which may be applying entries.
pub(super) async fn write(
    class: Class,
    stream: &mut (impl AsyncWrite + Unpin),
    first: Option<Outgoing>,
    queue: &mut mpsc::Receiver<Outgoing>,
    wanted: impl Fn(&Message) -> bool,
) -> std::io::Result<()> {
    let mut frame = BytesMut::with_capacity(16 << 10);
    // A message that did not fit into the previous frame.
    let mut carried = first;
    loop {
        let next = if carried.is_some() { carried.take() } else { queue.recv().await };
        let Some(first) = next else { return Ok(()) };
        if class == Class::Call {
            tokio::task::yield_now().await;
        }
        if !wanted(&first.message) {
            continue;
        }
        frame::begin(&mut frame);
        frame::push(&mut frame, &first.message);
        let mut patience = first.patience;
        let mut until = Instant::now() + patience;
        while frame.len() < FULL {
            let next = match patience.is_zero() {
                true => queue.try_recv().ok(),
                false => timeout_at(until, queue.recv()).await.unwrap_or_default(),
            };
            let next = match next {
                Some(next) if wanted(&next.message) => next,
                Some(_) => continue,
                // Messages that were queued during the wait go along.
                None if !patience.is_zero() => {
                    patience = Duration::ZERO;
                    continue;
                }
                None => break,
            };
            if frame.len() + frame::size(&next.message) > MAX_FRAME {
                carried = Some(next);
                break;
            }
            frame::push(&mut frame, &next.message);
            patience = patience.min(next.patience);
            until = until.min(Instant::now() + patience);
        }
        frame::end(&mut frame);
        stream.write_all(&frame).await?;
        stream.flush().await?;
        if frame.capacity() > KEEP {
            frame = BytesMut::with_capacity(16 << 10);
        }
        frame.clear();
    }
}

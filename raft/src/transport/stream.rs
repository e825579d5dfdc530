//! The writing half of a connection, the same on both sides.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::frame::{self, Kind, Message};

/// A frame is closed when it holds that much; one message may be larger.
const FULL: usize = 256 << 10;
/// A buffer that grew for a large message is not kept.
const KEEP: usize = 1 << 20;

/// A message on its way out.
pub(super) struct Outgoing {
    pub(super) message: Message,
    /// How long it may wait for others to share its frame. Zero sends it, and all that waits, at once.
    pub(super) patience: Duration,
}

impl Outgoing {
    pub(super) fn new(kind: Kind, id: u64, service: u16, body: Bytes, patience: Duration) -> Self {
        Self { message: Message { kind, id, service, body }, patience }
    }
}

/// Writes what comes through the queue until the queue ends or the stream fails.
pub(super) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    first: Option<Outgoing>,
    queue: &mut mpsc::Receiver<Outgoing>,
) -> std::io::Result<()> {
    let mut frame = BytesMut::with_capacity(16 << 10);
    let mut carried = first;
    loop {
        let first = match carried.take() {
            Some(first) => first,
            None => match queue.recv().await {
                Some(first) => first,
                None => return Ok(()),
            },
        };
        frame::begin(&mut frame);
        frame::push(&mut frame, &first.message);
        let mut patience = first.patience;
        let mut until = Instant::now() + patience;
        while !patience.is_zero() && frame.len() < FULL {
            let Ok(Some(next)) = timeout_at(until, queue.recv()).await else { break };
            frame::push(&mut frame, &next.message);
            patience = next.patience;
            until = until.min(Instant::now() + patience);
        }
        while frame.len() < FULL
            && let Ok(next) = queue.try_recv()
        {
            frame::push(&mut frame, &next.message);
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

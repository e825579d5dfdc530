//! The server that nodes connect to: one multiplexed connection a node.
//!
//! A connection has a reader and a writer. The engine hands frames to the writer through a bounded queue and never
//! waits: a node that does not read long enough for its queue to fill is cut, and slows nobody else.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at};

use super::Shared;
use super::engine::ConnectionId;
use crate::wire::{FrameReader, NetworkFrame, NodeFrame, encode};

/// How many frames may wait for a node: a paused one keeps its connection through some 1,000 full event windows.
const QUEUE: usize = 65_536;

/// How often a node is pinged, and after which silence it counts as gone. A node that is merely stopped for a while
/// must keep its connection: its sessions end by fencing, as they would in the real network.
const PING_EVERY: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(90);

/// The engine's end of a connection's queue. When it is dropped, the connection is closed.
pub struct Outlet {
    queue: mpsc::Sender<NetworkFrame>,
}

impl Outlet {
    /// Queues a frame; false when there is no room.
    pub fn offer(&self, frame: NetworkFrame) -> bool {
        !matches!(self.queue.try_send(frame), Err(mpsc::error::TrySendError::Full(_)))
    }
}

/// Takes connections until the simulator stops.
pub async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                shared.tasks.spawn(serve(Arc::clone(&shared), stream));
            }
            Err(error) => {
                // Mostly: out of file descriptors. Others will close some.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let connection = shared.next_number();
    let (queue, frames) = mpsc::channel(QUEUE);
    shared.core.lock().outlets.insert(connection, Outlet { queue });
    let (source, sink) = stream.into_split();
    let ended = tokio::select! {
        ended = read(&shared, connection, source) => ended,
        ended = write(frames, sink) => ended,
        () = shared.stop.cancelled() => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!(connection, %error, "a node's connection broke");
    }
    shared.core.lock().outlets.remove(&connection);
    shared.with(|engine, now| engine.disconnected(now, connection));
}

async fn read(shared: &Shared, connection: ConnectionId, source: OwnedReadHalf) -> std::io::Result<()> {
    let mut frames = FrameReader::new(source);
    let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            frame = frames.next::<NodeFrame>() => {
                let Some(frame) = frame? else { return Ok(()) };
                heard = Instant::now();
                shared.with(|engine, now| engine.frame(now, connection, frame));
            }
            _ = pings.tick() => {
                if heard.elapsed() > SILENCE {
                    return Err(std::io::ErrorKind::TimedOut.into());
                }
                if let Some(outlet) = shared.core.lock().outlets.get(&connection) {
                    outlet.offer(NetworkFrame::Ping);
                }
            }
        }
    }
}

/// Writes what is queued; ends when the queue is closed and empty.
async fn write(mut frames: mpsc::Receiver<NetworkFrame>, mut sink: OwnedWriteHalf) -> std::io::Result<()> {
    let mut batch = Vec::new();
    let mut bytes = BytesMut::new();
    while frames.recv_many(&mut batch, 256).await > 0 {
        for frame in batch.drain(..) {
            bytes.extend_from_slice(&encode(&frame)?);
        }
        sink.write_all(&bytes).await?;
        bytes.clear();
    }
    sink.shutdown().await
}

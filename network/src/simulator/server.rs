//! The server that nodes connect to, with one multiplexed connection per node.
//!
//! A connection has a reader and a writer. The engine hands frames to the writer through a bounded queue and never
//! waits. When a node writes faster than it reads, the server stops reading from it until its queue has room; frames
//! caused by others can still fill the queue, and then the node is disconnected. No other node is slowed down in either
//! case. Media waits in a queue of its own; at most one piece is written between frames of sessions.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, interval_at};

use super::Shared;
use super::engine::ConnectionId;
use super::transfers::{MEDIA_QUEUE, Transfers};
use crate::wire::{FrameReader, NetworkFrame, NodeFrame, encode};

/// Queue size per node, in frames: a paused node keeps its connection through some 1,000 full event windows.
const QUEUE: usize = 65_536;

/// Minimum free space in its queue, in frames, for a node to be read from.
const ROOM: usize = QUEUE / 2;

/// Ping interval, and the silence after which a node counts as gone. A node that is merely paused must keep its
/// connection: its sessions end by fencing, as they would in a real network.
const PING_EVERY: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(90);

/// The engine's end of a connection's queue. Dropping it closes the connection.
pub type Outlet = mpsc::Sender<NetworkFrame>;

/// The reader's view of its own connection's queue.
struct Own<'a> {
    /// Weak, so that the connection closes when the engine drops its end.
    queue: mpsc::WeakSender<NetworkFrame>,
    /// Notified when the writer has taken frames out.
    drained: &'a Notify,
}

/// Accepts connections until the simulator stops.
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
                // Mostly out of file descriptors; wait for other connections to close.
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
    let drained = Notify::new();
    let own = Own { queue: queue.downgrade(), drained: &drained };
    shared.core.lock().outlets.insert(connection, queue);
    let (media_queue, media) = mpsc::channel(MEDIA_QUEUE);
    let transfers = Transfers::new(Arc::clone(&shared), connection, media_queue);
    let (source, sink) = stream.into_split();
    let ended = tokio::select! {
        ended = read(&shared, connection, &own, transfers, source) => ended,
        ended = write(frames, media, sink, &drained) => ended,
        () = shared.stop.cancelled() => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!(connection, %error, "a node's connection broke");
    }
    shared.core.lock().outlets.remove(&connection);
    shared.with(|engine, now| engine.disconnected(now, connection));
}

async fn read(
    shared: &Shared,
    connection: ConnectionId,
    own: &Own<'_>,
    mut transfers: Transfers,
    source: OwnedReadHalf,
) -> std::io::Result<()> {
    let mut frames = FrameReader::new(source);
    let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            frame = frames.next::<NodeFrame>() => {
                let Some(frame) = frame? else { return Ok(()) };
                heard = Instant::now();
                match frame {
                    NodeFrame::Transfer { session, transfer, frame } => {
                        transfers.take(session, transfer, frame).await?;
                    }
                    // A pong only shows that the node is alive.
                    NodeFrame::Pong => {}
                    frame => {
                        shared.with(|engine, now| engine.frame(now, connection, frame));
                        wait_for_room(own).await?;
                    }
                }
            }
            _ = pings.tick() => {
                if heard.elapsed() > SILENCE {
                    return Err(std::io::ErrorKind::TimedOut.into());
                }
                if let Some(queue) = own.queue.upgrade() {
                    // A full queue needs no ping: the node has frames to read already.
                    let _ = queue.try_send(NetworkFrame::Ping);
                }
            }
        }
    }
}

/// Waits until the node's queue has room; fails if the node reads nothing for [`SILENCE`].
async fn wait_for_room(own: &Own<'_>) -> std::io::Result<()> {
    while own.queue.upgrade().is_some_and(|queue| queue.capacity() < ROOM) {
        // Do not reserve a permit: that would take room from the engine, which would then see a full queue.
        if tokio::time::timeout(SILENCE, own.drained.notified()).await.is_err() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

/// Writes queued frames; ends when the sessions' queue is closed and empty.
async fn write(
    mut frames: mpsc::Receiver<NetworkFrame>,
    mut media: mpsc::Receiver<NetworkFrame>,
    mut sink: OwnedWriteHalf,
    drained: &Notify,
) -> std::io::Result<()> {
    let mut batch = Vec::new();
    let mut bytes = BytesMut::new();
    loop {
        tokio::select! {
            biased;
            taken = frames.recv_many(&mut batch, 256) => {
                if taken == 0 {
                    return sink.shutdown().await;
                }
                // Under steady load the sessions' frames never end, and media must get through as well.
                batch.extend(media.try_recv());
            }
            Some(frame) = media.recv() => batch.push(frame),
        }
        for frame in batch.drain(..) {
            bytes.extend_from_slice(&encode(&frame)?);
        }
        sink.write_all(&bytes).await?;
        bytes.clear();
        drained.notify_one();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use bytes::Bytes;
    use model::address::Address;
    use model::id::MessageId;
    use model::message::Content;
    use tokio::net::tcp::OwnedReadHalf;

    use super::*;
    use crate::driver::Outbound;
    use crate::simulator::Simulator;
    use crate::simulator::answers::{LinkBy, RegisterPhone};
    use crate::wire::{SessionFrame, WIRE_VERSION};

    async fn next(frames: &mut FrameReader<OwnedReadHalf>) -> SessionFrame {
        match frames.next().await.unwrap().unwrap() {
            NetworkFrame::Session { frame, .. } => frame,
            other => panic!("{other:?}"),
        }
    }

    /// Connects as a node, pairs a channel and logs it in as session 1.
    async fn logged_in(simulator: &Simulator) -> (FrameReader<OwnedReadHalf>, OwnedWriteHalf) {
        simulator.register(&RegisterPhone { number: "15550000001".into(), settings: Default::default() }).unwrap();
        let stream = TcpStream::connect(simulator.network_address()).await.unwrap();
        let (source, mut sink) = stream.into_split();
        let mut frames = FrameReader::new(source);
        let hello = NodeFrame::Hello { version: WIRE_VERSION, node: 1 };
        let pair = NodeFrame::Pair { session: 1, epoch: 1, device_name: String::new(), full_history: false };
        sink.write_all(&[encode(&hello).unwrap(), encode(&pair).unwrap()].concat()).await.unwrap();
        assert_eq!(frames.next().await.unwrap(), Some(NetworkFrame::Welcome));
        let SessionFrame::Qr { raw, .. } = next(&mut frames).await else { panic!("no QR text") };
        let linking = {
            let simulator = simulator.clone();
            tokio::spawn(async move { simulator.link("15550000001", LinkBy::Raw(raw)).await })
        };
        let credentials: Bytes = match next(&mut frames).await {
            SessionFrame::Credentials { credentials, .. } => credentials,
            other => panic!("{other:?}"),
        };
        let stored = encode(&NodeFrame::Stored { session: 1 }).unwrap();
        let login = encode(&NodeFrame::Login { session: 1, epoch: 1, credentials }).unwrap();
        sink.write_all(&[stored, login].concat()).await.unwrap();
        linking.await.unwrap().unwrap();
        assert_eq!(next(&mut frames).await, SessionFrame::Linked);
        assert!(matches!(next(&mut frames).await, SessionFrame::LoggedIn(_)));
        (frames, sink)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_node_that_writes_faster_than_it_reads_is_slowed_and_not_cut() {
        const SENDS: usize = 2 * QUEUE;
        let simulator =
            Simulator::start("127.0.0.1:0".parse().unwrap(), "127.0.0.1:1".parse().unwrap(), 1.0).await.unwrap();
        let (mut frames, mut sink) = logged_in(&simulator).await;
        let writer = tokio::spawn(async move {
            for n in 0..SENDS {
                let id = MessageId(n.to_string());
                let to = Address::parse("15550000001@s.example").unwrap();
                let content = Content::Text { text: String::new() };
                let send = NodeFrame::send(1, Outbound { id, to, content, around: Default::default() });
                sink.write_all(&encode(&send).unwrap()).await.unwrap();
            }
            sink
        });
        // The test reads nothing until the queue is as full as it may become.
        let deadline = Instant::now() + Duration::from_secs(30);
        while simulator.stats().accepted < (ROOM / 2) as u64 {
            assert!(Instant::now() < deadline, "in vain");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let mut accepted = 0;
        while accepted < SENDS {
            accepted += usize::from(matches!(next(&mut frames).await, SessionFrame::Accepted { .. }));
        }
        drop(writer.await.unwrap());
        assert_eq!(simulator.stats().accepted, SENDS as u64);
        simulator.shutdown().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn bytes_that_are_no_frames_end_the_connection_and_its_sessions() {
        let simulator =
            Simulator::start("127.0.0.1:0".parse().unwrap(), "127.0.0.1:1".parse().unwrap(), 1.0).await.unwrap();
        let (mut frames, mut sink) = logged_in(&simulator).await;
        sink.write_all(&[0xFF; 64]).await.unwrap();
        assert!(!matches!(frames.next::<NetworkFrame>().await, Ok(Some(_))));
        let deadline = Instant::now() + Duration::from_secs(10);
        while simulator.stats().sessions > 0 {
            assert!(Instant::now() < deadline, "in vain");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

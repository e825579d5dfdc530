//! Connections of clients: WebSocket, Noise responder, frames of binary stanzas.

mod noise;

use std::sync::Arc;
use std::time::Duration;

use buffa::Message as _;
use bytes::{Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_websockets::{Limits, Message, ServerBuilder, WebSocketStream};
use wacore::framing::{FrameDecoder, encode_frame};
use wacore::noise::NoiseCipher;
use wacore_binary::consts::WA_CONN_HEADER;
use wacore_binary::{Node, OwnedNodeRef};
use waproto::whatsapp::ClientPayload;

pub use self::noise::{Resumption, ServerKeys};
use crate::Shared;
use crate::ledger::ClientPort;
use crate::login::Newcomer;

/// Path that clients connect to.
const PATH: &str = "/ws/chat";

/// Timeout of the handshake, from the accepted connection.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// How long late stanzas on an ended connection are counted.
const LINGER: Duration = Duration::from_secs(60);

/// Size limit of a WebSocket message: a frame of 16 MiB and its header.
const MAX_MESSAGE: usize = 17 * 1024 * 1024;

/// Maximum number of queued stanzas for a client that does not read; beyond it, the client is disconnected.
const OUTLET: usize = 16_384;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 20_000;

/// Commands to a connection's writer.
pub enum Outgoing {
    Stanza(Node),
    /// Closes the stream after everything queued before it was written.
    Close,
}

/// Handle with which the state writes to a connection.
#[derive(Clone)]
pub struct Outlet {
    queue: mpsc::Sender<Outgoing>,
    cut: CancellationToken,
}

impl Outlet {
    /// Queues a stanza. A client that does not read is disconnected, so that nothing waits for it.
    pub fn send(&self, stanza: Node) {
        self.offer(Outgoing::Stanza(stanza));
    }

    pub fn close(&self) {
        self.offer(Outgoing::Close);
    }

    /// Closes the connection at once.
    pub fn cut(&self) {
        self.cut.cancel();
    }

    fn offer(&self, outgoing: Outgoing) {
        if self.queue.try_send(outgoing).is_err() {
            self.cut.cancel();
        }
    }
}

/// The session's owner, from the headers of the upgrade.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller {
    pub node: u64,
    pub epoch: u64,
}

#[derive(Debug, thiserror::Error)]
enum WireError {
    #[error("the WebSocket broke: {0}")]
    WebSocket(#[from] tokio_websockets::Error),
    #[error("the client went away")]
    Gone,
    #[error("the client sent what is no handshake: {0}")]
    Handshake(&'static str),
    #[error("the handshake's cryptography failed: {0}")]
    Noise(String),
    #[error("a frame cannot be read: {0}")]
    Frame(String),
}

/// Accepts connections until the server stops.
pub async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, from)) if shared.with(|state| state.connections.len()) < MAX_CONNECTIONS => {
                shared.with(|state| state.ledger.sources.note(ClientPort::Chat, from.ip()));
                let connection = serve(stream, Arc::clone(&shared));
                let stop = shared.stop.clone();
                shared.tasks.spawn(async move {
                    tokio::select! {
                        served = connection => if let Err(error) = served {
                            tracing::debug!(%error, "a connection ended");
                        },
                        () = stop.cancelled() => {}
                    }
                });
            }
            Ok(_) => tracing::warn!("a connection was turned away: there are {MAX_CONNECTIONS}"),
            Err(error) => {
                // Usually there are too many open files; the next attempt may succeed.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) -> Result<(), WireError> {
    let opened = tokio::time::timeout(HANDSHAKE_WITHIN, open(stream, &shared)).await;
    let (caller, payload, key, mut source, sink, (reader, writer)) =
        opened.map_err(|_| WireError::Handshake("it took more than 10 s"))??;
    let delay = shared.with(|state| state.faults.login_delay());
    tokio::time::sleep(delay).await;
    let (queue, outgoing) = mpsc::channel(OUTLET);
    // Shutdown must also end the writer, even if no task cancels it.
    let cut = shared.stop.child_token();
    let outlet = Outlet { queue, cut: cut.clone() };
    let writing = shared.tasks.spawn(write(sink, writer, outgoing, cut.clone()));
    let connection = shared.with(|state| state.arrive(Newcomer { caller, payload, key }, outlet));
    let read = async {
        let mut counter = 0;
        while let Some(mut frame) = source.frame().await? {
            reader
                .decrypt_in_place_with_counter(counter, &mut frame)
                .map_err(|error| WireError::Frame(error.to_string()))?;
            counter += 1;
            let bytes =
                wacore_binary::util::unpack_bytes(frame).map_err(|error| WireError::Frame(error.to_string()))?;
            let stanza = OwnedNodeRef::new(bytes).map_err(|error| WireError::Frame(error.to_string()))?;
            shared.with(|state| state.take(connection, stanza.get()));
        }
        Ok::<(), WireError>(())
    };
    let read = tokio::select! {
        // A cut also ends the writer, so it must be polled first; otherwise the client would be left with a half-open
        // connection.
        biased;
        () = cut.cancelled() => Ok(()),
        read = read => read,
        // The stream has ended. The client may not know that yet; what it still writes is counted for a while.
        _ = writing => {
            let _ = tokio::time::timeout(LINGER, async {
                while let Ok(Some(_)) = source.frame().await {
                    shared.with(|state| state.count_late_write());
                }
            }).await;
            Ok(())
        }
    };
    cut.cancel();
    shared.with(|state| state.leave(connection));
    read
}

type Opened = (
    Caller,
    ClientPayload,
    [u8; 32],
    Source,
    SplitSink<WebSocketStream<TcpStream>, Message>,
    (NoiseCipher, NoiseCipher),
);

async fn open(stream: TcpStream, shared: &Shared) -> Result<Opened, WireError> {
    // Tests measure latency on this connection; a broken stream fails at its first use.
    let _ = stream.set_nodelay(true);
    let limits = Limits::default().max_payload_len(Some(MAX_MESSAGE));
    let (request, socket) = ServerBuilder::new().limits(limits).accept(stream).await?;
    if request.uri().path() != PATH {
        return Err(WireError::Handshake("the path is not /ws/chat"));
    }
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.and_then(|value| value.parse().ok()).unwrap_or_default()
    };
    let caller = Caller { node: header("x-gateway-node"), epoch: header("x-gateway-epoch") };
    let (mut sink, stream) = socket.split();
    let mut source = Source { stream, frames: FrameDecoder::new() };
    source.introduction().await?;
    let hello = source.frame().await?.ok_or(WireError::Gone)?;
    let (keys, resumption) = shared.with(|state| (state.keys.clone(), state.faults.ik));
    let responder = noise::Responder::answer(&keys, &hello, resumption)?;
    let answer = encode_frame(&responder.hello().encode_to_vec(), None).expect("a hello is small");
    sink.send(Message::binary(Bytes::from(answer))).await?;
    let established = match responder {
        noise::Responder::Resumed(established, _) => *established,
        noise::Responder::Fresh(fresh) => {
            let finish = source.frame().await?.ok_or(WireError::Gone)?;
            fresh.finish(&finish)?
        }
    };
    let noise::Established { payload, client_key, reader, writer } = established;
    Ok((caller, payload, client_key, source, sink, (reader, writer)))
}

async fn write(
    mut sink: SplitSink<WebSocketStream<TcpStream>, Message>,
    cipher: NoiseCipher,
    mut outgoing: mpsc::Receiver<Outgoing>,
    cut: CancellationToken,
) {
    let writing = async {
        let mut counter = 0;
        while let Some(Outgoing::Stanza(stanza)) = outgoing.recv().await {
            let plain = wacore_binary::marshal(&stanza).expect("the server's stanzas can be written");
            let sealed = cipher.encrypt_with_counter(counter, &plain).expect("AES-GCM takes what fits in memory");
            counter += 1;
            let Ok(frame) = encode_frame(&sealed, None) else {
                tracing::error!(tag = %stanza.tag, "a stanza is larger than a frame may be");
                return;
            };
            if sink.send(Message::binary(Bytes::from(frame))).await.is_err() {
                return;
            }
        }
        // The client may be gone already.
        let _ = sink.close().await;
    };
    tokio::select! {
        () = writing => {}
        () = cut.cancelled() => {}
    }
}

/// Reader of frames.
struct Source {
    stream: SplitStream<WebSocketStream<TcpStream>>,
    frames: FrameDecoder,
}

impl Source {
    /// Reads the optional routing information and the protocol's header.
    async fn introduction(&mut self) -> Result<(), WireError> {
        let mut head = BytesMut::new();
        loop {
            let start = match head.as_ref() {
                [b'E', b'D', 0, 1, a, b, c, ..] => 7 + (usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c)),
                [b'E', ..] => usize::MAX,
                _ => 0,
            };
            if let Some(rest) = head.get(start..).filter(|rest| rest.len() >= WA_CONN_HEADER.len()) {
                let rest = rest.strip_prefix(&WA_CONN_HEADER);
                let rest = rest.ok_or(WireError::Handshake("the head is that of another protocol"))?;
                self.frames.feed(rest);
                return Ok(());
            }
            if head.len() > MAX_MESSAGE {
                return Err(WireError::Handshake("the routing information is too long"));
            }
            head.extend_from_slice(&self.bytes().await?.ok_or(WireError::Gone)?);
        }
    }

    /// The next frame; `None` at the end of the stream.
    async fn frame(&mut self) -> Result<Option<BytesMut>, WireError> {
        loop {
            if let Some(frame) = self.frames.decode_frame() {
                return Ok(Some(frame));
            }
            match self.bytes().await? {
                Some(bytes) => self.frames.feed(&bytes),
                None => return Ok(None),
            }
        }
    }

    async fn bytes(&mut self) -> Result<Option<Bytes>, WireError> {
        loop {
            match self.stream.next().await {
                None => return Ok(None),
                Some(message) => {
                    let message = message?;
                    if message.is_binary() {
                        return Ok(Some(Bytes::from(message.into_payload())));
                    }
                    if message.is_close() {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

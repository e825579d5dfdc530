//! The transport to the network. No byte leaves before earlier state is durable, or after the fence has passed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_channel::{Receiver, Sender};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use hyper::header::{HeaderName, HeaderValue};
use network::driver::EndReason;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_websockets::Message;
use wacore::net::{DisconnectReason, Transport, TransportEvent, TransportFactory};
use wacore::store::traits::DeviceStore;
use whatsapp_rust::store::Device;
use whatsapp_rust::store::persistence_manager::PersistenceManager;

use super::dial::{self, Endpoint, Stream, Way};
use crate::failpoint::{Bug, Point, has, reach};
use crate::line::Line;
use crate::state::backend::Backend;
use crate::state::keys;

/// How long bytes may wait for a quorum, and for the socket, before the session is cut.
const DURABLE_WITHIN: Duration = Duration::from_secs(5);
const WRITTEN_WITHIN: Duration = Duration::from_secs(20);

/// Frames that may wait for the library.
const READ_AHEAD: usize = 64;

/// Opens the connections of a session, up to its limit.
pub struct Dialler {
    pub line: Arc<Line>,
    pub backend: Arc<Backend>,
    pub devices: Arc<PersistenceManager>,
    pub endpoint: Endpoint,
    pub way: Arc<Way>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Connections that are left: one for each login.
    pub dials: AtomicU32,
}

#[async_trait]
impl TransportFactory for Dialler {
    async fn create_transport(&self) -> anyhow::Result<(Arc<dyn Transport>, Receiver<TransportEvent>)> {
        self.line.may_speak()?;
        let left = self.dials.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        anyhow::ensure!(left.is_ok(), "this session has had its connections");
        reach(Point::BeforeDial);
        let (stream, hold) =
            dial::dial(&self.way, &self.endpoint, self.headers.clone()).await.inspect_err(|error| {
                self.line.note_end(EndReason::Transport(error.to_string()));
            })?;
        self.line.hold_socket(hold)?;
        let (sink, source) = stream.split();
        let (events, received) = async_channel::bounded(READ_AHEAD);
        let closed = self.line.stopped().child_token();
        let transport = Gate {
            line: Arc::clone(&self.line),
            backend: Arc::clone(&self.backend),
            devices: Arc::clone(&self.devices),
            seen: Mutex::new(Weak::new()),
            pairs: !self.backend.log().has(keys::DEVICE),
            sink: tokio::sync::Mutex::new(Some(sink)),
            closed: closed.clone(),
        };
        events.try_send(TransportEvent::Connected)?;
        tokio::spawn(read(source, events, closed, Arc::clone(&self.line)));
        Ok((Arc::new(transport), received))
    }
}

async fn read(
    mut source: SplitStream<Stream>,
    events: Sender<TransportEvent>,
    closed: CancellationToken,
    line: Arc<Line>,
) {
    let reason = loop {
        let next = tokio::select! {
            next = source.next() => next,
            () = closed.cancelled() => break DisconnectReason::Unknown,
        };
        match next {
            None => break DisconnectReason::StreamEnded,
            Some(Err(error)) => break DisconnectReason::ReadError(error.to_string()),
            Some(Ok(message)) if message.is_binary() => {
                // The library's store calls queue items, too: reading pauses until the inbox has room for more.
                if line.room_for_more().await.is_err() {
                    break DisconnectReason::Unknown;
                }
                let bytes = Bytes::from(message.into_payload());
                if events.send(TransportEvent::DataReceived(bytes)).await.is_err() {
                    return;
                }
            }
            Some(Ok(message)) => {
                if let Some((code, reason)) = message.as_close() {
                    break DisconnectReason::ServerClose { code: Some(code.into()), reason: reason.to_owned() };
                }
            }
        }
    };
    // The library may no longer listen.
    let _ = events.send(TransportEvent::Disconnected(reason)).await;
}

/// The sending side of a connection.
struct Gate {
    line: Arc<Line>,
    backend: Arc<Backend>,
    devices: Arc<PersistenceManager>,
    /// The device at the last write. A changed device is stored before the next one.
    seen: Mutex<Weak<Device>>,
    /// Whether the device had no identity when this connection was opened.
    pairs: bool,
    sink: tokio::sync::Mutex<Option<SplitSink<Stream, Message>>>,
    closed: CancellationToken,
}

impl Gate {
    /// Stores the device if it has changed since the last write. The library would save it later, in a task of its own.
    async fn store_device(&self) -> anyhow::Result<()> {
        let now = self.devices.get_device_snapshot();
        if Weak::as_ptr(&self.seen.lock()) == Arc::as_ptr(&now) {
            return Ok(());
        }
        self.backend.save(&now.to_serializable()).await?;
        *self.seen.lock() = Arc::downgrade(&now);
        Ok(())
    }

    /// Returns when all state that outgoing bytes may depend on is on a quorum.
    async fn make_durable(&self) -> anyhow::Result<()> {
        if self.pairs && has(Bug::SignBeforeCommit) || has(Bug::WireBeforeLog) {
            return Ok(());
        }
        self.store_device().await?;
        let durable = async {
            self.line.ratchets().append().await?;
            Ok(self.backend.log().barrier().await?)
        };
        match tokio::time::timeout(DURABLE_WITHIN, durable).await {
            Ok(durable) => durable,
            Err(_) => {
                self.line.cut(EndReason::Transport("the session's state could not be stored in time".into()));
                anyhow::bail!("the session's state could not be stored in time")
            }
        }
    }
}

#[async_trait]
impl Transport for Gate {
    async fn send(&self, data: Bytes) -> anyhow::Result<()> {
        self.line.may_speak()?;
        self.make_durable().await?;
        reach(Point::WireBeforeWrite);
        let mut sink = self.sink.lock().await;
        self.line.may_speak()?;
        let sink = sink.as_mut().ok_or_else(|| anyhow::anyhow!("the connection is closed"))?;
        let written = tokio::select! {
            written = tokio::time::timeout(WRITTEN_WITHIN, sink.send(Message::binary(data))) => written,
            () = self.closed.cancelled() => anyhow::bail!("the connection is closed"),
        };
        reach(Point::WireAfterWrite);
        match written {
            Ok(written) => Ok(written?),
            Err(_) => {
                self.line.cut(EndReason::Transport("the network takes no bytes".into()));
                anyhow::bail!("the network takes no bytes")
            }
        }
    }

    async fn disconnect(&self) {
        if let Some(mut sink) = self.sink.lock().await.take()
            && self.line.may_speak().is_ok()
        {
            // The peer may be gone already. `close` would wait for the answer, which the reading half takes.
            let _ = tokio::time::timeout(Duration::from_secs(1), sink.send(Message::close(None, ""))).await;
        }
        self.closed.cancel();
    }
}

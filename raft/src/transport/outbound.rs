//! Client side: one connection to one peer for one class of traffic, made when it is first needed.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use model::id::NodeId;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::client::TlsStream;

use super::frame::{self, FrameError, Kind, Message};
use super::hello::{self, Answer as HelloAnswer, Hello, HelloError};
use super::stream::{self, Outgoing};
use super::{Class, HANDSHAKE, Judged, PeerError, Shared, Way, tls};
use crate::failpoint::{self, Wire};
use crate::supervise;
use crate::telemetry;

/// Capacity of the queue of messages. When it is full, calls fail as busy instead of waiting.
const QUEUE: usize = 8192;
const BACKOFF_MIN: Duration = Duration::from_millis(20);
/// A peer that comes back is reconnected within this time.
const BACKOFF_MAX: Duration = Duration::from_millis(200);

/// Calls that wait for an answer.
#[derive(Default)]
struct Waiting {
    calls: Mutex<HashMap<u64, oneshot::Sender<Result<Bytes, PeerError>>>>,
}

impl Waiting {
    fn complete(&self, id: u64, result: Result<Bytes, PeerError>) {
        // If the call is gone, its caller has given up.
        if let Some(call) = self.calls.lock().remove(&id) {
            let _ = call.send(result);
        }
    }

    fn fail_all(&self, error: &PeerError) {
        let calls = std::mem::take(&mut *self.calls.lock());
        for call in calls.into_values() {
            let _ = call.send(Err(error.clone()));
        }
    }

    /// Whether a message that is about to be sent is still wanted: the caller of a request may have given up.
    fn wants(&self, message: &Message) -> bool {
        message.kind != Kind::Request || self.calls.lock().contains_key(&message.id)
    }

    fn is_empty(&self) -> bool {
        self.calls.lock().is_empty()
    }
}

/// The answer to an enqueued call. Dropping it cancels the call unless it has been sent.
pub(crate) struct Answer {
    id: u64,
    waiting: Arc<Waiting>,
    result: oneshot::Receiver<Result<Bytes, PeerError>>,
}

impl Future for Answer {
    type Output = Result<Bytes, PeerError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result)
            .poll(context)
            .map(|result| result.unwrap_or_else(|_| Err(PeerError::Unreachable("shut down".into()))))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.waiting.calls.lock().remove(&self.id);
    }
}

/// Handle of a connection.
pub(super) struct Link {
    queue: mpsc::Sender<Outgoing>,
    waiting: Arc<Waiting>,
    next: AtomicU64,
    /// After a failure to connect: until when calls fail at once, and the error.
    down: Arc<Mutex<Option<(Instant, PeerError)>>>,
}

impl Link {
    pub(super) fn start(shared: &Arc<Shared>, peer: NodeId, class: Class) -> Arc<Self> {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let waiting = Arc::new(Waiting::default());
        let down = Arc::new(Mutex::new(None));
        let link = Arc::new(Self { queue, waiting: waiting.clone(), next: AtomicU64::new(1), down: down.clone() });
        let keeper = Keeper {
            shared: shared.clone(),
            peer,
            class,
            pings: link.queue.downgrade(),
            queue: receiver,
            waiting,
            down,
            last_trouble: None,
        };
        shared.tracker.spawn_on(keeper.run(), shared.runtime_of(class));
        link
    }

    /// Enqueues a call without waiting. Calls are sent in the order of these calls.
    pub(super) fn begin(&self, service: u16, body: Bytes, patience: Duration) -> Result<Answer, PeerError> {
        if let Some((until, error)) = &*self.down.lock()
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        if failpoint::is_cut(Wire::Peers) {
            return Err(PeerError::Unreachable("cut off by a failpoint".into()));
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (call, result) = oneshot::channel();
        self.waiting.calls.lock().insert(id, call);
        let answer = Answer { id, waiting: self.waiting.clone(), result };
        match self.queue.try_send(Outgoing::new(Kind::Request, id, service, body, patience)) {
            Ok(()) => Ok(answer),
            Err(mpsc::error::TrySendError::Full(_)) => Err(PeerError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(PeerError::Unreachable("shut down".into())),
        }
    }

    /// Sends queued messages at once, even those that may still wait to share a frame.
    pub(super) fn nudge(&self) {
        // If the queue is full, nothing in it is being delayed.
        let _ = self.queue.try_send(ping());
    }
}

fn ping() -> Outgoing {
    Outgoing::new(Kind::Ping, 0, 0, Bytes::new(), Duration::ZERO)
}

/// The task that maintains one connection.
struct Keeper {
    shared: Arc<Shared>,
    peer: NodeId,
    class: Class,
    queue: mpsc::Receiver<Outgoing>,
    pings: mpsc::WeakSender<Outgoing>,
    waiting: Arc<Waiting>,
    down: Arc<Mutex<Option<(Instant, PeerError)>>>,
    /// The error that was logged last: an unreachable peer is not logged at every attempt.
    last_trouble: Option<String>,
}

impl Keeper {
    async fn run(mut self) {
        let stop = self.shared.stop.clone();
        // On shutdown, waiting calls fail because their senders are dropped with the map.
        let keeping = async {
            // `None` after a panic: waiting calls fail, and the next call reconnects.
            while supervise::noticed("the connection to a peer", self.keep()).await.is_none() {
                self.waiting.fail_all(&PeerError::Unreachable("the connection failed here".into()));
                tokio::time::sleep(BACKOFF_MAX).await;
            }
        };
        let _ = stop.run_until_cancelled(keeping).await;
        self.waiting.fail_all(&PeerError::Unreachable("shut down".into()));
    }

    async fn keep(&mut self) {
        let mut backoff = BACKOFF_MIN;
        while let Some(first) = self.queue.recv().await {
            let connected = tokio::time::timeout(self.shared.connect_timeout * HANDSHAKE, self.connect()).await;
            let timed_out = |_| Err(PeerError::Unreachable("the handshake timed out".into()));
            let error = match connected.unwrap_or_else(timed_out) {
                Ok((connection, judged)) => {
                    self.note(None);
                    telemetry::peer_connected();
                    backoff = BACKOFF_MIN;
                    *self.down.lock() = None;
                    let shared = self.shared.clone();
                    tokio::select! {
                        error = self.talk(connection, first) => PeerError::Unreachable(error.to_string()),
                        reason = judged.refused(&shared) => PeerError::Refused(reason),
                    }
                }
                Err(error) => {
                    *self.down.lock() = Some((Instant::now() + backoff, error.clone()));
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                    error
                }
            };
            self.note(Some(&error));
            // Waiting calls fail now, and unsent messages are not sent later: their callers are told of the failure.
            self.waiting.fail_all(&error);
            // Calls that were enqueued since fail with their messages.
            while let Ok(unsent) = self.queue.try_recv() {
                self.waiting.complete(unsent.message.id, Err(error.clone()));
            }
        }
    }

    fn note(&mut self, trouble: Option<&PeerError>) {
        let (peer, class) = (self.peer, self.class);
        let text = trouble.map(ToString::to_string);
        if text == self.last_trouble {
            return;
        }
        match trouble {
            None => tracing::info!(peer, ?class, "connected to the peer"),
            Some(error) => tracing::warn!(peer, ?class, %error, "no connection to the peer"),
        }
        self.last_trouble = text;
    }

    async fn connect(&self) -> Result<(TlsStream<TcpStream>, Judged), PeerError> {
        let unreachable = |error: &dyn std::fmt::Display| PeerError::Unreachable(error.to_string());
        let address = (self.shared.lookup)(self.peer).ok_or_else(|| unreachable(&"its address is not known"))?;
        let socket = tokio::time::timeout(self.shared.connect_timeout, TcpStream::connect(&address)).await;
        let socket = socket.map_err(|_| unreachable(&format!("{address}: connecting timed out")))?;
        let socket = socket.map_err(|error| unreachable(&format!("{address}: {error}")))?;
        socket.set_nodelay(true).map_err(|error| unreachable(&error))?;
        let connector = self.shared.tls.read().connector.clone();
        let connected = connector.connect(tls::server_name(self.peer), socket).await;
        let mut stream = connected.map_err(|error| unreachable(&format!("{address}: {error}")))?;
        match self.greet(&mut stream).await {
            Ok(judged) => Ok((stream, judged)),
            Err(HelloError::Refused(reason)) => {
                telemetry::peer_refused();
                Err(PeerError::Refused(reason))
            }
            Err(error) => Err(unreachable(&error)),
        }
    }

    async fn greet(&self, stream: &mut TlsStream<TcpStream>) -> Result<Judged, HelloError> {
        let Shared { node, identity, election_min, .. } = &*self.shared;
        hello::send(stream, &Hello::new(*node, identity, *election_min, self.class)).await?;
        let theirs = match hello::receive(stream).await? {
            HelloAnswer::Welcome(theirs) => theirs,
            HelloAnswer::Refused(reason) => return Err(HelloError::Refused(reason)),
        };
        if theirs.node != self.peer {
            return Err(HelloError::Refused(format!("node {} answered for node {}", theirs.node, self.peer)));
        }
        let judged = Judged { hello: theirs, way: Way::Dialed };
        judged.judge(&self.shared).map_err(HelloError::Refused)?;
        Ok(judged)
    }

    /// Sends and receives until the connection fails; returns the error.
    async fn talk(&mut self, connection: TlsStream<TcpStream>, first: Outgoing) -> FrameError {
        let (mut reader, mut writer) = tokio::io::split(connection);
        let heard = Mutex::new(Instant::now());
        let read = async {
            let mut buffer = BytesMut::new();
            loop {
                // A large answer that arrives over a slow link counts as a sign of life.
                let goes_on = || *heard.lock() = Instant::now();
                let mut frame = match frame::read(&mut reader, &mut buffer, goes_on).await {
                    Ok(frame) => frame,
                    Err(error) => return error,
                };
                *heard.lock() = Instant::now();
                while let Some(message) = frame::next(&mut frame) {
                    match message {
                        Ok(message) => match message.kind {
                            Kind::Response => self.waiting.complete(message.id, Ok(message.body)),
                            Kind::Refusal => self.waiting.complete(message.id, Err(PeerError::decode(&message.body))),
                            Kind::Pong => {}
                            Kind::Request | Kind::Ping => return FrameError::Damaged,
                        },
                        Err(error) => return error,
                    }
                }
            }
        };
        let write = async {
            let wanted = |message: &Message| self.waiting.wants(message);
            let written = stream::write(self.class, &mut writer, Some(first), &mut self.queue, wanted).await;
            written.map_or_else(FrameError::Io, |()| FrameError::Closed)
        };
        tokio::select! {
            error = read => error,
            error = write => error,
            () = watch_silence(&heard, &self.waiting, &self.pings, self.shared.connect_timeout) => {
                FrameError::Io(std::io::ErrorKind::TimedOut.into())
            }
        }
    }
}

/// Returns when the peer has been silent for too long while it owed an answer.
///
/// Without this, calls would hang on a network partition, and after it heals they would wait for TCP's retransmission
/// backoff. Slow handlers do not count as silence, because the peer's connection task answers pings. Nor do slow links,
/// on which a ping waits behind a large request: the peer sends signs of life while parts of a frame arrive.
async fn watch_silence(
    heard: &Mutex<Instant>,
    waiting: &Waiting,
    pings: &mpsc::WeakSender<Outgoing>,
    connect_timeout: Duration,
) {
    let (tick, limit) = (connect_timeout, connect_timeout * 5);
    let mut owed_since: Option<Instant> = None;
    loop {
        tokio::time::sleep(tick).await;
        if waiting.is_empty() {
            owed_since = None;
            continue;
        }
        let last = *heard.lock();
        let since = (*owed_since.get_or_insert_with(Instant::now)).max(last);
        if since.elapsed() >= limit {
            return;
        }
        if last.elapsed() >= tick
            && let Some(queue) = pings.upgrade()
        {
            // If the queue is full, there is traffic enough.
            let _ = queue.try_send(ping());
        }
    }
}

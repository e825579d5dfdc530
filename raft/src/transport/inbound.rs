//! Server side: accepts peers, checks who they are, and passes their calls to the services.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use model::id::NodeId;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::coop::unconstrained;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::admission::Port;
use super::frame::{self, FrameError, Kind, Message};
use super::hello::{self, Answer, Hello, HelloError};
use super::stream::{self, Outgoing};
use super::{
    Class, HANDSHAKE, Judged, MAX_BODY, MOST_CALLS, MOST_RAFT_REQUESTS, PeerError, Service, Shared, Way, tls,
    unauthenticated,
};
use crate::failpoint::{self, Wire};
use crate::telemetry;

/// Capacity of a connection's queue of answers.
const QUEUE: usize = 8192;
/// Interval of the log messages about connections that cannot be accepted.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Accepts peers until the node stops.
///
/// All handshakes run concurrently: a peer has a fraction of a second to connect, and must not wait for unknown
/// clients. Their number is limited by the port's places; silent connections are evicted.
pub(super) async fn accept(shared: Arc<Shared>, listener: Arc<TcpListener>, port: Arc<Port>) {
    let unauthenticated = Arc::new(Semaphore::new(unauthenticated::AT_ONCE));
    let mut complained: Option<Instant> = None;
    loop {
        let (socket, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // For example, too many open files: wait for it to pass instead of spinning.
                if complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
                    complained = Some(Instant::now());
                    tracing::warn!(%error, "cannot accept a peer");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(place) = port.admit(from.ip(), false) else { continue };
        let task = {
            let (shared, unauthenticated) = (shared.clone(), unauthenticated.clone());
            async move {
                // The handshake of a peer that is suspended, or of another client, must not hang forever.
                let greeting = tokio::time::timeout(shared.connect_timeout * HANDSHAKE, greet(&shared, socket));
                let Some(greeted) = place.gives_way().run_until_cancelled(greeting).await else { return };
                match greeted {
                    Ok(Ok(Greeted::Unauthenticated(stream))) => {
                        let answering = answer_unauthenticated(&shared, *stream, unauthenticated);
                        let _ = place.gives_way().run_until_cancelled(answering).await;
                    }
                    Ok(Ok(Greeted::Peer(stream, judged, class))) => {
                        place.recognised();
                        let stream = *stream;
                        let stop = shared.stop.clone();
                        let (tracker, runtime) = (shared.tracker.clone(), shared.runtime_of(class).clone());
                        let serving = async move {
                            let _ = stop.run_until_cancelled(serve(&shared, stream, judged, class)).await;
                            drop(place);
                        };
                        tracker.spawn_on(serving, &runtime);
                    }
                    Ok(Err(HelloError::Refused(reason))) => {
                        telemetry::peer_refused();
                        tracing::warn!(%from, %reason, "refused a peer");
                    }
                    Ok(Err(error)) => tracing::debug!(%from, %error, "a peer did not complete its handshake"),
                    Err(_) => tracing::debug!(%from, "a peer took too long for its handshake"),
                }
            }
        };
        let stop = shared.stop.clone();
        shared.tracker.spawn(async move {
            let _ = stop.run_until_cancelled(task).await;
        });
    }
}

/// The client that has connected.
enum Greeted {
    Peer(Box<TlsStream<TcpStream>>, Judged, Class),
    /// The client has no certificate.
    Unauthenticated(Box<TlsStream<TcpStream>>),
}

/// Answers one question of a client without a certificate. Clients beyond [`unauthenticated::AT_ONCE`] are turned away
/// and may retry. A silent client takes none of these permits, and may be evicted from the port.
async fn answer_unauthenticated(shared: &Shared, mut stream: TlsStream<TcpStream>, places: Arc<Semaphore>) {
    let Some(handler) = shared.unauthenticated.read().clone() else { return };
    let Ok(question) = unauthenticated::question(&mut stream).await else { return };
    let Ok(place) = places.try_acquire_owned() else { return };
    // Runs where the calls of higher layers are handled.
    let serving = shared.caller.spawn(async move {
        // Held until the work ends, even if the connection is evicted before.
        let _place = place;
        tokio::time::timeout(unauthenticated::PATIENCE, unauthenticated::answer(&mut stream, question, &*handler)).await
    });
    if !matches!(serving.await, Ok(Ok(Ok(())))) {
        tracing::debug!("a stranger was not answered");
    }
}

async fn greet(shared: &Shared, socket: TcpStream) -> Result<Greeted, HelloError> {
    socket.set_nodelay(true)?;
    let acceptor = shared.tls.read().acceptor.clone();
    let mut stream = acceptor.accept(socket).await?;
    if stream.get_ref().1.peer_certificates().is_none() {
        return Ok(Greeted::Unauthenticated(Box::new(stream)));
    }
    let judged = Judged { hello: hello::receive(&mut stream).await?, way: Way::Accepted };
    match admit(shared, &stream, &judged) {
        Ok(class) => {
            let ours = Hello::new(shared.node, &shared.identity, shared.election_min, class);
            hello::send(&mut stream, &Answer::Welcome(ours)).await?;
            Ok(Greeted::Peer(Box::new(stream), judged, class))
        }
        Err(reason) => {
            hello::send(&mut stream, &Answer::Refused(reason.clone())).await?;
            Err(HelloError::Refused(reason))
        }
    }
}

fn admit(shared: &Shared, stream: &TlsStream<TcpStream>, judged: &Judged) -> Result<Class, String> {
    let theirs = &judged.hello;
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    if !certificate.is_some_and(|certificate| tls::proves(certificate, theirs.node)) {
        return Err(format!("the certificate does not prove node {}", theirs.node));
    }
    judged.judge(shared)?;
    theirs.class().ok_or_else(|| "the class of traffic is not known".to_owned())
}

async fn serve(shared: &Arc<Shared>, connection: TlsStream<TcpStream>, judged: Judged, class: Class) {
    let peer = judged.hello.node;
    // A peer that reconnects has lost its old connection, even if this node has not noticed.
    let replaced = CancellationToken::new();
    if let Some(old) = shared.accepted.lock().insert((peer, class), replaced.clone()) {
        old.cancel();
    }
    let (mut reader, mut writer) = tokio::io::split(connection);
    let (answers, mut queue) = mpsc::channel(QUEUE);
    let session = Session {
        shared: shared.clone(),
        peer,
        class,
        answers,
        calls: Arc::new(Semaphore::new(MOST_CALLS)),
        raft_requests: Arc::new(Semaphore::new(MOST_RAFT_REQUESTS)),
    };
    let read = async {
        let mut buffer = BytesMut::new();
        let mut said = Instant::now();
        loop {
            let goes_on = || {
                if said.elapsed() >= shared.connect_timeout {
                    said = Instant::now();
                    session.say_alive();
                }
            };
            let mut frame = match frame::read(&mut reader, &mut buffer, goes_on).await {
                Ok(frame) => frame,
                Err(error) => return error,
            };
            while let Some(message) = frame::next(&mut frame) {
                match message {
                    Ok(message) => session.take(message),
                    Err(error) => return error,
                }
            }
        }
    };
    let write = async {
        let written = stream::write(class, &mut writer, None, &mut queue, |_| true).await;
        written.map_or_else(FrameError::Io, |()| FrameError::Closed)
    };
    tokio::select! {
        error = read => tracing::debug!(peer, ?class, %error, "a peer's connection ended"),
        error = write => tracing::debug!(peer, ?class, %error, "a peer's connection ended"),
        () = replaced.cancelled() => tracing::debug!(peer, ?class, "a peer connected again"),
        reason = judged.refused(shared) => tracing::warn!(peer, ?class, %reason, "closed a peer's connection"),
    }
}

/// One accepted connection.
struct Session {
    shared: Arc<Shared>,
    peer: NodeId,
    class: Class,
    answers: mpsc::Sender<Outgoing>,
    calls: Arc<Semaphore>,
    raft_requests: Arc<Semaphore>,
}

impl Session {
    fn take(&self, message: Message) {
        if failpoint::is_cut(Wire::Peers) {
            return;
        }
        match message.kind {
            Kind::Request => self.dispatch(message),
            Kind::Ping => self.say_alive(),
            // Answers are not expected here; a faulty peer harms only itself.
            Kind::Response | Kind::Refusal | Kind::Pong => {}
        }
    }

    /// Sends a pong: the answer to a ping, and a sign of life while a large request arrives.
    fn say_alive(&self) {
        if failpoint::is_cut(Wire::Peers) {
            return;
        }
        // If the queue is full, its answers are signs of life enough.
        let _ = self.answers.try_send(Outgoing::new(Kind::Pong, 0, 0, Bytes::new(), Duration::ZERO));
    }

    fn dispatch(&self, message: Message) {
        let Message { id, service, body, .. } = message;
        let handler = self.shared.services.read().get(&service).cloned();
        match handler {
            None => self.refuse(id, &PeerError::unserved(service)),
            // Requests to Raft services are started on this task, in order of arrival, because appends must reach a
            // group's core in order. Whatever does not complete at once continues in a task of its own.
            Some(Service::Raft(handler)) => {
                let Ok(place) = self.raft_requests.clone().try_acquire_owned() else {
                    return self.refuse(id, &PeerError::Busy);
                };
                let patience = handler.patience();
                let mut work = handler.handle(self.peer, self.class, body);
                // Unconstrained: the messages of one frame may use up this task's coop budget, and a request that could
                // start now would then start in another task, after later requests.
                match unconstrained(&mut work).now_or_never() {
                    Some(body) => self.answer(id, body, patience, place),
                    None => {
                        let answers = self.answers.clone();
                        self.shared.runtime.spawn(async move {
                            let body = work.await;
                            // The connection may be gone; the peer retries.
                            let _ = answers.send(response(id, body, patience)).await;
                            drop(place);
                        });
                    }
                }
            }
            Some(Service::Call(handler)) => {
                let Ok(permit) = self.calls.clone().try_acquire_owned() else {
                    return self.refuse(id, &PeerError::Busy);
                };
                let (answers, peer) = (self.answers.clone(), self.peer);
                self.shared.runtime_of(self.class).spawn(async move {
                    let mut unanswered = Unanswered { id, answers: Some(answers) };
                    let body = handler.handle(peer, body).await;
                    if let Some(answers) = unanswered.answers.take() {
                        // The connection may be gone; the caller has been told.
                        let _ = answers.send(response(id, body, Duration::ZERO)).await;
                    }
                    drop(permit);
                });
            }
        }
    }

    fn answer(&self, id: u64, body: Bytes, patience: Duration, place: OwnedSemaphorePermit) {
        let answer = response(id, body, patience);
        if let Err(mpsc::error::TrySendError::Full(answer)) = self.answers.try_send(answer) {
            let answers = self.answers.clone();
            self.shared.runtime.spawn(async move {
                let _ = answers.send(answer).await;
                drop(place);
            });
        }
    }

    fn refuse(&self, id: u64, error: &PeerError) {
        // If the queue is full, the caller times out, which has the same effect.
        let _ = self.answers.try_send(Outgoing::new(Kind::Refusal, id, 0, error.encode(), Duration::ZERO));
    }
}

/// An answer, or a refusal if it is too large: exceeding a frame would end the connection and all its calls.
fn response(id: u64, body: Bytes, patience: Duration) -> Outgoing {
    if body.len() <= MAX_BODY {
        return Outgoing::new(Kind::Response, id, 0, body, patience);
    }
    let error = PeerError::Refused(format!("the answer takes {} bytes, more than one call can carry", body.len()));
    Outgoing::new(Kind::Refusal, id, 0, error.encode(), patience)
}

/// Tells the caller if a handler panics, instead of letting it time out.
struct Unanswered {
    id: u64,
    answers: Option<mpsc::Sender<Outgoing>>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(answers) = self.answers.take() {
            let error = PeerError::Unreachable("the call failed on the peer".into());
            let _ = answers.try_send(Outgoing::new(Kind::Refusal, self.id, 0, error.encode(), Duration::ZERO));
        }
    }
}

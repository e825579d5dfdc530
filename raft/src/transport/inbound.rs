//! The serving side: accepts peers, checks who they are, and hands their calls to the services.

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

/// Answers that may wait for a connection.
const QUEUE: usize = 8192;
/// How often it is told that no connection can be accepted.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Accepts peers until the node stops.
///
/// Handshakes run beside each other, however many there are: a peer that connects has a fraction of a second, and must not
/// wait for strangers to be done. There are as many as the port has places, and what says nothing gives way.
pub(super) async fn accept(shared: Arc<Shared>, listener: Arc<TcpListener>, port: Arc<Port>) {
    let unauthenticated = Arc::new(Semaphore::new(unauthenticated::AT_ONCE));
    let mut complained: Option<Instant> = None;
    loop {
        let (socket, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, say: it passes, and a busy loop would not help.
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
                // The handshake of a peer that is paused, or no peer at all, must not stay for ever.
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

/// Who has connected.
enum Greeted {
    Peer(Box<TlsStream<TcpStream>>, Judged, Class),
    /// The peer has shown no certificate.
    Unauthenticated(Box<TlsStream<TcpStream>>),
}

/// Answers one question. Strangers beyond those that may be served at once are turned away: they may ask again. One that says
/// nothing takes none of their places, and gives way at the port.
async fn answer_unauthenticated(shared: &Shared, mut stream: TlsStream<TcpStream>, places: Arc<Semaphore>) {
    let Some(handler) = shared.unauthenticated.read().clone() else { return };
    let Ok(question) = unauthenticated::question(&mut stream).await else { return };
    let Ok(place) = places.try_acquire_owned() else { return };
    // The answer is worked out where calls of the floors above are handled.
    let serving = shared.caller.spawn(async move {
        // Held by the work: it goes on to its end, also where the connection gives way to another one.
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
    // A peer that connects again has lost its old connection, even if we have not noticed.
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
            // Answers do not come this way; an odd peer harms only itself.
            Kind::Response | Kind::Refusal | Kind::Pong => {}
        }
    }

    /// Lets the peer hear of this node. Pings answer themselves, and while a large request arrives, there is none to answer.
    fn say_alive(&self) {
        if failpoint::is_cut(Wire::Peers) {
            return;
        }
        // A full queue is sign of life enough.
        let _ = self.answers.try_send(Outgoing::new(Kind::Pong, 0, 0, Bytes::new(), Duration::ZERO));
    }

    fn dispatch(&self, message: Message) {
        let Message { id, service, body, .. } = message;
        let handler = self.shared.services.read().get(&service).cloned();
        match handler {
            None => self.refuse(id, &PeerError::unserved(service)),
            // Raft's own requests are begun in the order in which they came, on this task: appends of one group must
            // reach its core in order. What is left of them is waiting.
            Some(Service::Raft(handler)) => {
                let Ok(place) = self.raft_requests.clone().try_acquire_owned() else {
                    return self.refuse(id, &PeerError::Busy);
                };
                let patience = handler.patience();
                let mut work = handler.handle(self.peer, self.class, body);
                // The budget of this task may be used up by what came in one frame: work that could begin would then wait for
                // another task, behind what came after it.
                match unconstrained(&mut work).now_or_never() {
                    Some(body) => self.answer(id, body, patience, place),
                    None => {
                        let answers = self.answers.clone();
                        self.shared.runtime.spawn(async move {
                            let body = work.await;
                            // The connection may be gone; the peer asks again.
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
                        // The connection may be gone; the caller was told so.
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
        // With a full queue the caller times out, which tells it the same.
        let _ = self.answers.try_send(Outgoing::new(Kind::Refusal, id, 0, error.encode(), Duration::ZERO));
    }
}

/// An answer, or why there is none: one that no frame can carry would end the connection, and with it all other calls.
fn response(id: u64, body: Bytes, patience: Duration) -> Outgoing {
    if body.len() <= MAX_BODY {
        return Outgoing::new(Kind::Response, id, 0, body, patience);
    }
    let error = PeerError::Refused(format!("the answer takes {} bytes, more than one call can carry", body.len()));
    Outgoing::new(Kind::Refusal, id, 0, error.encode(), patience)
}

/// Tells the caller when a handler panics, instead of letting it wait.
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

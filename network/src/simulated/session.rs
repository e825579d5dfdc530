//! One channel's session with the simulator.
//!
//! Events go out under the lock of the session's state, and so does the silence of `kill`: once it returns, nothing
//! is reported. Bytes go out under the lock of the connection's queue, where the session is asked once more whether
//! it may speak. The two locks are never held together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::business::{NOT_BUSINESS, NOT_BUSINESS_CODE};
use model::media::{MediaHandle, MediaKind};
use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::CREDENTIALS;
use super::connection::Connection;
use super::outgoing::Place;
use super::transfers;
use crate::driver::{
    AuthStore, AuthWrite, ByteStream, EndReason, Identity, ItemId, MediaError, Outbound, PairCode, PairCodeError,
    Session, SessionError, SessionEvent, Uploaded,
};
use crate::fence::Fence;
use crate::operation::{self, Operation, RefusedKind};
use crate::wire::{NodeFrame, SessionFrame, SessionNumber, encode};

/// How long the network may take to answer a request of a session.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How long it may take to answer a close; then the session is cut, and with it the connection when a login is on its way.
const CLOSE_WITHIN: Duration = Duration::from_millis(1_500);

/// How many events may wait beyond the owner's queue. An owner that writes a full outbox of 1,000 messages before it
/// reads on has as many answers coming; inbound items are bounded by their window already.
const BACKLOG: usize = 4_096;

/// How a session begins.
pub enum Opening {
    Login { credentials: Bytes },
    Pair { device_name: String, full_history: bool, auth: Arc<dyn AuthStore> },
}

pub struct SimulatedSession {
    pub number: SessionNumber,
    pub fence: Fence,
    pub connection: Arc<Connection>,
    /// Set once, before the session's end is visible anywhere: no byte may follow it.
    silenced: AtomicBool,
    /// Set before its close is queued.
    closing: AtomicBool,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    /// `None` once the session has ended.
    events: Option<mpsc::Sender<SessionEvent>>,
    /// Events that found the queue full, in order. While there are any, a task carries them over.
    backlog: VecDeque<SessionEvent>,
    /// Needed until the session is logged in, and freed then.
    pairing: Option<Box<Pairing>>,
    /// Told when the session ends, however it does.
    on_end: Vec<oneshot::Sender<()>>,
    /// Why it ends, once that is known. It is noted before the session falls silent, so that nobody who finds it silent takes its fence
    /// for the reason.
    last: Option<SessionEvent>,
    /// Killed by its owner: not even what waits for room is reported.
    muted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Pairing,
    LoggingIn,
    LoggedIn,
    Closing,
    Ended,
}

/// Why an event is not reported.
enum Refused {
    Full,
    Closed,
}

struct Pairing {
    auth: Arc<dyn AuthStore>,
    linked: Option<(Identity, Bytes)>,
    code: Option<oneshot::Sender<Result<PairCode, PairCodeError>>>,
}

impl SimulatedSession {
    /// A session and the first frame that it has to say.
    pub fn new(
        number: SessionNumber,
        fence: Fence,
        events: mpsc::Sender<SessionEvent>,
        connection: Arc<Connection>,
        opening: Opening,
    ) -> (Arc<Self>, NodeFrame) {
        let epoch = fence.epoch();
        let (phase, pairing, first) = match opening {
            Opening::Login { credentials } => {
                (Phase::LoggingIn, None, NodeFrame::Login { session: number, epoch, credentials })
            }
            Opening::Pair { device_name, full_history, auth } => {
                let pairing = Box::new(Pairing { auth, linked: None, code: None });
                (Phase::Pairing, Some(pairing), NodeFrame::Pair { session: number, epoch, device_name, full_history })
            }
        };
        let (backlog, on_end) = (VecDeque::new(), Vec::new());
        let state = State { phase, events: Some(events), backlog, pairing, on_end, last: None, muted: false };
        let (silenced, closing) = (AtomicBool::new(false), AtomicBool::new(false));
        (Arc::new(Self { number, fence, connection, silenced, closing, state: Mutex::new(state) }), first)
    }

    /// Whether a byte of this session may leave now. Once refused, it never may again, even when the fence moves on: what
    /// it had to say was lost, and what it would say next must not overtake that in another session.
    pub fn may_speak(&self) -> bool {
        if !self.fence.is_live() {
            self.silenced.store(true, Ordering::Release);
        }
        !self.silenced.load(Ordering::Acquire)
    }

    /// Takes what the network says to this session.
    pub fn hear(self: &Arc<Self>, frame: SessionFrame) {
        match frame {
            SessionFrame::Qr { raw, expires_at, sequence } => {
                self.report(SessionEvent::Qr { raw: raw.into(), expires_at, sequence });
            }
            SessionFrame::QrTimeout => self.finish(Some(SessionEvent::QrTimeout)),
            SessionFrame::PairingRefused { code, text } => {
                self.finish(Some(SessionEvent::PairingRefused { code, text }));
            }
            SessionFrame::PairCode(code) => self.answer_code(Ok(code)),
            SessionFrame::PairCodeRefused { code, text } => {
                self.answer_code(Err(PairCodeError::Refused { code, text }));
            }
            SessionFrame::Credentials { identity, credentials } => self.store(identity, credentials),
            SessionFrame::Linked => self.linked(),
            SessionFrame::LoggedIn(identity) => {
                let mut state = self.state.lock();
                let awaited = state.phase == Phase::LoggingIn;
                if awaited {
                    state.phase = Phase::LoggedIn;
                    state.pairing = None;
                }
                drop(state);
                if awaited {
                    self.report(SessionEvent::LoggedIn(Box::new(identity)));
                }
            }
            SessionFrame::Accepted { id, at, recipients } => {
                self.report(SessionEvent::Accepted { id, at, recipients });
            }
            SessionFrame::Refused { id, code, text } => {
                self.report(SessionEvent::Refused {
                    id,
                    refused: Box::new(understood(operation::Refused::new(code, text))),
                });
            }
            SessionFrame::Operated { id, result } => {
                self.report(SessionEvent::Operated { id, result: Box::new(result.map_err(understood)) });
            }
            SessionFrame::Inbound(item) => self.report(SessionEvent::Inbound(item)),
            SessionFrame::Ended(reason) => self.end(reason),
            SessionFrame::Closed => self.finish(None),
        }
    }

    /// Ends a session that the network knows to be over, and reports why.
    pub fn end(self: &Arc<Self>, reason: EndReason) {
        self.finish(Some(SessionEvent::Ended(reason)));
    }

    /// Ends a session from this side, tells the network, and reports why.
    pub fn cut(self: &Arc<Self>, reason: EndReason) {
        self.note_last(SessionEvent::Ended(reason));
        self.silenced.store(true, Ordering::Release);
        self.hang_up();
        self.finish(None);
    }

    fn note_last(&self, event: SessionEvent) {
        self.state.lock().last.get_or_insert(event);
    }

    /// Ends a session from this side at once: no byte and no event after this.
    fn kill(self: &Arc<Self>) {
        self.silenced.store(true, Ordering::Release);
        self.hang_up();
        self.connection.outgoing.barrier();
        {
            let mut state = self.state.lock();
            state.muted = true;
            state.backlog = VecDeque::new();
        }
        self.finish(None);
    }

    /// Takes the session off the connection, and says so in the connection's own name: what a closed socket tells. The end
    /// of a session whose login was not answered is one that the network confirms.
    fn hang_up(&self) {
        if !self.connection.remove(self) {
            return;
        }
        if self.state.lock().phase == Phase::LoggingIn {
            self.connection.recall(self);
        }
        let session = self.number;
        let recalled = self.connection.recalls(self);
        let end = if recalled { NodeFrame::Close { session } } else { NodeFrame::Reset { session } };
        self.connection.tell(None, &end);
    }

    /// The session is over: a last event, if any, and whoever waits for the end is told.
    fn finish(self: &Arc<Self>, last: Option<SessionEvent>) {
        if let Some(last) = last {
            self.note_last(last);
        }
        self.silenced.store(true, Ordering::Release);
        self.connection.remove(self);
        self.connection.transfers.end_session(self.number);
        let mut state = self.state.lock();
        state.phase = Phase::Ended;
        state.pairing = None;
        let (events, last) = (state.events.take(), state.last.take());
        if let (Some(events), Some(last), false) = (events, last, state.muted) {
            // A closed queue needs no last event.
            let _ = self.offer(&mut state, &events, last);
        }
        for waiting in std::mem::take(&mut state.on_end) {
            // Who waited may have given up.
            let _ = waiting.send(());
        }
    }

    /// Reports an event. A session whose owner is hopelessly behind with reading is cut rather than waited for.
    fn report(self: &Arc<Self>, event: SessionEvent) {
        let taken = {
            let mut state = self.state.lock();
            let Some(events) = state.events.clone() else { return };
            if state.backlog.len() < BACKLOG { self.offer(&mut state, &events, event) } else { Err(Refused::Full) }
        };
        match taken {
            Ok(()) => {}
            Err(Refused::Full) => self.cut(EndReason::Transport("the events are not read".into())),
            Err(Refused::Closed) => self.kill(),
        }
    }

    /// Puts an event into the queue, or behind what waits for room in it.
    fn offer(
        self: &Arc<Self>,
        state: &mut State,
        events: &mpsc::Sender<SessionEvent>,
        event: SessionEvent,
    ) -> Result<(), Refused> {
        if !state.backlog.is_empty() {
            state.backlog.push_back(event);
            return Ok(());
        }
        match events.try_send(event) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(Refused::Closed),
            Err(TrySendError::Full(event)) => {
                state.backlog.push_back(event);
                self.connection.runtime.spawn(Arc::clone(self).carry_over(events.clone()));
                Ok(())
            }
        }
    }

    /// Moves the backlog into the queue as the owner reads. Ends with the backlog, so an idle session has no task.
    async fn carry_over(self: Arc<Self>, events: mpsc::Sender<SessionEvent>) {
        while let Ok(room) = events.reserve().await {
            let mut state = self.state.lock();
            if state.muted {
                return;
            }
            match state.backlog.pop_front() {
                Some(event) => room.send(event),
                None => return,
            }
            if state.backlog.is_empty() {
                state.backlog = VecDeque::new();
                return;
            }
        }
    }

    fn answer_code(&self, answer: Result<PairCode, PairCodeError>) {
        let waiting = self.state.lock().pairing.as_mut().and_then(|pairing| pairing.code.take());
        if let Some(waiting) = waiting {
            // Who asked may have given up.
            let _ = waiting.send(answer);
        }
    }

    /// Whether it has said its last: what comes behind its close would be of a session that is no more.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Stores new credentials, and acknowledges the pairing only when they are committed.
    fn store(self: &Arc<Self>, identity: Identity, credentials: Bytes) {
        let auth = {
            let mut state = self.state.lock();
            let Some(pairing) = state.pairing.as_mut() else { return };
            pairing.linked = Some((identity, credentials.clone()));
            Arc::clone(&pairing.auth)
        };
        let session = Arc::clone(self);
        self.connection.runtime.spawn(async move {
            match auth.commit(vec![AuthWrite::put(CREDENTIALS, credentials)]).await {
                Ok(()) => {
                    let stored = NodeFrame::Stored { session: session.number };
                    session.connection.tell(Some(&session), &stored);
                }
                Err(error) => session.cut(error.into()),
            }
        });
    }

    /// The device exists: the login follows in the same session.
    fn linked(self: &Arc<Self>) {
        let linked = {
            let mut state = self.state.lock();
            let linked = state.pairing.as_mut().and_then(|pairing| pairing.linked.take());
            if linked.is_some() {
                state.phase = Phase::LoggingIn;
            }
            linked
        };
        if let Some((identity, credentials)) = linked {
            self.report(SessionEvent::Paired(Box::new(identity)));
            let login = NodeFrame::Login { session: self.number, epoch: self.fence.epoch(), credentials };
            self.connection.tell(Some(self), &login);
            if self.state.lock().phase == Phase::Closing {
                // The close that was asked for meanwhile may have gone before.
                self.connection.tell(Some(self), &NodeFrame::Close { session: self.number });
            }
        }
    }

    /// Queues a frame, once there is room, if the session is logged in.
    async fn write(self: &Arc<Self>, frame: NodeFrame) -> Result<(), SessionError> {
        self.check_logged_in()?;
        let bytes = encode(&frame).map_err(|error| SessionError::Unreachable(error.to_string()))?;
        self.connection.outgoing.push(Place::Message, self, bytes).await.map_err(|_| self.why_silent())
    }

    /// Why it says nothing and hears nothing any more.
    pub fn why_silent(self: &Arc<Self>) -> SessionError {
        self.check_logged_in().err().unwrap_or(SessionError::Ended)
    }

    pub fn check_logged_in(self: &Arc<Self>) -> Result<(), SessionError> {
        if !self.may_speak() && self.state.lock().phase != Phase::Ended {
            // The watchdog may not have seen it, when the fence has moved on since.
            self.cut(EndReason::Fenced);
            return Err(SessionError::Fenced);
        }
        match self.state.lock().phase {
            Phase::LoggedIn => Ok(()),
            Phase::Pairing | Phase::LoggingIn => Err(SessionError::NotLoggedIn),
            Phase::Closing | Phase::Ended => Err(SessionError::Ended),
        }
    }

    /// Resolves at the session's end; `None` when it has ended already.
    fn ended(&self) -> Option<oneshot::Receiver<()>> {
        let mut state = self.state.lock();
        if state.phase == Phase::Ended {
            return None;
        }
        let (sender, ended) = oneshot::channel();
        state.on_end.push(sender);
        Some(ended)
    }
}

/// A refusal with what this network means by its code.
fn understood(refused: operation::Refused) -> operation::Refused {
    let kind = match refused.code {
        479 => RefusedKind::Recipient,
        409 => RefusedKind::Conflict,
        NOT_BUSINESS_CODE if refused.text == NOT_BUSINESS => RefusedKind::NotBusiness,
        _ => RefusedKind::Other,
    };
    refused.of(kind)
}

/// The owner's hold on a session, if that did not end before it began: dropped, the session is killed.
pub struct SessionHandle(pub Option<Arc<SimulatedSession>>);

impl SessionHandle {
    fn session(&self) -> Result<&Arc<SimulatedSession>, SessionError> {
        self.0.as_ref().ok_or(SessionError::Ended)
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        self.kill();
    }
}

#[async_trait]
impl Session for SessionHandle {
    async fn send(&self, message: Outbound) -> Result<(), SessionError> {
        let session = self.session()?;
        session.write(NodeFrame::send(session.number, message)).await
    }

    async fn operate(&self, id: Uuid, operation: Operation) -> Result<(), SessionError> {
        let (session, operation) = (self.session()?, Box::new(operation));
        session.write(NodeFrame::Operate { session: session.number, id, operation }).await
    }

    async fn upload(
        &self,
        _kind: MediaKind,
        mime_type: &str,
        size: u64,
        bytes: ByteStream,
    ) -> Result<Uploaded, MediaError> {
        transfers::upload(self.session()?, mime_type, size, bytes).await
    }

    async fn download(&self, handle: &MediaHandle) -> Result<ByteStream, MediaError> {
        transfers::download(self.session()?, handle).await
    }

    async fn acknowledge(&self, item: ItemId) -> Result<(), SessionError> {
        let session = self.session()?;
        session.write(NodeFrame::Acknowledge { session: session.number, item }).await
    }

    async fn pair_code(&self, phone: &str, _display_name: &str) -> Result<PairCode, PairCodeError> {
        let session = self.session().map_err(|_| PairCodeError::NotPairing)?;
        let (sender, answer) = oneshot::channel();
        {
            let mut state = session.state.lock();
            let phase = state.phase;
            let pairing = state.pairing.as_mut().filter(|pairing| phase == Phase::Pairing && pairing.linked.is_none());
            pairing.ok_or(PairCodeError::NotPairing)?.code = Some(sender);
        }
        let request = NodeFrame::PairCode { session: session.number, phone: phone.to_owned() };
        session.connection.tell(Some(session), &request);
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(PairCodeError::Unreachable("the session ended".into())),
            Err(_) => Err(PairCodeError::Unreachable("no answer within 10 s".into())),
        }
    }

    async fn logout(&self) -> Result<(), SessionError> {
        let session = self.session()?;
        let ended = session.ended().ok_or(SessionError::Ended)?;
        session.write(NodeFrame::Logout { session: session.number }).await?;
        match tokio::time::timeout(ANSWER_WITHIN, ended).await {
            Ok(_) => Ok(()),
            Err(_) => Err(SessionError::Unreachable("no answer within 10 s".into())),
        }
    }

    fn kill(&self) {
        if let Some(session) = &self.0 {
            session.kill();
        }
    }

    async fn drain(&self) {
        let Some(session) = &self.0 else { return };
        let Some(mut ended) = session.ended() else { return };
        let phase = {
            let mut state = session.state.lock();
            let phase = state.phase;
            if matches!(phase, Phase::LoggingIn | Phase::LoggedIn) {
                state.phase = Phase::Closing;
            }
            phase
        };
        match phase {
            // No device is taken yet: there is nothing in anybody's way.
            Phase::Pairing => return session.kill(),
            Phase::LoggingIn | Phase::LoggedIn => {
                session.closing.store(true, Ordering::Release);
                if phase == Phase::LoggingIn {
                    session.connection.recall(session);
                }
                let close = NodeFrame::Close { session: session.number };
                session.connection.tell(Some(session), &close);
            }
            Phase::Closing | Phase::Ended => {}
        }
        if tokio::time::timeout(CLOSE_WITHIN, &mut ended).await.is_err() {
            if session.connection.recalls(session) {
                session.connection.give_up();
                // The session ends with the connection's socket, and what that held is gone by then.
                let _ = tokio::time::timeout(CLOSE_WITHIN, ended).await;
            }
            session.kill();
        }
    }
}

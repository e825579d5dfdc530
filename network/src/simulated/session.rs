//! One channel's session with the simulator.
//!
//! Events are sent under the lock of the session's state, under which `kill` also mutes the session: once it returns,
//! nothing is reported. Bytes are written under the lock of the connection's queue, where
//! [`SimulatedSession::may_speak`] is checked once more. The two locks are never held together.

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
    QueuedEvent, Session, SessionError, SessionEvent, Uploaded,
};
use crate::fence::Fence;
use crate::operation::{self, Operation, RefusedKind};
use crate::wire::{NodeFrame, SessionFrame, SessionNumber, encode};

/// Timeout of a session's request to the network.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Timeout of a close. After that the session is cut, and with it the connection if a login is in flight.
const CLOSE_WITHIN: Duration = Duration::from_millis(1_500);

/// Maximum number of events that wait beyond the owner's queue. An owner that writes a full outbox of 1,000 messages
/// before it reads again has as many answers coming; inbound items are bounded by their window already.
const BACKLOG: usize = 4_096;

/// How to open a session.
pub enum Opening {
    Login { credentials: Bytes },
    Pair { device_name: String, full_history: bool, auth: Arc<dyn AuthStore> },
}

pub struct SimulatedSession {
    pub number: SessionNumber,
    pub fence: Fence,
    pub connection: Arc<Connection>,
    /// Set once, before the session's end becomes visible anywhere: no byte may follow it.
    silenced: AtomicBool,
    /// Set before the session's close is queued.
    closing: AtomicBool,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    /// `None` after the session has ended.
    events: Option<mpsc::Sender<QueuedEvent>>,
    /// Events that found the queue full, in order. As long as there are any, a task moves them into the queue.
    backlog: VecDeque<SessionEvent>,
    /// Needed until the session is logged in, then dropped.
    pairing: Option<Box<Pairing>>,
    /// Notified when the session ends, for whatever reason.
    on_end: Vec<oneshot::Sender<()>>,
    /// The final event, recorded before the session is silenced, so that nobody who finds it silenced mistakes its
    /// fence for the reason.
    last: Option<SessionEvent>,
    /// Killed by its owner: not even the backlog is reported.
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

/// Why an event was not queued.
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
    /// Creates a session and its first frame.
    pub fn new(
        number: SessionNumber,
        fence: Fence,
        events: mpsc::Sender<QueuedEvent>,
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

    /// Whether a byte of this session may leave now. After the first `false` it stays `false`, even if the fence is
    /// extended: frames were lost, and later ones must not overtake their repetition in another session.
    pub fn may_speak(&self) -> bool {
        if !self.fence.is_live() {
            self.silenced.store(true, Ordering::Release);
        }
        !self.silenced.load(Ordering::Acquire)
    }

    /// Handles a frame from the network.
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

    /// Ends a session that has ended at the network, and reports the reason.
    pub fn end(self: &Arc<Self>, reason: EndReason) {
        self.finish(Some(SessionEvent::Ended(reason)));
    }

    /// Ends a session from this side, informs the network, and reports the reason.
    pub fn cut(self: &Arc<Self>, reason: EndReason) {
        self.note_last(SessionEvent::Ended(reason));
        self.silenced.store(true, Ordering::Release);
        self.hang_up();
        self.finish(None);
    }

    fn note_last(&self, event: SessionEvent) {
        self.state.lock().last.get_or_insert(event);
    }

    /// Ends a session from this side at once: no byte and no event follows.
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

    /// Removes the session from the connection and informs the network in the name of the connection, like a closed
    /// socket. If the session's login is unanswered, the frame is one that the network confirms.
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

    /// Ends the session: reports the final event, if any, and notifies those who wait for the end.
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
            // A closed queue needs no final event.
            let _ = self.offer(&mut state, &events, last);
        }
        for waiting in std::mem::take(&mut state.on_end) {
            // The receiver may have given up.
            let _ = waiting.send(());
        }
    }

    /// Reports an event. A session whose owner is too far behind with reading is cut instead of waited for.
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

    /// Queues an event, or appends it to the backlog.
    fn offer(
        self: &Arc<Self>,
        state: &mut State,
        events: &mpsc::Sender<QueuedEvent>,
        event: SessionEvent,
    ) -> Result<(), Refused> {
        if !state.backlog.is_empty() {
            state.backlog.push_back(event);
            return Ok(());
        }
        match events.try_send(Box::new(event)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(Refused::Closed),
            Err(TrySendError::Full(event)) => {
                state.backlog.push_back(*event);
                self.connection.runtime.spawn(Arc::clone(self).carry_over(events.clone()));
                Ok(())
            }
        }
    }

    /// Moves the backlog into the queue as the owner reads, and then ends: an idle session has no task.
    async fn carry_over(self: Arc<Self>, events: mpsc::Sender<QueuedEvent>) {
        while let Ok(room) = events.reserve().await {
            let mut state = self.state.lock();
            if state.muted {
                return;
            }
            match state.backlog.pop_front() {
                Some(event) => room.send(Box::new(event)),
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
            // The receiver may have given up.
            let _ = waiting.send(answer);
        }
    }

    /// Whether the close was queued; nothing may be queued behind it.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Stores new credentials and acknowledges the pairing only after they are committed.
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

    /// The device is registered: logs in within the same session.
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
                // A close that was requested meanwhile may have been sent before the login.
                self.connection.tell(Some(self), &NodeFrame::Close { session: self.number });
            }
        }
    }

    /// Queues a frame once there is room, if the session is logged in.
    async fn write(self: &Arc<Self>, frame: NodeFrame) -> Result<(), SessionError> {
        self.check_logged_in()?;
        let bytes = encode(&frame).map_err(|error| SessionError::Unreachable(error.to_string()))?;
        self.connection.outgoing.push(Place::Message, self, bytes).await.map_err(|_| self.why_silent())
    }

    /// Why the session neither writes nor reads.
    pub fn why_silent(self: &Arc<Self>) -> SessionError {
        self.check_logged_in().err().unwrap_or(SessionError::Ended)
    }

    pub fn check_logged_in(self: &Arc<Self>) -> Result<(), SessionError> {
        if !self.may_speak() && self.state.lock().phase != Phase::Ended {
            // If the fence was extended since, the watchdog may not have noticed its expiry.
            self.cut(EndReason::Fenced);
            return Err(SessionError::Fenced);
        }
        match self.state.lock().phase {
            Phase::LoggedIn => Ok(()),
            Phase::Pairing | Phase::LoggingIn => Err(SessionError::NotLoggedIn),
            Phase::Closing | Phase::Ended => Err(SessionError::Ended),
        }
    }

    /// Resolves when the session ends; `None` if it has ended already.
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

/// Adds to a refusal what its code means on this network.
fn understood(refused: operation::Refused) -> operation::Refused {
    let kind = match refused.code {
        479 => RefusedKind::Recipient,
        409 => RefusedKind::Conflict,
        NOT_BUSINESS_CODE if refused.text == NOT_BUSINESS => RefusedKind::NotBusiness,
        _ => RefusedKind::Other,
    };
    refused.of(kind)
}

/// The owner's handle of a session; `None` inside if the session ended before it began. Dropping it kills the session.
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
            // No device is linked yet, so nothing has to be released in order.
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
                // The session ends with the connection's socket, which discards unsent bytes when it is closed.
                let _ = tokio::time::timeout(CLOSE_WITHIN, ended).await;
            }
            session.kill();
        }
    }
}

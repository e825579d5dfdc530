//! State that all parts of a session share: the permission to send, the path of events to the owner, and the end.
//!
//! [`Line::kill`] and [`Line::cut`] may be called from any thread and do not block: before they return, they silence
//! the session, poison its state log and reset its socket.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::MessageId;
use model::time::Timestamp;
use network::driver::{AuthError, EndReason, InboundKind, ItemId, QueuedEvent, Receipt, SessionEvent};
use network::fence::Fence;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::inbound::inbox::Inbox;
use crate::state::log::StateLog;
use crate::wire::dial;
use crate::wire::ratchets::Ratchets;

/// Events that may wait for the owner. The session of an owner that does not read them is cut.
const MOST_EVENTS: usize = 4_096;

pub struct Line {
    fence: Fence,
    log: Arc<StateLog>,
    inbox: Inbox,
    ratchets: Ratchets,
    /// Cancelled when the session is over or has to end now.
    stopped: CancellationToken,
    /// Cancelled when the owner wants no further events.
    killed: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    socket: Option<OwnedFd>,
    events: Option<mpsc::Sender<SessionEvent>>,
    /// The event to report last, which says why the session ended. The first reason counts.
    last: Option<SessionEvent>,
    logged_in: bool,
    /// Whether a pairing code may be requested: the network has shown the first QR text, and no phone has used it yet.
    pairs: bool,
    /// Deadline by which a pairing has to make progress.
    pairing_due: Option<Instant>,
    /// Whether the account must not be shown as available.
    hides: bool,
    muted: bool,
}

/// Why the session may no longer send.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum Silent {
    #[error("the fence has passed")]
    Fenced,
    #[error("the session has ended")]
    Ended,
}

impl Line {
    /// Creates the line of a session, and the receiver of the events that [`carry`](Self::carry) passes to its owner.
    pub fn new(fence: Fence, log: Arc<StateLog>) -> (Arc<Self>, mpsc::Receiver<SessionEvent>) {
        let (events, waiting) = mpsc::channel(MOST_EVENTS);
        let state = State { events: Some(events), ..State::default() };
        let (stopped, killed) = (CancellationToken::new(), CancellationToken::new());
        let inbox = Inbox::new(Arc::clone(&log));
        (
            Arc::new(Self {
                fence,
                log,
                inbox,
                ratchets: Ratchets::default(),
                stopped,
                killed,
                state: Mutex::new(state),
            }),
            waiting,
        )
    }

    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub fn ratchets(&self) -> &Ratchets {
        &self.ratchets
    }

    pub fn log(&self) -> &Arc<StateLog> {
        &self.log
    }

    pub fn epoch(&self) -> u64 {
        self.fence.epoch()
    }

    pub fn stopped(&self) -> &CancellationToken {
        &self.stopped
    }

    /// Whether a byte may be sent now. After one refusal nothing is ever sent again, even if the fence moves on.
    ///
    /// # Errors
    /// The fence has passed, or the session has ended.
    pub fn may_speak(&self) -> Result<(), Silent> {
        if self.stopped.is_cancelled() {
            return Err(Silent::Ended);
        }
        if !self.fence.is_live() {
            self.cut(EndReason::Fenced);
            return Err(Silent::Fenced);
        }
        Ok(())
    }

    pub fn is_overdue(&self) -> bool {
        !self.stopped.is_cancelled() && !self.fence.is_live()
    }

    /// Keeps a duplicate of the socket, by which the session can reset it.
    ///
    /// # Errors
    /// The session has ended meanwhile; the socket has been reset.
    pub fn hold_socket(&self, socket: OwnedFd) -> Result<(), Silent> {
        {
            let mut state = self.state.lock();
            if !self.stopped.is_cancelled() {
                state.socket = Some(socket);
                return Ok(());
            }
        }
        dial::reset(&socket);
        Err(Silent::Ended)
    }

    /// Records why the session ends, unless a reason is recorded already.
    pub fn note_end(&self, reason: EndReason) {
        self.note_last(SessionEvent::Ended(reason));
    }

    pub fn note_last(&self, event: SessionEvent) {
        self.state.lock().last.get_or_insert(event);
    }

    /// Why the session ends; `None` while that is unknown, and when the owner ended it.
    pub fn end(&self) -> Option<EndReason> {
        let state = self.state.lock();
        match &state.last {
            Some(SessionEvent::Ended(reason)) if !state.muted => Some(reason.clone()),
            _ => None,
        }
    }

    /// Forgets why a pairing's connection ended: the session continues with the login.
    pub fn forget_end(&self) {
        self.state.lock().last = None;
    }

    /// Turns "unlinked" into "invalidated": a device that the network never knew was not unlinked.
    pub fn soften_unlinked(&self) {
        let mut state = self.state.lock();
        if matches!(state.last, Some(SessionEvent::Ended(EndReason::Unlinked))) {
            state.last = Some(SessionEvent::Ended(EndReason::Invalidated));
        }
    }

    /// Whether the network refuses the client version that the session announces.
    pub fn is_outdated(&self) -> bool {
        matches!(self.state.lock().last, Some(SessionEvent::Ended(EndReason::ClientOutdated)))
    }

    /// Turns "client outdated" into a transport error: a later version is known, and the next session announces it.
    pub fn soften_outdated(&self) {
        let mut state = self.state.lock();
        if matches!(state.last, Some(SessionEvent::Ended(EndReason::ClientOutdated))) {
            let why = "the network refuses a version of its client, and a later one is known now";
            state.last = Some(SessionEvent::Ended(EndReason::Transport(why.into())));
        }
    }

    /// Records too many logins as the reason why the connection broke; the library has no event for that.
    pub fn note_too_many_logins(&self) {
        let mut state = self.state.lock();
        if matches!(state.last, None | Some(SessionEvent::Ended(EndReason::Transport(_)))) {
            state.last = Some(SessionEvent::Ended(EndReason::TooManyLogins));
        }
    }

    /// Ends the session at once, for this reason unless one is recorded already.
    pub fn cut(&self, reason: EndReason) {
        self.note_end(reason);
        self.stop();
    }

    /// Ends the session at once, and drops the events that wait, including the last one.
    pub fn kill(&self) {
        {
            let mut state = self.state.lock();
            state.muted = true;
            state.events = None;
        }
        self.killed.cancel();
        self.stop();
    }

    fn stop(&self) {
        let socket = {
            let mut state = self.state.lock();
            self.stopped.cancel();
            state.socket.take()
        };
        self.log.poison(AuthError::Unavailable("the session has ended".into()));
        if let Some(socket) = socket {
            dial::reset(&socket);
        }
    }

    pub fn is_logged_in(&self) -> bool {
        self.state.lock().logged_in
    }

    pub fn pairs(&self) -> bool {
        self.state.lock().pairs
    }

    pub fn set_pairs(&self, pairs: bool) {
        self.state.lock().pairs = pairs;
    }

    /// Extends the deadline of a pairing to `time` from now, unless it is later already.
    pub fn pairs_for(&self, time: Duration) {
        let due = Instant::now() + time;
        let mut state = self.state.lock();
        state.pairing_due = state.pairing_due.max(Some(due));
    }

    /// Returns when the deadline of a pairing has passed.
    pub async fn pairing_stalls(&self) {
        loop {
            let due = self.state.lock().pairing_due;
            match due {
                Some(due) if due > Instant::now() => tokio::time::sleep_until(due.into()).await,
                _ => return,
            }
        }
    }

    pub fn logged_in(&self) {
        self.state.lock().logged_in = true;
    }

    /// Whether the account must not be shown as available.
    pub fn hides(&self) -> bool {
        self.state.lock().hides
    }

    pub fn set_hides(&self, hides: bool) {
        self.state.lock().hides = hides;
    }

    /// Reports an event to the owner, after all earlier ones. Cuts the session when the queue is full.
    pub fn report(&self, event: SessionEvent) {
        let events = self.state.lock().events.clone();
        if let Some(events) = events
            && let Err(mpsc::error::TrySendError::Full(_)) = events.try_send(event)
        {
            self.cut(EndReason::Transport("the owner does not read what the session reports".into()));
        }
    }

    /// Reports an item whose row is durable before the network can receive its acknowledgement.
    pub fn keep(&self, id: Option<ItemId>, at: Timestamp, kind: InboundKind) {
        if let Err(error) = self.inbox.keep(id, at, kind) {
            self.cut(end_of(error));
        }
    }

    /// Like [`keep`](Self::keep), for a receipt. `knows` says whether the message was accepted in this session.
    pub fn keep_receipt(&self, at: Timestamp, receipt: Receipt, knows: impl Fn(&MessageId) -> bool) {
        if let Err(error) = self.inbox.keep_known(None, at, InboundKind::Receipt(receipt), knows) {
            self.cut(end_of(error));
        }
    }

    /// Waits until the owner has taken enough of the earlier items.
    ///
    /// # Errors
    /// The session has ended: because the owner was too slow, or for another reason.
    pub async fn room_for_more(&self) -> Result<(), Silent> {
        if !self.inbox.has_room().await {
            self.cut(EndReason::Transport("what came in is not taken in time".into()));
        }
        if self.stopped.is_cancelled() { Err(Silent::Ended) } else { Ok(()) }
    }

    /// Whether earlier items still wait for the owner.
    pub fn is_behind(&self) -> bool {
        self.inbox.is_behind()
    }

    /// Closes the queue of events: only the last one follows.
    pub fn close_events(&self) {
        self.state.lock().events = None;
    }

    /// Passes events to the owner, then how the session ended.
    pub async fn carry(&self, mut waiting: mpsc::Receiver<SessionEvent>, owner: mpsc::Sender<QueuedEvent>) {
        while let Some(event) = waiting.recv().await {
            if !self.hand_over(&owner, event).await {
                return;
            }
        }
        let last = self.state.lock().last.take();
        let last = last.unwrap_or_else(|| SessionEvent::Ended(EndReason::Transport("the connection ended".into())));
        self.hand_over(&owner, last).await;
    }

    async fn hand_over(&self, owner: &mpsc::Sender<QueuedEvent>, event: SessionEvent) -> bool {
        let room = tokio::select! {
            room = owner.reserve() => room,
            () = self.killed.cancelled() => return false,
        };
        let state = self.state.lock();
        match room {
            Ok(room) if !state.muted => {
                room.send(Box::new(event));
                true
            }
            _ => false,
        }
    }
}

/// Maps a failure of the store to the end of the session.
pub fn end_of(error: AuthError) -> EndReason {
    match error {
        AuthError::Fenced => EndReason::Fenced,
        AuthError::Unavailable(why) => EndReason::Transport(why),
        AuthError::Unreadable(why) => EndReason::AuthState(why),
    }
}

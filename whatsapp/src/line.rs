//! What a session's parts share: the right to speak, the way to the owner, and the end.
//!
//! [`Line::kill`] and [`Line::cut`] may be called from any thread and wait for none: they silence the session, poison its state
//! log and reset its socket before they return.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::MessageId;
use model::time::Timestamp;
use network::driver::{AuthError, EndReason, InboundKind, ItemId, Receipt, SessionEvent};
use network::fence::Fence;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::inbound::inbox::Inbox;
use crate::state::log::StateLog;
use crate::wire::dial;
use crate::wire::ratchets::Ratchets;

/// Events that wait for room at the owner. One that never reads loses its session.
const MOST_EVENTS: usize = 4_096;

pub struct Line {
    fence: Fence,
    log: Arc<StateLog>,
    inbox: Inbox,
    ratchets: Ratchets,
    /// The session is over, or to be ended now.
    stopped: CancellationToken,
    /// Its owner wants to hear nothing more.
    killed: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    socket: Option<OwnedFd>,
    events: Option<mpsc::Sender<SessionEvent>>,
    /// What is reported at last; the first reason counts.
    last: Option<SessionEvent>,
    logged_in: bool,
    /// A code may be asked for: the network has shown the first QR text, and no phone has taken it.
    pairs: bool,
    /// Until when a pairing may stay as it is.
    pairing_due: Option<Instant>,
    /// The account is not to be shown as available.
    hides: bool,
    muted: bool,
}

/// The session may not speak any more.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum Silent {
    #[error("the fence has passed")]
    Fenced,
    #[error("the session has ended")]
    Ended,
}

impl Line {
    /// A session's line, and the events that wait to be carried to its owner.
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

    /// Whether a byte may leave now. Once refused, none ever may again, even when the fence moves on.
    ///
    /// # Errors
    /// It may not.
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

    /// Keeps a hold on the socket, to reset it by.
    ///
    /// # Errors
    /// The session has ended meanwhile: the socket is reset.
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

    /// Notes why the session ends, unless that is known already.
    pub fn note_end(&self, reason: EndReason) {
        self.note_last(SessionEvent::Ended(reason));
    }

    pub fn note_last(&self, event: SessionEvent) {
        self.state.lock().last.get_or_insert(event);
    }

    /// Why the session ends, where that is known and its owner has not ended it.
    pub fn end(&self) -> Option<EndReason> {
        let state = self.state.lock();
        match &state.last {
            Some(SessionEvent::Ended(reason)) if !state.muted => Some(reason.clone()),
            _ => None,
        }
    }

    /// What ended a pairing's connection does not end the session, which logs in.
    pub fn forget_end(&self) {
        self.state.lock().last = None;
    }

    /// A device that was never known is not one that was unlinked.
    pub fn soften_unlinked(&self) {
        let mut state = self.state.lock();
        if matches!(state.last, Some(SessionEvent::Ended(EndReason::Unlinked))) {
            state.last = Some(SessionEvent::Ended(EndReason::Invalidated));
        }
    }

    /// Whether the network refuses the version of its client that the session says it is.
    pub fn is_outdated(&self) -> bool {
        matches!(self.state.lock().last, Some(SessionEvent::Ended(EndReason::ClientOutdated)))
    }

    /// There is a later one, which the next session says it is.
    pub fn soften_outdated(&self) {
        let mut state = self.state.lock();
        if matches!(state.last, Some(SessionEvent::Ended(EndReason::ClientOutdated))) {
            let why = "the network refuses a version of its client, and a later one is known now";
            state.last = Some(SessionEvent::Ended(EndReason::Transport(why.into())));
        }
    }

    /// A connection that broke did so for a reason that the library makes no event of.
    pub fn note_too_many_logins(&self) {
        let mut state = self.state.lock();
        if matches!(state.last, None | Some(SessionEvent::Ended(EndReason::Transport(_)))) {
            state.last = Some(SessionEvent::Ended(EndReason::TooManyLogins));
        }
    }

    /// Ends the session at once.
    pub fn cut(&self, reason: EndReason) {
        self.note_end(reason);
        self.stop();
    }

    /// Ends it, and reports nothing of that nor of what waits.
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

    /// A pairing may stay as it is for so long from now on, or longer where that was said before.
    pub fn pairs_for(&self, time: Duration) {
        let due = Instant::now() + time;
        let mut state = self.state.lock();
        state.pairing_due = state.pairing_due.max(Some(due));
    }

    /// Returns once a pairing has stayed as it was for too long.
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

    /// Whether the account is not to be shown as available.
    pub fn hides(&self) -> bool {
        self.state.lock().hides
    }

    pub fn set_hides(&self, hides: bool) {
        self.state.lock().hides = hides;
    }

    /// Tells the owner, behind what was told before.
    pub fn report(&self, event: SessionEvent) {
        let events = self.state.lock().events.clone();
        if let Some(events) = events
            && let Err(mpsc::error::TrySendError::Full(_)) = events.try_send(event)
        {
            self.cut(EndReason::Transport("the owner does not read what the session reports".into()));
        }
    }

    /// Reports an item that has its row before the network can be told that it came.
    pub fn keep(&self, id: Option<ItemId>, at: Timestamp, kind: InboundKind) {
        if let Err(error) = self.inbox.keep(id, at, kind) {
            self.cut(end_of(error));
        }
    }

    /// As [`keep`](Self::keep), of a receipt: `knows` says whether this session has heard of its message.
    pub fn keep_receipt(&self, at: Timestamp, receipt: Receipt, knows: impl Fn(&MessageId) -> bool) {
        if let Err(error) = self.inbox.keep_known(None, at, InboundKind::Receipt(receipt), knows) {
            self.cut(end_of(error));
        }
    }

    /// Waits until what came in before is not too much for the owner.
    ///
    /// # Errors
    /// The session has ended, by this or otherwise.
    pub async fn room_for_more(&self) -> Result<(), Silent> {
        if !self.inbox.has_room().await {
            self.cut(EndReason::Transport("what came in is not taken in time".into()));
        }
        if self.stopped.is_cancelled() { Err(Silent::Ended) } else { Ok(()) }
    }

    /// Whether the owner has more of what came in before it.
    pub fn is_behind(&self) -> bool {
        self.inbox.is_behind()
    }

    /// No event follows but the last one.
    pub fn close_events(&self) {
        self.state.lock().events = None;
    }

    /// Carries events to the owner, and at last how the session ended.
    pub async fn carry(&self, mut waiting: mpsc::Receiver<SessionEvent>, owner: mpsc::Sender<SessionEvent>) {
        while let Some(event) = waiting.recv().await {
            if !self.hand_over(&owner, event).await {
                return;
            }
        }
        let last = self.state.lock().last.take();
        let last = last.unwrap_or_else(|| SessionEvent::Ended(EndReason::Transport("the connection ended".into())));
        self.hand_over(&owner, last).await;
    }

    async fn hand_over(&self, owner: &mpsc::Sender<SessionEvent>, event: SessionEvent) -> bool {
        let room = tokio::select! {
            room = owner.reserve() => room,
            () = self.killed.cancelled() => return false,
        };
        let state = self.state.lock();
        match room {
            Ok(room) if !state.muted => {
                room.send(event);
                true
            }
            _ => false,
        }
    }
}

/// What a failure of the store means for the session.
pub fn end_of(error: AuthError) -> EndReason {
    match error {
        AuthError::Fenced => EndReason::Fenced,
        AuthError::Unavailable(why) => EndReason::Transport(why),
        AuthError::Unreadable(why) => EndReason::AuthState(why),
    }
}

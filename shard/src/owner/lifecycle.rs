//! A channel's status at its owner: moves, and sessions that open and end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::event::{Event, EventId, EventName};
use model::id::MessageId;
use model::payload::{ChannelConnected, ChannelDisconnected, ChannelStatus, Payload, QrUpdated};
use model::status::{self, Move as Step, Reason, Refusal, Status, StatusDetails, Trigger};
use model::time::Timestamp;
use network::bounds::Fit;
use network::driver::{EndReason, Identity, OpenError, OpenSession, Purpose, Session, SessionEvent};
use raft::failpoint::{self, Point};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::auth::{Closed, ReplicatedAuth};
use super::backoff::reconnect_delay;
use super::channel::{Batch, Channel, Running, ShownQr};
use super::committer::LeadershipLost;
use super::events::{self, About};
use super::outbox::Entry;
use super::start_limiter::SlotGuard;
use crate::command::{Command, Move, NewEvent, Reply};
use crate::machine::credentials_to_thin;
use crate::picture;
use crate::records::Failure;

/// How long a login may take (T9).
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(60);

/// How long reconnecting goes on (T15).
const RECONNECT_BUDGET: Duration = Duration::from_secs(24 * 3600);

/// How long a replaced session rests before its one retry (T23), and how soon a second replacement is a loop (T24).
const REPLACED_REST: Duration = Duration::from_secs(30);
const REPLACED_LOOP: Duration = Duration::from_secs(10 * 60);

/// How soon a channel without a slot asks again (T16).
const SLOT_RETRY: Duration = Duration::from_secs(5);

/// How soon it is looked again whether the directory can be gone by: its copy is confirmed twice a second.
const DIRECTORY_RETRY: Duration = Duration::from_millis(250);

/// How many times a pairing session may be lost before the pairing is given up (T6).
const PAIRING_LOSSES: u32 = 5;

/// Between a lost pairing session and the next.
const PAIRING_RETRY: Duration = Duration::from_millis(500);

/// How long an orderly close may take, and an unlink at the network (T28).
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);
const LOGOUT_PATIENCE: Duration = Duration::from_secs(5);

/// How long a driver may take to begin to open a session, and how long where the caller of a logout waits for it.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);
const UNLINK_OPENING: Duration = Duration::from_secs(1);

/// How many events a session may have waiting: more than a driver sends without acknowledgement.
const EVENT_QUEUE: usize = network::driver::EVENT_WINDOW * 2;

/// When a replacement was that an earlier owner noted, if another one now would be a loop (T24). One that seems to be still to come was
/// noted by a wrong clock, and counts for nothing.
pub fn replaced_lately(at: Timestamp, now: Timestamp) -> Option<Instant> {
    let ago = (at <= now).then(|| now.since(at)).filter(|ago| *ago < REPLACED_LOOP)?;
    Instant::now().checked_sub(ago)
}

/// Until when a code that has just come can be scanned; `None` where this node's clock cannot tell, and it is until the next one: a
/// code that is over before it comes was timed by the network's clock, which is behind this one.
fn scannable_until(expires_at: Timestamp, now: Timestamp) -> Option<Instant> {
    let left = expires_at.since(now);
    Instant::now().checked_add(left).filter(|_| !left.is_zero())
}

/// What comes with an explicit move.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    pub identity: Option<Identity>,
    pub by_operator: bool,
    pub call_id: Option<Uuid>,
    pub details: Option<StatusDetails>,
}

impl Extra {
    /// Who the network says that the channel is, within bounds. Where its number cannot be kept, it stays who it was.
    pub fn identified(mut identity: Identity) -> Self {
        if let Fit::Beyond(reason) = identity.fit() {
            metrics::counter!("gateway_inbound_beyond_bounds_total", "what" => reason).increment(1);
            return Self::default();
        }
        Self { identity: Some(identity), ..Self::default() }
    }
}

impl Channel {
    /// Takes over what an earlier owner left (T11 and its kin).
    pub async fn recover(&mut self) -> Result<(), LeadershipLost> {
        match self.row.status {
            Status::Connected => self.go_on(Trigger::OwnerLost).await?,
            // Paired, and the owner died before it could say so.
            Status::Qr if self.row.credentials => self.go_on(Trigger::Paired).await?,
            Status::Qr => self.start_at = Some(self.book_start()),
            Status::Connecting | Status::Reconnecting => self.start_at = Some(self.book_start()),
            Status::Disconnected => self.resume_at = Some(self.book_start()),
            _ => {}
        }
        Ok(())
    }

    /// Makes a move if the table permits it. Commits it with its events, then does what the new status asks for.
    pub async fn transition(
        &mut self,
        trigger: Trigger,
        extra: Option<Extra>,
    ) -> Result<Result<(), Refusal>, LeadershipLost> {
        let step = match status::transition(self.row.status, trigger, self.row.credentials) {
            Ok(step) => step,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut closed = None;
        if step.wipes_credentials {
            closed = self.close_state().await;
            self.thin_credentials().await?;
        }
        let extra = extra.unwrap_or_default();
        let from = self.row.status;
        let now = Timestamp::now();
        let command = Move {
            channel: self.row.id,
            customer: self.row.customer,
            expect: self.row.version,
            to: step.to,
            reason: step.reason,
            at: now,
            wipe_credentials: step.wipes_credentials,
            identity: extra.identity.clone(),
            disabled_by_operator: extra.by_operator && step.to == Status::DisabledByAdmin,
            moved_by: extra.call_id,
            events: self.events_of(&step, &extra, now),
            details: extra.details,
        };
        match self.commit(Command::Move(command.clone())).await? {
            Reply::Done => {}
            // Only this task moves the channel, so that another version means another owner.
            Reply::ChannelDeleted => {
                self.end_session();
                return Ok(Err(Refusal::Invalid));
            }
            // No entry can hold it, and one of another owner could not either: the attempt comes to nothing, and the
            // ownership of the shard goes on.
            Reply::TooLarge => {
                self.end_session();
                self.failures += 1;
                self.start_at = Some(Instant::now() + self.backoff());
                return Ok(Err(Refusal::Invalid));
            }
            _ => return Err(LeadershipLost),
        }
        if let Some(closed) = closed {
            closed.wiped();
        }
        // A first move makes the row.
        if self.row.version > 0 || self.row.credentials {
            self.owner.status_counts.leaves(from);
        }
        self.owner.status_counts.enters(step.to);
        self.row.moved(&command);
        let reconnecting = self.row.reconnecting_since.is_some();
        self.reconnecting_since = reconnecting.then(|| self.reconnecting_since.unwrap_or_else(Instant::now));
        self.review_operations();
        metrics::counter!("gateway_channel_transitions_total", "from" => from.as_str(), "to" => step.to.as_str(), "reason" => step.reason.as_str()).increment(1);
        tracing::info!(channel = %self.row.id, %from, to = %step.to, reason = step.reason.as_str(), "the channel moved");
        self.on_enter(&step, trigger).await?;
        Ok(Ok(()))
    }

    /// Nothing that the last session still writes is kept, neither behind a wipe nor behind what the next session reads. None where
    /// nothing of that session is left.
    pub async fn close_state(&mut self) -> Option<Closed> {
        let auth = std::mem::take(&mut self.auth).upgrade()?;
        Some(auth.close().await)
    }

    /// Deletes most of what a driver keeps of the channel, in portions, so that the move itself has to wipe only a few rows: a
    /// driver of a real network keeps tens of thousands. What says that the channel can log in goes last, with the move: an
    /// owner that dies in between leaves a channel that its successor brings to the same end.
    async fn thin_credentials(&mut self) -> Result<(), LeadershipLost> {
        loop {
            let writes = credentials_to_thin(&self.owner.reader, self.row.id);
            let (channel, customer) = (self.row.id, self.row.customer);
            if writes.is_empty() || self.commit(Command::Auth { channel, customer, writes }).await? != Reply::Done {
                return Ok(());
            }
        }
    }

    fn events_of(&self, step: &Step, extra: &Extra, now: Timestamp) -> Vec<NewEvent> {
        let identity = extra.identity.as_ref();
        let mut payloads = vec![Payload::ChannelStatus(ChannelStatus {
            previous_status: self.row.status,
            status: step.to,
            reason: step.reason,
            changed_at: now,
            details: extra.details,
        })];
        if step.to == Status::Connected {
            let phone = identity.map(|identity| identity.phone_number.clone()).or(self.row.phone_number.clone());
            payloads.push(Payload::ChannelConnected(ChannelConnected {
                phone_number: phone.unwrap_or_default(),
                lid: identity.and_then(|identity| identity.lid.clone()).or(self.row.lid.clone()),
                push_name: identity.and_then(|identity| identity.push_name.clone()).or(self.row.push_name.clone()),
                connected_at: now,
            }));
        }
        if let Some(reason) = step.disconnected {
            let will_retry = !step.to.is_terminal();
            let delay =
                if step.to == Status::Disconnected { REPLACED_REST } else { reconnect_delay(0, Duration::ZERO, 0.5) };
            payloads.push(Payload::ChannelDisconnected(ChannelDisconnected {
                reason,
                will_retry,
                next_retry_at: will_retry.then(|| now.plus(delay)),
            }));
        }
        payloads.into_iter().map(|payload| self.event(payload, About::default(), now)).collect()
    }

    /// An event that the gateway itself brings about.
    pub fn event(&self, payload: Payload, about: About, now: Timestamp) -> NewEvent {
        self.event_of_id(EventId::mint(now, rand::random()), payload, about, now)
    }

    pub fn event_of_id(&self, id: EventId, payload: Payload, about: About, now: Timestamp) -> NewEvent {
        let event = Event { id, channel: self.row.id, occurred_at: now, payload };
        events::make(&self.owner.node.directory, self.row.customer, event, about)
    }

    /// What a status asks for, once it is reached.
    async fn on_enter(&mut self, step: &Step, trigger: Trigger) -> Result<(), LeadershipLost> {
        self.start_at = None;
        self.resume_at = None;
        self.booking = None;
        if step.to != Status::Qr {
            self.qr = None;
            self.qr_waiters.clear();
        }
        match step.to {
            Status::Qr => {
                self.end_session();
                self.failures = 0;
                self.open_session().await?;
            }
            Status::Connecting => match trigger {
                // The pairing's own session goes on to log in; after a fail-over there is none.
                Trigger::Paired if self.running.is_some() => {}
                Trigger::PlannedMove => {}
                _ => {
                    self.end_session();
                    self.failures = 0;
                    self.start_at = Some(self.book_start());
                }
            },
            Status::Reconnecting => {
                self.end_session();
                let paced = self.book_start();
                self.start_at = Some(match trigger {
                    // Recovering the channel is the first attempt.
                    Trigger::OwnerLost => paced,
                    _ => paced.max(Instant::now() + self.backoff()),
                });
            }
            Status::Connected => {
                self.failures = 0;
                self.outbox.clear_writes();
                self.pace_anew();
                self.write_outbox().await;
            }
            Status::Disconnected => {
                self.end_session();
                self.resume_at = Some(match step.reason {
                    Reason::KickedOtherDevice => Instant::now() + REPLACED_REST,
                    Reason::NoWorker => Instant::now() + SLOT_RETRY,
                    _ => self.book_start(),
                });
            }
            Status::Pending => self.end_session(),
            Status::LoggedOut | Status::StoppedByUser | Status::DisabledByAdmin | Status::Error | Status::Failed => {
                self.close_session(trigger);
                failpoint::reach(Point::SendsBeforeEnd);
                self.end_sends(&format!("the channel is {}", step.to)).await?;
            }
        }
        Ok(())
    }

    /// When the next start may happen, among those of the node's other channels. The one that was booked before is given back.
    fn book_start(&mut self) -> Instant {
        self.booking = None;
        self.booking.insert(self.owner.node.start_limiter.book()).at()
    }

    fn backoff(&self) -> Duration {
        reconnect_delay(self.failures, self.reconnecting_for(), rand::random())
    }

    /// For how long this owner has been trying to reconnect. A clock that is set must not end the channel, so what owners
    /// before this one have tried does not count.
    fn reconnecting_for(&self) -> Duration {
        self.reconnecting_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Ends the session at once, and with it the code that it showed: nobody can scan that any more.
    pub fn end_session(&mut self) {
        self.operations.interrupted();
        self.qr = None;
        if let Some(running) = self.running.take() {
            running.session.kill();
        }
    }

    /// Closes the session in order, so that the network knows, and settles what it had answered by then. One that logs in
    /// is closed as well: its login must not come after the next owner's.
    pub async fn close_in_order(&mut self) -> Result<(), LeadershipLost> {
        self.operations.interrupted();
        let Some(mut running) = self.running.take() else { return Ok(()) };
        if tokio::time::timeout(DRAIN_PATIENCE, running.session.drain()).await.is_err() {
            tracing::info!(channel = %self.row.id, "the network was not notified of the end of a session");
        }
        running.session.kill();
        let mut batch = Batch::default();
        while let Ok(event) = running.events.try_recv() {
            match event {
                SessionEvent::Accepted { id, at, recipients } => self.settle_accepted(&mut batch, &id, at, recipients),
                SessionEvent::Refused { id, refused } => self.settle_refused(&mut batch, &id, *refused),
                // What came in and was not acknowledged comes again.
                _ => {}
            }
        }
        // Before the move that may end the channel: the next owner would not know what the network had taken.
        self.finish_immediately(batch).await
    }

    /// Ends the session as the reason for it permits: an unlink is told to the network, all else ends at once.
    fn close_session(&mut self, trigger: Trigger) {
        self.operations.interrupted();
        let Some(running) = self.running.take() else { return };
        match trigger {
            Trigger::Logout => {
                let Running { session, events, logged_in, .. } = running;
                tokio::spawn(unlink(session, events, logged_in));
            }
            _ => running.session.kill(),
        }
    }

    /// Opens a session for the status that the channel is in.
    pub async fn open_session(&mut self) -> Result<(), LeadershipLost> {
        let purpose = match self.row.status {
            Status::Qr => {
                let settings = &self.settings.settings;
                Purpose::Pair { device_name: settings.device_name.clone(), full_history: settings.sync_full_history }
            }
            Status::Connecting | Status::Reconnecting => Purpose::Login,
            _ => return Ok(()),
        };
        if !self.owner.node.directory.is_fresh() {
            // A copy that hears of nothing does not know which channels were deleted meanwhile.
            self.start_at = Some(Instant::now() + DIRECTORY_RETRY);
            return Ok(());
        }
        if !self.may_have_session() {
            return Ok(());
        }
        self.end_session();
        drop(self.close_state().await);
        let proxy = match self.proxy() {
            Ok(proxy) => proxy,
            Err(error) => {
                // Without its proxy it must not go out, and trying again does not help.
                tracing::error!(channel = %self.row.id, %error, "no session is opened");
                return self.go_on(Trigger::AuthState).await;
            }
        };
        let Some(slot) = self.owner.node.slots.take() else {
            if self.row.status == Status::Qr {
                self.start_at = Some(Instant::now() + SLOT_RETRY);
            } else {
                self.go_on(Trigger::NoSlot).await?;
            }
            return Ok(());
        };
        match self.open(purpose, proxy, slot).await {
            Ok(()) => Ok(()),
            // The right to speak lapsed for a moment, or for good; in the latter case this task ends by itself.
            Err(OpenError::Fenced) => {
                self.start_at = Some(Instant::now() + PAIRING_RETRY);
                Ok(())
            }
            Err(OpenError::Unreachable(_)) => self.attempt_failed().await,
        }
    }

    /// Whether a session may be opened here: another owner may log in at any moment once the leadership is transferred, and a channel that was deleted is about to be wiped.
    fn may_have_session(&self) -> bool {
        !self.owner.is_closing() && !self.owner.is_deleted(self.row.id)
    }

    /// Has the driver open a session, which is the channel's from then on.
    async fn open(&mut self, purpose: Purpose, proxy: Option<String>, slot: SlotGuard) -> Result<(), OpenError> {
        let (sender, receiver) = mpsc::channel(EVENT_QUEUE);
        let auth = Arc::new(ReplicatedAuth::new(self.owner.clone(), self.row.id, self.row.customer));
        self.auth = Arc::downgrade(&auth);
        let open = OpenSession {
            channel: self.row.id,
            node: self.owner.node.node,
            fence: self.owner.fence.clone(),
            purpose,
            proxy,
            auth,
            events: sender,
        };
        let opened = tokio::time::timeout(OPEN_PATIENCE, self.owner.node.network.open(open)).await;
        let session = opened.unwrap_or_else(|_| Err(OpenError::Unreachable("the driver is busy".to_owned())))?;
        self.running =
            Some(Running { session, events: receiver, logged_in: false, opened_at: Instant::now(), _slot: slot });
        Ok(())
    }

    /// Begins a login for nothing but to tell the network of a logout, where the channel has no session (T28): with the move,
    /// its credentials are gone. A session that came from elsewhere may be somebody else's by now, and is left alone until a
    /// person has had it go on.
    pub async fn open_to_unlink(&mut self) {
        let may_log_in = self.running.is_none()
            && self.row.credentials
            && self.row.reason != Reason::Restored
            && self.owner.node.directory.is_fresh()
            && self.may_have_session();
        if !may_log_in {
            return;
        }
        let (Ok(proxy), Some(slot)) = (self.proxy(), self.owner.node.slots.take()) else { return };
        drop(self.close_state().await);
        let opening = self.open(Purpose::Login, proxy, slot);
        if !matches!(tokio::time::timeout(UNLINK_OPENING, opening).await, Ok(Ok(()))) {
            tracing::info!(channel = %self.row.id, "the network cannot be notified of a logout");
        }
    }

    /// A login attempt or a pairing session came to nothing (T6, T9, T14, T15).
    pub async fn attempt_failed(&mut self) -> Result<(), LeadershipLost> {
        self.failures += 1;
        match self.row.status {
            Status::Qr if self.failures >= PAIRING_LOSSES => self.go_on(Trigger::QrTimeout).await,
            Status::Qr => {
                self.start_at = Some(Instant::now() + PAIRING_RETRY);
                Ok(())
            }
            Status::Connecting => self.go_on(Trigger::AttemptFailed).await,
            Status::Reconnecting => {
                if self.reconnecting_for() >= RECONNECT_BUDGET {
                    return self.go_on(Trigger::ReconnectBudget).await;
                }
                let after_backoff = Instant::now() + self.backoff();
                let is_slow = self.owner.node.start_limiter.is_slow();
                self.start_at = Some(if is_slow { after_backoff.max(self.book_start()) } else { after_backoff });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Leaves `disconnected` once there is a slot (T17, T23): without one it would be back at once, with two events for it.
    pub async fn resume(&mut self) -> Result<(), LeadershipLost> {
        if self.owner.node.slots.is_full() {
            self.resume_at = Some(Instant::now() + SLOT_RETRY);
            return Ok(());
        }
        self.resume_at = None;
        self.go_on(Trigger::Resume).await
    }

    /// [`Channel::go`] for what happens by itself. Boxed, because it closes a circle of calls: moves open sessions, and
    /// failing to open one moves.
    pub async fn go_on(&mut self, trigger: Trigger) -> Result<(), LeadershipLost> {
        // A move that the table refuses here is one that is not needed any more.
        let _ = Box::pin(self.transition(trigger, None)).await?;
        Ok(())
    }

    /// What a session reports about itself.
    pub async fn session_event(&mut self, event: SessionEvent) -> Result<(), LeadershipLost> {
        match event {
            SessionEvent::Qr { raw, expires_at, sequence } => {
                let code = crate::call::QrCode { raw: raw.into(), expires_at, sequence };
                for waiter in self.qr_waiters.drain(..) {
                    let _ = waiter.send(code.clone());
                }
                let until = scannable_until(code.expires_at, Timestamp::now());
                self.qr = Some(Box::new(ShownQr { code: code.clone(), until }));
                self.tell_of_qr(code).await?;
            }
            SessionEvent::QrTimeout => self.go_on(Trigger::QrTimeout).await?,
            SessionEvent::Paired(identity) => {
                self.row.credentials = true;
                self.clear_sync().await?;
                let _ = self.transition(Trigger::Paired, Some(Extra::identified(*identity))).await?;
                if let Some(running) = &mut self.running {
                    running.opened_at = Instant::now();
                }
            }
            SessionEvent::PairingRefused { code, text } => {
                tracing::info!(channel = %self.row.id, code, text, "the network refused the pairing");
                self.go_on(Trigger::PairingRefused).await?;
            }
            SessionEvent::Passkey(step) => {
                tracing::info!(channel = %self.row.id, ?step, "the network asks for a passkey");
            }
            SessionEvent::LoggedIn(identity) => {
                if let Some(running) = &mut self.running {
                    running.logged_in = true;
                }
                let _ = self.transition(Trigger::LoginOk, Some(Extra::identified(*identity))).await?;
                self.show_settled_presence().await;
                self.take_up_downloads();
                self.take_up_operations().await?;
            }
            SessionEvent::Ended(reason) => self.session_ended(reason).await?,
            SessionEvent::Operated { id, result } => self.operated(id, *result).await?,
            // Callers take these into their batch.
            SessionEvent::Accepted { .. } | SessionEvent::Refused { .. } | SessionEvent::Inbound(_) => {}
        }
        Ok(())
    }

    async fn tell_of_qr(&mut self, code: crate::call::QrCode) -> Result<(), LeadershipLost> {
        let node = &self.owner.node;
        if !events::is_wanted(&node.directory, self.row.customer, self.row.id, EventName::QrUpdated) {
            return Ok(());
        }
        let Ok(png) = picture::png(&code.raw, picture::DEFAULT_SIZE) else { return Ok(()) };
        let qr = picture::data_url(&png);
        let payload =
            Payload::QrUpdated(QrUpdated { qr, raw: code.raw, expires_at: code.expires_at, sequence: code.sequence });
        let event = self.event(payload, About::default(), Timestamp::now());
        self.commit(Command::Emit(event)).await?;
        Ok(())
    }

    async fn session_ended(&mut self, reason: EndReason) -> Result<(), LeadershipLost> {
        self.end_session();
        tracing::debug!(channel = %self.row.id, ?reason, "the session ended");
        let connected = self.row.status == Status::Connected;
        if reason == EndReason::TooManyLogins {
            tracing::warn!(channel = %self.row.id, "too many logins for the network: their rate is halved for a while");
            self.owner.node.start_limiter.slow_down();
        }
        let details = match &reason {
            EndReason::Banned { until } => until.map(|ban_until| StatusDetails { ban_until }),
            _ => None,
        };
        let trigger = match reason {
            EndReason::Transport(_) | EndReason::TooManyLogins | EndReason::Fenced if connected => {
                Trigger::TransportLost
            }
            EndReason::Transport(_) | EndReason::TooManyLogins | EndReason::Fenced => {
                return self.attempt_failed().await;
            }
            EndReason::Replaced if connected => {
                let before = self.replaced_at.replace(Instant::now());
                let again = before.is_some_and(|at| at.elapsed() < REPLACED_LOOP);
                if again { Trigger::ReplacedAgain } else { Trigger::Replaced }
            }
            EndReason::Replaced => return self.attempt_failed().await,
            EndReason::Unlinked => Trigger::Unlinked,
            EndReason::Invalidated => Trigger::SessionInvalidated,
            EndReason::Banned { .. } => Trigger::Banned,
            EndReason::ClientOutdated => Trigger::ClientOutdated,
            EndReason::AuthState(_) => Trigger::AuthState,
        };
        // A verdict on a login that the table does not know in this status ends a pairing attempt at most.
        match Box::pin(self.transition(trigger, Some(Extra { details, ..Extra::default() }))).await? {
            Ok(()) => Ok(()),
            Err(_) => self.attempt_failed().await,
        }
    }

    /// Closes the session in order for a transfer of the leadership (T12): the next owner opens the session anew, and writes the sends
    /// that are accepted until then.
    pub async fn close_for_transfer(&mut self) -> Result<(), LeadershipLost> {
        self.close_in_order().await?;
        let _ = self.transition(Trigger::PlannedMove, None).await?;
        Ok(())
    }

    /// Fails all sends that wait, because the channel sends no more.
    pub async fn end_sends(&mut self, why: &str) -> Result<(), LeadershipLost> {
        self.fail_sends(self.outbox.ids(), "channel_unavailable", why).await
    }

    /// Fails sends that are still in the outbox, and tells of it. Of those that were written nobody knows here whether the
    /// network took them, and their failure says so instead.
    pub async fn fail_sends(&mut self, ids: Vec<MessageId>, code: &str, message: &str) -> Result<(), LeadershipLost> {
        /// Sends that share a submission.
        const AT_ONCE: usize = 100;
        let (failure, doubt) = (Failure::new(code, message), Failure::in_doubt(message));
        for ids in ids.chunks(AT_ONCE) {
            let failed = |id| {
                let may_be_out = self.outbox.get(id).is_some_and(Entry::may_be_out);
                self.failed(id, if may_be_out { &doubt } else { &failure })
            };
            let commands = ids.iter().filter_map(failed).collect();
            self.owner.committer.commit(commands).await?;
            ids.iter().for_each(|id| drop(self.outbox.take(id)));
        }
        Ok(())
    }
}

/// Unlinks a device at the network, once its session has logged in, and ends the session in any case.
async fn unlink(session: Arc<dyn Session>, mut events: mpsc::Receiver<SessionEvent>, logged_in: bool) {
    let unlinked = async {
        let mut logged_in = logged_in;
        while !logged_in {
            match events.recv().await {
                Some(SessionEvent::LoggedIn(_)) => logged_in = true,
                Some(SessionEvent::Ended(_)) | None => return false,
                Some(_) => {}
            }
        }
        session.logout().await.is_ok()
    };
    if !matches!(tokio::time::timeout(LOGOUT_PATIENCE, unlinked).await, Ok(true)) {
        tracing::info!("the network was not notified of a logout");
    }
    session.kill();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_that_an_earlier_owner_noted_counts_for_ten_minutes() {
        let at = Timestamp(1_767_225_600_000);
        let seen_after = |passed: Duration| replaced_lately(at, at.plus(passed)).map(|then| then.elapsed());
        let minute = Duration::from_secs(60);
        assert!(seen_after(minute).is_some_and(|ago| (minute..minute * 2).contains(&ago)));
        assert_eq!(seen_after(REPLACED_LOOP), None);
        assert_eq!(replaced_lately(at, at.minus(minute)), None);
    }

    #[test]
    fn a_code_that_comes_expired_by_a_clock_that_is_ahead_can_be_scanned_until_the_next() {
        let expires_at = Timestamp(1_767_225_600_000);
        let minute = Duration::from_secs(60);
        let left = |now| scannable_until(expires_at, now).map(|until| until.saturating_duration_since(Instant::now()));
        assert!(left(expires_at.minus(minute)).is_some_and(|left| left <= minute && left > minute / 2));
        assert_eq!(left(expires_at), None);
        assert_eq!(left(expires_at.plus(10 * minute)), None);
    }
}

//! A channel's status at its owner: transitions, and the opening and closing of sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::event::{Event, EventId, EventName};
use model::id::MessageId;
use model::payload::{ChannelConnected, ChannelDisconnected, ChannelStatus, Payload, QrUpdated};
use model::status::{self, Move as Step, Reason, Refusal, Status, StatusDetails, Trigger};
use model::time::Timestamp;
use network::bounds::Fit;
use network::driver::{EndReason, Identity, OpenError, OpenSession, Purpose, QueuedEvent, Session, SessionEvent};
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

/// Timeout of a login (T9).
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(60);

/// How long a channel keeps trying to reconnect (T15).
const RECONNECT_BUDGET: Duration = Duration::from_secs(24 * 3600);

/// Delay before the one retry of a replaced session (T23), and when a second replacement is a loop (T24).
const REPLACED_REST: Duration = Duration::from_secs(30);
const REPLACED_LOOP: Duration = Duration::from_secs(10 * 60);

/// How soon a channel without a slot tries again (T16).
const SLOT_RETRY: Duration = Duration::from_secs(5);

/// How soon the age of the directory's copy is checked again; the copy is confirmed twice a second.
const DIRECTORY_RETRY: Duration = Duration::from_millis(250);

/// Lost pairing sessions after which a pairing is given up (T6).
const PAIRING_LOSSES: u32 = 5;

/// Delay between a lost pairing session and the next.
const PAIRING_RETRY: Duration = Duration::from_millis(500);

/// Timeouts of an orderly close and of an unlink at the network (T28).
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);
const LOGOUT_PATIENCE: Duration = Duration::from_secs(5);

/// How long a driver may take to begin to open a session, and how long if the caller of a logout waits for it.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);
const UNLINK_OPENING: Duration = Duration::from_secs(1);

/// Capacity of a session's event queue: more than a driver sends without acknowledgement.
const EVENT_QUEUE: usize = network::driver::EVENT_WINDOW * 2;

/// When a replacement that an earlier owner recorded happened, if another one now would be a loop (T24). A time in the
/// future comes from a wrong clock and is ignored.
pub fn replaced_lately(at: Timestamp, now: Timestamp) -> Option<Instant> {
    let ago = (at <= now).then(|| now.since(at)).filter(|ago| *ago < REPLACED_LOOP)?;
    Instant::now().checked_sub(ago)
}

/// Until when a new code can be scanned. `None`, which means until the next code, if this node's clock cannot tell: a
/// code that is expired on arrival comes from a network clock that is behind this node's.
fn scannable_until(expires_at: Timestamp, now: Timestamp) -> Option<Instant> {
    let left = expires_at.since(now);
    Instant::now().checked_add(left).filter(|_| !left.is_zero())
}

/// Additional data of an explicit transition.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    pub identity: Option<Identity>,
    pub by_operator: bool,
    pub call_id: Option<Uuid>,
    pub details: Option<StatusDetails>,
}

impl Extra {
    /// The identity that the network reports, within bounds. Without a valid number, the old identity stays.
    pub fn identified(mut identity: Identity) -> Self {
        if let Fit::Beyond(reason) = identity.fit() {
            metrics::counter!("gateway_inbound_beyond_bounds_total", "what" => reason).increment(1);
            return Self::default();
        }
        Self { identity: Some(identity), ..Self::default() }
    }
}

impl Channel {
    /// Takes over what an earlier owner left (T11 and related transitions).
    pub async fn recover(&mut self) -> Result<(), LeadershipLost> {
        match self.row.status {
            Status::Connected => self.go_on(Trigger::OwnerLost).await?,
            // Paired, but the owner died before it could commit that.
            Status::Qr if self.row.credentials => self.go_on(Trigger::Paired).await?,
            Status::Qr => self.start_at = Some(self.book_start()),
            Status::Connecting | Status::Reconnecting => self.start_at = Some(self.book_start()),
            Status::Disconnected => self.resume_at = Some(self.book_start()),
            _ => {}
        }
        Ok(())
    }

    /// Makes a transition if the table permits it: commits it with its events, then does what the new status requires.
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
            Reply::ChannelDeleted => {
                self.end_session();
                return Ok(Err(Refusal::Invalid));
            }
            // No entry can hold the command, nor could an entry of another owner: only the attempt fails.
            Reply::TooLarge => {
                self.end_session();
                self.failures += 1;
                self.start_at = Some(Instant::now() + self.backoff());
                return Ok(Err(Refusal::Invalid));
            }
            // Only this task moves the channel, so any other reply, such as for another version, means another owner.
            _ => return Err(LeadershipLost),
        }
        if let Some(closed) = closed {
            closed.wiped();
        }
        // The first transition creates the row; until then the channel is not counted.
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

    /// Makes the store refuse later writes of the last session, so that none comes after a wipe or after the next
    /// session has read. `None` if nothing of that session is left.
    pub async fn close_state(&mut self) -> Option<Closed> {
        let auth = std::mem::take(&mut self.auth).upgrade()?;
        Some(auth.close().await)
    }

    /// Deletes most of what a driver keeps of the channel, in portions, so that the transition itself has to wipe only
    /// a few rows: a driver of a real network keeps tens of thousands. The row that lets the channel log in goes last,
    /// with the transition: if the owner dies in between, its successor brings the channel to the same end.
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

    /// An event that the gateway itself causes.
    pub fn event(&self, payload: Payload, about: About, now: Timestamp) -> NewEvent {
        self.event_of_id(EventId::mint(now, rand::random()), payload, about, now)
    }

    pub fn event_of_id(&self, id: EventId, payload: Payload, about: About, now: Timestamp) -> NewEvent {
        let event = Event { id, channel: self.row.id, occurred_at: now, payload };
        events::make(&self.owner.node.directory, self.row.customer, event, about)
    }

    /// Does what a new status requires.
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
                // The pairing's own session goes on to log in; after a failover there is none.
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
                    // The recovery is the first attempt, so there is no backoff.
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

    /// Books the channel's next start among those of the node's other channels, and releases the one booked before.
    fn book_start(&mut self) -> Instant {
        self.booking = None;
        self.booking.insert(self.owner.node.start_limiter.book()).at()
    }

    fn backoff(&self) -> Duration {
        reconnect_delay(self.failures, self.reconnecting_for(), rand::random())
    }

    /// How long this owner has been trying to reconnect. Attempts of earlier owners do not count: their times are of
    /// the wall clock, and a clock that is set must not end the channel.
    fn reconnecting_for(&self) -> Duration {
        self.reconnecting_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Ends the session at once, and drops the code that it showed, which nobody can scan any more.
    pub fn end_session(&mut self) {
        self.operations.interrupted();
        self.qr = None;
        if let Some(running) = self.running.take() {
            running.session.kill();
        }
    }

    /// Closes the session in order, so that the network knows, and settles what it had answered by then. A session that
    /// is logging in is closed as well: its login must not come after the next owner's.
    pub async fn close_in_order(&mut self) -> Result<(), LeadershipLost> {
        self.operations.interrupted();
        let Some(mut running) = self.running.take() else { return Ok(()) };
        if tokio::time::timeout(DRAIN_PATIENCE, running.session.drain()).await.is_err() {
            tracing::info!(channel = %self.row.id, "the network was not notified of the end of a session");
        }
        running.session.kill();
        let mut batch = Batch::default();
        while let Ok(event) = running.events.try_recv() {
            match *event {
                SessionEvent::Accepted { id, at, recipients } => self.settle_accepted(&mut batch, &id, at, recipients),
                SessionEvent::Refused { id, refused } => self.settle_refused(&mut batch, &id, *refused),
                // Inbound items that were not acknowledged are delivered again.
                _ => {}
            }
        }
        // Committed before the transition that may end the channel: the next owner would not know the verdicts.
        self.finish_immediately(batch).await
    }

    /// Ends the session as `trigger` requires: after a logout the network is told; otherwise it ends at once.
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

    /// Opens the session that the channel's status requires.
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
            // An outdated copy does not show which channels were deleted meanwhile.
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
                // The channel must not connect without its proxy, and a retry does not help.
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
            // The fence has passed for a moment, or for good; in the latter case this task is cancelled.
            Err(OpenError::Fenced) => {
                self.start_at = Some(Instant::now() + PAIRING_RETRY);
                Ok(())
            }
            Err(OpenError::Unreachable(_)) => self.attempt_failed().await,
        }
    }

    /// Whether a session may be opened here: during a transfer of the leadership another owner may log in at any
    /// moment, and a deleted channel is about to be wiped.
    fn may_have_session(&self) -> bool {
        !self.owner.is_closing() && !self.owner.is_deleted(self.row.id)
    }

    /// Has the driver open a session, and makes it the channel's session.
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

    /// Begins a login only to tell the network of a logout, if the channel has no session (T28): the transition deletes
    /// its credentials. A restored session may be in use elsewhere by now, and is left alone until a person resumes it.
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

    /// Handles a failed login attempt, or a lost pairing session (T6, T9, T14, T15).
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

    /// Leaves `disconnected` once there is a slot (T17, T23): without one it would return at once, with two events.
    pub async fn resume(&mut self) -> Result<(), LeadershipLost> {
        if self.owner.node.slots.is_full() {
            self.resume_at = Some(Instant::now() + SLOT_RETRY);
            return Ok(());
        }
        self.resume_at = None;
        self.go_on(Trigger::Resume).await
    }

    /// [`Channel::transition`] for what happens without a caller. Boxed because the calls are recursive: transitions
    /// open sessions, and a session that cannot be opened causes a transition.
    pub async fn go_on(&mut self, trigger: Trigger) -> Result<(), LeadershipLost> {
        // A transition that the table refuses here is not needed any more.
        let _ = Box::pin(self.transition(trigger, None)).await?;
        Ok(())
    }

    /// Handles what a session reports about itself.
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
            // The callers of this function take these into their batch.
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
        // If the table has no such transition in this status, the verdict on the login ends at most a pairing attempt.
        match Box::pin(self.transition(trigger, Some(Extra { details, ..Extra::default() }))).await? {
            Ok(()) => Ok(()),
            Err(_) => self.attempt_failed().await,
        }
    }

    /// Closes the session in order for a transfer of the leadership (T12). The next owner opens a new session, and
    /// writes the sends that are accepted until then.
    pub async fn close_for_transfer(&mut self) -> Result<(), LeadershipLost> {
        self.close_in_order().await?;
        let _ = self.transition(Trigger::PlannedMove, None).await?;
        Ok(())
    }

    /// Fails all sends that wait, because the channel sends no more.
    pub async fn end_sends(&mut self, why: &str) -> Result<(), LeadershipLost> {
        self.fail_sends(self.outbox.ids(), "channel_unavailable", why).await
    }

    /// Fails sends that are still in the outbox, and emits their events. If a send was written, it is unknown here
    /// whether the network accepted it, and its failure says so.
    pub async fn fail_sends(&mut self, ids: Vec<MessageId>, code: &str, message: &str) -> Result<(), LeadershipLost> {
        /// Sends per submission.
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

/// Unlinks a device at the network once its session has logged in, and ends the session in any case.
async fn unlink(session: Arc<dyn Session>, mut events: mpsc::Receiver<QueuedEvent>, logged_in: bool) {
    let unlinked = async {
        let mut logged_in = logged_in;
        while !logged_in {
            match events.recv().await.as_deref() {
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

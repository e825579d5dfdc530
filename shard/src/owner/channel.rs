//! One channel at its owner: a task that owns the channel's session, outbox and status, and works in turns.
//!
//! A turn gathers what is ready (session events, work of callers), commits all changes in one submission, and only then
//! acts on them: it writes to the session, acknowledges to the network and answers callers. Nobody has been told of a
//! change that the process had not committed when it died.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use model::customer::Quota;
use model::error::CallError;
use model::id::{ChannelId, CustomerId, MediaId, RequestId};
use model::status::{Status, Trigger};
use model::time::Timestamp;
use network::driver::{EndReason, ItemId, Outbound, QueuedEvent, Session, SessionError, SessionEvent};
use network::operation::Operation;
use raft::failpoint::{self, Point};
use raft::machine::View;
use raft::supervise;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::auth::ReplicatedAuth;
use super::committer::{self, LeadershipLost};
use super::lifecycle::replaced_lately;
use super::number_checks::NumberChecks;
use super::operations::Operations;
use super::outbox::{Outbox, SendVerdict};
use super::outbox_bytes::Charge;
use super::send_delay::SendDelay;
use super::settling::Settled;
use super::start_limiter::{Booking, SlotGuard};
use super::submission::{LARGEST_COMMAND, PORTION};
use super::transfers::downloads::FetchEnd;
use super::transfers::held::Held;
use super::transfers::{Finished, Transfers};
use super::{Owner, SEND_PATIENCE};
use crate::call::request::PairCode;
use crate::call::{OwnerResponse, QrCode, Sent, Work};
use crate::command::{Command, Reply};
use crate::keys;
use crate::media::command::MediaRoom;
use crate::projection::Projected;
use crate::records::{ChannelRow, MessageRow, OutboxEntry, decode};
use crate::settings::SettingsRow;

/// Capacity of a channel's mailbox; callers beyond it wait.
pub const MAILBOX: usize = 64;

/// Maximum number of messages, and of session events, that one turn takes.
const TURN: usize = 64;

/// After a turn of large inbound messages the channel rests for this many times the turn's duration.
const INBOUND_REST: u32 = 2;

/// How long a task with nothing to do is kept.
const IDLE: Duration = Duration::from_secs(30);

/// How long a session's transport may take to accept a write before it counts as dead.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// Queued sends fail after this time.
const QUEUE_LIFE: Duration = Duration::from_secs(24 * 3600);

/// How often the age of queued sends is checked.
const AGE_CHECK: Duration = Duration::from_secs(60);

/// A channel whose task panics this often within [`CRASH_WINDOW`] is in a crash loop (T26).
const CRASHES: usize = 5;
const CRASH_WINDOW: Duration = Duration::from_secs(600);

/// A message to a channel's task. Even an idle mailbox has room for 32 of them, so large payloads are boxed.
pub enum ToChannel {
    Work(Box<Piece>),
    /// Close the session in order; answered once it is closed.
    CloseForTransfer(oneshot::Sender<()>),
    /// Download media whose bytes are not stored yet, for the caller that waits, if any.
    Fetch(Box<(MediaId, Option<oneshot::Sender<FetchEnd>>)>),
}

const _: () = assert!(size_of::<ToChannel>() <= 16, "a hundred thousand idle mailboxes hold 32 of them each");

/// Work, and the caller that waits for it.
pub struct Piece {
    pub work: Work,
    pub call_id: Uuid,
    pub request_id: RequestId,
    /// When it started to wait for its turn.
    pub since: Instant,
    pub reply: oneshot::Sender<Result<Worked, CallError>>,
}

/// What a channel's task answers; any further waiting is left to the caller's task.
pub enum Worked {
    Done(OwnerResponse),
    /// The send is committed; its verdict may come while the caller waits.
    Accepted(Sent, Option<oneshot::Receiver<SendVerdict>>),
    /// A QR text is expected.
    QrSoon(oneshot::Receiver<QrCode>),
    /// A pairing session, which can be asked for a pair code once its first QR text has come.
    Pairing {
        wanted: PairCode,
        session: Arc<dyn Session>,
        ready: Option<oneshot::Receiver<QrCode>>,
        /// Notified when the network gave a code; a request without a code does not count.
        given: oneshot::Sender<()>,
    },
}

/// An open session, and its events.
pub(super) struct Running {
    pub session: Arc<dyn Session>,
    pub events: mpsc::Receiver<QueuedEvent>,
    pub logged_in: bool,
    pub opened_at: Instant,
    pub _slot: SlotGuard,
}

/// The QR text that the network gave last.
pub(super) struct ShownQr {
    pub code: QrCode,
    /// Until when a phone can scan it; `None` means until the next one comes.
    pub until: Option<Instant>,
}

/// A pair code that was requested.
pub(super) struct PairCodeRequest {
    pub at: Instant,
    /// Notified when the network gave the code; closed if the request failed.
    pub answer: oneshot::Receiver<()>,
    pub given: bool,
}

pub(super) struct Channel {
    pub owner: Arc<Owner>,
    pub row: ChannelRow,
    pub settings: SettingsRow,
    pub running: Option<Running>,
    /// The last session's replicated state, as long as anything still uses it.
    pub auth: Weak<ReplicatedAuth>,
    pub outbox: Outbox,
    pub qr: Option<Box<ShownQr>>,
    pub qr_waiters: Vec<oneshot::Sender<QrCode>>,
    /// When to open the next session.
    pub start_at: Option<Instant>,
    /// When `disconnected` ends by itself (T17, T23).
    pub resume_at: Option<Instant>,
    /// The start that is booked at the node's start limiter, for either of them.
    pub booking: Option<Booking>,
    /// Consecutive failed attempts, or lost pairing sessions.
    pub failures: u32,
    /// Since when this owner has been trying to reconnect, and when another connection last replaced the channel's.
    /// Both are monotonic; of the row's own times, which are for people, only a recent replacement is used.
    pub reconnecting_since: Option<Instant>,
    pub replaced_at: Option<Instant>,
    pub pair_code: Option<PairCodeRequest>,
    age_checked: Instant,
    pub transfers: Transfers,
    /// Inbound items that wait for media bytes, and the items behind them.
    pub held: VecDeque<Held>,
    /// Requests to the network that are in progress.
    pub operations: Operations,
    pub number_checks: NumberChecks,
    pub send_delay: SendDelay,
    /// When the channel is next shown as available (setting `always_online`).
    pub shown_until: Option<Instant>,
}

/// Commands of a turn, and what to do once they are committed.
#[derive(Default)]
pub(super) struct Batch {
    pub commands: Vec<Command>,
    pub on_commit: Vec<OnCommit>,
    /// Projection rows that the commands write, for readers before the commit.
    pub projected: Projected,
    /// Keys of the acceptances that senders were told of and that the commands store.
    pub settled: Vec<Vec<u8>>,
    /// Approximate bytes of the inbound messages in the log; the turn ends at [`PORTION`].
    pub bytes: usize,
}

/// An action that follows the commit of a batch; `command` is the index of the reply that it needs.
pub(super) enum OnCommit {
    Send {
        command: usize,
        row: Box<MessageRow>,
        client_ref: Option<String>,
        /// What the account's quota leaves for the bytes of the send's media.
        room: Option<MediaRoom>,
        charge: Charge,
        reply: oneshot::Sender<Result<Worked, CallError>>,
    },
    Acknowledge(ItemId),
    /// A request to the network, made once everything before it is committed, and before its item is acknowledged.
    Operate(Box<Operation>),
    /// A refusal is reported only after its commit: a send that was reported as refused must never go out, whoever owns
    /// the channel next.
    Refuse(oneshot::Sender<SendVerdict>, SendVerdict),
}

impl Batch {
    /// Whether no caller waits for the batch.
    fn may_be_deferred(&self) -> bool {
        if self.on_commit.iter().any(|after| matches!(after, OnCommit::Refuse(..) | OnCommit::Operate(_))) {
            return false;
        }
        let deferred = |command: &Command| {
            matches!(command, Command::Settle { .. } | Command::Sent { .. } | Command::Receipt { .. })
        };
        !self.commands.is_empty() && self.commands.iter().all(deferred)
    }
}

impl Channel {
    /// Builds the task's state from the store.
    pub fn load(owner: Arc<Owner>, id: ChannelId, customer: CustomerId) -> Self {
        let row =
            owner.reader.get(&keys::channel(id)).map_or_else(|| ChannelRow::new(id, customer), |row| decode(&row));
        let settings = SettingsRow::of(&owner.reader, id);
        let mut channel = Self::idle(owner, row, settings, Outbox::default());
        channel.load_outbox();
        channel
    }

    /// A channel without a session that waits for nothing.
    fn idle(owner: Arc<Owner>, row: ChannelRow, settings: SettingsRow, outbox: Outbox) -> Self {
        let reconnecting_since = row.reconnecting_since.map(|_| Instant::now());
        let replaced_at = row.replaced_at.and_then(|at| replaced_lately(at, Timestamp::now()));
        Self {
            owner,
            row,
            settings,
            running: None,
            auth: Weak::new(),
            outbox,
            qr: None,
            qr_waiters: Vec::new(),
            start_at: None,
            resume_at: None,
            booking: None,
            failures: 0,
            reconnecting_since,
            replaced_at,
            pair_code: None,
            age_checked: Instant::now(),
            transfers: Transfers::default(),
            held: VecDeque::new(),
            operations: Operations::default(),
            number_checks: NumberChecks::default(),
            send_delay: SendDelay::default(),
            shown_until: None,
        }
    }

    fn load_outbox(&mut self) {
        if !self.row.holds_sends() {
            // `end_left_sends` fails these entries without loading them.
            return;
        }
        let reader = &self.owner.reader;
        let account = self.owner.node.outbox_bytes.of(self.row.customer);
        for (key, stored) in reader.scan_range(keys::outbox_of(self.row.id), usize::MAX) {
            let entry: OutboxEntry = decode(&stored);
            if let Some(mut row) = entry.id().and_then(|id| self.stored_message(id)) {
                let out = keys::parse_outbox(&key).is_none_or(|(_, place)| self.row.may_be_out(place));
                let charge = account.take(stored.len() + row.encode().len());
                // If the row lacks its body, the entry has it; the events of the send need all of it.
                let Outbound { content, around, .. } = entry.outbound(&row);
                (row.content, row.around) = (content, around);
                self.outbox.push(row, out, charge);
            }
        }
    }

    /// Runs until the ownership ends, or there is nothing to do. If a turn panics, the session ends and the channel
    /// restarts from the store; a channel that panics again and again is taken out of service (T26).
    pub async fn run(mut self: Box<Self>, mut mailbox: mpsc::Receiver<ToChannel>, mut recover: bool) {
        let lost = self.owner.lost.clone();
        let mut crashes: Vec<Instant> = Vec::new();
        loop {
            let ended = tokio::select! {
                // No caller was answered for a turn that is cut off here. Its commands may be committed; the next owner
                // then acts on them.
                () = lost.cancelled() => Some(Ok(())),
                ended = supervise::noticed("the task of a channel", self.live(&mut mailbox, recover)) => ended,
            };
            self.end_session();
            match ended {
                Some(Ok(())) => return,
                Some(Err(LeadershipLost)) => return lost.cancel(),
                None => {
                    tracing::error!(channel = %self.row.id, "the channel's task panicked and is restarted");
                    crashes.retain(|at| at.elapsed() < CRASH_WINDOW);
                    crashes.push(Instant::now());
                    self.begin_anew();
                    recover = true;
                    if crashes.len() >= CRASHES && self.go_on(Trigger::CrashLoop).await.is_err() {
                        return lost.cancel();
                    }
                }
            }
        }
    }

    /// Replaces the state in memory by what is stored.
    fn begin_anew(&mut self) {
        // Writes of the ended session have to finish before the next session reads.
        let auth = std::mem::take(&mut self.auth);
        *self = Self { auth, ..Self::load(self.owner.clone(), self.row.id, self.row.customer) };
    }

    /// Drops all that waits for a session. Callers that still do ask the next owner, or are told `queued`.
    fn drop_waiters(&mut self) {
        let auth = std::mem::take(&mut self.auth);
        let mut outbox = std::mem::take(&mut self.outbox);
        outbox.drop_callers();
        *self = Self { auth, ..Self::idle(self.owner.clone(), self.row.clone(), self.settings.clone(), outbox) };
    }

    async fn live(&mut self, mailbox: &mut mpsc::Receiver<ToChannel>, recover: bool) -> Result<(), LeadershipLost> {
        self.hold().await;
        Box::pin(self.end_left_sends()).await?;
        if recover {
            Box::pin(self.recover()).await?;
            self.owner.recovered(self.row.id);
        }
        let mut work = Vec::new();
        let mut events = Vec::new();
        let mut idle_since = Instant::now();
        loop {
            let wake = self.next_wake().unwrap_or(idle_since + IDLE);
            let (running, transfers) = (&mut self.running, &mut self.transfers);
            let mut finished = None;
            tokio::select! {
                taken = mailbox.recv_many(&mut work, TURN) => {
                    if taken == 0 {
                        return Ok(());
                    }
                }
                taken = next_events(running, &mut events) => {
                    if taken == 0 {
                        // The driver went away without reporting the end of the session.
                        events.push(Box::new(SessionEvent::Ended(EndReason::Transport("driver".into()))));
                    }
                }
                transfer = transfers.next() => finished = Some(transfer),
                () = tokio::time::sleep_until(wake.into()) => {}
            }
            if work.is_empty() && events.is_empty() && finished.is_none() && self.next_wake().is_none() {
                if idle_since.elapsed() >= IDLE && self.owner.retire(self.row.id, mailbox) {
                    return Ok(());
                }
            } else {
                idle_since = Instant::now();
            }
            self.hold().await;
            // Boxed, like everything that needs space only while something happens: there are many idle tasks.
            Box::pin(self.step(finished, &mut events, &mut work)).await?;
        }
    }

    /// Waits while the copy of the directory is too old: nothing is started on such a copy.
    async fn hold(&self) {
        if !self.owner.hears_directory() {
            Box::pin(self.owner.directory_heard()).await;
        }
    }

    /// Processes the input of a turn. A turn's future has room for all that may happen in it; rare work is boxed, so
    /// that turns with sends need little.
    async fn step(
        &mut self,
        finished: Option<Finished>,
        events: &mut Vec<QueuedEvent>,
        work: &mut Vec<ToChannel>,
    ) -> Result<(), LeadershipLost> {
        if let Some(finished) = finished {
            Box::pin(self.transfer_ended(finished)).await?;
        }
        self.take_events(events).await?;
        self.take_work(work).await?;
        self.keep_time().await
    }

    /// When the task has to act by itself.
    fn next_wake(&self) -> Option<Instant> {
        let login = self.running.as_ref().filter(|running| !running.logged_in && self.row.status != Status::Qr);
        let times = [
            self.start_at,
            self.resume_at,
            login.map(|running| running.opened_at + super::lifecycle::LOGIN_PATIENCE),
            self.running.as_ref().filter(|running| running.logged_in).and_then(|_| self.outbox.next_due()),
            (!self.outbox.is_empty()).then(|| self.age_checked + AGE_CHECK),
            self.held_until(),
            self.send_delay.next().filter(|_| self.is_logged_in() && !self.outbox.is_empty()),
            self.shown_until.filter(|_| self.is_logged_in()),
            self.operations.next_deadline(),
            self.transfers.next_try().filter(|_| self.is_logged_in()),
        ];
        // A channel with a session stays, whether or not a timer is set.
        let stays = self.running.is_some().then(|| Instant::now() + Duration::from_secs(3600));
        times.into_iter().flatten().min().or(stays)
    }

    async fn keep_time(&mut self) -> Result<(), LeadershipLost> {
        let now = Instant::now();
        if self.start_at.is_some_and(|at| at <= now) {
            self.start_at = None;
            Box::pin(self.open_session()).await?;
        }
        if self.resume_at.is_some_and(|at| at <= now) {
            Box::pin(self.resume()).await?;
        }
        let opening = self.running.as_ref().filter(|running| !running.logged_in && self.row.status != Status::Qr);
        if opening.is_some_and(|running| running.opened_at + super::lifecycle::LOGIN_PATIENCE <= now) {
            self.end_session();
            Box::pin(self.attempt_failed()).await?;
        }
        if !self.outbox.is_empty() && self.age_checked + AGE_CHECK <= now {
            self.age_checked = now;
            let expired = self.outbox.older_than(QUEUE_LIFE, now);
            Box::pin(self.fail_sends(expired, "expired_in_queue", "it waited for 24 hours")).await?;
        }
        if !self.held.is_empty() {
            Box::pin(self.release_and_finish()).await?;
        }
        self.operations.expire(now, self.row.status);
        if self.shown_until.is_some_and(|until| until <= now) {
            Box::pin(self.show_settled_presence()).await;
        }
        self.continue_downloads();
        self.write_outbox().await;
        Ok(())
    }

    pub fn is_logged_in(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.logged_in)
    }

    async fn take_events(&mut self, events: &mut Vec<QueuedEvent>) -> Result<(), LeadershipLost> {
        let mut batch = Batch::default();
        let mut begun = Instant::now();
        for event in events.drain(..) {
            match *event {
                SessionEvent::Accepted { id, at, recipients } => {
                    self.settle_accepted(&mut batch, &id, at, recipients);
                }
                SessionEvent::Refused { id, refused } => self.settle_refused(&mut batch, &id, *refused),
                SessionEvent::Inbound(item) => {
                    self.take_or_hold(&mut batch, *item);
                    if batch.bytes >= PORTION {
                        // A turn with many large messages would occupy a thread for long, and then the shard.
                        self.finish(std::mem::take(&mut batch)).await?;
                        committer::rest(begun.elapsed() * INBOUND_REST).await;
                        begun = Instant::now();
                    }
                }
                other => {
                    // Whatever came before this event takes effect before it.
                    self.finish(std::mem::take(&mut batch)).await?;
                    Box::pin(self.session_event(other)).await?;
                }
            }
        }
        self.release_held(&mut batch);
        self.finish(batch).await
    }

    async fn take_work(&mut self, work: &mut Vec<ToChannel>) -> Result<(), LeadershipLost> {
        let mut batch = Batch::default();
        for message in work.drain(..) {
            match message {
                // Dropped, before the leadership is transferred: the caller asks the next owner.
                ToChannel::Work(piece) if self.owner.is_left_to_the_next(&piece.work) => {}
                ToChannel::Fetch(_) if self.owner.is_closing() => {}
                ToChannel::Work(piece) => match *piece {
                    // Work for a caller that has gone would prolong an overload, and the caller may have repeated the
                    // send under another id.
                    Piece { work: Work::Send(_), reply, .. } if reply.is_closed() => {}
                    // The send waited so long that the network can hardly answer in the caller's time.
                    Piece { work: Work::Send(send), since, reply, .. } if since.elapsed() >= SEND_PATIENCE => {
                        drop(reply.send(self.refused_or_sent_before(send, CallError::worker_at_capacity())));
                    }
                    Piece { work: Work::Send(send), request_id, reply, .. } => {
                        self.accept_send(&mut batch, send, request_id, reply);
                    }
                    Piece { work: Work::Operate { operation, again }, call_id, reply, .. } => {
                        self.finish(std::mem::take(&mut batch)).await?;
                        Box::pin(self.begin_operation(call_id, *operation, again, Some(reply))).await?;
                    }
                    Piece { work, call_id, reply, .. } => {
                        self.finish(std::mem::take(&mut batch)).await?;
                        let answer = committer::told(Box::pin(self.do_work(work, call_id)).await)?;
                        // A caller that has gone away needs no answer.
                        let _ = reply.send(answer);
                    }
                },
                ToChannel::Fetch(fetch) => {
                    let (media, waiting) = *fetch;
                    self.fetch_now(media, waiting);
                }
                ToChannel::CloseForTransfer(done) => {
                    self.finish(std::mem::take(&mut batch)).await?;
                    Box::pin(self.close_for_transfer()).await?;
                    self.drop_waiters();
                    let _ = done.send(());
                }
            }
        }
        self.finish(batch).await
    }

    /// Commits the commands of a turn, then does what waited for the commit.
    pub async fn finish(&mut self, batch: Batch) -> Result<(), LeadershipLost> {
        if batch.may_be_deferred() {
            return self.finish_deferred(batch).await;
        }
        self.finish_immediately(batch).await
    }

    /// [`Channel::finish`] without deferral, for a turn that must not be overtaken.
    pub async fn finish_immediately(&mut self, batch: Batch) -> Result<(), LeadershipLost> {
        let replies = self.owner.committer.commit(batch.commands).await?;
        self.owner.settling.end(&batch.settled);
        for after in batch.on_commit {
            match after {
                OnCommit::Acknowledge(item) => self.acknowledge(item).await,
                OnCommit::Operate(operation) => Box::pin(self.ask_unheeded(*operation)).await,
                OnCommit::Refuse(caller, verdict) => {
                    let _ = caller.send(verdict);
                }
                OnCommit::Send { command, row, client_ref, room, charge, reply } => {
                    let answer = match replies.get(command) {
                        Some(Reply::Done) => Ok(self.sent(*row, client_ref, charge)),
                        Some(Reply::Unchanged) => self.sent_before(*row, client_ref),
                        Some(Reply::Refused(status)) => Err(self.refuse_send(*status)),
                        Some(Reply::QueueFull) => Err(CallError::worker_at_capacity()),
                        Some(Reply::ChannelDeleted) => Err(CallError::channel_not_found()),
                        Some(Reply::OverQuota { used }) => {
                            let MediaRoom { limit, elsewhere } = room.unwrap_or_default();
                            Err(CallError::plan_limit(Quota::MediaBytes, limit, elsewhere + used))
                        }
                        Some(Reply::TooLarge) => Err(CallError::payload_too_large_over(LARGEST_COMMAND as u64)),
                        _ => Err(CallError::internal_error()),
                    };
                    let _ = reply.send(answer);
                }
            }
        }
        self.write_outbox().await;
        Ok(())
    }

    /// Defers the commit of verdicts and receipts so that they share an entry with later commands: nobody waits for
    /// them, and the channel's next send must not either.
    async fn finish_deferred(&mut self, batch: Batch) -> Result<(), LeadershipLost> {
        let settled = Settled::of(&self.owner.settling, batch.settled);
        let committed = self.owner.committer.commit_verdicts(batch.commands, settled).await?;
        let items = batch.on_commit.into_iter().filter_map(|after| match after {
            OnCommit::Acknowledge(item) => Some(item),
            OnCommit::Operate(_) | OnCommit::Send { .. } | OnCommit::Refuse(..) => None,
        });
        let items: Vec<ItemId> = items.collect();
        // Verdicts alone, the usual case, leave nothing to acknowledge, so no task waits for their commit.
        let Some(running) = self.running.as_ref().filter(|_| !items.is_empty()) else { return Ok(()) };
        let session = running.session.clone();
        self.owner.tasks.spawn(async move {
            if committed.await.is_err() {
                return;
            }
            for item in items {
                acknowledge(&*session, item).await;
            }
        });
        Ok(())
    }

    async fn acknowledge(&mut self, item: ItemId) {
        if let Some(running) = &self.running {
            acknowledge(&*running.session, item).await;
        }
    }

    /// Writes due messages in order, and requests the media bytes of messages that wait for them.
    pub async fn write_outbox(&mut self) {
        while self.write_due().await && self.bring_bytes() {}
    }

    /// Returns false if the session took no more. A transport that does not accept a message is dead; an event reports
    /// the end of the session.
    async fn write_due(&mut self) -> bool {
        let Some(running) = self.running.as_ref().filter(|running| running.logged_in) else { return false };
        let session = running.session.clone();
        let paced = self.is_paced();
        for message in self.outbox.due(Instant::now()) {
            if !self.owner.hears_directory() || self.owner.is_deleted(self.row.id) {
                // A deleted channel must not write anything any more; other code relies on this.
                return false;
            }
            let id = message.id.clone();
            let first = paced && self.outbox.is_unwritten(&id);
            if first && Box::pin(self.holds_back(&message)).await {
                return false;
            }
            match tokio::time::timeout(WRITE_PATIENCE, write(&*session, message)).await {
                Ok(Ok(())) => {
                    self.outbox.written(&id, Instant::now());
                    if first {
                        self.paced();
                    }
                }
                Ok(Err(error)) => {
                    if matches!(error, SessionError::Unreachable(_)) {
                        self.outbox.goes_out(&id);
                    }
                    tracing::debug!(channel = %self.row.id, %error, "a message was not written");
                    return false;
                }
                Err(_) => {
                    self.outbox.goes_out(&id);
                    session.kill();
                    return false;
                }
            }
        }
        true
    }

    /// Commits one command and returns its reply, which matters only to some callers.
    pub async fn commit(&mut self, command: Command) -> Result<Reply, LeadershipLost> {
        self.owner.committer.commit_one(command).await
    }
}

/// Acknowledges an item to the network. If the acknowledgement is lost, the network delivers the item again, and the
/// state machine recognizes it.
async fn acknowledge(session: &dyn Session, item: ItemId) {
    failpoint::reach(Point::InboundBeforeAcknowledge);
    if let Err(error) = session.acknowledge(item).await {
        tracing::debug!(%error, "an item was not acknowledged");
    }
    failpoint::reach(Point::InboundAfterAcknowledge);
}

/// Writes all parts of a message.
async fn write(session: &dyn Session, message: Outbound) -> Result<(), SessionError> {
    for part in message.in_parts() {
        session.send(part).await?;
    }
    Ok(())
}

/// Waits for a session's next events, forever without a session; returns 0 if the driver has gone.
async fn next_events(running: &mut Option<Running>, events: &mut Vec<QueuedEvent>) -> usize {
    match running {
        Some(running) => running.events.recv_many(events, TURN).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of the future that a function returns.
    fn size_of_task<T>(_: fn(Box<Channel>, mpsc::Receiver<ToChannel>, bool) -> T) -> usize {
        size_of::<T>()
    }

    #[test]
    fn an_idle_task_keeps_no_room_for_all_that_it_may_do() {
        let size = size_of_task(Channel::run) + size_of::<Channel>();
        assert!(size <= 3 * 1_024, "a hundred thousand of them take {size} bytes each");
    }
}

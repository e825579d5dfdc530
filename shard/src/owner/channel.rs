//! One channel at its owner: a task that owns the channel's session, outbox and status, and takes turns.
//!
//! A turn gathers what is ready (events of the session, work of callers), commits what it changes in one submission,
//! and only then acts on it: writes to the session, acknowledges to the network, answers callers. What the process
//! had not committed when it died, nobody was told of.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use model::customer::Quota;
use model::error::CallError;
use model::id::{ChannelId, CustomerId, MediaId, RequestId};
use model::status::{Status, Trigger};
use model::time::Timestamp;
use network::driver::{ItemId, Outbound, Session, SessionError, SessionEvent};
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

/// How many pieces of work wait for a channel; a caller beyond waits itself.
pub const MAILBOX: usize = 64;

/// How much one turn takes on.
const TURN: usize = 64;

/// After a turn of large messages that came in a channel rests for so many times what that took.
const INBOUND_REST: u32 = 2;

/// How long a task without anything to do stays.
const IDLE: Duration = Duration::from_secs(30);

/// How long the session's transport may take to swallow a write before it counts as dead.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// Queued sends end in failure after this.
const QUEUE_LIFE: Duration = Duration::from_secs(24 * 3600);

/// How often the age of queued sends is looked at.
const AGE_CHECK: Duration = Duration::from_secs(60);

/// A channel whose task panics that often in that time is in a loop (T26).
const CRASHES: usize = 5;
const CRASH_WINDOW: Duration = Duration::from_secs(600);

/// A message to a channel's task. A mailbox has room for 32 of them from the start, idle or not: what is large is boxed.
pub enum ToChannel {
    Work(Box<Piece>),
    /// Close the session in order; the answer comes when the network knows.
    CloseForTransfer(oneshot::Sender<()>),
    /// Somebody asks for bytes that are not here.
    Fetch(Box<(MediaId, Option<oneshot::Sender<FetchEnd>>)>),
}

const _: () = assert!(size_of::<ToChannel>() <= 16, "a hundred thousand idle mailboxes hold 32 of them each");

/// Work, and who waits for it.
pub struct Piece {
    pub work: Work,
    pub call_id: Uuid,
    pub request_id: RequestId,
    /// Since when it waits for its turn.
    pub since: Instant,
    pub reply: oneshot::Sender<Result<Worked, CallError>>,
}

/// What a channel's task answers; the caller's task does the waiting that is left.
pub enum Worked {
    Done(OwnerResponse),
    /// The send is committed; its verdict comes, or does not, while the caller waits.
    Accepted(Sent, Option<oneshot::Receiver<SendVerdict>>),
    /// A QR text is on its way.
    QrSoon(oneshot::Receiver<QrCode>),
    /// A pairing session that can be asked for a code once its first QR text came.
    Pairing {
        wanted: PairCode,
        session: Arc<dyn Session>,
        ready: Option<oneshot::Receiver<QrCode>>,
        /// Told once the network gave a code; one that it did not give does not count.
        given: oneshot::Sender<()>,
    },
}

/// A session and what it reports.
pub(super) struct Running {
    pub session: Arc<dyn Session>,
    pub events: mpsc::Receiver<SessionEvent>,
    pub logged_in: bool,
    pub opened_at: Instant,
    pub _slot: SlotGuard,
}

/// The QR text that the network gave last.
pub(super) struct ShownQr {
    pub code: QrCode,
    /// Until when a phone can scan it; `None` is until the next one.
    pub until: Option<Instant>,
}

/// A pair code that was asked for.
pub(super) struct PairCodeRequest {
    pub at: Instant,
    /// Told when the network gave it; closed when that came to nothing.
    pub answer: oneshot::Receiver<()>,
    pub given: bool,
}

pub(super) struct Channel {
    pub owner: Arc<Owner>,
    pub row: ChannelRow,
    pub settings: SettingsRow,
    pub running: Option<Running>,
    /// Where the last session keeps its state, as long as anything of it is left.
    pub auth: Weak<ReplicatedAuth>,
    pub outbox: Outbox,
    pub qr: Option<Box<ShownQr>>,
    pub qr_waiters: Vec<oneshot::Sender<QrCode>>,
    /// When the next session is to be opened.
    pub start_at: Option<Instant>,
    /// When `disconnected` ends by itself (T17, T23).
    pub resume_at: Option<Instant>,
    /// The place among the node's starts that either of them has.
    pub booking: Option<Booking>,
    /// Failed attempts in a row, and lost pairing sessions.
    pub failures: u32,
    /// Since when this owner has been trying to reconnect, and when another connection last took the stream from the channel. By a
    /// clock that does not jump; of the row's own times, which are for people, a late replacement alone counts.
    pub reconnecting_since: Option<Instant>,
    pub replaced_at: Option<Instant>,
    pub pair_code: Option<PairCodeRequest>,
    age_checked: Instant,
    pub transfers: Transfers,
    /// Items that wait for bytes, and those behind them.
    pub held: VecDeque<Held>,
    /// What the network is asked at the moment.
    pub operations: Operations,
    pub number_checks: NumberChecks,
    pub send_delay: SendDelay,
    /// When the channel is next shown as available (setting `always_online`).
    pub shown_until: Option<Instant>,
}

/// What a turn will do once its commands are committed.
#[derive(Default)]
pub(super) struct Batch {
    pub commands: Vec<Command>,
    pub on_commit: Vec<OnCommit>,
    /// Rows of the projection that the commands write, for those who read before they are committed.
    pub projected: Projected,
    /// Acceptances that senders were told of and that the commands store.
    pub settled: Vec<Vec<u8>>,
    /// About how many bytes of the log the messages take that came in: with [`PORTION`] of them the turn ends.
    pub bytes: usize,
}

/// Each refers to the reply of the command at its index.
pub(super) enum OnCommit {
    Send {
        command: usize,
        row: Box<MessageRow>,
        client_ref: Option<String>,
        /// What its account's quota left for its bytes.
        room: Option<MediaRoom>,
        charge: Charge,
        reply: oneshot::Sender<Result<Worked, CallError>>,
    },
    Acknowledge(ItemId),
    /// Asked of the network once all before it is committed, and before what it answers to is acknowledged.
    Ask(Box<Operation>),
    /// A refusal is told only once it is committed: what the caller was told is refused must never go out, whoever owns
    /// the channel next.
    Refuse(oneshot::Sender<SendVerdict>, SendVerdict),
}

impl Batch {
    /// Whether nothing in it is waited for by a caller.
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
    /// Makes the task's state from what is stored.
    pub fn load(owner: Arc<Owner>, id: ChannelId, customer: CustomerId) -> Self {
        let row =
            owner.reader.get(&keys::channel(id)).map_or_else(|| ChannelRow::new(id, customer), |row| decode(&row));
        let settings = SettingsRow::of(&owner.reader, id);
        let reconnecting_since = row.reconnecting_since.map(|_| Instant::now());
        let replaced_at = row.replaced_at.and_then(|at| replaced_lately(at, Timestamp::now()));
        let mut channel = Self {
            owner,
            row,
            settings,
            running: None,
            auth: Weak::new(),
            outbox: Outbox::default(),
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
        };
        channel.load_outbox();
        channel
    }

    fn load_outbox(&mut self) {
        if !self.row.holds_sends() {
            // What stands there is ended from where it is: see `end_left_sends`.
            return;
        }
        let reader = &self.owner.reader;
        let account = self.owner.node.outbox_bytes.of(self.row.customer);
        for (key, stored) in reader.scan_range(keys::outbox_of(self.row.id), usize::MAX) {
            let entry: OutboxEntry = decode(&stored);
            if let Some(mut row) = entry.id().and_then(|id| self.stored_message(id)) {
                let out = keys::parse_outbox(&key).is_none_or(|(_, place)| self.row.may_be_out(place));
                let charge = account.take(stored.len() + row.encode().len());
                // Where the row lacks its body, the entry has it: the events of the send tell of all of it.
                let Outbound { content, around, .. } = entry.outbound(&row);
                (row.content, row.around) = (content, around);
                self.outbox.push(row, out, charge);
            }
        }
    }

    /// Runs until the owner's right ends, or there is nothing to do. A turn that panics costs the session, and the channel begins anew
    /// from what is stored; a channel that does so again and again is taken out of service (T26).
    pub async fn run(mut self: Box<Self>, mut mailbox: mpsc::Receiver<ToChannel>, mut recover: bool) {
        let lost = self.owner.lost.clone();
        let mut crashes: Vec<Instant> = Vec::new();
        loop {
            let ended = tokio::select! {
                // Nothing of a turn that is cut off here was answered; its commands may stand, and the next owner acts
                // on them.
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

    /// Takes what is stored for all that is known of the channel.
    fn begin_anew(&mut self) {
        // What the session that ended has on its way has to end before the next one reads.
        let auth = std::mem::take(&mut self.auth);
        *self = Self { auth, ..Self::load(self.owner.clone(), self.row.id, self.row.customer) };
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
                        // A driver that went away without a word.
                        events.push(SessionEvent::Ended(network::driver::EndReason::Transport("driver".into())));
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
            // Boxed, as is all that takes room only while something happens: idle tasks are many.
            Box::pin(self.step(finished, &mut events, &mut work)).await?;
        }
    }

    /// Waits while the directory is not heard: nothing is begun by an old copy of it.
    async fn hold(&self) {
        if !self.owner.hears_directory() {
            Box::pin(self.owner.directory_heard()).await;
        }
    }

    /// Takes what has come in. Each turn asks for room for all that may happen in it: boxed is what happens in few of them, so that
    /// those of sends ask for little.
    async fn step(
        &mut self,
        finished: Option<Finished>,
        events: &mut Vec<SessionEvent>,
        work: &mut Vec<ToChannel>,
    ) -> Result<(), LeadershipLost> {
        if let Some(finished) = finished {
            Box::pin(self.transfer_ended(finished)).await?;
        }
        self.take_events(events).await?;
        self.take_work(work).await?;
        self.keep_time().await
    }

    /// When something is to be done without being asked.
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
        // A channel that runs stays, whether or not it has something to wait for.
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

    async fn take_events(&mut self, events: &mut Vec<SessionEvent>) -> Result<(), LeadershipLost> {
        let mut batch = Batch::default();
        let mut begun = Instant::now();
        for event in events.drain(..) {
            match event {
                SessionEvent::Accepted { id, at, recipients } => {
                    self.settle_accepted(&mut batch, &id, at, recipients);
                }
                SessionEvent::Refused { id, refused } => self.settle_refused(&mut batch, &id, *refused),
                SessionEvent::Inbound(item) => {
                    self.take_or_hold(&mut batch, *item);
                    if batch.bytes >= PORTION {
                        // A turn of many large messages would keep a thread of the node busy for long, and then the shard.
                        self.finish(std::mem::take(&mut batch)).await?;
                        committer::rest(begun.elapsed() * INBOUND_REST).await;
                        begun = Instant::now();
                    }
                }
                other => {
                    // What came before it takes effect before it.
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
                // Dropped before the leadership is transferred: its caller asks the next owner.
                ToChannel::Work(piece) if self.owner.is_left_to_the_next(&piece.work) => {}
                ToChannel::Fetch(_) if self.owner.is_closing() => {}
                ToChannel::Work(piece) => match *piece {
                    // What is done for nobody keeps an overload from ending, and the caller may have sent it anew under another id.
                    Piece { work: Work::Send(_), reply, .. } if reply.is_closed() => {}
                    // So late that the network could hardly answer in its caller's time.
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
                    // Whoever still waits for the session asks the next owner, or is told that the send is queued.
                    self.begin_anew();
                    let _ = done.send(());
                }
            }
        }
        self.finish(batch).await
    }

    /// Commits a turn's commands, then does what waited for them.
    pub async fn finish(&mut self, batch: Batch) -> Result<(), LeadershipLost> {
        if batch.may_be_deferred() {
            return self.finish_deferred(batch).await;
        }
        self.finish_immediately(batch).await
    }

    /// [`Channel::finish`] for a turn that something else must not overtake.
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

    /// Leaves verdicts and receipts to share an entry with what comes next: nobody waits for them, and the next send of
    /// this channel must not either.
    async fn finish_deferred(&mut self, batch: Batch) -> Result<(), LeadershipLost> {
        let settled = Settled::of(&self.owner.settling, batch.settled);
        let committed = self.owner.committer.commit_verdicts(batch.commands, settled).await?;
        let items = batch.on_commit.into_iter().filter_map(|after| match after {
            OnCommit::Acknowledge(item) => Some(item),
            OnCommit::Operate(_) | OnCommit::Send { .. } | OnCommit::Refuse(..) => None,
        });
        let items: Vec<ItemId> = items.collect();
        // Verdicts alone, as most are, have nothing that is to be acknowledged behind them: no task waits for their entry.
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

    /// Writes what is due, in order, and sees to the bytes of what must wait for them.
    pub async fn write_outbox(&mut self) {
        while self.write_due().await && self.bring_bytes() {}
    }

    /// False when the session took no more. A transport that does not take a message is dead; the session's end will
    /// tell.
    async fn write_due(&mut self) -> bool {
        let Some(running) = self.running.as_ref().filter(|running| running.logged_in) else { return false };
        let session = running.session.clone();
        let paced = self.is_paced();
        for message in self.outbox.due(Instant::now()) {
            if !self.owner.hears_directory() || self.owner.is_deleted(self.row.id) {
                // Others may rely on it that a deleted channel writes nothing any more.
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

    /// Commits one command and expects it to take effect, or not to matter.
    pub async fn commit(&mut self, command: Command) -> Result<Reply, LeadershipLost> {
        self.owner.committer.commit_one(command).await
    }
}

/// Tells the network that an item is safe. When that is lost the item comes again, and the state machine knows it.
async fn acknowledge(session: &dyn Session, item: ItemId) {
    failpoint::reach(Point::InboundBeforeAcknowledge);
    if let Err(error) = session.acknowledge(item).await {
        tracing::debug!(%error, "an item was not acknowledged");
    }
    failpoint::reach(Point::InboundAfterAcknowledge);
}

/// Writes a message, in as many parts as it has.
async fn write(session: &dyn Session, message: Outbound) -> Result<(), SessionError> {
    for part in message.in_parts() {
        session.send(part).await?;
    }
    Ok(())
}

/// The next events of a session, if there is one; 0 when its driver has gone.
async fn next_events(running: &mut Option<Running>, events: &mut Vec<SessionEvent>) -> usize {
    match running {
        Some(running) => running.events.recv_many(events, TURN).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a task made by a function takes.
    fn size_of_task<T>(_: fn(Box<Channel>, mpsc::Receiver<ToChannel>, bool) -> T) -> usize {
        size_of::<T>()
    }

    #[test]
    fn an_idle_task_keeps_no_room_for_all_that_it_may_do() {
        let size = size_of_task(Channel::run) + size_of::<Channel>();
        assert!(size <= 3 * 1_024, "a hundred thousand of them take {size} bytes each");
    }
}

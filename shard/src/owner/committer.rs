//! Puts the commands of all channels of a shard into log entries: what waits while one entry is on its way forms the
//! next, so that a busy shard shares its entries and an idle one waits for nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use model::id::{Epoch, NodeId, ShardId};
use raft::failpoint::{self, Point};
use raft::group::{Group, ProposeError};
use raft::supervise;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::command::{BATCH_VERSION, Batch, BatchReply, Command, NewDelivery, NewEvent, Reply};
use crate::deliveries::{Deliveries, Job};
use crate::stream::Streams;

/// How many submissions wait at most; a channel that submits more waits itself.
const QUEUE: usize = 4096;

/// How many submissions share a log entry.
const BATCH_SUBMISSIONS: usize = 256;

/// How many entries are on their way at once. More would only make them smaller.
const IN_FLIGHT: usize = 4;

/// How long commands that nobody waits for are held back, so that they share an entry with others. An entry of their
/// own costs every replica as much as the send that they settle.
const LINGER: Duration = Duration::from_millis(20);

/// The owner's right has ended: nothing more can be committed, and what was on its way may or may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shard has another owner")]
pub struct Lost;

/// Who waits for a part of an entry's replies.
struct Caller {
    commands: usize,
    /// Deliveries that come into being when the command at the index takes effect.
    jobs: Vec<(usize, Job)>,
    /// Homes that have something to fetch when the command at the index takes effect.
    homes: Vec<(usize, ShardId)>,
    reply: oneshot::Sender<Vec<Reply>>,
}

struct Submission {
    commands: Vec<Command>,
    reply: oneshot::Sender<Vec<Reply>>,
}

/// The way into the shard's log. What one caller commits urgently keeps its order, and so does what it commits patiently;
/// the patient may come after later urgent ones.
#[derive(Clone)]
pub struct Committer {
    queue: mpsc::Sender<Submission>,
    patient: mpsc::Sender<Submission>,
}

impl Committer {
    /// Starts the task. It ends, and cancels `lost`, as soon as one entry is refused or in doubt. Deliveries that were
    /// written are announced to `deliveries`, events for streams to those who wait at `streams`.
    pub fn start(
        group: Group,
        node: NodeId,
        epoch: Epoch,
        deliveries: Deliveries,
        streams: Arc<Streams>,
        lost: CancellationToken,
    ) -> Self {
        let (queue, urgent) = mpsc::channel(QUEUE);
        let (patient, lingering) = mpsc::channel(QUEUE);
        // However it ends, also by a panic, nothing more can be committed by this ownership.
        let ended = lost.clone().drop_guard();
        tokio::spawn(async move {
            let announce = Announce { node, epoch, deliveries, streams };
            supervise::noticed("the committer of a shard", run(urgent, lingering, group, announce, lost)).await;
            drop(ended);
        });
        Self { queue, patient }
    }

    /// Commits commands and gives the state machine's answers, one a command.
    ///
    /// # Errors
    /// [`Lost`] when the owner's right has ended; the commands may still have been applied.
    pub async fn commit(&self, commands: Vec<Command>) -> Result<Vec<Reply>, Lost> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, replied) = oneshot::channel();
        self.queue.send(Submission { commands, reply }).await.map_err(|_| Lost)?;
        replied.await.map_err(|_| Lost)
    }

    /// Commits commands that nobody waits for, together with the next that somebody does, or soon. They keep their
    /// order among each other.
    ///
    /// # Errors
    /// As [`Committer::commit`].
    pub async fn commit_patiently(&self, commands: Vec<Command>) -> Result<oneshot::Receiver<Vec<Reply>>, Lost> {
        let (reply, replied) = oneshot::channel();
        self.patient.send(Submission { commands, reply }).await.map_err(|_| Lost)?;
        Ok(replied)
    }

    /// Commits one command.
    ///
    /// # Errors
    /// As [`Committer::commit`].
    pub async fn commit_one(&self, command: Command) -> Result<Reply, Lost> {
        self.commit(vec![command]).await?.pop().ok_or(Lost)
    }
}

/// Who commits, and who is told of what was written.
struct Announce {
    node: NodeId,
    epoch: Epoch,
    deliveries: Deliveries,
    streams: Arc<Streams>,
}

async fn run(
    mut urgent: mpsc::Receiver<Submission>,
    mut lingering: mpsc::Receiver<Submission>,
    group: Group,
    announce: Announce,
    lost: CancellationToken,
) {
    let Announce { node, epoch, deliveries, streams } = announce;
    let mut on_their_way = FuturesOrdered::new();
    // The callers of each entry on its way, oldest first, with how many replies are theirs.
    let mut callers: VecDeque<Vec<Caller>> = VecDeque::new();
    let mut gathered = Vec::new();
    // Since when the oldest of the lingering commands waits.
    let mut patient = Vec::new();
    let mut oldest: Option<Instant> = None;
    loop {
        let has_room = on_their_way.len() < IN_FLIGHT;
        let linger_until = oldest.map(|since| since + LINGER);
        tokio::select! {
            () = lost.cancelled() => return,
            Some(outcome) = on_their_way.next() => {
                let Some(replies) = replies_of(outcome) else { break };
                failpoint::reach(Point::CommitAfter);
                let mut replies = replies.into_iter();
                for caller in callers.pop_front().unwrap_or_default() {
                    let own: Vec<Reply> = replies.by_ref().take(caller.commands).collect();
                    let written = caller.jobs.into_iter().filter(|(command, _)| own.get(*command) == Some(&Reply::Done));
                    deliveries.announce(group.id(), epoch, written.map(|(_, job)| job));
                    for (command, home) in caller.homes {
                        if own.get(command) == Some(&Reply::Done) {
                            streams.relayed.ring(home);
                        }
                    }
                    // A caller that has gone away needs no answer.
                    let _ = caller.reply.send(own);
                }
            }
            _ = lingering.recv_many(&mut patient, BATCH_SUBMISSIONS), if patient.len() < BATCH_SUBMISSIONS => {
                oldest.get_or_insert_with(Instant::now);
                continue;
            }
            received = urgent.recv_many(&mut gathered, BATCH_SUBMISSIONS), if has_room => {
                if received == 0 {
                    return;
                }
            }
            () = tokio::time::sleep_until(linger_until.unwrap_or_else(Instant::now).into()),
                if has_room && linger_until.is_some() => {}
        }
        let lingered = linger_until.is_some_and(|until| until <= Instant::now()) && on_their_way.len() < IN_FLIGHT;
        if gathered.is_empty() && !lingered {
            continue;
        }
        oldest = None;
        let mut batch = Batch { version: BATCH_VERSION, epoch, node, commands: Vec::new() };
        let mut waiting = Vec::with_capacity(patient.len() + gathered.len());
        for Submission { commands, reply } in patient.drain(..).chain(gathered.drain(..)) {
            let jobs = commands.iter().enumerate().flat_map(|(n, command)| jobs_of(n, command)).collect();
            let homes = commands.iter().enumerate().flat_map(|(n, command)| homes_of(n, command)).collect();
            waiting.push(Caller { commands: commands.len(), jobs, homes, reply });
            batch.commands.extend(commands);
        }
        let mut entry = rmp_serde::to_vec_named(&batch).expect("a batch of plain fields is always written");
        // It stays in the log's memory for long; what the writer reserved beyond its end should not.
        entry.shrink_to_fit();
        failpoint::reach(Point::CommitBefore);
        match group.submit(Bytes::from(entry)) {
            Ok(pending) => {
                on_their_way.push_back(pending);
                callers.push_back(waiting);
            }
            Err(error) => {
                tracing::info!(group = group.id(), epoch, %error, "the owner's entry was not taken");
                break;
            }
        }
    }
    lost.cancel();
}

/// The machine's replies, or `None` when the owner must stop: refused, in doubt, or fenced.
fn replies_of(outcome: Result<Bytes, ProposeError>) -> Option<Vec<Reply>> {
    match rmp_serde::from_slice(&outcome.ok()?).ok()? {
        BatchReply::Replies(replies) => Some(replies),
        BatchReply::Fenced => None,
    }
}

/// The events that come with a command.
fn events_of(command: &Command) -> &[NewEvent] {
    match command {
        Command::Settle { events, .. } | Command::ReceiveOwn { events, .. } | Command::Project { events, .. } => events,
        Command::Move(step) => &step.events,
        Command::Receipt { event, .. }
        | Command::Receive { event, .. }
        | Command::Recover { event, .. }
        | Command::LearnLid { event, .. }
        | Command::Emit(event) => std::slice::from_ref(event),
        Command::AcceptSend { .. }
        | Command::Auth { .. }
        | Command::ChangeSettings { .. }
        | Command::Delivery(_)
        | Command::Trim(_)
        | Command::Forget { .. }
        | Command::Media(_)
        | Command::Release { .. }
        | Command::Gather { .. }
        | Command::DropRing { .. }
        | Command::KeepTicket { .. }
        | Command::UseTicket { .. } => &[],
    }
}

fn homes_of(index: usize, command: &Command) -> impl Iterator<Item = (usize, ShardId)> {
    events_of(command).iter().filter_map(move |event| event.streamed.map(|streamed| (index, streamed.home)))
}

fn jobs_of(index: usize, command: &Command) -> impl Iterator<Item = (usize, Job)> {
    events_of(command).iter().flat_map(move |event| {
        let job = |new: &NewDelivery| Job {
            endpoint: new.endpoint,
            delivery: new.id,
            due: event.at,
            chat: event.chat.clone(),
        };
        event.deliveries.iter().map(move |new| (index, job(new)))
    })
}

//! Commits the commands of all channels of a shard. Commands that arrive while an entry is in flight share the next
//! entry, so a busy shard writes few entries and an idle one does not wait. If a commit takes long, the next entry does
//! not wait for it. Entries are bounded in bytes as well as in number of commands: a large one would delay all channels
//! of the shard while it crosses a slow link.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use model::error::CallError;
use model::format::Format;
use model::id::{Epoch, NodeId};
use model::msgpack;
use raft::failpoint::{self, Point};
use raft::group::{Leader, ProposeError};
use raft::{rt, supervise};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::settling::Settled;
use super::submission::{Caller, Part, Submission, is_outdated, submissions};
use crate::command::{Batch, BatchReply, Command, Effect, Reply};

/// Capacity of each queue of submissions; a channel that submits more waits.
const QUEUE: usize = 4096;

/// Bytes of a shard's commands that may wait for an entry, besides up to four of the largest entries in flight.
const QUEUE_BYTES: usize = 16 << 20;

/// Maximum number of immediate submissions in a log entry; as many deferred ones may come on top.
const BATCH_SUBMISSIONS: usize = 256;

/// Bytes of the commands that share a log entry; a larger submission has an entry of its own.
const BATCH_BYTES: usize = 512 << 10;

/// Maximum number of entries in flight. More would only make them smaller.
const IN_FLIGHT: usize = 4;

/// How long commands gather behind an entry in flight before the next entry follows it. Each entry costs every replica
/// the same work and a sync, however few commands it holds. A nearby quorum has answered by then even if its processors
/// are busy, and entries that follow earlier would keep them busy. A distant quorum is not waited for.
const GATHER: Duration = Duration::from_millis(20);

/// If an entry held more immediate submissions than this, together with those queued behind it, the committer rests for
/// as long again as the entry took: callers that are answered together submit again at almost the same time. Entries
/// take longer when processors are busy; there are fewer of them then, which leaves more time for the sends. This few
/// submissions may come from callers that arrive one by one, who would wait for nobody.
const FEW: usize = 2;

/// The longest rest, measured from the submission of the entry. It is reached when processors are almost overloaded:
/// commands that wait here then wait no longer than they would for the processors, and cost less of them.
const LONGEST_REST: Duration = Duration::from_millis(40);

/// There is no rest after an entry that took no longer than this: processors and disks had nothing else to do.
const BRIEF: Duration = Duration::from_millis(2);

/// This many queued submissions are worth an entry at once: the entry costs little more than they do.
const WORTH_AN_ENTRY: usize = 64;

/// How long deferred commands are held back so that they share an entry with others. An entry of their own costs every
/// replica as much as the send that they settle.
const LINGER: Duration = Duration::from_millis(20);

/// The ownership has ended: nothing more can be committed, and entries in flight may or may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shard has another owner")]
pub struct LeadershipLost;

/// Why a call has no result at this owner.
#[derive(Debug, thiserror::Error)]
pub enum NotDone {
    /// The call is refused with this error.
    #[error(transparent)]
    Refused(#[from] CallError),
    /// The call was not done, or its outcome is unknown: the next owner has to be asked, with the same ids.
    #[error(transparent)]
    LeadershipLost(#[from] LeadershipLost),
}

/// Result of a call at an owner.
pub type Answered<T> = Result<T, NotDone>;

/// What the caller is told, which may be a refusal.
///
/// # Errors
/// [`LeadershipLost`] if the next owner has to be asked.
pub fn told<T>(answered: Answered<T>) -> Result<Result<T, CallError>, LeadershipLost> {
    match answered {
        Ok(done) => Ok(Ok(done)),
        Err(NotDone::Refused(error)) => Ok(Err(error)),
        Err(NotDone::LeadershipLost(lost)) => Err(lost),
    }
}

/// The replies to the parts committed so far, and the receiver of the replies to the last part.
#[derive(Default)]
struct Submitted {
    replies: Vec<Reply>,
    awaited: Option<oneshot::Receiver<Vec<Reply>>>,
}

impl Submitted {
    async fn replies(mut self) -> Result<Vec<Reply>, LeadershipLost> {
        self.wait().await?;
        Ok(self.replies)
    }

    async fn wait(&mut self) -> Result<(), LeadershipLost> {
        if let Some(awaited) = self.awaited.take() {
            self.replies.extend(awaited.await.map_err(|_| LeadershipLost)?);
        }
        Ok(())
    }
}

/// Carries out the effects of committed commands.
pub type CarryOut = Box<dyn Fn(Vec<Effect>) + Send + Sync>;

/// The ownership that a committer commits for.
pub struct Terms {
    pub node: NodeId,
    pub epoch: Epoch,
    /// The format that the cluster currently writes.
    pub format: Box<dyn Fn() -> Format + Send + Sync>,
    pub carry_out: CarryOut,
    /// Cancelled when the ownership has ended.
    pub lost: CancellationToken,
    /// While set, no entry waits for a rest.
    pub closing: Arc<AtomicBool>,
}

/// The way into the shard's log. The commits of one caller keep their order, immediate and deferred ones alike, as long
/// as the caller defers nothing while it waits for a commit.
#[derive(Clone)]
pub struct Committer {
    queue: Queue,
    deferred: Queue,
}

/// Submissions that wait for an entry: bounded in number, and in bytes together with the shard's other queue.
#[derive(Clone)]
struct Queue {
    submissions: mpsc::Sender<Submission>,
    room: Arc<Semaphore>,
}

impl Queue {
    /// Adds a submission, waiting for room.
    async fn put(&self, mut submission: Submission) -> Result<(), LeadershipLost> {
        // No submission is larger than the whole room, so each one gets its turn.
        let bytes = u32::try_from(submission.encoded.len()).map_err(|_| LeadershipLost)?;
        let room = tokio::select! {
            room = self.room.clone().acquire_many_owned(bytes) => room.map_err(|_| LeadershipLost)?,
            () = self.submissions.closed() => return Err(LeadershipLost),
        };
        submission.room = Some(room);
        self.submissions.send(submission).await.map_err(|_| LeadershipLost)
    }
}

impl Committer {
    /// Starts the task. It ends, and cancels [`Terms::lost`], as soon as an entry is refused or its outcome is unknown.
    pub fn start(group: impl Leader, terms: Terms) -> Self {
        let (queued, immediate) = mpsc::channel(QUEUE);
        let (deferred, lingering) = mpsc::channel(QUEUE);
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        // However the task ends, even by a panic, this ownership can commit nothing more.
        let ended = terms.lost.clone().drop_guard();
        rt::spawn(async move {
            let committing = run((immediate, lingering), group, terms);
            supervise::noticed("the committer of a shard", committing).await;
            drop(ended);
        });
        let queue = |submissions| Queue { submissions, room: room.clone() };
        Self { queue: queue(queued), deferred: queue(deferred) }
    }

    /// Commits commands and returns the state machine's replies, one per command. A command that no entry can hold is
    /// answered with [`Reply::TooLarge`] and changes nothing. Many or large commands go into several entries, in order:
    /// a crash may leave only the first of them committed.
    ///
    /// # Errors
    /// [`LeadershipLost`] if the ownership has ended; the commands may still have been applied. Also if an event was
    /// made from an outdated copy of the directory: nothing is committed then, and the next owner repeats it.
    pub async fn commit(&self, commands: Vec<Command>) -> Result<Vec<Reply>, LeadershipLost> {
        submit(&self.queue, &commands, None).await?.replies().await
    }

    /// Commits commands that nobody waits for, together with the next immediate ones, or after a short delay.
    ///
    /// # Errors
    /// As [`Committer::commit`].
    pub async fn commit_deferred(
        &self,
        commands: Vec<Command>,
    ) -> Result<impl Future<Output = Result<Vec<Reply>, LeadershipLost>> + Send + use<>, LeadershipLost> {
        self.commit_verdicts(commands, None).await
    }

    /// [`Committer::commit_deferred`] for verdicts that readers are shown before the commit. The committer ends
    /// `settled` itself, so no task has to wait for the commit to do that.
    ///
    /// # Errors
    /// As [`Committer::commit`].
    pub async fn commit_verdicts(
        &self,
        commands: Vec<Command>,
        settled: Option<Settled>,
    ) -> Result<impl Future<Output = Result<Vec<Reply>, LeadershipLost>> + Send + use<>, LeadershipLost> {
        Ok(submit(&self.deferred, &commands, settled).await?.replies())
    }

    /// Commits one command.
    ///
    /// # Errors
    /// As [`Committer::commit`].
    pub async fn commit_one(&self, command: Command) -> Result<Reply, LeadershipLost> {
        self.commit(vec![command]).await?.pop().ok_or(LeadershipLost)
    }
}

/// Submits the parts one after the other. Each waits for the commit of the one before, and then rests for as long as
/// that took: a caller with much to commit leaves half of the shard's time to the others.
async fn submit(
    queue: &Queue,
    commands: &[Command],
    mut settled: Option<Settled>,
) -> Result<Submitted, LeadershipLost> {
    if is_outdated(commands) {
        return Err(LeadershipLost);
    }
    let mut submitted = Submitted::default();
    let mut parts = submissions(commands).into_iter().peekable();
    let mut begun = rt::now();
    while let Some(part) = parts.next() {
        if submitted.awaited.is_some() {
            submitted.wait().await?;
            rest(since(begun)).await;
        }
        match part {
            Part::Submission(mut submission, replied) => {
                submission.has_more = parts.peek().is_some();
                if !submission.has_more {
                    submission.caller.settled = settled.take();
                }
                begun = rt::now();
                queue.put(submission).await?;
                submitted.awaited = Some(replied);
            }
            Part::TooLarge => submitted.replies.push(Reply::TooLarge),
        }
    }
    Ok(submitted)
}

/// Waits for `time`, but at most [`LONGEST_REST`], between two large pieces of work.
pub async fn rest(time: Duration) {
    rt::sleep(time.min(LONGEST_REST)).await;
}

fn since(moment: Instant) -> Duration {
    rt::now().saturating_duration_since(moment)
}

/// How long after the last entry the next one may follow: `rest` with none in flight, else [`GATHER`].
fn pause(on_their_way: usize, rest: Duration) -> Duration {
    if on_their_way == 0 { rest } else { GATHER }
}

/// Whether an entry may be submitted, `since_last` after the last one and with `queued` submissions waiting.
fn may_submit(on_their_way: usize, since_last: Duration, queued: usize, rest: Duration) -> bool {
    on_their_way < IN_FLIGHT && (since_last >= pause(on_their_way, rest) || queued >= WORTH_AN_ENTRY)
}

/// The rest after an entry that held `bore` immediate submissions and `took` so long, while `waiting` more came.
///
/// Those count as well: if callers arrive evenly, an entry that follows at once holds few submissions, and so would
/// each one after it.
fn rest_after(bore: usize, waiting: usize, took: Duration) -> Duration {
    if bore + waiting > FEW && took > BRIEF { (took * 2).min(LONGEST_REST) } else { Duration::ZERO }
}

async fn run(
    (mut immediate, mut lingering): (mpsc::Receiver<Submission>, mpsc::Receiver<Submission>),
    group: impl Leader,
    terms: Terms,
) {
    let Terms { node, epoch, format, carry_out, lost, closing } = terms;
    let mut on_their_way = FuturesOrdered::new();
    // The callers of each entry in flight, oldest first, each with the number of its replies.
    let mut callers: VecDeque<Vec<Caller>> = VecDeque::new();
    let mut gathered: Vec<Submission> = Vec::new();
    let mut deferred: Vec<Submission> = Vec::new();
    // Deadline of the oldest deferred submission.
    let mut linger_until: Option<Instant> = None;
    let mut last_submit = rt::now();
    // How many immediate submissions the last entry held, and the rest after it.
    let mut bore = 0;
    let mut rest = Duration::ZERO;
    loop {
        let queued = deferred.len() + lingering.len() + gathered.len() + immediate.len();
        let has_room = may_submit(on_their_way.len(), since(last_submit), queued, rest);
        // New submissions stay in their queue until there is room, so that each one does not wake the committer. Those
        // that did not fit into the last entry go first.
        let is_received = has_room && gathered.is_empty();
        let room_at = last_submit + pause(on_their_way.len(), rest);
        tokio::select! {
            // Biased, so that a simulated run is reproducible. No branch can starve the others: few entries are in
            // flight, and at most an entry's worth of submissions is received at a time.
            biased;
            () = lost.cancelled() => return,
            Some(outcome) = on_their_way.next() => {
                let Some((replies, effects)) = replies_of(outcome) else { break };
                failpoint::reach(Point::CommitAfter);
                carry_out(effects);
                let mut replies = replies.into_iter();
                for caller in callers.pop_front().unwrap_or_default() {
                    let own: Vec<Reply> = replies.by_ref().take(caller.commands).collect();
                    if let Some(settled) = caller.settled {
                        settled.end();
                    }
                    // A caller that has gone away needs no answer.
                    let _ = caller.reply.send(own);
                }
                if on_their_way.is_empty() {
                    // A planned move waits for as many commits as the shard has channels. Rests between their entries
                    // would delay the sends that arrive meanwhile.
                    rest = match closing.load(Ordering::Acquire) {
                        true => Duration::ZERO,
                        false => rest_after(bore, gathered.len() + immediate.len(), since(last_submit)),
                    };
                }
            }
            // The first deferred submission sets the deadline. Later ones stay queued, so that they wake nobody.
            _ = lingering.recv_many(&mut deferred, BATCH_SUBMISSIONS), if deferred.is_empty() => {
                let has_more = deferred.iter().any(|submission| submission.has_more);
                linger_until = Some(rt::now() + if has_more { Duration::ZERO } else { LINGER });
                continue;
            }
            received = immediate.recv_many(&mut gathered, BATCH_SUBMISSIONS), if is_received => {
                if received == 0 {
                    return;
                }
                gather_ready(&mut immediate, &mut gathered).await;
            }
            () = rt::sleep_until(linger_until.unwrap_or_else(rt::now)), if has_room && linger_until.is_some() => {}
            () = rt::sleep_until(room_at), if on_their_way.len() < IN_FLIGHT && !is_received => {}
        }
        loop {
            let queued = deferred.len() + lingering.len() + gathered.len() + immediate.len();
            if !may_submit(on_their_way.len(), since(last_submit), queued, rest) {
                break;
            }
            let lingered = linger_until.is_some_and(|until| until <= rt::now());
            if gathered.is_empty() && !lingered {
                break;
            }
            take_queued(&mut immediate, &mut gathered);
            if take_deferred(&mut lingering, &mut deferred) {
                linger_until.get_or_insert(rt::now() + LINGER);
            }
            let before = gathered.len();
            let (entry, waiting) = entry_of(format(), node, epoch, &mut deferred, &mut gathered);
            bore = before - gathered.len();
            if deferred.is_empty() {
                linger_until = None;
            }
            failpoint::reach(Point::CommitBefore);
            match group.submit(Bytes::from(entry)) {
                Ok(pending) => {
                    last_submit = rt::now();
                    on_their_way.push_back(pending);
                    callers.push_back(waiting);
                }
                Err(error) => {
                    tracing::info!(group = group.id(), epoch, %error, "the owner's entry was not accepted");
                    return lost.cancel();
                }
            }
        }
    }
    lost.cancel();
}

/// Gathers as well what tasks that are ready to run are about to submit: an entry costs every replica as much for one
/// command as for all of them.
async fn gather_ready(immediate: &mut mpsc::Receiver<Submission>, gathered: &mut Vec<Submission>) {
    tokio::task::yield_now().await;
    take_queued(immediate, gathered);
}

/// Takes immediate submissions, at most as many as an entry holds.
fn take_queued(immediate: &mut mpsc::Receiver<Submission>, gathered: &mut Vec<Submission>) {
    let room = BATCH_SUBMISSIONS.saturating_sub(gathered.len());
    gathered.extend(std::iter::from_fn(|| immediate.try_recv().ok()).take(room));
}

/// Takes all submissions deferred so far, and returns whether there are any. Whatever was deferred before an immediate
/// submission was made is in its queue by now, and must precede that one in the log: two receipts of one message may be
/// on both ways.
fn take_deferred(lingering: &mut mpsc::Receiver<Submission>, deferred: &mut Vec<Submission>) -> bool {
    deferred.extend(std::iter::from_fn(|| lingering.try_recv().ok()));
    !deferred.is_empty()
}

/// Makes an entry of the submissions that have waited longest, deferred ones first: at least one, and no more than fit.
fn entry_of(
    version: Format,
    node: NodeId,
    epoch: Epoch,
    deferred: &mut Vec<Submission>,
    gathered: &mut Vec<Submission>,
) -> (Vec<u8>, Vec<Caller>) {
    let mut bytes = 0;
    let mut fitting = |waiting: &[Submission], none_yet: bool| {
        let fits = |(place, submission): &(usize, &Submission)| {
            bytes += submission.encoded.len();
            bytes <= BATCH_BYTES || (none_yet && *place == 0)
        };
        waiting.iter().take(BATCH_SUBMISSIONS).enumerate().take_while(fits).count()
    };
    let of_deferred = fitting(deferred, true);
    let of_gathered = if of_deferred == deferred.len() { fitting(gathered, of_deferred == 0) } else { 0 };
    let taken = || deferred[..of_deferred].iter().chain(&gathered[..of_gathered]);
    let (size, commands) = taken().fold((0, 0), |(size, commands), submission| {
        (size + submission.encoded.len(), commands + submission.caller.commands)
    });
    // An encoded batch without commands ends in an empty list; its head is replaced below.
    let empty = Batch { version, epoch, node, commands: Vec::new() };
    let mut entry = msgpack::to_vec_named(&empty).expect("a batch of plain fields is always written");
    entry.pop();
    // The entry stays in the log's memory for long, so no capacity is reserved beyond its end.
    entry.reserve_exact(ARRAY_HEAD + size);
    entry.push(ARRAY_32);
    entry.extend_from_slice(&u32::try_from(commands).unwrap_or(u32::MAX).to_be_bytes());
    taken().for_each(|submission| entry.extend_from_slice(&submission.encoded));
    let callers =
        deferred.drain(..of_deferred).chain(gathered.drain(..of_gathered)).map(|submission| submission.caller);
    (entry, callers.collect())
}

/// MessagePack's marker of an array with a length of four bytes.
const ARRAY_32: u8 = 0xdd;
const ARRAY_HEAD: usize = 5;

/// The machine's replies and effects; `None` if the owner must stop: the entry was refused, in doubt, or fenced.
fn replies_of(outcome: Result<Bytes, ProposeError>) -> Option<(Vec<Reply>, Vec<Effect>)> {
    match msgpack::from_slice(&outcome.ok()?).ok()? {
        BatchReply::Replies(replies, effects) => Some((replies, effects)),
        BatchReply::Fenced => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use futures::FutureExt;
    use model::id::{ChannelId, RowId};
    use model::time::Timestamp;
    use raft::group::MAX_COMMAND;

    use super::*;
    use crate::command::BATCH_VERSION;
    use crate::owner::settling::Settling;
    use crate::owner::submission::tests::{of_size, submitted};
    use crate::owner::submission::{LARGEST_COMMAND, PORTION};

    fn queue() -> (Queue, mpsc::Receiver<Submission>) {
        let (submissions, waiting) = mpsc::channel(QUEUE);
        (Queue { submissions, room: Arc::new(Semaphore::new(QUEUE_BYTES)) }, waiting)
    }

    #[tokio::test]
    async fn whoever_submits_a_command_that_is_too_large_is_told_in_its_place() {
        let (queue, mut waiting) = queue();
        let commands = [of_size(10), of_size(LARGEST_COMMAND + 1), of_size(10)];
        let replies = tokio::spawn(async move { submit(&queue, &commands, None).await?.replies().await });
        while let Some(Submission { caller, .. }) = waiting.recv().await {
            caller.reply.send(vec![Reply::Done; caller.commands]).unwrap();
        }
        assert_eq!(replies.await.unwrap().unwrap(), [Reply::Done, Reply::TooLarge, Reply::Done]);
    }

    #[tokio::test]
    async fn who_commits_much_at_once_has_one_portion_of_it_before_those_who_come_later() {
        let (queue, mut waiting) = queue();
        let much = [of_size(PORTION), of_size(PORTION), of_size(10)];
        let loud = queue.clone();
        let mut loud = tokio::spawn(async move { submit(&loud, &much, None).await?.replies().await });
        let first = waiting.recv().await.unwrap();
        assert!(first.has_more && waiting.try_recv().is_err(), "the second portion waits for the first");
        let quiet = submit(&queue, &[of_size(20)], None).await.unwrap();
        let end = |submission: Submission| submission.caller.reply.send(vec![Reply::Done]).unwrap();
        end(first);
        for (bytes, has_more) in [(20, false), (PORTION, true), (10, false)] {
            let next = waiting.recv().await.unwrap();
            assert!(next.encoded.len().abs_diff(bytes) < 1000 && next.has_more == has_more);
            assert!((&mut loud).now_or_never().is_none());
            end(next);
        }
        assert_eq!(loud.await.unwrap().unwrap(), vec![Reply::Done; 3]);
        assert_eq!(quiet.replies().await.unwrap(), [Reply::Done]);
    }

    #[tokio::test]
    async fn verdicts_are_shown_until_the_last_of_their_commands_is_committed() {
        let (queue, mut waiting) = queue();
        let settling = Arc::<Settling>::default();
        let settled = Settled::of(&settling, vec![settling.begin(ChannelId::random(), RowId::new(), Timestamp(0))]);
        let verdicts = [of_size(PORTION), of_size(10)];
        tokio::spawn(async move { submit(&queue, &verdicts, settled).await.map(drop) });
        let first = waiting.recv().await.unwrap().caller;
        assert!(first.settled.is_none());
        first.reply.send(vec![Reply::Done]).unwrap();
        assert!(waiting.recv().await.unwrap().caller.settled.is_some());
        assert!(Settled::of(&settling, Vec::new()).is_none(), "receipts settle nothing");
    }

    #[tokio::test]
    async fn what_waits_for_an_entry_is_bounded_in_bytes() {
        let (queue, mut waiting) = queue();
        let largest = || submitted(&[of_size(LARGEST_COMMAND)]).remove(0);
        let mut put = 0;
        while queue.put(largest()).now_or_never().is_some() {
            put += 1;
        }
        assert_eq!(put, QUEUE_BYTES / LARGEST_COMMAND);
        // A submission that is taken makes room for the next one. A submission that waits for room ends with the queue.
        drop(waiting.recv().await);
        assert_eq!(queue.put(largest()).now_or_never(), Some(Ok(())));
        assert_eq!(queue.put(largest()).now_or_never(), None);
        let last = tokio::spawn(async move { queue.put(largest()).await });
        drop(waiting);
        assert_eq!(last.await.unwrap(), Err(LeadershipLost));
    }

    #[test]
    fn an_entry_is_the_batch_that_it_always_was_and_holds_no_more_than_fits() {
        const HALF: usize = BATCH_BYTES / 2;
        let mut deferred = submitted(&[of_size(10), of_size(20)]);
        deferred.extend(submitted(&[of_size(30)]));
        let mut gathered = submitted(&[of_size(HALF)]);
        gathered.extend(submitted(&[of_size(HALF)]));
        gathered.extend(submitted(&[of_size(LARGEST_COMMAND)]));
        gathered.extend(submitted(&[of_size(10)]));
        let mut shapes = Vec::new();
        while !gathered.is_empty() {
            let (entry, callers) = entry_of(BATCH_VERSION, 7, 3, &mut deferred, &mut gathered);
            assert!(entry.len() <= MAX_COMMAND && entry.len() == entry.capacity(), "{}", entry.len());
            let batch = Batch::read(&entry).unwrap();
            assert_eq!((batch.node, batch.epoch, batch.version), (7, 3, BATCH_VERSION));
            assert_eq!(batch.commands.len(), callers.iter().map(|caller| caller.commands).sum::<usize>());
            shapes.push(callers.iter().map(|caller| caller.commands).collect::<Vec<_>>());
        }
        assert_eq!(shapes, [vec![2, 1, 1], vec![1], vec![1], vec![1]]);
    }

    #[test]
    fn an_entry_follows_one_on_its_way_after_a_while_or_when_it_is_worth_it() {
        let (soon, rest) = (GATHER / 2, GATHER / 4);
        let table = [
            (0, Duration::ZERO, 1, Duration::ZERO, true),
            (0, rest / 2, 1, rest, false),
            (0, rest / 2, WORTH_AN_ENTRY, rest, true),
            (0, rest, 1, rest, true),
            (1, soon, 1, Duration::ZERO, false),
            (1, soon, WORTH_AN_ENTRY - 1, rest, false),
            (1, soon, WORTH_AN_ENTRY, rest, true),
            (IN_FLIGHT - 1, GATHER, 1, rest, true),
            (IN_FLIGHT, GATHER * 100, BATCH_SUBMISSIONS, Duration::ZERO, false),
        ];
        for (on_their_way, since_last, queued, rest, expected) in table {
            let found = may_submit(on_their_way, since_last, queued, rest);
            assert_eq!(found, expected, "{on_their_way} on their way, {since_last:?}, {queued} waiting, {rest:?}");
        }
    }

    #[test]
    fn an_entry_of_many_is_followed_by_a_rest_as_long_as_it_took_and_one_of_few_or_a_brief_one_by_none() {
        let took = BRIEF * 2;
        assert_eq!([0, 1, FEW].map(|bore| rest_after(bore, 0, took)), [Duration::ZERO; 3]);
        assert_eq!([FEW + 1, 40].map(|bore| rest_after(bore, 0, took)), [took * 2; 2]);
        assert_eq!(rest_after(40, 40, BRIEF), Duration::ZERO);
        assert_eq!(rest_after(40, 0, LONGEST_REST * 50), LONGEST_REST, "it is over by then");
    }

    #[test]
    fn an_entry_of_few_is_followed_by_a_rest_when_others_have_come_meanwhile() {
        let took = BRIEF * 2;
        assert_eq!(rest_after(1, FEW - 1, took), Duration::ZERO, "one by one");
        assert_eq!([(1, FEW), (FEW, 1)].map(|(bore, waiting)| rest_after(bore, waiting, took)), [took * 2; 2]);
    }

    #[tokio::test]
    async fn an_entry_takes_along_what_ready_tasks_are_about_to_submit() {
        let (queue, mut immediate) = queue();
        submit(&queue, &[of_size(10)], None).await.unwrap();
        tokio::spawn(async move { submit(&queue, &[of_size(20)], None).await.map(drop) });
        let mut gathered = vec![immediate.recv().await.unwrap()];
        gather_ready(&mut immediate, &mut gathered).await;
        assert_eq!(gathered.len(), 2);
    }

    #[tokio::test]
    async fn no_more_is_taken_of_the_queue_than_an_entry_holds() {
        let (queue, mut immediate) = queue();
        for _ in 0..BATCH_SUBMISSIONS + 10 {
            submit(&queue, &[of_size(10)], None).await.unwrap();
        }
        let mut gathered = Vec::new();
        take_queued(&mut immediate, &mut gathered);
        take_queued(&mut immediate, &mut gathered);
        assert_eq!((gathered.len(), immediate.len()), (BATCH_SUBMISSIONS, 10));
    }

    #[tokio::test]
    async fn what_was_deferred_before_a_commit_stands_in_the_log_before_it_however_much_there_is() {
        let ((deferring, mut lingering), (committing, mut immediate)) = (queue(), queue());
        for _ in 0..=2 * BATCH_SUBMISSIONS {
            submit(&deferring, &[of_size(10)], None).await.unwrap();
        }
        submit(&committing, &[of_size(PORTION)], None).await.unwrap();
        let (mut deferred, mut gathered) = (Vec::new(), vec![immediate.recv().await.unwrap()]);
        assert!(take_deferred(&mut lingering, &mut deferred));
        let mut entries = Vec::new();
        while !gathered.is_empty() {
            let (entry, callers) = entry_of(BATCH_VERSION, 7, 3, &mut deferred, &mut gathered);
            entries.push((callers.len(), entry.len() > PORTION));
        }
        assert_eq!(entries, [(BATCH_SUBMISSIONS, false), (BATCH_SUBMISSIONS, false), (2, true)]);
        assert!(!take_deferred(&mut lingering, &mut deferred));
    }
}

//! Puts the commands of all channels of a shard into log entries: what waits while one entry is on its way forms the
//! next, so that a busy shard shares its entries and an idle one waits for nothing. Where the way is long, the next one does
//! not wait for its end. Entries are bounded in bytes as well as in number: a large one would hold up all channels of the
//! shard while it crosses a slow link.

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

/// How many submissions wait at most; a channel that submits more waits itself.
const QUEUE: usize = 4096;

/// Bytes of the commands that wait for an entry, of one shard: four of the largest entries can be on their way meanwhile.
const QUEUE_BYTES: usize = 16 << 20;

/// How many submissions share a log entry: so many of those that somebody waits for, and as many of the others.
const BATCH_SUBMISSIONS: usize = 256;

/// Bytes of the commands that share a log entry; one that takes more has an entry of its own.
const BATCH_BYTES: usize = 512 << 10;

/// How many entries are on their way at once. More would only make them smaller.
const IN_FLIGHT: usize = 4;

/// How long commands gather behind an entry that is on its way before they follow it. Each entry costs every replica the same
/// work and a sync, however few commands it bears. A quorum nearby has answered by then though its processors are busy: entries
/// that follow earlier would keep them so. One far away is not waited for.
const GATHER: Duration = Duration::from_millis(20);

/// Where an entry bore, together with what waits behind it, more submissions than this that somebody waits for, the committer rests for
/// as long again as that entry took: its callers are answered together, and what they bring next comes close upon each other. Where
/// processors are busy entries take long; fewer of them go then, which leaves more time for the sends. So few may be of callers that
/// come one by one, who would wait for nobody.
const FEW: usize = 2;

/// The longest rest, from when the entry went. It lasts so long where processors are all but overloaded: what waits here waits
/// for them no longer, and takes less of them.
const LONGEST_REST: Duration = Duration::from_millis(40);

/// Nor is there a rest behind an entry that took no longer than this: processors and disks had nothing else to do.
const BRIEF: Duration = Duration::from_millis(2);

/// How many submissions are worth an entry at once: the entry costs little more than they do.
const WORTH_AN_ENTRY: usize = 64;

/// How long commands that nobody waits for are held back, so that they share an entry with others. An entry of their
/// own costs every replica as much as the send that they settle.
const LINGER: Duration = Duration::from_millis(20);

/// The owner's right has ended: nothing more can be committed, and what was on its way may or may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shard has another owner")]
pub struct LeadershipLost;

/// Why a call comes to no result at an owner.
#[derive(Debug, thiserror::Error)]
pub enum NotDone {
    /// It is refused, and the caller is to be told so.
    #[error(transparent)]
    Refused(#[from] CallError),
    /// It may not have been done, or not be known to be: the next owner is to be asked, with the same ids.
    #[error(transparent)]
    LeadershipLost(#[from] LeadershipLost),
}

/// What a call comes to at an owner.
pub type Answered<T> = Result<T, NotDone>;

/// What the caller is to be told, be it a refusal.
///
/// # Errors
/// [`LeadershipLost`] when the next owner is to be asked.
pub fn told<T>(answered: Answered<T>) -> Result<Result<T, CallError>, LeadershipLost> {
    match answered {
        Ok(done) => Ok(Ok(done)),
        Err(NotDone::Refused(error)) => Ok(Err(error)),
        Err(NotDone::LeadershipLost(lost)) => Err(lost),
    }
}

/// What came of commands: the replies to the first of them, and where those to the last are to come from.
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

/// Carries out what came of committed commands.
pub type CarryOut = Box<dyn Fn(Vec<Effect>) + Send + Sync>;

/// Of which ownership a committer is.
pub struct Terms {
    pub node: NodeId,
    pub epoch: Epoch,
    /// The format that the cluster writes now.
    pub format: Box<dyn Fn() -> Format + Send + Sync>,
    pub carry_out: CarryOut,
    /// Cancelled when the right has ended.
    pub lost: CancellationToken,
    /// While it is set, no entry rests behind another.
    pub closing: Arc<AtomicBool>,
}

/// The way into the shard's log. What one caller commits keeps its order, whether it waits for it or defers it, as long as it
/// does not defer anything while it waits.
#[derive(Clone)]
pub struct Committer {
    queue: Queue,
    deferred: Queue,
}

/// Submissions that wait for an entry: bounded in number, and with those of the other queue of the shard in bytes.
#[derive(Clone)]
struct Queue {
    submissions: mpsc::Sender<Submission>,
    room: Arc<Semaphore>,
}

impl Queue {
    /// Waits for room.
    async fn put(&self, mut submission: Submission) -> Result<(), LeadershipLost> {
        // No submission is larger than all the room, so that each finds it in its turn.
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
    /// Starts the task. It ends, and cancels [`Terms::lost`], as soon as one entry is refused or in doubt.
    pub fn start(group: impl Leader, terms: Terms) -> Self {
        let (queued, immediate) = mpsc::channel(QUEUE);
        let (deferred, lingering) = mpsc::channel(QUEUE);
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        // However it ends, also by a panic, nothing more can be committed by this ownership.
        let ended = terms.lost.clone().drop_guard();
        rt::spawn(async move {
            let committing = run((immediate, lingering), group, terms);
            supervise::noticed("the committer of a shard", committing).await;
            drop(ended);
        });
        let queue = |submissions| Queue { submissions, room: room.clone() };
        Self { queue: queue(queued), deferred: queue(deferred) }
    }

    /// Commits commands and gives the state machine's answers, one a command; [`Reply::TooLarge`] for one that no entry can
    /// hold, which changed nothing. Many or large ones go into several entries, in their order: a crash may leave the first
    /// of them.
    ///
    /// # Errors
    /// [`LeadershipLost`] when the owner's right has ended; the commands may still have been applied. Also for events that were made
    /// by an old copy of the directory: nothing is committed then, and who owns the shard next makes them anew.
    pub async fn commit(&self, commands: Vec<Command>) -> Result<Vec<Reply>, LeadershipLost> {
        submit(&self.queue, &commands, None).await?.replies().await
    }

    /// Commits commands that nobody waits for, together with the next that somebody does, or soon.
    ///
    /// # Errors
    /// As [`Committer::commit`].
    pub async fn commit_deferred(
        &self,
        commands: Vec<Command>,
    ) -> Result<impl Future<Output = Result<Vec<Reply>, LeadershipLost>> + Send + use<>, LeadershipLost> {
        self.commit_verdicts(commands, None).await
    }

    /// [`Committer::commit_deferred`] of verdicts that readers are shown until they are committed: nobody need wait to end that.
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

/// Submits one part after the other, each once the one before it is committed, and after a rest as long as that took: who has much
/// leaves half of the shard's time to the others.
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

/// Waits for so long, but for [`LONGEST_REST`] at most, between two things that are large.
pub async fn rest(time: Duration) {
    rt::sleep(time.min(LONGEST_REST)).await;
}

fn since(moment: Instant) -> Duration {
    rt::now().saturating_duration_since(moment)
}

/// How long after the last entry the next one goes, with so many on their way; `rest`: with none of them.
fn pause(on_their_way: usize, rest: Duration) -> Duration {
    if on_their_way == 0 { rest } else { GATHER }
}

/// Whether an entry may go out, with so many on their way, so long after the last one, and with so many submissions that wait.
fn may_submit(on_their_way: usize, since_last: Duration, queued: usize, rest: Duration) -> bool {
    on_their_way < IN_FLIGHT && (since_last >= pause(on_their_way, rest) || queued >= WORTH_AN_ENTRY)
}

/// The rest after an entry that bore so many submissions that somebody waits for, and took so long, with so many that wait behind it.
///
/// Those count as much: where callers come evenly, an entry that follows at once bears few, and so would each of the next.
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
    // The callers of each entry on its way, oldest first, with how many replies are theirs.
    let mut callers: VecDeque<Vec<Caller>> = VecDeque::new();
    let mut gathered: Vec<Submission> = Vec::new();
    let mut deferred: Vec<Submission> = Vec::new();
    // Until when the oldest of the lingering commands waits.
    let mut linger_until: Option<Instant> = None;
    let mut last_submit = rt::now();
    // How many submissions that somebody waits for the last entry bore, and the rest after it.
    let mut bore = 0;
    let mut rest = Duration::ZERO;
    loop {
        let queued = deferred.len() + lingering.len() + gathered.len() + immediate.len();
        let has_room = may_submit(on_their_way.len(), since(last_submit), queued, rest);
        // What comes stays in its queue until there is room, so that it does not wake the committer one by one. What found no room
        // in the entry before goes first.
        let is_received = has_room && gathered.is_empty();
        let room_at = last_submit + pause(on_their_way.len(), rest);
        tokio::select! {
            // In this order, so that a simulated run is the same whenever it is made again. None of them can keep the others from their
            // turn: entries on their way are few, and as much as one of them bears is received at a time.
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
                    // A planned move waits for as many commits as the shard has channels, and rests between their entries would hold up
                    // the sends that come meanwhile.
                    rest = match closing.load(Ordering::Acquire) {
                        true => Duration::ZERO,
                        false => rest_after(bore, gathered.len() + immediate.len(), since(last_submit)),
                    };
                }
            }
            // The first of them says until when. Those that come after it stay in their queue, so that they wake nobody.
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

/// Gathers as well what tasks that are ready to run are about to submit: an entry costs every replica as much for one command as for
/// all of them.
async fn gather_ready(immediate: &mut mpsc::Receiver<Submission>, gathered: &mut Vec<Submission>) {
    tokio::task::yield_now().await;
    take_queued(immediate, gathered);
}

/// Takes what somebody waits for, no more than an entry holds.
fn take_queued(immediate: &mut mpsc::Receiver<Submission>, gathered: &mut Vec<Submission>) {
    let room = BATCH_SUBMISSIONS.saturating_sub(gathered.len());
    gathered.extend(std::iter::from_fn(|| immediate.try_recv().ok()).take(room));
}

/// Takes all that was deferred before what was taken of the others: it stands in its queue by now, and is to stand in the log before it,
/// as two receipts of one message may be on both ways. Whether anything is deferred.
fn take_deferred(lingering: &mut mpsc::Receiver<Submission>, deferred: &mut Vec<Submission>) -> bool {
    deferred.extend(std::iter::from_fn(|| lingering.try_recv().ok()));
    !deferred.is_empty()
}

/// Makes an entry of those that have waited longest, first of the deferred and then of the others: at least of one, and of no
/// more than fit.
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
    // A batch without commands ends in an empty list of them.
    let empty = Batch { version, epoch, node, commands: Vec::new() };
    let mut entry = msgpack::to_vec_named(&empty).expect("a batch of plain fields is always written");
    entry.pop();
    // The entry stays in the log's memory for long; nothing is reserved beyond its end.
    entry.reserve_exact(ARRAY_HEAD + size);
    entry.push(ARRAY_32);
    entry.extend_from_slice(&u32::try_from(commands).unwrap_or(u32::MAX).to_be_bytes());
    taken().for_each(|submission| entry.extend_from_slice(&submission.encoded));
    let callers =
        deferred.drain(..of_deferred).chain(gathered.drain(..of_gathered)).map(|submission| submission.caller);
    (entry, callers.collect())
}

/// How MessagePack begins a list whose length takes four bytes.
const ARRAY_32: u8 = 0xdd;
const ARRAY_HEAD: usize = 5;

/// The machine's replies and effects, or `None` when the owner must stop: refused, in doubt, or fenced.
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
        // One that goes into an entry makes room for another, and no submission waits for ever for more than there is.
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

//! One Raft group, as its users see it.

mod core;
pub(crate) mod progress;
mod reads;
mod reverted;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use model::id::NodeId;
use openraft::async_runtime::WatchReceiver;
use openraft::error::{ClientWriteError, InitializeError, RaftError};
use openraft::metrics::RaftServerMetrics;
use openraft::raft::ClientWriteResult;
use openraft::vote::RaftVote;
use openraft::{RaftMetrics, ServerState};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

pub(crate) use self::core::{Core, Raft, Running};
#[cfg(feature = "simulation")]
pub(crate) use self::core::{confirm_leader, outcome, quorum_contact};
use crate::machine::GroupId;
pub use crate::state::reader::StateReader;
pub use crate::types::MAX_COMMAND;
use crate::types::{Command, GatewayTypes, TypeConfig, Waiter};

/// Who lacks no more entries than this has them within a moment ([`has_caught_up`]).
const CAUGHT_UP: u64 = 200;

/// Whether a member whose log is known to reach to `matched` lacks few of the entries up to `last`, and none that the leader has
/// cut off its own log: those come with a snapshot alone.
fn is_near(matched: u64, purged: u64, last: u64) -> bool {
    matched >= purged && has_caught_up(matched, last)
}

/// How far behind a voter may be to be handed leadership: it has to catch up before it can win, and nobody leads
/// meanwhile.
const TRANSFER_LAG: u64 = 500;

/// Why a command was not, or may not have been, applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProposeError {
    /// This node does not lead the group; the command was not proposed.
    #[error("not the leader (leader: {leader:?})")]
    NotLeader { leader: Option<NodeId> },
    /// The command may have been applied, or may still be: the time passed, or leadership was lost on the way.
    #[error("the outcome is unknown")]
    Unknown,
    /// The command is larger than a log entry may be; it was not proposed, and never can be.
    #[error("the command takes {bytes} bytes, and a log entry holds {MAX_COMMAND} at most")]
    TooLarge { bytes: usize },
    /// Too many commands wait; this one was not proposed.
    #[error("too many commands wait")]
    Busy,
    /// The group is stopped, or is being rebuilt; the command was not proposed.
    #[error("the group is stopped")]
    Stopped,
}

/// Why a read could not be made linearizable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    #[error("the group has no reachable leader")]
    NoLeader,
    #[error("timed out")]
    TimedOut,
    #[error("the group is stopped")]
    Stopped,
}

/// A change of the members, or of who leads them.
pub type Changing<'a> = BoxFuture<'a, Result<(), ChangeError>>;

/// Why members could not be changed or leadership not be moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    #[error("not the leader (leader: {leader:?})")]
    NotLeader { leader: Option<NodeId> },
    #[error("timed out")]
    TimedOut,
    #[error("refused: {0}")]
    Refused(String),
    #[error("the group is stopped")]
    Stopped,
}

/// Who leads a group, and whether this node may act as its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    pub term: u64,
    pub leader: Option<NodeId>,
    /// The term, once this node leads and has applied the first entry of that term: all that earlier leaders had
    /// answered is then in the state here.
    pub ready_epoch: Option<u64>,
    /// Whether this node votes, and so hears who leads.
    pub votes: bool,
}

impl Leadership {
    /// What a group's replica on `node` knows of its leader, having applied an entry of `applied_term` last.
    pub(crate) fn of<C: GatewayTypes>(server: &RaftServerMetrics<C>, applied_term: u64, node: NodeId) -> Self {
        let term = server.vote.leader_id().term;
        let leads = leads(server, node);
        // Any entry of a term comes behind that term's first.
        let ready_epoch = (leads && applied_term == term).then_some(term);
        let votes = server.membership_config.voter_ids().any(|voter| voter == node);
        Self { term, leader: server.current_leader, ready_epoch, votes }
    }
}

/// Whether the replica on `node` leads its group.
pub(crate) fn leads<C: GatewayTypes>(server: &RaftServerMetrics<C>, node: NodeId) -> bool {
    server.state == ServerState::Leader && server.current_leader == Some(node)
}

/// Who takes part in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    pub voters: BTreeSet<NodeId>,
    pub learners: BTreeSet<NodeId>,
    /// Whether the group is between two sets of voters, and needs a quorum of both.
    pub joint: bool,
    /// Whether a quorum holds them. Before that, whoever leads next may find the members from before, and need their votes.
    pub committed: bool,
}

/// A command on its way; awaiting it gives the machine's answer. Dropping it does not take the command back.
#[derive(Debug)]
pub struct Pending {
    result: oneshot::Receiver<ClientWriteResult<TypeConfig>>,
}

impl Future for Pending {
    type Output = Result<Bytes, ProposeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A dropped answer: the group died with the command on its way.
        Pin::new(&mut self.result).poll(context).map(|result| result.map_or(Err(ProposeError::Unknown), core::outcome))
    }
}

/// A handle of one group; it stays valid when the group dies and is rebuilt.
#[derive(Clone)]
pub struct Group {
    pub(crate) core: Arc<Core>,
}

/// A group as the owner at its leader uses it: a [`Group`], or one of a simulated run.
pub trait Leader: Send + Sync + 'static {
    /// A command on its way.
    type Pending: Future<Output = Result<Bytes, ProposeError>> + Send + 'static;

    fn id(&self) -> GroupId;

    /// See [`Group::submit`].
    ///
    /// # Errors
    /// When the command was not enqueued.
    fn submit(&self, command: Bytes) -> Result<Self::Pending, ProposeError>;

    /// See [`Group::quorum_contact`].
    fn quorum_contact(&self, epoch: u64) -> Option<Instant>;
}

impl Leader for Group {
    type Pending = Pending;

    fn id(&self) -> GroupId {
        Self::id(self)
    }

    fn submit(&self, command: Bytes) -> Result<Pending, ProposeError> {
        Self::submit(self, command)
    }

    fn quorum_contact(&self, epoch: u64) -> Option<Instant> {
        Self::quorum_contact(self, epoch)
    }
}

impl Group {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    pub fn id(&self) -> GroupId {
        self.core.id
    }

    /// Gives a pristine group its first members; a group that has members already is left alone.
    pub fn initialize(&self, members: BTreeSet<NodeId>) -> Changing<'_> {
        Box::pin(async move { initialized(self.raft()?.initialize(members).await) })
    }

    /// Whether the group has never had members here: no log, no vote.
    pub fn is_pristine(&self) -> bool {
        self.core.running().is_some_and(|running| running.log.is_pristine())
    }

    /// Enqueues a command and returns at once. Commands stand in the log in the order of these calls.
    pub fn submit(&self, command: Bytes) -> Result<Pending, ProposeError> {
        self.enqueue(Command::new(command).map_err(|bytes| ProposeError::TooLarge { bytes })?)
    }

    fn enqueue(&self, command: Command) -> Result<Pending, ProposeError> {
        let raft = self.core.raft().ok_or(ProposeError::Stopped)?;
        let (answer, result) = oneshot::channel();
        // The call only puts the command in the core's queue, so one poll does it, unless the queue is full. It must
        // not count against the calling task's budget, or it would pretend to be full when the budget is used up.
        let queued = raft.client_write_ff(command, Some(Waiter(answer)));
        match tokio::task::coop::unconstrained(queued).now_or_never() {
            Some(Ok(())) => Ok(Pending { result }),
            Some(Err(_)) => Err(ProposeError::Stopped),
            None => Err(ProposeError::Busy),
        }
    }

    /// Submits a command and waits for its answer.
    pub async fn propose(&self, command: Bytes, deadline: Instant) -> Result<Bytes, ProposeError> {
        let pending = self.submit(command)?;
        tokio::time::timeout_at(deadline.into(), pending).await.unwrap_or(Err(ProposeError::Unknown))
    }

    /// Where votes and heartbeats are sent and answered, apart from requests: for what must be held up by these no more, and holds up
    /// nothing itself.
    pub fn runtime(&self) -> &Handle {
        self.core.runtime()
    }

    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.core.leadership.subscribe()
    }

    pub fn leader(&self) -> Option<NodeId> {
        self.core.leadership.borrow().leader
    }

    /// The leader that a replica knows which votes; `None` of one that does not, and may not hear who leads. Asked for each call of
    /// another node's: it must not hold up the group's core, as a look at its members may.
    pub fn known_leader(&self) -> Option<Option<NodeId>> {
        let known = self.core.leadership.borrow();
        known.votes.then_some(known.leader)
    }

    /// The other node that this one has followed last, and when it heard it; `None` when it has followed none since its start.
    pub fn led_by(&self) -> Option<(NodeId, Instant)> {
        *self.core.heard.lock()
    }

    /// On the leader: the bytes that were sent of a snapshot to a node, while one is on its way there.
    pub(crate) fn sent_to(&self, node: NodeId) -> Option<u64> {
        self.core.copies.sent(node)
    }

    /// When this leader last heard from a quorum: the time at which the acknowledged message was sent, so that no
    /// other node can have been elected before that time plus the shortest election time-out, unless this node handed
    /// leadership over. `None` also for one that is about to step down, and where this node leads in another epoch.
    pub fn quorum_contact(&self, epoch: u64) -> Option<Instant> {
        self.core.quorum_contact().filter(|(term, _)| *term == epoch).map(|(_, at)| at)
    }

    /// An index such that a state that has applied it shows everything that was answered before this call.
    pub async fn read_index(&self, deadline: Instant) -> Result<u64, ReadError> {
        self.core.read_index(deadline).await
    }

    /// [`Group::read_index`] on this node as the leader.
    ///
    /// # Errors
    /// Also when another node leads: whoever keeps account of what it answered as the leader must not answer for another.
    pub async fn leader_read_index(&self, deadline: Instant) -> Result<u64, ReadError> {
        let reading = self.core.leader_read_index();
        tokio::time::timeout_at(deadline.into(), reading).await.unwrap_or(Err(ReadError::TimedOut))
    }

    pub async fn wait_applied(&self, index: u64, deadline: Instant) -> Result<(), ReadError> {
        let mut position = self.core.position.subscribe();
        let reached = position.wait_for(|position| position.index >= index);
        let reached = tokio::time::timeout_at(deadline.into(), reached).await.map_err(|_| ReadError::TimedOut)?;
        reached.map(|_| ()).map_err(|_| ReadError::Stopped)
    }

    /// Returns when the local state shows everything that was answered before this call, on any node.
    pub async fn linearizable(&self, deadline: Instant) -> Result<(), ReadError> {
        let index = self.read_index(deadline).await?;
        self.wait_applied(index, deadline).await
    }

    /// The index of the last entry whose effects are written here.
    pub fn applied(&self) -> u64 {
        self.core.position.borrow().index
    }

    /// What this node applied of the group in a second of late, on whichever side it stands: entries, and each KiB of them as
    /// one more. Weighted towards the last minute.
    pub fn applied_per_second(&self) -> f64 {
        self.core.meter.per_second(Instant::now())
    }

    pub fn members(&self) -> Members {
        self.core.members()
    }

    /// On the leader: the last index that each other member is known to hold; `None` for one not heard of yet.
    pub fn replicated(&self) -> BTreeMap<NodeId, Option<u64>> {
        self.core.raft().map_or_else(BTreeMap::new, |raft| replicated(&raft.metrics().borrow_watched()))
    }

    /// The last index of the local log.
    pub fn last_index(&self) -> Option<u64> {
        self.core.running()?.log.last().map(|id| id.index)
    }

    /// Hands leadership to a voter, and returns when this node sees it lead.
    pub fn transfer_leader(&self, to: NodeId, deadline: Instant) -> Changing<'_> {
        Box::pin(async move {
            let mut leadership = self.leadership();
            let work = async {
                loop {
                    let leader = leadership.borrow_and_update().leader;
                    if leader == Some(to) {
                        return Ok(());
                    }
                    if leader != Some(self.core.node) {
                        return Err(ChangeError::NotLeader { leader });
                    }
                    if !self.members().voters.contains(&to) {
                        return Err(ChangeError::Refused(format!("node {to} is no voter of group {}", self.id())));
                    }
                    let behind = self.replicated().get(&to).copied().flatten();
                    if behind.is_some_and(|index| index + TRANSFER_LAG >= self.last_index().unwrap_or(0)) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                self.raft()?.trigger().transfer_leader(to).await.map_err(|_| ChangeError::Stopped)?;
                let led = leadership.wait_for(|now| now.leader.is_some_and(|leader| leader != self.core.node)).await;
                match led.map_err(|_| ChangeError::Stopped)?.leader {
                    Some(leader) if leader == to => Ok(()),
                    leader => Err(ChangeError::NotLeader { leader }),
                }
            };
            tokio::time::timeout_at(deadline.into(), work).await.unwrap_or(Err(ChangeError::TimedOut))
        })
    }

    /// On the leader: the members that have answered lately and lack little of its log, itself among them.
    pub fn caught_up(&self) -> BTreeSet<NodeId> {
        let Some(running) = self.core.running() else { return BTreeSet::new() };
        let last = running.log.last().map_or(0, |id| id.index);
        let metrics = running.raft.metrics();
        let metrics = metrics.borrow_watched();
        let purged = metrics.purged.as_ref().map_or(0, |id| id.index);
        // Of a group in which nothing is proposed the log of a node that is away reaches to the end, too.
        let is_recent = |sent: Instant| sent.elapsed() <= self.core.round_timeout;
        let heard = self.core.contacts.heard_lately(metrics.current_term, is_recent);
        let near = metrics.replication.iter().flatten().filter_map(|(node, matched)| {
            let matched = matched.as_ref()?;
            (heard.contains(node) && is_near(matched.index, purged, last)).then_some(*node)
        });
        near.chain([self.core.node]).collect()
    }

    /// Adds a node that replicates and does not vote; returns when the change is committed, not when it caught up.
    pub fn add_learner(&self, node: NodeId, deadline: Instant) -> Changing<'_> {
        Box::pin(async move {
            let raft = self.raft()?;
            let change = raft.add_learner(node, (), false);
            changed(tokio::time::timeout_at(deadline.into(), change).await)
        })
    }

    /// Makes these nodes the voters; earlier voters that are not among them leave the group, or stay as learners with
    /// `retain`. New voters have to be learners before, and should have caught up: a quorum may need them at once.
    pub fn change_members(&self, voters: BTreeSet<NodeId>, retain: bool, deadline: Instant) -> Changing<'_> {
        Box::pin(async move {
            let raft = self.raft()?;
            let change = raft.change_membership(voters, retain);
            changed(tokio::time::timeout_at(deadline.into(), change).await)
        })
    }

    /// Takes learners out of the group.
    pub fn remove_learners(&self, nodes: BTreeSet<NodeId>, deadline: Instant) -> Changing<'_> {
        Box::pin(async move {
            let raft = self.raft()?;
            let change = raft.change_membership(openraft::ChangeMembers::RemoveNodes(nodes), false);
            changed(tokio::time::timeout_at(deadline.into(), change).await)
        })
    }

    /// Sends a heartbeat now: refreshes the quorum contact without waiting for the next one.
    pub fn trigger_heartbeat(&self) {
        if let Some(raft) = self.core.raft() {
            // A full queue has traffic enough to refresh the contact.
            self::core::begin_heartbeat(&raft);
        }
    }

    pub fn reader(&self) -> StateReader {
        StateReader::new(self.core.state.clone(), self.id())
    }

    /// The applied index and a hash of all keys and values at that index, both of one moment.
    pub fn state_hash(&self, deadline: Instant) -> BoxFuture<'_, Result<(u64, u64), ReadError>> {
        Box::pin(async move {
            let (disk, id) = (self.core.state.clone(), self.id());
            let hashing = self.core.runtime().spawn_blocking(move || disk.hash(id));
            let hashed = tokio::time::timeout_at(deadline.into(), hashing).await.map_err(|_| ReadError::TimedOut)?;
            hashed.ok().and_then(Result::ok).ok_or(ReadError::Stopped)
        })
    }

    fn raft(&self) -> Result<Raft, ChangeError> {
        self.core.raft().ok_or(ChangeError::Stopped)
    }
}

/// Whether a member that has come so far in its log, or in its state, will have come to `last` within a moment.
pub fn has_caught_up(index: u64, last: u64) -> bool {
    index + CAUGHT_UP >= last
}

/// Whether these voters can commit at once, by those of them that have caught up, or answer. One that votes already may be away, or
/// wait for a snapshot, and would stop its group for as long where a change leaves no majority without it.
pub fn has_quorum(voters: &BTreeSet<NodeId>, caught_up: &BTreeSet<NodeId>) -> bool {
    voters.intersection(caught_up).count() > voters.len() / 2
}

/// [`Group::replicated`], as openraft's metrics have it.
pub(crate) fn replicated<C: GatewayTypes>(metrics: &RaftMetrics<C>) -> BTreeMap<NodeId, Option<u64>> {
    let replication = metrics.replication.iter().flatten();
    replication.map(|(node, matched)| (*node, matched.as_ref().map(|id| id.index))).collect()
}

/// What openraft says of a group's first members. That it has members already is no error.
pub(crate) fn initialized<C: GatewayTypes>(
    result: Result<(), RaftError<C, InitializeError<C>>>,
) -> Result<(), ChangeError> {
    match result {
        Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(RaftError::APIError(error)) => Err(ChangeError::Refused(error.to_string())),
        Err(RaftError::Fatal(_)) => Err(ChangeError::Stopped),
    }
}

/// What openraft, or the time that it was given, says of a change of members.
pub(crate) fn changed<C: GatewayTypes, T, E>(
    result: Result<Result<T, RaftError<C, ClientWriteError<C>>>, E>,
) -> Result<(), ChangeError> {
    match result {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward)))) => {
            Err(ChangeError::NotLeader { leader: forward.leader_id })
        }
        Ok(Err(RaftError::APIError(error))) => Err(ChangeError::Refused(error.to_string())),
        Ok(Err(RaftError::Fatal(_))) => Err(ChangeError::Stopped),
        Err(_) => Err(ChangeError::TimedOut),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Group {
        /// A command of any size, as earlier releases took them.
        pub(crate) fn submit_unbounded(&self, command: Bytes) -> Result<Pending, ProposeError> {
            self.enqueue(Command::logged(command))
        }

        /// The first index that the local log still holds.
        pub(crate) fn first_index(&self) -> u64 {
            self.core.running().map_or(0, |running| running.log.first())
        }
    }

    #[test]
    fn who_lacks_what_the_leader_has_cut_off_its_log_has_not_caught_up() {
        assert!(is_near(1_000, 950, 1_000) && is_near(1_000 - CAUGHT_UP, 0, 1_000));
        assert!(!is_near(999 - CAUGHT_UP, 0, 1_000), "it lacks too many");
        assert!(is_near(950, 950, 1_000), "the next entry is the first that is left");
        assert!(!is_near(949, 950, 1_000), "it waits for a snapshot");
    }
}

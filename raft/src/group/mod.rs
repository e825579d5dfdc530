//! Handle of one Raft group: propose, read, change members, transfer leadership.

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

/// A member that lacks at most this many entries has caught up ([`has_caught_up`]).
const CAUGHT_UP: u64 = 200;

/// Whether a member that is known to hold the log up to `matched` is close to `last`, and still needs only entries that
/// the leader has. Entries before `purged` reach a member only in a snapshot.
fn is_near(matched: u64, purged: u64, last: u64) -> bool {
    matched >= purged && has_caught_up(matched, last)
}

/// Largest lag, in entries, of a voter that leadership is transferred to: it has to catch up before it can win the
/// election, and the group has no leader meanwhile.
const TRANSFER_LAG: u64 = 500;

/// Why a command was not applied, or may not have been.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProposeError {
    /// This node is not the leader; the command was not proposed.
    #[error("not the leader (leader: {leader:?})")]
    NotLeader { leader: Option<NodeId> },
    /// The command may have been, or may still be, applied: it timed out, or leadership was lost meanwhile.
    #[error("the outcome is unknown")]
    Unknown,
    /// The command exceeds [`MAX_COMMAND`]; it was not proposed, and a retry cannot succeed.
    #[error("the command takes {bytes} bytes, and a log entry holds {MAX_COMMAND} at most")]
    TooLarge { bytes: usize },
    /// The queue of commands is full; the command was not proposed.
    #[error("too many commands wait")]
    Busy,
    /// The group is stopped, or is being restarted; the command was not proposed.
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

/// The pending result of a membership change or a leadership transfer.
pub type Changing<'a> = BoxFuture<'a, Result<(), ChangeError>>;

/// Why a membership change or a leadership transfer failed.
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
    /// The current term, once this node is the leader and has applied the first entry of that term. From then on the
    /// local state includes everything that earlier leaders had answered.
    pub ready_epoch: Option<u64>,
    /// Whether this node is a voter. A node that is not may never hear who the leader is.
    pub votes: bool,
}

impl Leadership {
    /// Leadership as the replica on `node` sees it; `applied_term` is the term of the entry that it applied last.
    pub(crate) fn of<C: GatewayTypes>(server: &RaftServerMetrics<C>, applied_term: u64, node: NodeId) -> Self {
        let term = server.vote.leader_id().term;
        let leads = leads(server, node);
        // An applied entry of a term implies that the first entry of that term is applied.
        let ready_epoch = (leads && applied_term == term).then_some(term);
        let votes = server.membership_config.voter_ids().any(|voter| voter == node);
        Self { term, leader: server.current_leader, ready_epoch, votes }
    }
}

/// Whether the replica on `node` is the leader of its group.
pub(crate) fn leads<C: GatewayTypes>(server: &RaftServerMetrics<C>, node: NodeId) -> bool {
    server.state == ServerState::Leader && server.current_leader == Some(node)
}

/// Voters and learners of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    pub voters: BTreeSet<NodeId>,
    pub learners: BTreeSet<NodeId>,
    /// Whether a membership change is in progress (joint consensus): commits then need a quorum of both voter sets.
    pub joint: bool,
    /// Whether this membership is committed. Until then, the next leader may use the former one and need its votes.
    pub committed: bool,
}

/// A submitted command; resolves to the machine's reply. Dropping it does not cancel the command.
#[derive(Debug)]
pub struct Pending {
    result: oneshot::Receiver<ClientWriteResult<TypeConfig>>,
}

impl Future for Pending {
    type Output = Result<Bytes, ProposeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The group stopped while the command was pending.
        Pin::new(&mut self.result).poll(context).map(|result| result.map_or(Err(ProposeError::Unknown), core::outcome))
    }
}

/// A handle of one group. It stays valid while the group is restarted.
#[derive(Clone)]
pub struct Group {
    pub(crate) core: Arc<Core>,
}

/// What an owner needs of a group on its leader: implemented by [`Group`] and by the simulation's groups.
pub trait Leader: Send + Sync + 'static {
    /// A submitted command.
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

    /// Gives a pristine group its first members; does nothing if the group has members.
    pub fn initialize(&self, members: BTreeSet<NodeId>) -> Changing<'_> {
        Box::pin(async move { initialized(self.raft()?.initialize(members).await) })
    }

    /// Whether this replica has no log entry and no vote, and so has never had members.
    pub fn is_pristine(&self) -> bool {
        self.core.running().is_some_and(|running| running.log.is_pristine())
    }

    /// Enqueues a command and returns at once. The log keeps the order of these calls.
    ///
    /// # Errors
    /// When the command was not enqueued: too large, queue full, or group stopped.
    pub fn submit(&self, command: Bytes) -> Result<Pending, ProposeError> {
        self.enqueue(Command::new(command).map_err(|bytes| ProposeError::TooLarge { bytes })?)
    }

    fn enqueue(&self, command: Command) -> Result<Pending, ProposeError> {
        let raft = self.core.raft().ok_or(ProposeError::Stopped)?;
        let (answer, result) = oneshot::channel();
        // The call only puts the command into the core's queue, so a single poll suffices unless the queue is full.
        // `unconstrained`: with an exhausted coop budget, the queue would look full.
        let queued = raft.client_write_ff(command, Some(Waiter(answer)));
        match tokio::task::coop::unconstrained(queued).now_or_never() {
            Some(Ok(())) => Ok(Pending { result }),
            Some(Err(_)) => Err(ProposeError::Stopped),
            None => Err(ProposeError::Busy),
        }
    }

    /// Submits a command and waits for its reply.
    pub async fn propose(&self, command: Bytes, deadline: Instant) -> Result<Bytes, ProposeError> {
        let pending = self.submit(command)?;
        tokio::time::timeout_at(deadline.into(), pending).await.unwrap_or(Err(ProposeError::Unknown))
    }

    /// The runtime that sends and answers votes and heartbeats, separate from the one that serves requests. Use it for
    /// work that must not be delayed by requests and never blocks.
    pub fn runtime(&self) -> &Handle {
        self.core.runtime()
    }

    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.core.leadership.subscribe()
    }

    pub fn leader(&self) -> Option<NodeId> {
        self.core.leadership.borrow().leader
    }

    /// The leader as this replica knows it; the outer `None` if it is not a voter and may not hear of leaders. Called
    /// for every call from another node: it never waits for the group's core, as [`Group::members`] may.
    pub fn known_leader(&self) -> Option<Option<NodeId>> {
        let known = self.core.leadership.borrow();
        known.votes.then_some(known.leader)
    }

    /// The other node that this replica last followed, and when it last heard from it; `None` if none since the start.
    pub fn led_by(&self) -> Option<(NodeId, Instant)> {
        *self.core.heard.lock()
    }

    /// On the leader: the bytes sent so far of the snapshot that is being sent to `node`, if there is one.
    pub(crate) fn sent_to(&self, node: NodeId) -> Option<u64> {
        self.core.copies.sent(node)
    }

    /// When this leader last sent a message that a quorum has acknowledged. No other node can have been elected before
    /// this time plus the shortest election timeout, unless this node transferred leadership. `None` if this node does
    /// not lead in `epoch`, or is about to step down.
    pub fn quorum_contact(&self, epoch: u64) -> Option<Instant> {
        self.core.quorum_contact().filter(|(term, _)| *term == epoch).map(|(_, at)| at)
    }

    /// Returns an index such that a state that has applied it includes everything that was answered before this call.
    pub async fn read_index(&self, deadline: Instant) -> Result<u64, ReadError> {
        self.core.read_index(deadline).await
    }

    /// [`Group::read_index`], answered by this node as the leader only.
    ///
    /// # Errors
    /// Fails if another node is the leader: a caller that tracks its own answers as leader needs its own index.
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

    /// Returns once the local state includes everything that any node answered before this call.
    pub async fn linearizable(&self, deadline: Instant) -> Result<(), ReadError> {
        let index = self.read_index(deadline).await?;
        self.wait_applied(index, deadline).await
    }

    /// Index of the last entry that is applied to the local state.
    pub fn applied(&self) -> u64 {
        self.core.position.borrow().index
    }

    /// Recent load of this replica, leader or follower: applied entries per second, plus one for each KiB of them.
    /// Weighted towards the last minute.
    pub fn applied_per_second(&self) -> f64 {
        self.core.meter.per_second(Instant::now())
    }

    pub fn members(&self) -> Members {
        self.core.members()
    }

    /// On the leader: last log index that each other member is known to hold; `None` before its first answer.
    pub fn replicated(&self) -> BTreeMap<NodeId, Option<u64>> {
        self.core.raft().map_or_else(BTreeMap::new, |raft| replicated(&raft.metrics().borrow_watched()))
    }

    /// Last index of the local log.
    pub fn last_index(&self) -> Option<u64> {
        self.core.running()?.log.last().map(|id| id.index)
    }

    /// Transfers leadership to the voter `to`; returns once this node sees it as the leader.
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

    /// On the leader: the members, including itself, that answered recently and have caught up with its log.
    pub fn caught_up(&self) -> BTreeSet<NodeId> {
        let Some(running) = self.core.running() else { return BTreeSet::new() };
        let last = running.log.last().map_or(0, |id| id.index);
        let metrics = running.raft.metrics();
        let metrics = metrics.borrow_watched();
        let purged = metrics.purged.as_ref().map_or(0, |id| id.index);
        // `matched` alone is not enough: in an idle group, it equals the last index even for a node that is down.
        let is_recent = |sent: Instant| sent.elapsed() <= self.core.round_timeout;
        let heard = self.core.contacts.heard_lately(metrics.current_term, is_recent);
        let near = metrics.replication.iter().flatten().filter_map(|(node, matched)| {
            let matched = matched.as_ref()?;
            (heard.contains(node) && is_near(matched.index, purged, last)).then_some(*node)
        });
        near.chain([self.core.node]).collect()
    }

    /// Adds a learner; returns when the change is committed, not when the learner has caught up.
    pub fn add_learner(&self, node: NodeId, deadline: Instant) -> Changing<'_> {
        Box::pin(async move {
            let raft = self.raft()?;
            let change = raft.add_learner(node, (), false);
            changed(tokio::time::timeout_at(deadline.into(), change).await)
        })
    }

    /// Makes `voters` the group's voters. Former voters that are not among them leave the group or, with `retain`,
    /// become learners. New voters must be learners already, and should have caught up: a quorum may need them at once.
    pub fn change_members(&self, voters: BTreeSet<NodeId>, retain: bool, deadline: Instant) -> Changing<'_> {
        Box::pin(async move {
            let raft = self.raft()?;
            let change = raft.change_membership(voters, retain);
            changed(tokio::time::timeout_at(deadline.into(), change).await)
        })
    }

    /// Removes learners from the group.
    pub fn remove_learners(&self, nodes: BTreeSet<NodeId>, deadline: Instant) -> Changing<'_> {
        Box::pin(async move {
            let raft = self.raft()?;
            let change = raft.change_membership(openraft::ChangeMembers::RemoveNodes(nodes), false);
            changed(tokio::time::timeout_at(deadline.into(), change).await)
        })
    }

    /// Sends a heartbeat now, to refresh the quorum contact ahead of the next regular one.
    pub fn trigger_heartbeat(&self) {
        if let Some(raft) = self.core.raft() {
            // If the queue is full, the traffic in it refreshes the contact anyway.
            self::core::begin_heartbeat(&raft);
        }
    }

    pub fn reader(&self) -> StateReader {
        StateReader::new(self.core.state.clone(), self.id())
    }

    /// The applied index and a hash of all keys and values, taken at the same instant.
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

/// Whether a member whose log or state has reached `index` is close enough to `last` to reach it within moments.
pub fn has_caught_up(index: u64, last: u64) -> bool {
    index + CAUGHT_UP >= last
}

/// Whether those of `voters` that are in `caught_up` form a majority, so that the group can commit at once. Even a
/// current voter may be down or wait for a snapshot, and block a group that has no majority without it.
pub fn has_quorum(voters: &BTreeSet<NodeId>, caught_up: &BTreeSet<NodeId>) -> bool {
    voters.intersection(caught_up).count() > voters.len() / 2
}

/// [`Group::replicated`], taken from openraft's metrics.
pub(crate) fn replicated<C: GatewayTypes>(metrics: &RaftMetrics<C>) -> BTreeMap<NodeId, Option<u64>> {
    let replication = metrics.replication.iter().flatten();
    replication.map(|(node, matched)| (*node, matched.as_ref().map(|id| id.index))).collect()
}

/// Maps openraft's result of initializing a group. A group that has members already is no error.
pub(crate) fn initialized<C: GatewayTypes>(
    result: Result<(), RaftError<C, InitializeError<C>>>,
) -> Result<(), ChangeError> {
    match result {
        Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(RaftError::APIError(error)) => Err(ChangeError::Refused(error.to_string())),
        Err(RaftError::Fatal(_)) => Err(ChangeError::Stopped),
    }
}

/// Maps openraft's result of a membership change, or its timeout.
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
        /// Submits a command of any size, as earlier releases did.
        pub(crate) fn submit_unbounded(&self, command: Bytes) -> Result<Pending, ProposeError> {
            self.enqueue(Command::logged(command))
        }

        /// First index that the local log still holds.
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

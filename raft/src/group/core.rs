//! State that all handles of a group share, and that survives a restart of the group.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use model::id::NodeId;
use model::standstill::is_since_resumption;
use openraft::async_runtime::WatchReceiver;
use openraft::error::{ClientWriteError, LinearizableReadError, RaftError};
use openraft::raft::ClientWriteResult;
use openraft::type_config::alias::WatchReceiverOf;
use openraft::{LinearizerOption, ServerState};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::reads::Rounds;
use super::reverted::Reverted;
use super::{Leadership, Members, ProposeError, ReadError, leads};
use crate::contacts::Contacts;
use crate::copies::Copies;
use crate::fatal::Fatal;
use crate::log::store::GroupLog;
use crate::machine::{GroupId, Position};
use crate::network::{addressed, answered, service};
use crate::state::applier::Applier;
use crate::state::cut::Cut;
use crate::state::disk::StateDisk;
use crate::state::meter::Meter;
use crate::transport::{Class, Peers};
use crate::types::{Entry, GatewayTypes, LogId, TypeConfig, Vote};

pub(crate) type Raft = openraft::Raft<TypeConfig, Applier>;
type Metrics = WatchReceiverOf<TypeConfig, openraft::RaftMetrics<TypeConfig>>;

/// Pause before a read asks the same leader again after a failure. It doubles each time, because all waiting reads ask;
/// a change of leadership ends it early.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// A running group: the part that a restart replaces.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) raft: Raft,
    pub(crate) log: Arc<GroupLog>,
    /// Until this instant, this node grants no votes, not even its own.
    ///
    /// openraft forgets on restart which leader the node has promised to keep to. A leader whose heartbeat it answered
    /// just before counts on that promise for the shortest election timeout, and its owner uses the network until then.
    pub(crate) votes_from: Instant,
    /// Cancelled when one of openraft's tasks has panicked: the group has to be restarted.
    pub(crate) panicked: CancellationToken,
}

/// One group of this node.
pub(crate) struct Core {
    pub(crate) id: GroupId,
    pub(crate) node: NodeId,
    pub(crate) peers: Arc<Peers>,
    pub(crate) state: Arc<StateDisk>,
    /// Timeout of one read-index round.
    pub(super) round_timeout: Duration,
    running: RwLock<Option<Running>>,
    pub(crate) leadership: watch::Sender<Leadership>,
    pub(crate) position: watch::Sender<Position>,
    /// Survives restarts of the group.
    pub(crate) meter: Arc<Meter>,
    /// The leader whose message this node last accepted, and when.
    pub(super) heard: Mutex<Option<(NodeId, Instant)>>,
    /// Requests for a view of the state at an index that is not applied yet.
    pub(crate) cut: Arc<Cut>,
    pub(super) reads: Rounds,
    /// Number of reads that wait for a heartbeat; while there are any, heartbeats are sent at once.
    pub(crate) reading: Arc<AtomicUsize>,
    pub(crate) contacts: Arc<Contacts<Instant>>,
    pub(crate) copies: Arc<Copies>,
    /// This replica is the leader and commits nothing, so another node should take over; see [`super::progress`].
    pub(crate) retired: AtomicBool,
    /// Unfinished work on the group.
    work: TaskTracker,
    reverted: Reverted,
    fatal: Fatal,
}

impl Core {
    pub(crate) fn new(
        id: GroupId,
        node: NodeId,
        peers: Arc<Peers>,
        state: Arc<StateDisk>,
        round_timeout: Duration,
        fatal: Fatal,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            node,
            peers,
            state,
            round_timeout,
            running: RwLock::new(None),
            leadership: watch::Sender::new(Leadership::default()),
            position: watch::Sender::new(Position::default()),
            meter: Arc::new(Meter::new(Instant::now())),
            heard: Mutex::default(),
            cut: Arc::default(),
            reads: Rounds::default(),
            reading: Arc::default(),
            contacts: Arc::default(),
            copies: Arc::default(),
            retired: AtomicBool::new(false),
            work: TaskTracker::new(),
            reverted: Reverted::default(),
            fatal,
        })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        self.peers.runtime()
    }

    /// Registers a future that [`Core::settled`] waits for: such work keeps the group and the databases open.
    pub(crate) fn tracked<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        self.work.track_future(work)
    }

    /// Waits for the unfinished work of a closed group, 5 s at most. All of it fails soon after the group stops.
    pub(crate) async fn settled(&self) {
        self.work.close();
        if tokio::time::timeout(Duration::from_secs(5), self.work.wait()).await.is_err() {
            tracing::warn!(group = self.id, "work on a closed group is still under way");
        }
    }

    pub(crate) fn set_running(&self, running: Option<Running>) {
        *self.running.write() = running;
    }

    pub(crate) fn running(&self) -> Option<Running> {
        self.running.read().clone()
    }

    pub(crate) fn raft(&self) -> Option<Raft> {
        self.running.read().as_ref().map(|running| running.raft.clone())
    }

    fn metrics(&self) -> Option<Metrics> {
        self.running.read().as_ref().map(|running| running.raft.metrics())
    }

    /// Records that a message of this leader was accepted: for a while, this node votes for no other.
    pub(crate) fn hear_leader(&self, leader: NodeId) {
        *self.heard.lock() = Some((leader, Instant::now()));
    }

    /// On the leader: sends a heartbeat. Elsewhere: enables openraft's clock if no leader was heard within `silence`.
    pub(crate) fn beat(&self, silence: Duration) {
        let Some(raft) = self.raft() else { return };
        let is_beating = leads(&raft.server_metrics().borrow_watched(), self.node) && begin_heartbeat(&raft);
        let heard = *self.heard.lock();
        let is_led = heard.is_some_and(|(_, at)| at.elapsed() < silence);
        raft.runtime_config().tick(!is_beating && !is_led);
    }

    /// Records whether a leader's heartbeat matched the log; ends the node if acknowledged entries are lost.
    pub(crate) fn heartbeat_ended(&self, leader: NodeId, fits: bool) {
        if self.reverted.is_certain(fits) {
            let end = self.running().and_then(|running| running.log.last()).map_or(0, |last| last.index);
            (self.fatal)(format!(
                "the log of group {} ends at {end} here, and its leader, node {leader}, knows that this node had synced \
                 more: the data folder was put back from an older copy, or its disk lost data; take this node out of the \
                 cluster and join it again with an empty data folder",
                self.id
            ));
        }
    }

    /// Checks a leader's claim about the log ahead of openraft; false if it is refused. A contradiction ends the node.
    pub(crate) fn judge_leader(&self, running: &Running, vote: &Vote, prev: Option<LogId>, entries: &[Entry]) -> bool {
        match running.log.contradiction(vote, prev, entries) {
            Ok(None) => true,
            Ok(Some(reason)) => {
                (self.fatal)(reason);
                false
            }
            // The store has reported the cause already.
            Err(_) => false,
        }
    }

    pub(crate) fn members(&self) -> Members {
        self.metrics().map_or_else(Members::default, |metrics| Members::of(&metrics.borrow_watched()))
    }

    /// The term in which this node is the leader, and [`super::Group::quorum_contact`] in it.
    pub(crate) fn quorum_contact(&self) -> Option<(u64, Instant)> {
        // A retired leader must not renew its lease: another node may be elected once the last one has run out.
        if self.retired.load(Ordering::Acquire) {
            return None;
        }
        let metrics = self.metrics()?;
        let metrics = metrics.borrow_watched();
        // A contact from before the machine was suspended looks more recent than it is.
        let contact = quorum_contact(&metrics, self.node, &self.contacts, Instant::now());
        Some((metrics.current_term, contact.filter(|at| is_since_resumption(*at))?))
    }

    /// Read index of this node as the leader.
    pub(crate) async fn leader_read_index(self: &Arc<Self>) -> Result<u64, ReadError> {
        self.reads.join(self).await
    }

    /// One round: a quorum confirms that this node is the leader.
    pub(super) async fn read_round(&self) -> Result<u64, ReadError> {
        let Some(raft) = self.raft() else { return Err(ReadError::Stopped) };
        self.reading.fetch_add(1, Ordering::Relaxed);
        let _reading = Reading(&self.reading);
        // Heartbeats that are held back to share a frame would delay this read.
        for voter in self.members().voters {
            self.peers.nudge(voter, Class::Control);
        }
        let confirmed = confirm_leader(&raft, self.node, self.round_timeout, &self.contacts, Instant::now);
        tokio::time::timeout(self.round_timeout, confirmed).await.unwrap_or(Err(ReadError::NoLeader))
    }

    /// Read index from the current leader, on whichever node that is.
    pub(super) async fn read_index(self: &Arc<Self>, deadline: Instant) -> Result<u64, ReadError> {
        let mut leadership = self.leadership.subscribe();
        let mut pause = FIRST_PAUSE;
        loop {
            let leader = leadership.borrow_and_update().leader;
            let result = match leader {
                None => Err(ReadError::NoLeader),
                Some(leader) if leader == self.node => {
                    tokio::time::timeout_at(deadline.into(), self.leader_read_index())
                        .await
                        .unwrap_or(Err(ReadError::TimedOut))
                }
                Some(leader) => self.ask_read_index(leader, deadline).await,
            };
            match result {
                Ok(index) => return Ok(index),
                Err(error) if Instant::now() >= deadline => return Err(error),
                // Retried even if the group is stopped: it may be restarting.
                Err(_) => {}
            }
            // The node that was asked is no longer the leader, or does not know yet that it is.
            let again = if leader.is_some() { deadline.min(Instant::now() + pause) } else { deadline };
            pause = match tokio::time::timeout_at(again.into(), leadership.changed()).await {
                Ok(Ok(())) => FIRST_PAUSE,
                Ok(Err(_)) => return Err(ReadError::Stopped),
                Err(_) => LONGEST_PAUSE.min(pause * 2),
            };
        }
    }

    async fn ask_read_index(&self, leader: NodeId, deadline: Instant) -> Result<u64, ReadError> {
        // An unresponsive leader must not use up the whole deadline: a new one may be elected soon.
        let deadline = deadline.min(Instant::now() + self.round_timeout);
        let body = addressed(self.id, &[]);
        let answer = self.peers.call(leader, Class::Call, service::READ_INDEX, body, deadline).await;
        answer.ok().and_then(answered).ok_or(ReadError::NoLeader)
    }
}

/// Makes the leader's core send a heartbeat; false if the core's queue is full or gone.
pub(super) fn begin_heartbeat(raft: &Raft) -> bool {
    // A single poll enqueues it unless the queue is full. `unconstrained`: with an exhausted coop budget, the queue
    // would look full.
    let trigger = raft.trigger();
    let queued = tokio::task::coop::unconstrained(trigger.heartbeat()).now_or_never();
    queued.is_some_and(|sent| sent.is_ok())
}

/// Counts a read until it is dropped.
struct Reading<'a>(&'a AtomicUsize);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Members {
    pub(crate) fn of<C: GatewayTypes>(metrics: &openraft::RaftMetrics<C>) -> Self {
        let membership = &metrics.membership_config;
        let voters: BTreeSet<NodeId> = membership.voter_ids().collect();
        let learners = membership.membership().learner_ids().collect();
        let joint = membership.membership().get_joint_config().len() > 1;
        let committed = metrics.committed_membership_config == metrics.membership_config;
        Self { voters, learners, joint, committed }
    }
}

/// When this node, as the leader, sent the latest message that a quorum has answered; `None` if it is not the leader.
pub(crate) fn quorum_contact<C: GatewayTypes, I: Copy + Ord>(
    metrics: &openraft::RaftMetrics<C>,
    node: NodeId,
    contacts: &Contacts<I>,
    now: I,
) -> Option<I> {
    if metrics.state != ServerState::Leader || metrics.current_leader != Some(node) {
        return None;
    }
    let voters = metrics.membership_config.membership().get_joint_config();
    contacts.quorum(node, metrics.current_term, voters, now)
}

/// Returns a read index once a quorum has confirmed that this node is the leader. openraft may accept an answer from
/// before the read as confirmation, so a quorum must also answer a message that was sent since. That may never happen
/// (see [`Contacts`]): the caller sets a timeout.
pub(crate) async fn confirm_leader<C, SM, I: Copy + Ord>(
    raft: &openraft::Raft<C, SM>,
    node: NodeId,
    patience: Duration,
    contacts: &Contacts<I>,
    now: impl Fn() -> I,
) -> Result<u64, ReadError>
where
    C: GatewayTypes,
    SM: openraft::storage::RaftStateMachine<C>,
{
    let (began, metrics) = (now(), raft.metrics());
    // Zero: always confirm with a new round of heartbeats, never rely on a lease.
    let option = LinearizerOption::new(Some(Duration::ZERO), true).with_wait_timeout(patience);
    match raft.get_read_log_id(option).await {
        Ok((index, _)) => {
            contacts.until(|| quorum_contact(&metrics.borrow_watched(), node, contacts, now()) >= Some(began)).await;
            Ok(index.log_id().index)
        }
        Err(RaftError::APIError(
            LinearizableReadError::ForwardToLeader(_) | LinearizableReadError::QuorumNotEnough(_),
        )) => Err(ReadError::NoLeader),
        Err(RaftError::Fatal(_)) => Err(ReadError::Stopped),
    }
}

/// Maps openraft's result of a write to what its proposer needs to know.
pub(crate) fn outcome<C: GatewayTypes>(result: ClientWriteResult<C>) -> Result<Bytes, ProposeError> {
    match result {
        Ok(response) => Ok(response.data.0),
        // openraft returns this before it appends the command, so the command cannot be committed.
        Err(ClientWriteError::ForwardToLeader(forward)) => Err(ProposeError::NotLeader { leader: forward.leader_id }),
        // The entry was truncated here; another node may have it and commit it. Other errors do not concern commands.
        Err(_) => Err(ProposeError::Unknown),
    }
}

//! What all handles of one group share, and what survives when the group dies and is rebuilt.

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

/// Before a read asks a leader again that does not confirm itself, unless the leadership moves; longer each time, as
/// all that read ask.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// A running group: what a rebuild exchanges.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) raft: Raft,
    pub(crate) log: Arc<GroupLog>,
    /// Until then it gives nobody its vote, itself neither.
    ///
    /// openraft forgets at a start whom the node has just promised not to elect another: a leader whose heartbeat it had
    /// answered a moment before counts on it for the shortest election, and its owner speaks to the network so long.
    pub(crate) votes_from: Instant,
    /// A task of openraft's has panicked: the group is of no use any more.
    pub(crate) panicked: CancellationToken,
}

/// One group of this node.
pub(crate) struct Core {
    pub(crate) id: GroupId,
    pub(crate) node: NodeId,
    pub(crate) peers: Arc<Peers>,
    pub(crate) state: Arc<StateDisk>,
    /// The longest time that one round of a read index may take.
    pub(super) round_timeout: Duration,
    running: RwLock<Option<Running>>,
    pub(crate) leadership: watch::Sender<Leadership>,
    pub(crate) position: watch::Sender<Position>,
    /// Goes on over a rebuild.
    pub(crate) meter: Arc<Meter>,
    /// The leader of the group that was last heard here and believed, and when.
    pub(super) heard: Mutex<Option<(NodeId, Instant)>>,
    /// Who wants the state at an index that is still to be applied.
    pub(crate) cut: Arc<Cut>,
    pub(super) reads: Rounds,
    /// Reads that wait for a heartbeat right now: heartbeats then go out at once.
    pub(crate) reading: Arc<AtomicUsize>,
    pub(crate) contacts: Arc<Contacts<Instant>>,
    pub(crate) copies: Arc<Copies>,
    /// This replica leads and gets nothing done, so that another is to lead; see [`super::progress`].
    pub(crate) retired: AtomicBool,
    /// Work on the group that has not ended yet.
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

    /// Makes a future that [`Core::settled`] waits for: it holds the group, and with it the databases.
    pub(crate) fn tracked<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        self.work.track_future(work)
    }

    /// Waits until nothing is under way for a closed group; all of it fails soon when the group is stopped.
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

    /// Notes that a leader was heard whom this node elects no other against for a while.
    pub(crate) fn hear_leader(&self, leader: NodeId) {
        *self.heard.lock() = Some((leader, Instant::now()));
    }

    /// Sends a heartbeat where this node leads; lets openraft's clock tick where it does not, and has not heard its leader within
    /// `silence`.
    pub(crate) fn beat(&self, silence: Duration) {
        let Some(raft) = self.raft() else { return };
        let is_beating = leads(&raft.server_metrics().borrow_watched(), self.node) && begin_heartbeat(&raft);
        let heard = *self.heard.lock();
        let is_led = heard.is_some_and(|(_, at)| at.elapsed() < silence);
        raft.runtime_config().tick(!is_beating && !is_led);
    }

    /// Takes whether a leader's heartbeat fitted this node's log.
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

    /// Takes what a leader says that this group's log has, before openraft does; ends the node when it cannot be.
    pub(crate) fn judge_leader(&self, running: &Running, vote: &Vote, prev: Option<LogId>, entries: &[Entry]) -> bool {
        match running.log.contradiction(vote, prev, entries) {
            Ok(None) => true,
            Ok(Some(reason)) => {
                (self.fatal)(reason);
                false
            }
            // The disk has said why it failed.
            Err(_) => false,
        }
    }

    pub(crate) fn members(&self) -> Members {
        self.metrics().map_or_else(Members::default, |metrics| Members::of(&metrics.borrow_watched()))
    }

    /// The term in which this node leads, and [`super::Group::quorum_contact`] in it.
    pub(crate) fn quorum_contact(&self) -> Option<(u64, Instant)> {
        // A leader that has retired extends its right no more: another may be elected once the last one has run out.
        if self.retired.load(Ordering::Acquire) {
            return None;
        }
        let metrics = self.metrics()?;
        let metrics = metrics.borrow_watched();
        // What was heard before the machine was suspended only seems young.
        let contact = quorum_contact(&metrics, self.node, &self.contacts, Instant::now());
        Some((metrics.current_term, contact.filter(|at| is_since_resumption(*at))?))
    }

    /// An index for reads, on this node as the leader.
    pub(crate) async fn leader_read_index(self: &Arc<Self>) -> Result<u64, ReadError> {
        self.reads.join(self).await
    }

    /// One round: a quorum confirms that this node leads.
    pub(super) async fn read_round(&self) -> Result<u64, ReadError> {
        let Some(raft) = self.raft() else { return Err(ReadError::Stopped) };
        self.reading.fetch_add(1, Ordering::Relaxed);
        let _reading = Reading(&self.reading);
        // A heartbeat that waits for company now would hold up the one that this read needs.
        for voter in self.members().voters {
            self.peers.nudge(voter, Class::Control);
        }
        let confirmed = confirm_leader(&raft, self.node, self.round_timeout, &self.contacts, Instant::now);
        tokio::time::timeout(self.round_timeout, confirmed).await.unwrap_or(Err(ReadError::NoLeader))
    }

    /// An index for reads, from whoever leads.
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
                // Also for a group that is stopped: it may be about to run again.
                Err(_) => {}
            }
            // Whoever was asked does not lead (any more), or does not know it yet.
            let again = if leader.is_some() { deadline.min(Instant::now() + pause) } else { deadline };
            pause = match tokio::time::timeout_at(again.into(), leadership.changed()).await {
                Ok(Ok(())) => FIRST_PAUSE,
                Ok(Err(_)) => return Err(ReadError::Stopped),
                Err(_) => LONGEST_PAUSE.min(pause * 2),
            };
        }
    }

    async fn ask_read_index(&self, leader: NodeId, deadline: Instant) -> Result<u64, ReadError> {
        // A leader that went silent must not use up the whole deadline: there may be another one soon.
        let deadline = deadline.min(Instant::now() + self.round_timeout);
        let body = addressed(self.id, &[]);
        let answer = self.peers.call(leader, Class::Call, service::READ_INDEX, body, deadline).await;
        answer.ok().and_then(answered).ok_or(ReadError::NoLeader)
    }
}

/// Has the leader's core send a heartbeat; false when its queue is full.
pub(super) fn begin_heartbeat(raft: &Raft) -> bool {
    // One poll puts it in the core's queue, unless that is full. It must not count against the calling task's budget, or the queue
    // would seem full when the budget is used up.
    let trigger = raft.trigger();
    let queued = tokio::task::coop::unconstrained(trigger.heartbeat()).now_or_never();
    queued.is_some_and(|sent| sent.is_ok())
}

/// A read that was counted, until it ends.
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

/// When this node had last asked, as the leader, what a quorum has answered since; `None` when it does not lead.
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

/// An index for reads, once a quorum has confirmed that this node leads. What openraft takes for a confirmation may be an answer
/// from before the read, so a quorum has to have answered what this node has asked since, too; that may never be (see
/// [`Contacts`]).
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
    // Zero: a fresh round of heartbeats, never a lease.
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

/// What openraft says of a write, as its proposer needs to know it.
pub(crate) fn outcome<C: GatewayTypes>(result: ClientWriteResult<C>) -> Result<Bytes, ProposeError> {
    match result {
        Ok(response) => Ok(response.data.0),
        // Said before the command is appended: it was not, and will not be.
        Err(ClientWriteError::ForwardToLeader(forward)) => Err(ProposeError::NotLeader { leader: forward.leader_id }),
        // Cut off the log here; another node may have it and commit it. The others do not concern commands.
        Err(_) => Err(ProposeError::Unknown),
    }
}

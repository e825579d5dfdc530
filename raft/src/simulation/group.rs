//! Handle of one simulated group on one node: [`crate::group::Group`] on simulated time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use model::id::NodeId;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use tokio::sync::oneshot;

use super::clock::{self, Instant};
use super::router::{Life, Unanswered};
use super::types::{Raft, SimulatedTypes};
use super::world::Shared;
use crate::group::progress::Standing;
use crate::group::{
    ChangeError, Leadership, Members, ProposeError, ReadError, changed, initialized, outcome, replicated,
};
use crate::machine::{GroupId, Position, View};
use crate::types::{Command, Waiter, term_of};

/// Polling interval.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A handle of one group in one life of its node.
#[derive(Clone)]
pub struct SimulatedGroup {
    pub(super) shared: Arc<Shared>,
    pub(super) life: Life,
    pub(super) id: GroupId,
}

impl SimulatedGroup {
    fn raft(&self) -> Option<Raft> {
        self.shared.raft(self.life, self.id)
    }

    fn metrics<T>(&self, with: impl FnOnce(&RaftMetrics<SimulatedTypes>) -> T) -> Option<T> {
        let metrics = self.raft()?.metrics();
        let metrics = metrics.borrow_watched();
        Some(with(&metrics))
    }

    pub fn life(&self) -> Life {
        self.life
    }

    /// Whether the group runs in this life of the node.
    pub fn runs(&self) -> bool {
        self.raft().is_some()
    }

    /// Whether this replica has no log entry and no vote, and so has never had members.
    pub fn is_pristine(&self) -> bool {
        self.shared.is_pristine(self.life, self.id)
    }

    /// Gives a pristine group its first members; does nothing if the group has members.
    pub async fn initialize(&self, members: BTreeSet<NodeId>) -> Result<(), ChangeError> {
        initialized(self.raft().ok_or(ChangeError::Stopped)?.initialize(members).await)
    }

    /// Enqueues a command and returns at once. The log keeps the order of these calls.
    pub fn submit(
        &self,
        command: Bytes,
    ) -> Result<impl Future<Output = Result<Bytes, ProposeError>> + Send + use<>, ProposeError> {
        let command = Command::new(command).map_err(|bytes| ProposeError::TooLarge { bytes })?;
        let raft = self.raft().ok_or(ProposeError::Stopped)?;
        let (answer, result) = oneshot::channel();
        match raft.client_write_ff(command, Some(Waiter(answer))).now_or_never() {
            Some(Ok(())) => {}
            Some(Err(_)) => return Err(ProposeError::Stopped),
            None => return Err(ProposeError::Busy),
        }
        let (shared, life) = (self.shared.clone(), self.life);
        Ok(async move {
            let result = result.await.map_or(Err(ProposeError::Unknown), outcome::<SimulatedTypes>);
            // No caller may learn what a dead node finds out.
            if shared.router.lives(life) { result } else { Err(ProposeError::Unknown) }
        })
    }

    /// Submits a command and waits for its reply.
    pub async fn propose(&self, command: Bytes, patience: Duration) -> Result<Bytes, ProposeError> {
        let pending = self.submit(command)?;
        clock::within(patience, pending).await.unwrap_or(Err(ProposeError::Unknown))
    }

    pub fn leadership(&self) -> Leadership {
        let Some(raft) = self.raft() else { return Leadership::default() };
        let applied = self.metrics(|metrics| metrics.last_applied.as_ref().map_or(0, term_of)).unwrap_or(0);
        Leadership::of(&raft.server_metrics().borrow_watched(), applied, self.life.node)
    }

    pub fn members(&self) -> Members {
        self.metrics(Members::of).unwrap_or_default()
    }

    /// See [`crate::group::Group::quorum_contact`].
    pub fn quorum_contact(&self) -> Option<Instant> {
        self.shared.quorum_contact(self.life, self.id)
    }

    /// On the leader: the last log index that each other member is known to hold.
    pub fn replicated(&self) -> BTreeMap<NodeId, Option<u64>> {
        self.metrics(replicated).unwrap_or_default()
    }

    /// Last log index and last applied index of a leader that a quorum has just answered; `None` on any other node.
    pub fn leads_at(&self) -> Option<(u64, u64)> {
        let contact = self.quorum_contact()?;
        if clock::now() - contact > self.shared.config.timing.election_min {
            return None;
        }
        let standing = self.metrics(|metrics| Standing::of(metrics, self.life.node, |_| None)).flatten()?;
        Some((standing.last, standing.applied))
    }

    /// Returns an index such that a state that has applied it includes everything that was answered before this call.
    pub async fn read_index(&self, patience: Duration) -> Result<u64, ReadError> {
        let deadline = clock::now() + patience;
        loop {
            let left = deadline - clock::now();
            if left.is_zero() {
                return Err(ReadError::TimedOut);
            }
            let round = left.min(self.shared.config.timing.election_max * 2);
            let index = match self.leadership().leader {
                None => None,
                Some(leader) if leader == self.life.node => {
                    self.shared.read_index(self.life, self.id, round).await.ok()
                }
                Some(leader) => self.ask_read_index(leader, round).await.ok(),
            };
            match index {
                Some(index) => return Ok(index),
                None => clock::sleep(LOOK_AGAIN.min(left)).await,
            }
        }
    }

    async fn ask_read_index(&self, leader: NodeId, patience: Duration) -> Result<u64, Unanswered> {
        let (shared, id) = (self.shared.clone(), self.id);
        let asked = self.shared.router.call(self.life, leader, patience, move |there| {
            let shared = shared.clone();
            async move { shared.read_index(there, id, patience).await.ok() }
        });
        asked.await
    }

    pub async fn wait_applied(&self, index: u64, patience: Duration) -> Result<(), ReadError> {
        let deadline = clock::now() + patience;
        while self.position().is_none_or(|position| position.index < index) {
            if clock::now() >= deadline {
                return Err(ReadError::TimedOut);
            }
            clock::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Returns once the local state includes everything that any node answered before this call.
    pub async fn linearizable(&self, patience: Duration) -> Result<(), ReadError> {
        let index = self.read_index(patience).await?;
        self.wait_applied(index, patience).await
    }

    /// Transfers leadership to the voter `to`; returns once this node sees it as the leader.
    pub async fn transfer_leader(&self, to: NodeId, patience: Duration) -> Result<(), ChangeError> {
        let deadline = clock::now() + patience;
        let raft = self.raft().ok_or(ChangeError::Stopped)?;
        raft.trigger().transfer_leader(to).await.map_err(|_| ChangeError::Stopped)?;
        loop {
            match self.leadership().leader {
                Some(leader) if leader == to => return Ok(()),
                Some(leader) if leader != self.life.node => {
                    return Err(ChangeError::NotLeader { leader: Some(leader) });
                }
                _ if clock::now() >= deadline => return Err(ChangeError::TimedOut),
                _ => clock::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Adds a learner.
    pub async fn add_learner(&self, node: NodeId, patience: Duration) -> Result<(), ChangeError> {
        let raft = self.raft().ok_or(ChangeError::Stopped)?;
        changed(clock::within(patience, raft.add_learner(node, (), false)).await.ok_or(()))
    }

    /// Makes `voters` the group's voters; former voters that are not among them leave the group.
    pub async fn change_members(&self, voters: BTreeSet<NodeId>, patience: Duration) -> Result<(), ChangeError> {
        let raft = self.raft().ok_or(ChangeError::Stopped)?;
        changed(clock::within(patience, raft.change_membership(voters, false)).await.ok_or(()))
    }

    /// Removes learners from the group.
    pub async fn remove_learners(&self, nodes: BTreeSet<NodeId>, patience: Duration) -> Result<(), ChangeError> {
        let raft = self.raft().ok_or(ChangeError::Stopped)?;
        let change = raft.change_membership(openraft::ChangeMembers::RemoveNodes(nodes), false);
        changed(clock::within(patience, change).await.ok_or(()))
    }

    /// Position of the local state; `None` if the group does not run.
    pub fn position(&self) -> Option<Position> {
        Some(self.shared.slot(self.life, self.id)?.lock().now.position())
    }

    /// Reads the local state that is applied.
    pub fn view<T>(&self, with: impl FnOnce(&dyn View) -> T) -> Option<T> {
        let slot = self.shared.slot(self.life, self.id)?;
        let slot = slot.lock();
        Some(with(&slot.now.state))
    }

    /// The applied index and the state's hash at that index.
    pub fn state_hash(&self) -> Option<(u64, u64)> {
        let slot = self.shared.slot(self.life, self.id)?;
        let slot = slot.lock();
        Some((slot.now.position().index, slot.now.state.hash))
    }
}

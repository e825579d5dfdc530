//! Changes of the placement of shards: a list of moves in the directory, so that the current leader can continue it
//! after any crash.

use model::id::{NodeId, ShardId};
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::records::PlacementRecord;

/// A change of the placement, in progress or completed. The cluster keeps the latest one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutRecord {
    /// Sequence number of the change in this cluster.
    pub number: u64,
    pub moves: Vec<MoveRecord>,
    /// Number of moves that run at once.
    pub at_once: u16,
    /// Started by the cluster itself: to restore the number of replicas, or because a node had far more load.
    pub automatic: bool,
    pub began_at: Timestamp,
    /// Set when no move is waiting or running any more.
    pub ended_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
}

/// A move of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveRecord {
    pub shard: ShardId,
    pub from: Vec<NodeId>,
    pub to: Vec<NodeId>,
    /// The replica that should lead afterwards.
    pub leader: NodeId,
    pub state: MoveState,
    pub began_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl MoveRecord {
    /// A move from a shard's current placement that has not been started.
    pub fn waiting(place: &PlacementRecord, to: Vec<NodeId>, leader: NodeId) -> Self {
        Self {
            shard: place.shard,
            from: place.replicas.clone(),
            to,
            leader,
            state: MoveState::Waiting,
            began_at: None,
            ended_at: None,
        }
    }

    /// Whether replicas change, and not only the leadership.
    pub fn changes_replicas(&self) -> bool {
        !same_nodes(&self.from, &self.to)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MoveState {
    Waiting,
    Running,
    Done,
    Cancelled,
}

impl LayoutRecord {
    pub fn is_running(&self) -> bool {
        self.ended_at.is_none()
    }

    pub fn count(&self, state: MoveState) -> usize {
        self.moves.iter().filter(|each| each.state == state).count()
    }
}

/// Commands about the placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayoutCommand {
    /// Starts a change. Its number must be the next one: a plan only fits the placement that it was made for.
    Begin(LayoutRecord),
    /// Starts one of the moves: from now on, the placement names the shard's new replicas.
    Start { number: u64, shard: ShardId },
    /// Changes the target of a running move, because a node it was to use is leaving.
    Retarget { number: u64, shard: ShardId, to: Vec<NodeId>, leader: NodeId },
    /// Sent by a shard's leader when exactly these replicas are voters.
    Settled { shard: ShardId, replicas: Vec<NodeId> },
    /// Cancels the waiting moves; running moves are completed.
    Cancel { number: u64 },
}

/// Whether two lists contain the same nodes.
pub fn same_nodes(one: &[NodeId], other: &[NodeId]) -> bool {
    one.len() == other.len() && one.iter().all(|node| other.contains(node))
}

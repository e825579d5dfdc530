//! How the cluster gets from one placement of its shards to another: a list of moves that stands in the directory, so
//! that whoever leads goes on with it after any crash.

use model::id::{NodeId, ShardId};
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::records::PlacementRecord;

/// A change of the placement, under way or over. The cluster keeps the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutRecord {
    /// Counts the changes of this cluster.
    pub number: u64,
    pub moves: Vec<MoveRecord>,
    /// How many moves run at once.
    pub at_once: u16,
    /// Made by the cluster itself: to restore the number of replicas, or because a node had much more load than others.
    pub automatic: bool,
    pub began_at: Timestamp,
    /// Set when no move waits or runs any more.
    pub ended_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
}

/// One shard's way.
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
    /// A way from where a shard is that nobody has begun.
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

    /// Whether replicas change, and not the leadership alone.
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

/// What can be asked of the directory about its placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayoutCommand {
    /// Begins a change; its number must be the next one, so that a plan is never applied to what it was not made for.
    Begin(LayoutRecord),
    /// Begins one of its moves: from now on the placement says where the shard shall be.
    Start { number: u64, shard: ShardId },
    /// Leads a move that runs elsewhere: a node that it was to go to is leaving.
    Retarget { number: u64, shard: ShardId, to: Vec<NodeId>, leader: NodeId },
    /// Said by a shard's leader when exactly these replicas vote.
    Settled { shard: ShardId, replicas: Vec<NodeId> },
    /// Moves that wait are dropped; those that run come to their end.
    Cancel { number: u64 },
}

/// Whether two lists name the same nodes.
pub fn same_nodes(one: &[NodeId], other: &[NodeId]) -> bool {
    one.len() == other.len() && one.iter().all(|node| other.contains(node))
}

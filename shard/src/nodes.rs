//! What owners ask of other nodes: the router does it, and owners know no more of it than this.

use std::time::Instant;

use async_trait::async_trait;
use model::error::CallError;
use model::id::{NodeId, ShardId};

use crate::call::{Answer, Call};
use crate::report::NodeStatus;

#[async_trait]
pub trait Nodes: Send + Sync {
    /// This node.
    fn node(&self) -> NodeId;

    /// The members of the cluster.
    fn members(&self) -> Vec<NodeId>;

    /// Whether this node has said for long enough that it cannot take leaderships: nobody sends it requests any more.
    fn is_drained_of_callers(&self) -> bool;

    /// Asks the owner of a shard, and the next one when it has just changed, until the call's time is over.
    ///
    /// # Errors
    /// 503 `worker_at_capacity` with `Retry-After: 1` when no owner answered in time, and for a send of which nobody
    /// knows any more whether an earlier try brought it.
    async fn ask(&self, call: Call, deadline: Instant) -> Result<Answer, CallError>;

    /// Asks once whoever seems to be the owner. `None` when it is not, or did not answer.
    async fn try_owner(&self, call: &Call, deadline: Instant, tries: usize) -> Option<Answer>;

    /// How a node is, if it answers in time.
    async fn status_of(&self, node: NodeId, deadline: Instant) -> Option<NodeStatus>;

    /// Whether another replica is up and has applied nearly all of a shard's log.
    async fn is_caught_up(&self, node: NodeId, shard: ShardId, applied: u64) -> bool;

    /// Whether a replica has nearly all of a shard's log and all of its media, and so can stand in for one that goes.
    /// What it lacks of media it fetches.
    async fn is_whole(&self, node: NodeId, shard: ShardId, applied: u64) -> bool;
}

//! What owners need of other nodes: a trait, implemented by the router, so that owners do not depend on it.

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

    /// The ids of the members of the cluster.
    fn members(&self) -> Vec<NodeId>;

    /// Whether this node has reported for `drain_wait` that it drains: load balancers send it no requests any more.
    fn is_drained_of_callers(&self) -> bool;

    /// Sends a call to the owner of a shard, and to the next owner if it has just changed, until the deadline.
    ///
    /// # Errors
    /// 503 `worker_at_capacity` with `Retry-After: 1` when no owner answered in time, and for a send when an earlier
    /// try may have sent it and its outcome is unknown.
    async fn ask(&self, call: Call, deadline: Instant) -> Result<Answer, CallError>;

    /// Sends a call once to the presumed owner. `None` when that node is not the owner, or did not answer.
    async fn try_owner(&self, call: &Call, deadline: Instant, tries: usize) -> Option<Answer>;

    /// A node's status, if it answers in time.
    async fn status_of(&self, node: NodeId, deadline: Instant) -> Option<NodeStatus>;

    /// Whether another node's replica is running and has applied nearly all of a shard's log.
    async fn is_caught_up(&self, node: NodeId, shard: ShardId, applied: u64) -> bool;

    /// Whether a replica has nearly all of a shard's log and all of its media, and so can replace one that is removed.
    /// It fetches the media that it lacks.
    async fn is_whole(&self, node: NodeId, shard: ShardId, applied: u64) -> bool;
}

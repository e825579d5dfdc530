//! `GET /v1/admin/shards`: the Raft groups of the cluster, their leaders, and how their replicas keep up.

use std::borrow::Cow;

use model::id::{NodeId, ShardId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shard::assessment::{DIRECTORY, GroupState, GroupView, Replica, ReplicaState};

use super::survey::ClusterView;
use crate::reply::{List, Outcome, Reply, view_of};
use crate::request_context::OperatorCall;
use crate::route::{GET, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/shards", list)
            .doc("list_shards", "List the Raft groups and their replicas")
            .about("The directory, which all nodes share, is number 0.")
            .list::<ShardView>(),
    ]
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Shard")]
pub struct ShardView {
    pub id: ShardId,
    #[schemars(extend("enum" = ["directory", "shard"]))]
    pub kind: Cow<'static, str>,
    pub state: GroupState,
    /// Node that leads the group; `null` if none does.
    pub leader: Option<NodeId>,
    /// Node that should lead the group; `null` for the directory, which any node may lead.
    pub wanted_leader: Option<NodeId>,
    /// Raft term of the group: the epoch of the shard's owner.
    pub term: u64,
    /// Whether the leader reports that it cannot commit what it has proposed.
    // Earlier releases do not send this field.
    #[serde(default)]
    #[schemars(!default)]
    pub stalled: bool,
    /// Replicas that can be lost now without an outage.
    pub can_lose: usize,
    /// Number of channels in the shard, without deleted ones.
    pub channels: usize,
    /// Replicas of the group.
    pub replicas: Vec<ReplicaView>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Replica")]
pub struct ReplicaView {
    pub node_id: NodeId,
    /// Role in the group; a `learner` does not count towards a quorum.
    #[schemars(extend("enum" = ["voter", "learner"]))]
    pub role: Cow<'static, str>,
    pub state: ReplicaState,
    /// Index of the last log entry that the replica has applied; `null` if it did not report.
    pub applied: Option<u64>,
    /// Log entries that the replica has yet to apply; `null` if it did not report.
    pub lag: Option<u64>,
    /// Bytes of a snapshot that the leader has sent to the replica so far; `null` if it sends none.
    pub sent_bytes: Option<u64>,
}

impl ShardView {
    fn new(group: GroupView, channels: usize) -> Self {
        let kind = if group.id == DIRECTORY { "directory" } else { "shard" }.into();
        let (state, can_lose) = (group.state(), group.can_lose());
        let replicas = group.replicas.into_iter().map(ReplicaView::from).collect();
        view_of!(move group => id, leader, wanted_leader, term, stalled; kind, state, can_lose, channels, replicas)
    }
}

impl From<Replica> for ReplicaView {
    fn from(replica: Replica) -> Self {
        let Replica { node, voter, state, applied, lag, sent } = replica;
        let role = if voter { "voter" } else { "learner" }.into();
        Self { node_id: node, role, state, applied, lag, sent_bytes: sent }
    }
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let view = ClusterView::of(call.cluster()).await;
    let rows = call.directory().read(|state| {
        let row = |group: GroupView| {
            let channels = state.channel_count_in(group.id);
            ShardView::new(group, channels)
        };
        view.groups.into_iter().map(row).collect()
    });
    Ok(Reply::ok(&List::whole(rows)))
}

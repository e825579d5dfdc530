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
    /// The node that leads.
    pub leader: Option<NodeId>,
    /// The node that should lead; `null` for the directory, which any node may lead.
    pub wanted_leader: Option<NodeId>,
    /// The epoch of its owner.
    pub term: u64,
    /// Whether its leader cannot commit what it has proposed, as that node reports.
    // Earlier releases do not send this field.
    #[serde(default)]
    #[schemars(!default)]
    pub stalled: bool,
    /// How many of its replicas can be lost now.
    pub can_lose: usize,
    /// Live channels.
    pub channels: usize,
    /// The nodes that hold it.
    pub replicas: Vec<ReplicaView>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Replica")]
pub struct ReplicaView {
    pub node_id: NodeId,
    /// A learner counts for no majority.
    #[schemars(extend("enum" = ["voter", "learner"]))]
    pub role: Cow<'static, str>,
    pub state: ReplicaState,
    /// The last entry of the log whose effects are written there.
    pub applied: Option<u64>,
    /// Entries that are still to be applied there.
    pub lag: Option<u64>,
    /// While the leader sends it a snapshot of the state: how much it has sent.
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

//! `GET /v1/admin/shards`: the Raft groups of the cluster, who leads them and how their replicas keep up.

use model::id::{NodeId, ShardId};
use schemars::JsonSchema;
use serde::Serialize;
use shard::assessment::{DIRECTORY, GroupState, GroupView, Replica, ReplicaState};

use super::survey::ClusterView;
use crate::openapi::Doc;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/shards").operator(list).doc(
            Doc::new("list_shards", "List the Raft groups and their replicas")
                .about("The directory, which all nodes share, is number 0.")
                .list::<ShardView>(),
        ),
    ]
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Shard")]
struct ShardView {
    id: ShardId,
    #[schemars(extend("enum" = ["directory", "shard"]))]
    kind: &'static str,
    state: GroupState,
    leader: Option<NodeId>,
    /// The node that should lead; `null` for the directory, which any node may lead.
    wanted_leader: Option<NodeId>,
    /// The epoch of its owner.
    term: u64,
    /// How many of its replicas can be lost now.
    can_lose: usize,
    /// Live channels.
    channels: usize,
    replicas: Vec<ReplicaView>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Replica")]
struct ReplicaView {
    node_id: NodeId,
    /// A learner counts for no majority.
    #[schemars(extend("enum" = ["voter", "learner"]))]
    role: &'static str,
    state: ReplicaState,
    /// The last entry of the log whose effects are written there.
    applied: Option<u64>,
    /// Entries that are still to be applied there.
    lag: Option<u64>,
}

impl ShardView {
    fn new(group: GroupView, channels: usize) -> Self {
        Self {
            id: group.id,
            kind: if group.id == DIRECTORY { "directory" } else { "shard" },
            state: group.state(),
            leader: group.leader,
            wanted_leader: group.wanted_leader,
            term: group.term,
            can_lose: group.can_lose(),
            channels,
            replicas: group.replicas.into_iter().map(ReplicaView::from).collect(),
        }
    }
}

impl From<Replica> for ReplicaView {
    fn from(replica: Replica) -> Self {
        let Replica { node, voter, state, applied, lag } = replica;
        Self { node_id: node, role: if voter { "voter" } else { "learner" }, state, applied, lag }
    }
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let view = ClusterView::take(call).await;
    let rows = call.cluster().directory().read(|state| {
        let row = |group: GroupView| {
            let channels = state.channel_count_in(group.id);
            ShardView::new(group, channels)
        };
        view.groups.into_iter().map(row).collect()
    });
    Ok(Reply::ok(&List::whole(rows)))
}

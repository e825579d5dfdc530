//! `GET /v1/admin/nodes`: the members of the cluster, and what each leads.

use model::time::Timestamp;
use raft::directory::records::NodeRecord;
use serde::Serialize;

use crate::exchange::OperatorCall;
use crate::reply::{List, Outcome, Reply};
use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![Route::get("/v1/admin/nodes").operator(list)]
}

#[derive(Serialize)]
struct NodeView {
    id: u64,
    address: String,
    zone: Option<String>,
    weight: u32,
    slots: u32,
    /// Shards with a replica here.
    replicas: usize,
    /// Shards that should be led from here.
    leads: usize,
    /// Sessions that this node holds; known of the node that answers alone.
    used: Option<u32>,
    registered_at: Timestamp,
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let (this, (_, used)) = (call.cluster().node(), call.cluster().load());
    let nodes = call.cluster().directory().read(|state| {
        let view = |node: &NodeRecord| NodeView {
            id: node.id,
            address: node.peer.clone(),
            zone: node.zone.clone(),
            weight: node.weight,
            slots: node.max_channels,
            replicas: state.placement.values().filter(|place| place.replicas.contains(&node.id)).count(),
            leads: state.placement.values().filter(|place| place.leader == node.id).count(),
            used: (node.id == this).then_some(used),
            registered_at: node.registered_at,
        };
        state.nodes.values().map(|node| view(node)).collect()
    });
    Ok(Reply::ok(&List::whole(nodes)))
}

//! `GET /v1/admin/nodes`: the members of the cluster, and what each leads.

use model::id::ShardId;
use model::time::Timestamp;
use raft::directory::records::NodeRecord;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exchange::OperatorCall;
use crate::openapi::Doc;
use crate::reply::{List, Outcome, Reply};
use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/nodes")
            .operator(list)
            .doc(Doc::new("list_nodes", "List the members of the cluster").list::<NodeView>()),
    ]
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Node")]
struct NodeView {
    id: u64,
    address: String,
    /// `null` while the node does not answer, as are all that only it knows.
    version: Option<String>,
    #[schemars(extend("enum" = ["ready", "draining", "down"]))]
    state: &'static str,
    zone: Option<String>,
    weight: u32,
    slots: u32,
    used: Option<u64>,
    channels_connected: Option<u64>,
    rss_bytes: Option<u64>,
    started_at: Option<Timestamp>,
    /// Shards with a replica here.
    replicas: usize,
    /// Shards that should be led from here, and those that are.
    leads: usize,
    owns: Option<Vec<ShardId>>,
    registered_at: Timestamp,
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let vitals = call.cluster().vitals().await;
    let nodes = call.cluster().directory().read(|state| {
        let view = |node: &NodeRecord| {
            let said = vitals.get(&node.id);
            NodeView {
                id: node.id,
                address: node.peer.clone(),
                version: said.map(|vitals| vitals.version.clone()),
                state: match said {
                    None => "down",
                    Some(vitals) if vitals.draining => "draining",
                    Some(_) => "ready",
                },
                zone: node.zone.clone(),
                weight: node.weight,
                slots: node.max_channels,
                used: said.map(|vitals| vitals.sessions),
                channels_connected: said.map(|vitals| vitals.connected),
                rss_bytes: said.map(|vitals| vitals.rss_bytes),
                started_at: said.map(|vitals| vitals.started_at),
                replicas: state.placement.values().filter(|place| place.replicas.contains(&node.id)).count(),
                leads: state.placement.values().filter(|place| place.leader == node.id).count(),
                owns: said.map(|vitals| vitals.owns.clone()),
                registered_at: node.registered_at,
            }
        };
        state.nodes.values().map(|node| view(node)).collect()
    });
    Ok(Reply::ok(&List::whole(nodes)))
}

//! `GET /v1/admin/nodes`: the members of the cluster, what each leads, and how its disk and its clock are.

use std::time::Duration;

use model::id::ShardId;
use model::time::Timestamp;
use raft::directory::records::NodeRecord;
use schemars::JsonSchema;
use serde::Serialize;

use super::survey::ClusterView;
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
    /// Why nothing was heard of it.
    silence: Option<String>,
    /// How long syncs of its log took in the last minute, in milliseconds.
    fsync_p50_ms: Option<f64>,
    fsync_p99_ms: Option<f64>,
    /// How far its clock is ahead of that of the node that answers; negative when it is behind.
    clock_ahead_ms: Option<i64>,
    disk_free_bytes: Option<u64>,
    disk_total_bytes: Option<u64>,
    /// Of the Raft log, and of the state that was made of it.
    log_bytes: Option<u64>,
    state_bytes: Option<u64>,
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let view = ClusterView::take(call).await;
    let nodes = call.cluster().directory().read(|state| {
        let view = |node: &NodeRecord| {
            let heard = view.survey.get(&node.id);
            let said = heard.and_then(|heard| heard.as_ref().ok());
            let vitals = said.map(|heard| &heard.facts.vitals);
            let syncs = said.and_then(|heard| heard.facts.host.syncs);
            let disk = said.and_then(|heard| heard.facts.host.disk);
            let millis = |took: Duration| took.as_secs_f64() * 1000.0;
            NodeView {
                id: node.id,
                address: node.peer.clone(),
                version: vitals.map(|vitals| vitals.version.clone()),
                state: match vitals {
                    None => "down",
                    Some(vitals) if vitals.draining => "draining",
                    Some(_) => "ready",
                },
                zone: node.zone.clone(),
                weight: node.weight,
                slots: node.max_channels,
                used: vitals.map(|vitals| vitals.sessions),
                channels_connected: vitals.map(|vitals| vitals.connected),
                rss_bytes: vitals.map(|vitals| vitals.rss_bytes),
                started_at: vitals.map(|vitals| vitals.started_at),
                replicas: state.placement.values().filter(|place| place.replicas.contains(&node.id)).count(),
                leads: state.placement.values().filter(|place| place.leader == node.id).count(),
                owns: vitals.map(|vitals| vitals.owns.clone()),
                registered_at: node.registered_at,
                silence: heard.and_then(|heard| heard.as_ref().err().cloned()),
                fsync_p50_ms: syncs.map(|syncs| millis(syncs.p50)),
                fsync_p99_ms: syncs.map(|syncs| millis(syncs.p99)),
                clock_ahead_ms: said.map(|heard| heard.clock_ahead),
                disk_free_bytes: disk.map(|disk| disk.free),
                disk_total_bytes: disk.map(|disk| disk.total),
                log_bytes: disk.map(|disk| disk.log),
                state_bytes: disk.map(|disk| disk.state),
            }
        };
        state.nodes.values().map(|node| view(node)).collect()
    });
    Ok(Reply::ok(&List::whole(nodes)))
}

//! `GET /v1/admin/status`: the state of the cluster in one response.

use std::collections::BTreeMap;

use model::format::Format;
use model::id::NodeId;
use model::scope::Access;
use model::status::Status;
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shard::assessment::GroupState;
use uuid::Uuid;

use super::check::{Condition, Finding, condition, findings};
use super::survey::ClusterView;
use crate::reply::{Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{GET, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/status", show)
            .doc("get_cluster_status", "Get the state of the cluster")
            .ok::<StatusView>(),
    ]
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterStatus")]
pub struct StatusView {
    pub status: Condition,
    /// Id of the cluster; `null` until the cluster is formed.
    #[schemars(with = "Option<String>")]
    pub cluster_id: Option<Uuid>,
    /// Time when the cluster was formed; `null` until then.
    pub formed_at: Option<Timestamp>,
    /// The node that answers.
    pub node_id: NodeId,
    /// The release of the node that answers.
    pub version: String,
    /// Format of the cluster: what the nodes may store and send; see `GET /v1/admin/format`.
    // Release 0.1.0 sends neither this nor `releases`.
    #[serde(default)]
    #[schemars(!default)]
    pub format: Format,
    /// Nodes that answer, by their release.
    #[serde(default)]
    #[schemars(!default)]
    pub releases: BTreeMap<String, Vec<NodeId>>,
    pub nodes: ReadyOfAll,
    /// The Raft groups: the shards and the directory.
    pub shards: ReadyOfAll,
    /// Number of channels by status, in the shards that have an owner.
    pub channels: BTreeMap<String, u64>,
    /// Number of accounts.
    pub customers: usize,
    /// Number of webhook endpoints.
    pub webhook_endpoints: usize,
    /// Findings that are not `ok`; `GET /v1/admin/check` lists all.
    pub findings: Vec<Finding>,
    /// Name of the request's operator token; `null` for the token that all operators share.
    // Earlier releases send neither this nor `access`.
    #[serde(default)]
    #[schemars(!default)]
    pub operator: Option<String>,
    /// What the request's operator token may do.
    #[serde(default = "everything")]
    #[schemars(!default)]
    pub access: Access,
}

fn everything() -> Access {
    Access::Write
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ReadyOfAll {
    /// How many are ready.
    pub ready: usize,
    pub total: usize,
}

async fn show(call: &mut OperatorCall) -> Outcome {
    let view = ClusterView::of(call.cluster()).await;
    let all = findings(&view, &call.app.config.target_policy);
    let answer = call.directory().read(|state| {
        let mut channels = channels(&view);
        // A channel that was never used has no row at its owner.
        let live = state.channels.values().filter(|channel| channel.deleted_at.is_none()).count() as u64;
        let known: u64 = channels.values().sum();
        *channels.entry(Status::Pending.as_str().to_owned()).or_default() += live.saturating_sub(known);
        StatusView {
            status: condition(&view, &all),
            cluster_id: state.cluster.as_ref().map(|cluster| cluster.cluster_id),
            formed_at: state.cluster.as_ref().map(|cluster| cluster.formed_at),
            node_id: call.cluster().node(),
            version: call.app.config.version.clone(),
            format: state.cluster.as_ref().map_or(Format::FIRST, |cluster| cluster.format),
            releases: releases(&view),
            nodes: ReadyOfAll { ready: view.ready().count(), total: view.survey.len() },
            shards: ReadyOfAll { ready: view.groups_in(GroupState::Ok).len(), total: view.groups.len() },
            channels,
            customers: state.customers.values().filter(|customer| customer.deleted_at.is_none()).count(),
            webhook_endpoints: state.endpoints.len(),
            findings: all.into_iter().filter(|finding| !finding.is_ok()).collect(),
            operator: call.operator.name.clone(),
            access: call.operator.access,
        }
    });
    Ok(Reply::ok(&answer))
}

fn releases(view: &ClusterView) -> BTreeMap<String, Vec<NodeId>> {
    let mut releases: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    for (node, heard) in view.heard() {
        releases.entry(heard.report.status.version.clone()).or_default().push(node);
    }
    releases
}

fn channels(view: &ClusterView) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (_, heard) in view.heard() {
        for (status, count) in &heard.report.channels {
            *sums.entry(status.as_str().to_owned()).or_default() += count;
        }
    }
    sums
}

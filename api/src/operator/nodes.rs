//! `/v1/admin/nodes`: members of the cluster with their shards, disks and clocks; draining and removing them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use model::error::{CallError, ErrorCode as E};
use model::field::{Body, rule};
use model::format::Format;
use model::id::{NodeId, ShardId};
use model::time::Timestamp;
use raft::directory::command::{Command, Reply as Updated};
use raft::directory::members::{MemberCommand, NodeState};
use raft::directory::records::NodeRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shard::layout::removal::Rest;
use shard::router::NodeStatus;

use super::survey::ClusterView;
use crate::audit::Target;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{DELETE, GET, PATCH, POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/nodes", list)
            .doc("list_nodes", "List the members of the cluster")
            .list::<NodeView>(),
        Route::operator(PATCH, "/v1/admin/nodes/{id}", weigh)
            .doc("weigh_node", "Change a node's share of the shards")
            .about("Nothing moves until the next layout is applied.")
            .body(parse_weight, json!({ "weight": 2 }))
            .ok::<NodeView>(),
        Route::operator(DELETE, "/v1/admin/nodes/{id}", remove)
            .doc("remove_node", "Remove a node for good")
            .about(
                "Its replicas move to other nodes first. This cannot be undone: its id is never used again. Refused if \
                 a group would lose its quorum, if no other node can lead, and, without `force`, if any one node can \
                 be lost now and none could be lost afterwards.",
            )
            .query(forced)
            .accepted::<RemovalView>()
            .errors(&[E::BadRequest]),
        Route::operator(GET, "/v1/admin/nodes/{id}/removal", preview_removal)
            .doc("preview_removal", "Preview the cluster after the removal of a node")
            .about("Changes nothing, and is refused if the removal would be refused.")
            .query(forced)
            .ok::<RemovalView>()
            .errors(&[E::BadRequest]),
        Route::operator(POST, "/v1/admin/nodes/{id}/drain", drain)
            .doc("drain_node", "Move all leaderships of a node to others, so that it can stop")
            .about(
                "Refused when no other node is ready, and, without `force`, while another one does not answer or is \
                 drained.",
            )
            .optional_body(parse_force, json!({ "force": true }))
            .accepted::<NodeView>(),
        Route::operator(POST, "/v1/admin/nodes/{id}/undrain", undrain)
            .doc("undrain_node", "Let a drained node lead again")
            .accepted::<NodeView>()
            .errors(&[E::BadRequest]),
    ]
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Node")]
pub struct NodeView {
    pub id: u64,
    /// Address at which the other nodes reach the node.
    pub address: String,
    /// Release of the node; while the node does not answer, this and all else that only the node knows is `null`.
    pub version: Option<String>,
    /// Highest format that the node's release understands.
    pub understands: Option<Format>,
    #[schemars(extend("enum" = ["ready", "draining", "down"]))]
    pub state: Cow<'static, str>,
    /// Whether the node accepts requests, as its `/readyz` says.
    // Release 0.1.0 does not send this field.
    #[serde(default = "serves_unsaid")]
    #[schemars(!default)]
    pub serves: bool,
    /// Membership of the node; a `leaving` one is removed as soon as no shard is placed on it.
    pub member: NodeState,
    /// Whether the node is a voter of the directory.
    pub votes: bool,
    /// Zone of the node; replicas are spread over zones.
    pub zone: Option<String>,
    pub weight: u32,
    /// Maximum number of channel sessions on the node (`node.max_channels`).
    pub slots: u32,
    /// Slots in use.
    pub used: Option<u64>,
    /// Channels that are connected on the node.
    pub channels_connected: Option<u64>,
    /// Resident memory of the process in bytes.
    pub rss_bytes: Option<u64>,
    /// Time when the process started.
    pub started_at: Option<Timestamp>,
    /// Number of shards with a replica on the node.
    pub replicas: usize,
    /// Number of shards that the node should lead.
    pub leads: usize,
    /// Shards that the node leads now.
    pub owns: Option<Vec<ShardId>>,
    /// Time when the node first joined the cluster.
    pub registered_at: Timestamp,
    /// Why the node did not answer; `null` if it did.
    pub silence: Option<String>,
    /// Median sync time of the Raft log in the last minute, in milliseconds.
    pub fsync_p50_ms: Option<f64>,
    /// 99th percentile of the sync times of the Raft log in the last minute, in milliseconds.
    pub fsync_p99_ms: Option<f64>,
    /// Milliseconds by which the node's clock is ahead of that of the answering node; negative if it is behind.
    pub clock_ahead_ms: Option<i64>,
    /// Bytes free on the disk that holds the data folder.
    pub disk_free_bytes: Option<u64>,
    /// Size in bytes of the disk that holds the data folder.
    pub disk_total_bytes: Option<u64>,
    /// Bytes on disk of the Raft logs.
    pub log_bytes: Option<u64>,
    /// Bytes on disk of the state that is made from the Raft logs.
    pub state_bytes: Option<u64>,
}

fn serves_unsaid() -> bool {
    true
}

/// A node that is being removed, or would be.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeRemoval")]
pub struct RemovalView {
    #[serde(flatten)]
    pub node: NodeView,
    /// The nodes that remain after the removal.
    pub left: LeftView,
}

/// The nodes that remain after the removal of a node.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodesLeft")]
pub struct LeftView {
    /// Number of remaining nodes that can hold replicas.
    pub nodes: usize,
    /// Remaining nodes that do not answer now.
    pub away: BTreeSet<NodeId>,
    /// Whether any one of the remaining nodes could be lost without an outage.
    pub can_lose_a_node: bool,
}

impl From<Rest> for LeftView {
    fn from(rest: Rest) -> Self {
        let Rest { others, away, can_lose_a_node } = rest;
        Self { nodes: others.len(), away, can_lose_a_node }
    }
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let nodes = call.directory().read(|state| state.nodes.values().map(|node| (**node).clone()).collect());
    Ok(Reply::ok(&List::whole(views(call, nodes).await)))
}

async fn views(call: &OperatorCall, nodes: Vec<NodeRecord>) -> Vec<NodeView> {
    let view = ClusterView::of(call.cluster()).await;
    let voters = call.directory().group().members().voters;
    call.directory().read(|state| {
        let view = |node: &NodeRecord| {
            let heard = view.survey.get(&node.id);
            let said = heard.and_then(|heard| heard.as_ref().ok());
            let node_status = said.map(|heard| &heard.report.status);
            let syncs = said.and_then(|heard| heard.report.host.syncs);
            let disk = said.and_then(|heard| heard.report.host.disk);
            let millis = |took: Duration| took.as_secs_f64() * 1000.0;
            NodeView {
                id: node.id,
                address: node.peer.clone(),
                version: node_status.map(|node_status| node_status.version.clone()),
                understands: node_status.map(|node_status| node_status.format),
                state: match node_status {
                    None => "down",
                    Some(node_status) if node_status.draining => "draining",
                    Some(_) => "ready",
                }
                .into(),
                serves: node_status.is_some_and(NodeStatus::is_ready),
                member: node.state,
                votes: voters.contains(&node.id),
                zone: node.zone.clone(),
                weight: node.weight,
                slots: node.max_channels,
                used: node_status.map(|node_status| node_status.sessions),
                channels_connected: node_status.map(|node_status| node_status.connected),
                rss_bytes: node_status.map(|node_status| node_status.rss_bytes),
                started_at: node_status.map(|node_status| node_status.started_at),
                replicas: state.placement.values().filter(|place| place.replicas.contains(&node.id)).count(),
                leads: state.placement.values().filter(|place| place.leader == node.id).count(),
                owns: node_status.map(|node_status| node_status.owns.clone()),
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
        nodes.iter().map(view).collect()
    })
}

fn parse_weight(body: &Body) -> Result<u32, CallError> {
    body.read(|fields| {
        fields.required("weight", rule::integer(1..=1_000)).and_then(|weight| u32::try_from(weight).ok())
    })
}

async fn weigh(call: &mut OperatorCall) -> Outcome {
    let weight = parse_weight(&call.object().await?)?;
    let node = named(call)?;
    let view = change(call, node, MemberCommand::Weigh { node, weight }, "node.weighed").await?;
    Ok(Reply::ok(&view))
}

fn parse_force(body: &Body) -> Result<bool, CallError> {
    body.read(|fields| Some(fields.optional("force", rule::boolean).unwrap_or(false)))
}

async fn drain(call: &mut OperatorCall) -> Outcome {
    let force = parse_force(&call.optional_object().await?)?;
    let node = named(call)?;
    let led = call.directory().read(|state| state.nodes.get(&node).is_some_and(|node| node.state.leads()));
    call.cluster().judge_drain(node, force).await.map_err(|obstacle| CallError::bad_request(obstacle.to_string()))?;
    let view = change(call, node, MemberCommand::Drain(node), "node.drained").await?;
    // Concurrent drains were judged without seeing each other. A request that now finds another drained node, or no
    // node left that can lead, undoes its own drain.
    let (drained, is_last) = call.directory().read(|state| {
        let others = || state.nodes.values().filter(|other| other.id != node);
        let drained = others().find(|other| other.state == NodeState::Draining).map(|other| other.id);
        (drained, !others().any(|other| other.state.leads()))
    });
    let problem = match drained {
        _ if !led => None,
        _ if is_last => Some("no other node can lead any more: undrain one first".to_owned()),
        Some(other) if !force => {
            Some(format!("node {other} was drained at the same time: drain one after the other, or drain with force"))
        }
        _ => None,
    };
    if let Some(problem) = problem {
        change(call, node, MemberCommand::Undrain(node), "node.undrained").await?;
        return Err(CallError::bad_request(problem));
    }
    Ok(Reply::accepted(&view))
}

async fn undrain(call: &mut OperatorCall) -> Outcome {
    let node = named(call)?;
    Ok(Reply::accepted(&change(call, node, MemberCommand::Undrain(node), "node.undrained").await?))
}

fn forced(query: &Query<'_>) -> bool {
    query.flag("force").unwrap_or(false)
}

/// Judges what remains once the node that the path names is removed.
async fn judged(call: &OperatorCall, node: NodeId) -> Result<Rest, CallError> {
    let force = call.asked(forced)?;
    call.cluster().judge_removal(node, force).await.map_err(|risk| CallError::bad_request(risk.to_string()))
}

async fn preview_removal(call: &mut OperatorCall) -> Outcome {
    let node = named(call)?;
    let record = call.directory().read(|state| state.nodes.get(&node).map(|node| (**node).clone()));
    let left = judged(call, node).await?.into();
    let view = views(call, record.into_iter().collect()).await.pop();
    let node = view.ok_or_else(|| CallError::not_found("node", &node.to_string()))?;
    Ok(Reply::ok(&RemovalView { node, left }))
}

async fn remove(call: &mut OperatorCall) -> Outcome {
    let node = named(call)?;
    let rest = judged(call, node).await?;
    // The removal is refused if a concurrent one has left fewer nodes than were judged here.
    let command = match call.directory().format() >= Format::THIRD {
        true => MemberCommand::LeaveBehind { node, others: rest.others.clone() },
        false => MemberCommand::Leave(node),
    };
    let node = change(call, node, command, "node.removed").await?;
    Ok(Reply::accepted(&RemovalView { node, left: rest.into() }))
}

/// The node that the path names, which must be a member.
fn named(call: &OperatorCall) -> Result<NodeId, CallError> {
    let id: Option<NodeId> = call.id("id");
    id.filter(|id| call.directory().read(|state| state.nodes.contains_key(id)))
        .ok_or_else(|| CallError::not_found("node", call.parameter("id")))
}

/// Runs a command, and returns the node as it left it. A leaving node may be gone before the next read.
async fn change(
    call: &OperatorCall,
    node: NodeId,
    command: MemberCommand,
    action: &str,
) -> Result<NodeView, CallError> {
    let entry = call.audited_of_cluster(action, Target::new("node", node, format!("node {node}")));
    let record = match call.update(Command::Members(command), vec![entry]).await? {
        Updated::Node(record) => Some(record),
        _ => None,
    };
    let view = views(call, record.into_iter().collect()).await.pop();
    view.ok_or_else(|| CallError::not_found("node", &node.to_string()))
}

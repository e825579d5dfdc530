//! `/v1/admin/format`: the releases that the nodes run, and the format that they may therefore store and send.

use std::time::{Duration, Instant};

use model::error::{CallError, ErrorCode};
use model::format::Format;
use model::id::NodeId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shard::format::RaiseError;

use crate::audit::Target;
use crate::failure;
use crate::reply::{Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{GET, POST, Route};

/// How long the directory may take once all nodes have answered.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/format", show)
            .doc("get_format", "Get the cluster's format, and the highest format of each node")
            .ok::<FormatView>(),
        Route::operator(POST, "/v1/admin/format/raise", raise)
            .doc("raise_format", "Let the nodes use the format of their new release")
            .about(
                "Raises the format to the highest that all members understand. From then on no node can go back to an \
                 older release. Refused while a member does not answer, or if a member does not understand a higher \
                 one.",
            )
            .ok::<FormatView>()
            .errors(&[ErrorCode::BadRequest]),
    ]
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterFormat")]
pub struct FormatView {
    /// Format of the cluster: what nodes may store and send. A release understands all formats up to a highest one.
    pub format: Format,
    /// Highest format that all members understand; `null` while one does not answer.
    pub highest: Option<Format>,
    pub nodes: Vec<NodeRelease>,
}

/// The release of a node.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct NodeRelease {
    pub id: NodeId,
    /// Release of the node; `null` while the node does not answer.
    pub version: Option<String>,
    /// Highest format that the node understands; `null` while it does not answer.
    pub understands: Option<Format>,
}

async fn show(call: &mut OperatorCall) -> Outcome {
    Ok(Reply::ok(&view(call).await))
}

async fn view(call: &OperatorCall) -> FormatView {
    let statuses = call.cluster().node_statuses().await;
    let members: Vec<NodeId> = call.directory().read(|state| state.nodes.keys().copied().collect());
    let nodes: Vec<_> = members
        .into_iter()
        .map(|id| {
            let statuses = statuses.get(&id);
            let version = statuses.map(|statuses| statuses.version.clone());
            NodeRelease { id, version, understands: statuses.map(|statuses| statuses.format) }
        })
        .collect();
    let understood: Option<Vec<Format>> = nodes.iter().map(|node| node.understands).collect();
    let highest = understood.and_then(|understood| understood.into_iter().min());
    FormatView { format: call.directory().format(), highest, nodes }
}

async fn raise(call: &mut OperatorCall) -> Outcome {
    let entry = call.audited_of_cluster("format.raised", Target::new("cluster", "", "format"));
    let deadline = Instant::now() + PATIENCE;
    call.cluster().raise_format(entry, deadline).await.map_err(|error| match error {
        RaiseError::Update(error) => failure::of_update(error),
        refused => CallError::bad_request(refused.to_string()),
    })?;
    Ok(Reply::ok(&view(call).await))
}

//! `/v1/admin/secrets`, and `POST /v1/admin/keys/rotate` (supplement 28.6): under which master key what is sealed, and the
//! exchange of the master key (supplement 20.2).

use std::collections::BTreeMap;
use std::time::Duration;

use model::error::{ApiError, ErrorCode};
use model::id::NodeId;
use model::seal::MasterKeyId;
use model::time::Timestamp;
use raft::directory::command::Command;
use raft::directory::members::NodeState;
use raft::directory::records::ClusterRecord;
use raft::directory::secrets::SecretsCommand;
use raft::directory::state::DirectoryState;
use schemars::JsonSchema;
use serde::Serialize;
use shard::secrets::OVERLAP;

use crate::audit::Target;
use crate::exchange::OperatorCall;
use crate::failure;
use crate::openapi::Doc;
use crate::reply::{Outcome, Reply};
use crate::route::Route;

/// How long a node may take to say which keys it has.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/secrets").operator(show).doc(
            Doc::new("get_secrets", "See under which master key what is sealed, and whether the one before may go")
                .about("Keys are named by a part of their hash.")
                .ok::<SecretsView>(),
        ),
        Route::post("/v1/admin/keys/rotate").operator(rotate).doc(
            Doc::new("rotate_keys", "Seal everything under the master key that the nodes were given last")
                .about(
                    "Every node must have been restarted with both keys before. The cluster goes on by itself, whatever \
                     node ends meanwhile; `GET /v1/admin/secrets` shows how far it is. Keys of media links change by \
                     themselves.",
                )
                .accepted::<SecretsView>()
                .errors(&[ErrorCode::BadRequest, ErrorCode::NoOp]),
        ),
    ]
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Secrets")]
struct SecretsView {
    /// The master key that everything is to be sealed under.
    master_key: String,
    /// `settled`: nothing is sealed under another. `waiting`: a node was given another, and the exchange has not begun.
    #[schemars(extend("enum" = ["settled", "waiting", "rewrapping"]))]
    state: &'static str,
    /// Data keys: one of each customer, and those of the deployment and its authority.
    data_keys: usize,
    /// How many of them are sealed under which master key.
    sealed_under: BTreeMap<String, usize>,
    /// How many are still to be sealed anew.
    remaining: usize,
    /// The last exchange; `null` when there was none.
    exchange: Option<ExchangeView>,
    nodes: Vec<NodeView>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MasterKeyExchange")]
struct ExchangeView {
    /// The key that goes.
    from: String,
    began_at: Timestamp,
    /// When the last data key was sealed anew; `null` until then.
    ended_at: Option<Timestamp>,
    /// Nothing is sealed under the key that goes.
    old_key_may_go: bool,
    /// Until then deliveries are signed with the former default secrets too, by nodes that still have the key that goes.
    signs_with_both_until: Timestamp,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NodeSecrets")]
struct NodeView {
    node_id: NodeId,
    /// The master keys that it was given, the one for the future first; `null` when it did not say.
    master_keys: Option<Vec<String>>,
    /// Why nothing was heard of it.
    error: Option<String>,
}

/// What the nodes said: the keys that each was given, or why that is not known.
type Given = BTreeMap<NodeId, Result<Vec<MasterKeyId>, String>>;

async fn given(call: &OperatorCall) -> Given {
    let survey = call.cluster().facts(PATIENCE).await;
    survey.into_iter().map(|(node, heard)| (node, heard.map(|heard| heard.facts.master_keys))).collect()
}

impl SecretsView {
    fn new(state: &DirectoryState, cluster: &ClusterRecord, given: Given) -> Self {
        let master = cluster.master();
        let (sealed_under, remaining) = (state.sealed_under(), state.sealed_under_others());
        let waits = given.values().flatten().any(|keys| keys.first().is_some_and(|first| *first != master));
        Self {
            master_key: master.to_string(),
            state: match (remaining, cluster.exchange) {
                (1.., _) => "rewrapping",
                (0, Some(exchange)) if exchange.ended_at.is_none() => "rewrapping",
                _ if waits => "waiting",
                _ => "settled",
            },
            data_keys: sealed_under.values().sum(),
            sealed_under: sealed_under.iter().map(|(master, count)| (master.to_string(), *count)).collect(),
            remaining,
            exchange: cluster.exchange.map(|exchange| ExchangeView {
                from: exchange.from.to_string(),
                began_at: exchange.began_at,
                ended_at: exchange.ended_at,
                old_key_may_go: remaining == 0 && exchange.ended_at.is_some(),
                signs_with_both_until: exchange.began_at.plus(OVERLAP),
            }),
            nodes: given.into_iter().map(NodeView::new).collect(),
        }
    }
}

impl NodeView {
    fn new((node_id, keys): (NodeId, Result<Vec<MasterKeyId>, String>)) -> Self {
        let shown = |keys: Vec<MasterKeyId>| keys.iter().map(MasterKeyId::to_string).collect();
        match keys {
            Ok(keys) => Self { node_id, master_keys: Some(shown(keys)), error: None },
            Err(error) => Self { node_id, master_keys: None, error: Some(error) },
        }
    }
}

async fn show(call: &mut OperatorCall) -> Outcome {
    Ok(Reply::ok(&view(call).await?))
}

async fn view(call: &OperatorCall) -> Result<SecretsView, ApiError> {
    let given = given(call).await;
    call.cluster().directory().read(|state| {
        let cluster = state.cluster.as_ref().ok_or_else(ApiError::no_leader)?;
        Ok(SecretsView::new(state, cluster, given))
    })
}

async fn rotate(call: &mut OperatorCall) -> Outcome {
    let cluster = call.cluster().directory().read(|state| state.cluster.clone()).ok_or_else(ApiError::no_leader)?;
    let (from, to) = (cluster.master(), call.cluster().secrets().wanted());
    let remaining = call.cluster().directory().read(DirectoryState::sealed_under_others);
    if remaining > 0 {
        return Err(ApiError::bad_request(format!(
            "an exchange is under way: {remaining} data keys are still to be sealed anew, which the cluster does by itself"
        )));
    }
    if from == to {
        return Err(ApiError::no_op(
            "everything is sealed under the master key that this node was given; ask one that was given another",
        ));
    }
    let all_have = |keys: &[MasterKeyId]| keys.contains(&from) && keys.first() == Some(&to);
    for (node, keys) in given(call).await {
        let joins =
            |state: &DirectoryState| state.nodes.get(&node).is_some_and(|each| each.state == NodeState::Joining);
        match keys {
            Ok(keys) if all_have(&keys) => {}
            Ok(_) => {
                return Err(ApiError::bad_request(format!(
                    "node {node} was not given the master key {to} with {from} before it: set \
                     secrets.master_key_file and secrets.previous_master_key_file there and restart it"
                )));
            }
            // It says which keys it lacks when it starts.
            Err(_) if call.cluster().directory().read(joins) => {}
            Err(error) => {
                return Err(ApiError::bad_request(format!(
                    "nobody knows which keys node {node} has: {error}; start it, or remove it"
                )));
            }
        }
    }
    let deployment_key = call
        .cluster()
        .secrets()
        .rewrap_for_all(&cluster.deployment_key, to)
        .map_err(|error| failure::internal("the deployment's key cannot be sealed anew", &error))?;
    let mut entry = call.audited_of_cluster("secrets.rewrap_begun", Target::new("master_key", to, "master key"));
    entry.details = BTreeMap::from([("from".to_owned(), from.to_string())]);
    call.update(Command::Secrets(SecretsCommand::Begin { from, deployment_key }), vec![entry]).await?;
    Ok(Reply::accepted(&view(call).await?))
}

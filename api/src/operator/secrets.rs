//! `/v1/admin/secrets`, and `POST /v1/admin/keys/rotate`: which master keys things are sealed under, and the exchange
//! of the master key; also the rotations of the key that signs session tokens, and of the certificate authority of the
//! nodes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use model::error::{CallError, ErrorCode};
use model::id::{NodeId, ShardId};
use model::seal::MasterKeyId;
use model::time::Timestamp;
use raft::directory::authority::{AuthorityCommand, AuthorityStep};
use raft::directory::command::Command;
use raft::directory::members::{AuthorityRecord, NodeState};
use raft::directory::records::ClusterRecord;
use raft::directory::secrets::{DataKeyRotation, SecretsCommand, SessionKey};
use raft::directory::state::DirectoryState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shard::report::{Heard, NodeReport, Survey, authority_id};
use shard::secrets::OVERLAP;

use crate::audit::Target;
use crate::failure;
use crate::reply::{Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{GET, POST, Route};

/// How long a node may take to report its keys.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn routes() -> Vec<Route> {
    let rotation = |route: Route| route.accepted::<SecretsView>().errors(&[ErrorCode::BadRequest]);
    vec![
        Route::operator(GET, "/v1/admin/secrets", show)
            .doc("get_secrets", "Get the use of each master key, and whether the previous one can be removed")
            .about("Keys are identified by a part of their hash.")
            .ok::<SecretsView>(),
        Route::operator(POST, "/v1/admin/keys/rotate", rotate)
            .doc("rotate_keys", "Re-encrypt everything under the newest master key")
            .about(
                "Restart every node with both keys first. Once begun, the rotation completes even if a node stops; \
                 `GET /v1/admin/secrets` shows the progress. Keys of media links rotate automatically.",
            )
            .also(rotation)
            .errors(&[ErrorCode::NoOp]),
        Route::operator(POST, "/v1/admin/secrets/data-keys/rotate", rotate_data_keys)
            .doc("rotate_data_keys", "Replace the data key of every customer")
            .about(
                "Once begun, the rotation completes even if a node stops: the cluster re-encrypts everything that was \
                 encrypted with the previous keys, and drops them a day after nothing uses them \
                 (`secrets.keep_former_data_keys`).",
            )
            .also(rotation),
        Route::operator(POST, "/v1/admin/secrets/session-key/rotate", rotate_session_key)
            .doc("rotate_session_key", "Sign session tokens with a new key from now on")
            .about(
                "Tokens of the previous key stay valid until they expire, within 15 minutes; the key is dropped after \
                 20 minutes, and until then another rotation is refused. The sessions themselves continue.",
            )
            .also(rotation),
        Route::operator(POST, "/v1/admin/secrets/authority/rotate", rotate_authority)
            .doc("rotate_authority", "Replace the certificate authority between the nodes")
            .about(
                "Every node must answer. Once begun, the rotation completes even if a node stops: all nodes first \
                 trust the new authority, then create certificates of it, and then stop trusting the previous one. \
                 `GET /v1/admin/secrets` shows the progress, and which nodes it waits for. Join tokens that were \
                 issued before stop working.",
            )
            .also(rotation),
    ]
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Secrets")]
pub struct SecretsView {
    /// Id of the master key that all data keys are to be encrypted under.
    pub master_key: String,
    /// `settled`: no data key is encrypted under another master key. `waiting`: a node was given another master key,
    /// and the exchange has not begun. `rewrapping`: data keys are being re-encrypted.
    #[schemars(extend("enum" = ["settled", "waiting", "rewrapping"]))]
    pub state: Cow<'static, str>,
    /// Number of data keys: one for each customer, and those of the deployment and its certificate authority.
    pub data_keys: usize,
    /// Number of data keys encrypted under each master key, by its id.
    pub sealed_under: BTreeMap<String, usize>,
    /// Data keys that are still to be re-encrypted.
    pub remaining: usize,
    /// Last exchange of the master key; `null` if there was none.
    pub exchange: Option<ExchangeView>,
    /// Last rotation of the customers' data keys; `null` if there was none.
    pub data_key_rotation: Option<DataKeysView>,
    /// The key that signs session tokens.
    pub session_key: SessionKeyView,
    /// Certificate authority between the nodes; `null` while the cluster does not have its key.
    pub authority: Option<AuthorityView>,
    pub nodes: Vec<NodeView>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MasterKeyExchange")]
pub struct ExchangeView {
    /// Id of the previous master key.
    pub from: String,
    /// Start of the exchange.
    pub began_at: Timestamp,
    /// Time when the last data key was re-encrypted; `null` until then.
    pub ended_at: Option<Timestamp>,
    /// Whether the previous master key can be removed, since no data key is encrypted under it any more.
    pub old_key_may_go: bool,
    /// Time until which nodes that still have the previous master key also sign deliveries with the previous default
    /// secrets.
    pub signs_with_both_until: Timestamp,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DataKeyRotation")]
pub struct DataKeysView {
    /// Start of the rotation.
    pub began_at: Timestamp,
    /// `changing`: customers get new data keys. `resealing`: what is encrypted with previous ones is re-encrypted.
    /// `keeping`: previous data keys are not in use, but kept for a while. `ended`: they are dropped.
    #[schemars(extend("enum" = ["changing", "resealing", "keeping", "ended"]))]
    pub state: Cow<'static, str>,
    /// Customers that have a previous data key.
    pub former_keys: usize,
    /// Shards in which something may still be encrypted with a previous data key.
    pub shards_left: Vec<ShardId>,
    pub ended_at: Option<Timestamp>,
}

impl DataKeysView {
    fn new(state: &DirectoryState, cluster: &ClusterRecord) -> Option<Self> {
        let rotation = cluster.data_keys.as_ref()?;
        let left = (1..=cluster.shard_count).filter(|shard| !rotation.resealed.contains(shard));
        Some(Self {
            began_at: rotation.began_at,
            state: match rotation {
                DataKeyRotation { ended_at: Some(_), .. } => "ended",
                DataKeyRotation { resealed_at: Some(_), .. } => "keeping",
                DataKeyRotation { changed_at: Some(_), .. } => "resealing",
                _ => "changing",
            }
            .into(),
            former_keys: state.with_former_data_key().count(),
            shards_left: left.collect(),
            ended_at: rotation.ended_at,
        })
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionKey")]
pub struct SessionKeyView {
    /// Time of the last rotation; `null` if there was none.
    pub rotated_at: Option<Timestamp>,
    /// Time until which tokens of the previous key are accepted; `null` if there is none.
    pub former_until: Option<Timestamp>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeAuthority")]
pub struct AuthorityView {
    /// SHA-256 of the authority's certificate.
    pub id: String,
    /// Time when the authority replaced the previous one; `null` for the first one.
    pub rotated_at: Option<Timestamp>,
    /// `settled`: no rotation is under way. `wanted`: a new authority is to be created. `announced`: nodes come to
    /// trust it. `overlapping`: it signs, and nodes with certificates of the previous one are still trusted.
    #[schemars(extend("enum" = ["settled", "wanted", "announced", "overlapping"]))]
    pub state: Cow<'static, str>,
    /// Start of the rotation under way; `null` if there is none.
    pub began_at: Option<Timestamp>,
    /// Nodes that the rotation waits for: they do not answer, or have not completed its present step.
    pub waits_for: Vec<NodeId>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeSecrets")]
pub struct NodeView {
    pub node_id: NodeId,
    /// Ids of the master keys that the node was given, the newest first; `null` if the node did not answer.
    pub master_keys: Option<Vec<String>>,
    /// Why the node did not answer; `null` if it did.
    pub error: Option<String>,
}

/// The master keys that each node was given, or why that is not known.
type Given = BTreeMap<NodeId, Result<Vec<MasterKeyId>, String>>;

fn given(survey: Survey) -> Given {
    survey.into_iter().map(|(node, heard)| (node, heard.map(|heard| heard.report.master_keys))).collect()
}

impl SecretsView {
    fn new(state: &DirectoryState, cluster: &ClusterRecord, survey: Survey, now: Timestamp) -> Self {
        let authority = state.authority.as_ref().and_then(|authority| AuthorityView::new(authority, &survey));
        let given = given(survey);
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
            }
            .into(),
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
            data_key_rotation: DataKeysView::new(state, cluster),
            session_key: SessionKeyView {
                rotated_at: cluster.session_key.as_ref().map(|key| key.since),
                former_until: cluster.session_key.as_ref().map(SessionKey::overlaps_until).filter(|until| now < *until),
            },
            authority,
            nodes: given.into_iter().map(NodeView::new).collect(),
        }
    }
}

impl AuthorityView {
    /// `None` when its certificate cannot be read.
    fn new(record: &AuthorityRecord, survey: &Survey) -> Option<Self> {
        let id = authority_id(&record.certificate).ok()?;
        let step = record.rotation.as_ref().map(|rotation| &rotation.step);
        let next = match step {
            Some(AuthorityStep::Announced { certificate, .. }) => Some(authority_id(certificate).ok()?),
            _ => None,
        };
        let is_ready = |report: &NodeReport| match step {
            Some(AuthorityStep::Announced { .. }) => next.as_ref().is_some_and(|next| report.trusts(next)),
            Some(AuthorityStep::Overlapping { .. }) => report.is_signed_by(&id),
            Some(AuthorityStep::Wanted) | None => true,
        };
        let waits = |heard: &Result<Heard, String>| match heard {
            Ok(heard) => !is_ready(&heard.report),
            Err(_) => step.is_some(),
        };
        Some(Self {
            rotated_at: record.rotated_at,
            state: match step {
                None => "settled",
                Some(AuthorityStep::Wanted) => "wanted",
                Some(AuthorityStep::Announced { .. }) => "announced",
                Some(AuthorityStep::Overlapping { .. }) => "overlapping",
            }
            .into(),
            began_at: record.rotation.as_ref().map(|rotation| rotation.began_at),
            waits_for: survey.iter().filter(|(_, heard)| waits(heard)).map(|(node, _)| *node).collect(),
            id,
        })
    }
}

impl NodeView {
    fn new((node_id, keys): (NodeId, Result<Vec<MasterKeyId>, String>)) -> Self {
        let master_keys = keys.as_ref().ok().map(|keys| keys.iter().map(MasterKeyId::to_string).collect());
        Self { node_id, master_keys, error: keys.err() }
    }
}

async fn show(call: &mut OperatorCall) -> Outcome {
    Ok(Reply::ok(&view(call).await?))
}

async fn view(call: &OperatorCall) -> Result<SecretsView, CallError> {
    let survey = call.cluster().survey(PATIENCE).await;
    call.directory().read(|state| {
        let cluster = state.cluster.as_ref().ok_or_else(CallError::no_leader)?;
        Ok(SecretsView::new(state, cluster, survey, call.now))
    })
}

async fn rotate_data_keys(call: &mut OperatorCall) -> Outcome {
    let entry = call
        .audited_of_cluster("secrets.data_key_rotation_begun", Target::new("data_keys", "", "data keys of customers"));
    call.update(Command::Secrets(SecretsCommand::RotateDataKeys), vec![entry]).await?;
    Ok(Reply::accepted(&view(call).await?))
}

async fn rotate_session_key(call: &mut OperatorCall) -> Outcome {
    let cluster = call.directory().read(|state| state.cluster.clone()).ok_or_else(CallError::no_leader)?;
    let sealed = call.cluster().secrets().new_session_key(&cluster);
    let sealed = sealed.map_err(|error| failure::internal("a key of session tokens cannot be encrypted", &error))?;
    let target = Target::new("session_key", "", "key of session tokens");
    let entry = call.audited_of_cluster("secrets.session_key_rotated", target);
    call.update(Command::Secrets(SecretsCommand::RotateSessionKey { sealed }), vec![entry]).await?;
    Ok(Reply::accepted(&view(call).await?))
}

async fn rotate_authority(call: &mut OperatorCall) -> Outcome {
    for (node, heard) in call.cluster().survey(PATIENCE).await {
        if let Err(error) = heard {
            return Err(CallError::bad_request(format!(
                "node {node} does not answer, and would be cut off: {error}; start it, or remove it"
            )));
        }
    }
    let target = Target::new("authority", "", "authority of the cluster's nodes");
    let entry = call.audited_of_cluster("secrets.authority_rotation_begun", target);
    call.update(Command::Authority(AuthorityCommand::Rotate), vec![entry]).await?;
    Ok(Reply::accepted(&view(call).await?))
}

async fn rotate(call: &mut OperatorCall) -> Outcome {
    let cluster = call.directory().read(|state| state.cluster.clone()).ok_or_else(CallError::no_leader)?;
    let (from, to) = (cluster.master(), call.cluster().secrets().wanted());
    let remaining = call.directory().read(DirectoryState::sealed_under_others);
    if remaining > 0 {
        return Err(CallError::bad_request(format!(
            "an exchange is under way: {remaining} data keys are still to be encrypted again, which the cluster does \
             by itself"
        )));
    }
    if from == to {
        return Err(CallError::no_op(
            "everything is already encrypted under this node's master key; ask a node that has another one",
        ));
    }
    let all_have = |keys: &[MasterKeyId]| keys.contains(&from) && keys.first() == Some(&to);
    for (node, keys) in given(call.cluster().survey(PATIENCE).await) {
        let joins =
            |state: &DirectoryState| state.nodes.get(&node).is_some_and(|each| each.state == NodeState::Joining);
        match keys {
            Ok(keys) if all_have(&keys) => {}
            Ok(_) => {
                return Err(CallError::bad_request(format!(
                    "node {node} does not have the master key {to} with {from} as the former one: set \
                     secrets.master_key_file and secrets.previous_master_key_file there, and restart it"
                )));
            }
            // A node that joins reports missing keys when it starts.
            Err(_) if call.directory().read(joins) => {}
            Err(error) => {
                return Err(CallError::bad_request(format!(
                    "it is not known which keys node {node} has: {error}; start it, or remove it"
                )));
            }
        }
    }
    let deployment_key = call
        .cluster()
        .secrets()
        .rewrap_for_all(&cluster.deployment_key, to)
        .map_err(|error| failure::internal("the deployment's key cannot be encrypted again", &error))?;
    let mut entry = call.audited_of_cluster("secrets.rewrap_begun", Target::new("master_key", to, "master key"));
    entry.details = BTreeMap::from([("from".to_owned(), from.to_string())]);
    call.update(Command::Secrets(SecretsCommand::Begin { from, deployment_key }), vec![entry]).await?;
    Ok(Reply::accepted(&view(call).await?))
}

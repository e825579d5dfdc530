//! Redelivers one delivery, and recovers or purges many.

use model::error::CallError;
use model::id::EndpointId;
use model::webhook::{DeliveryState, Recovery};
use raft::directory::records::EndpointRecord;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use shard::call::deliveries::Redelivered;
use shard::deliveries::command::{BulkAction, BulkOperation};
use uuid::Uuid;

use crate::query::Query;
use crate::reply::{Outcome, Reply};
use crate::request_context::AccountCall;
use crate::resources::webhook_endpoints;

/// The states that wait for an attempt, and can be purged.
const WAITING: [DeliveryState; 3] = [DeliveryState::Pending, DeliveryState::Retrying, DeliveryState::Paused];

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Recovery")]
pub struct RecoverView {
    /// Id of the recovery.
    #[schemars(with = "String", extend("format" = "uuid"))]
    job_id: Uuid,
    /// Number of deliveries to redeliver.
    matched: u64,
}

/// The extent of a recovery.
#[derive(Serialize, JsonSchema)]
pub struct RecoveryCount {
    /// Number of deliveries that would be redelivered.
    matched: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct Purge {
    /// Number of deliveries to purge.
    matched: u64,
}

pub async fn redeliver(call: &mut AccountCall) -> Outcome {
    let record = super::find(call).await?.record;
    let endpoint = call.directory().read(|state| state.endpoints.get(&record.endpoint_id).cloned());
    // A bound key must not cause requests to an endpoint that it may not test.
    let reached = endpoint.filter(|endpoint| call.reaches(endpoint.channel_id));
    let endpoint = reached.ok_or_else(CallError::webhook_endpoint_not_found)?;
    require_enabled(&endpoint)?;
    let (customer, context) = (call.customer_id(), call.context());
    match call.cluster().redeliver(customer, record.channel_id, record.id, &context).await? {
        Redelivered::Due(record) => Ok(Reply::accepted(&*record)),
        Redelivered::DueAlready => {
            let state = record.state.as_str();
            let refused = CallError::no_op("an attempt at this delivery is due or under way already");
            Err(refused.with_details(json!({ "field": "state", "value": state })))
        }
        Redelivered::NotFound => Err(CallError::not_found("webhook_delivery", &record.id.to_string())),
    }
}

/// Refuses a disabled endpoint, since redeliveries to it would fail again.
fn require_enabled(endpoint: &EndpointRecord) -> Result<(), CallError> {
    if endpoint.enabled {
        return Ok(());
    }
    let refused = CallError::bad_request("the endpoint is disabled; enable it before redelivering to it");
    Err(refused.with_details(json!({ "reason": "endpoint_disabled" })))
}

pub async fn recover(call: &mut AccountCall) -> Outcome {
    // The body is judged before the resource is looked up.
    let asked = Recovery::parse(&call.object().await?, call.now)?;
    let endpoint = webhook_endpoints::find(call)?;
    require_enabled(&endpoint)?;
    let job_id = Uuid::new_v4();
    let bulk = BulkOperation {
        id: job_id,
        customer: call.customer_id(),
        endpoint: endpoint.id,
        work: BulkAction::Recover { since: asked.since, events: asked.events },
        states: asked.states,
        until: asked.until,
        reached: None,
    };
    if asked.dry_run {
        let matched = call.cluster().count_bulk(bulk, &call.context()).await?;
        return Ok(Reply::ok(&RecoveryCount { matched }));
    }
    let matched = call.cluster().begin_bulk(bulk, &call.context()).await?;
    Ok(Reply::accepted(&RecoverView { job_id, matched }))
}

/// Reads the endpoint, and the states of the deliveries to purge.
pub fn asked_to_purge(query: &Query<'_>) -> (Option<EndpointId>, Vec<DeliveryState>) {
    let endpoint = query.id("endpoint_id");
    query.require("endpoint_id");
    let waiting = |word: &str| DeliveryState::parse(word).filter(|state| WAITING.contains(state));
    let states = query.words("state", &WAITING.map(DeliveryState::as_str), waiting);
    (endpoint, if states.is_empty() { WAITING.to_vec() } else { states })
}

/// Purges deliveries that wait for an endpoint, even a deleted one, whose deliveries continue until they are exhausted.
pub async fn purge(call: &mut AccountCall) -> Outcome {
    let (endpoint, states) = call.asked(asked_to_purge)?;
    let endpoint = endpoint.ok_or_else(CallError::webhook_endpoint_not_found)?;
    let known = call.directory().read(|state| state.endpoints.get(&endpoint).cloned());
    // A bound key purges only its own channel's endpoints. Another account's endpoint matches no deliveries.
    if !call.reaches(known.and_then(|endpoint| endpoint.channel_id)) {
        return Err(CallError::webhook_endpoint_not_found());
    }
    let bulk = BulkOperation {
        id: Uuid::new_v4(),
        customer: call.customer_id(),
        endpoint,
        work: BulkAction::Purge,
        states,
        until: call.now,
        reached: None,
    };
    let matched = call.cluster().begin_bulk(bulk, &call.context()).await?;
    Ok(Reply::accepted(&Purge { matched }))
}

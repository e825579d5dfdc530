//! `GET /v1/admin/webhooks/stuck`: endpoints of all customers whose webhooks do not get through; and
//! `POST /v1/admin/webhook-endpoints/{id}/enable`, which enables an endpoint again that the gateway has disabled.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use futures::future::join_all;
use model::error::{CallError, ErrorCode as E};
use model::field::{Body, Change, rule};
use model::id::{CustomerId, DeliveryId, EndpointId};
use model::page::{Cursor, ListId};
use model::time::Timestamp;
use raft::directory::command::{Command, EndpointChange};
use raft::directory::records::{DisabledReason, EndpointRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shard::call::deliveries::Waiting;
use shard::cluster::CallContext;

use crate::audit::Target;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{GET, POST, Route};

/// The default age in seconds from which a waiting delivery counts as stuck.
const WAITS: u64 = 60;

/// The largest age in seconds: deliveries are tried for three days and kept for thirty.
const LONGEST: usize = 30 * 86_400;

/// The most endpoints of a response with their last error, since each costs a request to a shard.
const MOST_ERRORS: usize = 50;

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/webhooks/stuck", list)
            .doc("list_stuck_webhooks", "List the webhook endpoints whose deliveries are stuck")
            .about("Covers all customers; the endpoint that has waited longest comes first.")
            .query(asked)
            .list_or_page::<StuckEndpoint>(),
        Route::operator(POST, "/v1/admin/webhook-endpoints/{id}/enable", enable)
            .doc("enable_any_webhook_endpoint", "Switch on a webhook endpoint that the gateway has switched off")
            .about(
                "An endpoint that its customer switched off stays off. The reason is written to the customer's audit \
                 log.",
            )
            .body(parse_reason, json!({ "reason": "its owner has mended it" }))
            .no_content()
            .errors(&[E::NoOp]),
    ]
}

/// Reads `{ "reason" }`.
fn parse_reason(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("reason", rule::text(1..=255)))
}

async fn enable(call: &mut OperatorCall) -> Outcome {
    // The body is validated before the resource is looked up.
    let reason = parse_reason(&call.object().await?)?;
    let known = call.known("id", |state, id: EndpointId| state.endpoints.get(&id).cloned());
    let endpoint = known.ok_or_else(CallError::webhook_endpoint_not_found)?;
    if endpoint.enabled {
        return Err(CallError::no_op("the endpoint is switched on already"));
    }
    if endpoint.disabled_reason.is_none() {
        return Err(CallError::bad_request("the customer has switched it off, and only the customer can switch it on"));
    }
    let target = Target::new("webhook_endpoint", endpoint.id, endpoint.url.as_str());
    let mut entry = call.audited(endpoint.customer_id, "webhook.enabled", target);
    entry.details.insert("reason".to_owned(), reason);
    let change = EndpointChange { enabled: Change::To(true), ..EndpointChange::default() };
    let command = Command::UpdateEndpoint { customer: endpoint.customer_id, id: endpoint.id, change };
    call.update(command, vec![entry]).await?;
    Ok(Reply::no_content())
}

model::cursor! {
    /// The last endpoint of a response that could not hold all.
    StuckCursor("admin-stuck.1") { since: Option<Timestamp>, id: EndpointId }
}

/// Reads how long a delivery must have waited, the only customer if any, and where the previous response ended.
fn asked(query: &Query<'_>) -> (Duration, Option<CustomerId>, Option<StuckCursor>) {
    let seconds = query.number("older_than_seconds", 0, LONGEST).map_or(WAITS, |seconds| seconds as u64);
    (Duration::from_secs(seconds), query.id("customer_id"), query.cursor(ListId::only()))
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct StuckEndpoint {
    pub endpoint_id: EndpointId,
    pub customer_id: CustomerId,
    /// Name of the account; `null` once the account's data is removed.
    pub customer_name: Option<String>,
    pub url: String,
    /// `disabled`: no attempts are made. `failing`: attempts fail. `slow`: attempts succeed, but deliveries wait.
    #[schemars(extend("enum" = ["disabled", "failing", "slow"]))]
    pub state: Cow<'static, str>,
    /// Why the gateway disabled the endpoint; `null` if it did not.
    pub disabled_reason: Option<DisabledReason>,
    /// Time of the first failure since the last success; `null` if there was none.
    pub failing_since: Option<Timestamp>,
    /// Time of the last successful delivery; `null` if there was none.
    pub last_success_at: Option<Timestamp>,
    /// Deliveries that wait for an attempt.
    pub waiting: usize,
    /// Whether more deliveries may wait than `waiting` says, since they were too many to count.
    pub or_more: bool,
    /// Creation time of the oldest waiting delivery; `null` if none waits.
    pub oldest: Option<Timestamp>,
    /// Time of the next attempt; `null` if no delivery waits.
    pub next_attempt_at: Option<Timestamp>,
    /// Error of the last attempt at the oldest waiting delivery; `null` without one, and after the first 50 rows.
    pub last_error: Option<String>,
    #[serde(skip)]
    pub first: Option<DeliveryId>,
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let (older_than, customer, after) = call.asked(asked)?;
    let after = after.map(|cursor| (cursor.since, cursor.id));
    let waiting = call.cluster().waiting_deliveries(&call.context()).await?;
    let waiting: HashMap<EndpointId, Waiting> = waiting.into_iter().map(|row| (row.endpoint, row)).collect();
    let before = call.now.minus(older_than);
    let mut stuck: Vec<StuckEndpoint> = call.directory().read(|state| {
        let endpoints = state.endpoints.values().filter(|known| customer.is_none_or(|id| known.customer_id == id));
        let judged = endpoints.filter_map(|endpoint| {
            let name = state.customers.get(&endpoint.customer_id).map(|customer| customer.name.clone());
            StuckEndpoint::judge(endpoint, waiting.get(&endpoint.id), name, before)
        });
        judged.collect()
    });
    stuck.retain(|endpoint| after.is_none_or(|after| endpoint.place() > after));
    stuck.sort_by_key(StuckEndpoint::place);
    let context = call.context();
    let errors = stuck.iter().take(MOST_ERRORS).map(|endpoint| last_error(call, endpoint, &context));
    let errors = join_all(errors).await;
    stuck.iter_mut().zip(errors).for_each(|(endpoint, error)| endpoint.last_error = error);
    Ok(Reply::ok(&cut(stuck)))
}

/// Truncates the list to what one response holds.
fn cut(stuck: Vec<StuckEndpoint>) -> List<StuckEndpoint> {
    List::cut(stuck, |endpoint| {
        let (since, id) = endpoint.place();
        StuckCursor { since, id }.encode(ListId::only())
    })
}

/// The result of the last attempt at the oldest delivery of an endpoint, if its shard answers in time.
async fn last_error(call: &OperatorCall, endpoint: &StuckEndpoint, context: &CallContext) -> Option<String> {
    let detail = call.cluster().delivery(endpoint.customer_id, endpoint.first?, context).await.ok()??;
    let last = detail.attempts.last()?;
    last.error.clone().or_else(|| last.http_status.map(|status| format!("it answered {status}")))
}

impl StuckEndpoint {
    /// The position in the list: by how long the endpoint has waited or failed.
    fn place(&self) -> (Option<Timestamp>, EndpointId) {
        (self.oldest.or(self.failing_since), self.endpoint_id)
    }

    /// `None` for an endpoint whose deliveries get through, or for which nothing has waited since `before`.
    fn judge(
        endpoint: &EndpointRecord,
        waiting: Option<&Waiting>,
        customer_name: Option<String>,
        before: Timestamp,
    ) -> Option<Self> {
        let waits = waiting.filter(|waiting| waiting.oldest <= before);
        let failing_since = endpoint.health.failing_since;
        let state = match (endpoint.enabled, waits) {
            // An endpoint that its customer disabled, with nothing waiting, is not stuck.
            (false, None) if endpoint.disabled_reason.is_none() => return None,
            (false, _) => "disabled",
            (true, _) if failing_since.is_some_and(|since| since <= before) => "failing",
            (true, Some(_)) => "slow",
            (true, None) => return None,
        };
        Some(Self {
            endpoint_id: endpoint.id,
            customer_id: endpoint.customer_id,
            customer_name,
            url: endpoint.url.clone(),
            state: state.into(),
            disabled_reason: endpoint.disabled_reason,
            failing_since,
            last_success_at: endpoint.health.last_success_at,
            waiting: waiting.map_or(0, |waiting| waiting.count),
            or_more: waiting.is_some_and(|waiting| waiting.or_more),
            oldest: waiting.map(|waiting| waiting.oldest),
            next_attempt_at: waiting.map(|waiting| waiting.next_due),
            last_error: None,
            first: waiting.and_then(|waiting| waiting.first),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn endpoint(number: u128, oldest: i64) -> StuckEndpoint {
        StuckEndpoint {
            endpoint_id: EndpointId(uuid::Uuid::from_u128(number)),
            customer_id: CustomerId::random(),
            customer_name: None,
            url: format!("https://receiver.example/{}", "x".repeat(2000)),
            state: "failing".into(),
            disabled_reason: None,
            failing_since: None,
            last_success_at: None,
            waiting: 1,
            or_more: false,
            oldest: Some(Timestamp(oldest)),
            next_attempt_at: None,
            last_error: None,
            first: None,
        }
    }

    #[test]
    fn more_endpoints_than_one_answer_holds_go_on_behind_its_last() {
        let all: Vec<StuckEndpoint> = (0..3000).map(|number| endpoint(number, 7)).collect();
        let List { data, next_cursor } = cut(all);
        let last = data.last().unwrap();
        let cursor = StuckCursor::decode(&next_cursor.unwrap().unwrap(), ListId::only()).unwrap();
        assert_eq!((cursor.since, cursor.id), last.place());
        assert!(data.len() < 3000 && endpoint(data.len() as u128, 7).place() > last.place());
    }
}

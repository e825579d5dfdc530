//! Tests a receiver of webhooks, by URL or as a stored endpoint. Nothing is stored or retried.

use bytes::Bytes;
use model::error::CallError;
use model::event::{Event, EventId, EventName, TEST_EVENT, test_envelope};
use model::field::{Body, rule};
use model::id::{ChannelId, EndpointId};
use model::issue::Violation;
use model::target::judge_url;
use model::time::Timestamp;
use model::webhook::Outcome as Ended;
use model::webhook::endpoint::parse_probe;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use shard::webhook::attempt::{AttemptOutcome, AttemptRequest};
use shard::webhook::material::Material;
use uuid::Uuid;

use super::webhook_endpoints;
use crate::failure;
use crate::reply::{Outcome, Reply};
use crate::request_context::AccountCall;
use crate::route::{POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::account(POST, "/v1/webhook-endpoints/test", of_url)
            .multi_channel()
            .doc("test_webhook_url", "Try out a URL with a signed request")
            .body_here(|body, here| parse_probe(body, here.target_policy), json!({ "url": "https://example.com/hook" }))
            .ok::<TestResult>(),
        Route::account(POST, "/v1/webhook-endpoints/{id}/test", of_endpoint)
            .doc("test_webhook_endpoint", "Try out an endpoint with a signed request")
            .about(
                "With `event`, the request is the example of that event, regardless of the endpoint's subscriptions: \
                 it is marked `\"test\": true`, and has no `X-Gateway-Delivery-Id`, since it is not a delivery. \
                 Without it, the event is `webhook.test`.",
            )
            .optional_body(parse_event, json!({ "event": "message.received" }))
            .ok::<TestResult>(),
    ]
}

/// Result of a webhook test.
#[derive(Serialize, JsonSchema)]
struct TestResult {
    /// Whether the receiver accepted the test event.
    ok: bool,
    #[schemars(extend("enum" = ["success", "failure"]))]
    outcome: &'static str,
    /// HTTP status of the receiver in a test of a URL; the same as `outcome` in a test of an endpoint.
    #[schemars(extend("type" = ["string", "integer"]))]
    status: Value,
    /// HTTP status of the receiver; `0` if there was no response.
    http_status: u16,
    /// Time from the request to the first byte of the response, in milliseconds; `0` if there was no response.
    latency_ms: u64,
    /// Time of the whole attempt, with DNS, TLS and body, in milliseconds.
    elapsed_ms: u64,
    /// Whose secret signed the request.
    #[schemars(extend("enum" = ["endpoint", "gateway_default"]))]
    signed_with: &'static str,
    endpoint_id: Option<EndpointId>,
    error: Option<TestError>,
}

#[derive(Serialize, JsonSchema)]
struct TestError {
    code: &'static str,
    message: String,
}

impl TestResult {
    fn new(outcome: AttemptOutcome, signed_with: &'static str, endpoint_id: Option<EndpointId>) -> Self {
        let ok = outcome.outcome == Ended::Success;
        let http_status = outcome.http_status.unwrap_or(0);
        let error = (!ok).then(|| TestError {
            code: outcome.outcome.as_str(),
            message: outcome.error.unwrap_or_else(|| "the receiver did not answer".to_owned()),
        });
        Self {
            ok,
            outcome: if ok { "success" } else { "failure" },
            status: json!(http_status),
            http_status,
            latency_ms: outcome.latency_ms,
            elapsed_ms: outcome.elapsed_ms,
            signed_with,
            endpoint_id,
            error,
        }
    }
}

/// Reads the event of which an example is to be sent, if any.
fn parse_event(body: &Body) -> Result<Option<EventName>, CallError> {
    body.read(|fields| Some(fields.optional("event", rule::one_of(EventName::WORDS, EventName::parse))))
}

const BY_DEFAULT: &str = "gateway_default";

async fn of_url(call: &mut AccountCall) -> Outcome {
    let url = parse_probe(&call.object().await?, &call.app.config.target_policy)?;
    call.cluster().take_test(call.customer_id(), &call.context()).await?;
    // Named only if exactly one endpoint has the URL.
    let endpoints = call.directory().read(|state| state.endpoints_of(call.customer_id()));
    let mut same = endpoints.iter().filter(|endpoint| endpoint.url == url);
    let endpoint_id = same.next().filter(|_| same.next().is_none()).map(|endpoint| endpoint.id);
    let cluster = call.cluster();
    let material = Material::by_default(cluster.directory(), cluster.secrets(), call.customer_id(), call.now)
        .map_err(|error| failure::internal("the default secret cannot be derived", &error))?;
    let probe = Probe::test(call.now, None, endpoint_id);
    let outcome = send(call, url, probe, material).await;
    Ok(Reply::ok(&TestResult::new(outcome, BY_DEFAULT, endpoint_id)))
}

async fn of_endpoint(call: &mut AccountCall) -> Outcome {
    let event = parse_event(&call.optional_object().await?)?;
    let endpoint = webhook_endpoints::find(call)?;
    // The rules for URLs may have changed since the endpoint was created.
    judge_url(&endpoint.url, &call.app.config.target_policy)
        .map_err(|blocked| Violation::from(blocked).at(&["url"]))?;
    call.cluster().take_test(call.customer_id(), &call.context()).await?;
    let signed_with = if endpoint.secret.is_some() { "endpoint" } else { BY_DEFAULT };
    let cluster = call.cluster();
    let material = Material::open(cluster.directory(), cluster.secrets(), &endpoint, call.now)
        .map_err(|error| failure::internal("an endpoint's secrets cannot be opened", &error))?;
    let probe = match event {
        Some(name) => Probe::example(name, call.now, endpoint.channel_id),
        None => Probe::test(call.now, endpoint.channel_id, Some(endpoint.id)),
    };
    let outcome = send(call, endpoint.url.clone(), probe, material).await;
    let view = TestResult::new(outcome, signed_with, Some(endpoint.id));
    Ok(Reply::ok(&TestResult { status: json!(view.outcome), ..view }))
}

/// The event that tests a receiver.
struct Probe {
    event: &'static str,
    id: EventId,
    body: Vec<u8>,
}

impl Probe {
    fn test(now: Timestamp, channel: Option<ChannelId>, endpoint: Option<EndpointId>) -> Self {
        let id = EventId::mint(now, rand::random());
        let body = test_envelope(&id, channel.unwrap_or(ChannelId(Uuid::nil())), now, endpoint);
        Self { event: TEST_EVENT, id, body }
    }

    /// An example event as if it happened now. It gets a new id, since receivers would drop a repeated one.
    fn example(name: EventName, now: Timestamp, channel: Option<ChannelId>) -> Self {
        let mut event = Event::example(name);
        event.id = EventId::mint(now, rand::random());
        event.occurred_at = now;
        event.channel = channel.unwrap_or(event.channel);
        Self { event: name.as_str(), body: event.to_test_bytes(), id: event.id }
    }
}

async fn send(call: &AccountCall, url: String, probe: Probe, material: Material) -> AttemptOutcome {
    let request = AttemptRequest {
        account: call.customer_id(),
        url,
        body: Bytes::from(probe.body),
        event: probe.event.to_owned(),
        event_id: probe.id,
        delivery_id: None,
        attempt: 1,
        correlation_id: None,
        secrets: material.secrets,
        headers: material.headers,
        now: call.now,
    };
    call.cluster().probe(request).await
}

//! `GET /v1/webhook-deliveries/{delivery_id}`: the request, and its attempts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use shard::deliveries::view::{AttemptView, DeliveryDetail, DeliveryRecord};

use crate::reply::{Outcome, Reply};
use crate::request_context::AccountCall;

/// Replaces values that must not be shown.
const MASK: &str = "***";

/// A delivery with its request and attempts.
#[derive(Serialize, JsonSchema)]
pub struct WebhookDeliveryDetail {
    #[serde(flatten)]
    record: DeliveryRecord,
    /// The request that is sent to the receiver.
    request: DeliveryRequest,
    /// The attempts, oldest first.
    attempts: Vec<AttemptView>,
}

#[derive(Serialize, JsonSchema)]
struct DeliveryRequest {
    headers: BTreeMap<String, String>,
    /// Body of the request; `null` once it has been removed.
    #[schemars(with = "Option<Value>")]
    body: Option<Box<RawValue>>,
}

pub async fn show(call: &mut AccountCall) -> Outcome {
    let detail = super::find(call).await?;
    let headers = headers(call, &detail);
    let body = detail.body.as_ref().and_then(|body| String::from_utf8(body.to_vec()).ok());
    let request = DeliveryRequest { headers, body: body.and_then(|body| RawValue::from_string(body).ok()) };
    Ok(Reply::ok(&WebhookDeliveryDetail { record: detail.record, request, attempts: detail.attempts }))
}

/// The headers of the last attempt, or of the first to come. Custom headers are the endpoint's current ones.
fn headers(call: &AccountCall, detail: &DeliveryDetail) -> BTreeMap<String, String> {
    let record = &detail.record;
    let t = record.last_attempt_at.unwrap_or(record.created_at).unix_seconds();
    let fixed = [
        ("Content-Type", "application/json".to_owned()),
        ("User-Agent", format!("gateway-webhooks/{}", call.app.config.version)),
        ("X-Gateway-Signature", format!("t={t},v1={MASK}")),
        ("X-Gateway-Event", record.event.as_str().to_owned()),
        ("X-Gateway-Event-Id", record.event_id.to_string()),
        ("X-Gateway-Attempt", record.attempt_count.max(1).to_string()),
        ("X-Gateway-Delivery-Id", record.id.to_string()),
    ];
    let mut headers: BTreeMap<String, String> =
        fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if call.cluster().sends_standard_headers() {
        let standard = [
            ("Webhook-Id", record.event_id.to_string()),
            ("Webhook-Timestamp", t.to_string()),
            ("Webhook-Signature", format!("v1,{MASK}")),
        ];
        headers.extend(standard.map(|(name, value)| (name.to_owned(), value)));
    }
    headers.extend(detail.correlation_id.clone().map(|id| ("X-Gateway-Correlation-Id".to_owned(), id)));
    let endpoint = call.directory().read(|state| state.endpoints.get(&record.endpoint_id).cloned());
    for name in endpoint.iter().flat_map(|endpoint| &endpoint.header_names) {
        headers.insert(name.clone(), MASK.to_owned());
    }
    headers
}

//! `GET /v1/webhook-endpoints/{id}/stats`.

use std::time::Duration;

use model::webhook::DeliveryState;
use schemars::JsonSchema;
use serde::Serialize;

use crate::reply::{Outcome, Reply};
use crate::request_context::AccountCall;
use crate::resources::webhook_endpoints;

/// The default window of the figures.
const DEFAULT_WINDOW: Duration = Duration::from_secs(86_400);

/// Counts of deliveries created in the window, their success rate and latencies.
#[derive(Serialize, JsonSchema)]
pub struct EndpointStats {
    /// Deliveries that reached their endpoint.
    delivered: u64,
    /// Deliveries that failed, and will be attempted again.
    retrying: u64,
    /// Deliveries that have not been attempted yet.
    pending: u64,
    /// Deliveries that are being attempted.
    in_flight: u64,
    /// Deliveries that were given up.
    exhausted: u64,
    /// Deliveries that wait for their endpoint to be enabled.
    paused: u64,
    /// Share of the delivered among the ended deliveries, from 0 to 1; `null` if none has ended.
    success_rate: Option<f64>,
    /// Median latency of successful attempts, in milliseconds; `null` if there was none.
    p50_latency_ms: Option<u64>,
    /// 95th percentile of the latency of successful attempts, in milliseconds; `null` if there was none.
    p95_latency_ms: Option<u64>,
}

pub async fn show(call: &mut AccountCall) -> Outcome {
    let since = call.asked(|query| query.time("since"))?.unwrap_or(call.now.minus(DEFAULT_WINDOW));
    let endpoint = webhook_endpoints::find(call)?;
    let figures = call.cluster().delivery_figures(call.customer_id(), endpoint.id, since, &call.context()).await?;
    Ok(Reply::ok(&EndpointStats {
        delivered: figures.count(DeliveryState::Delivered),
        retrying: figures.count(DeliveryState::Retrying),
        pending: figures.count(DeliveryState::Pending),
        in_flight: figures.count(DeliveryState::InFlight),
        exhausted: figures.count(DeliveryState::Exhausted),
        paused: figures.count(DeliveryState::Paused),
        success_rate: figures.success_rate(),
        p50_latency_ms: figures.latency(0.5),
        p95_latency_ms: figures.latency(0.95),
    }))
}

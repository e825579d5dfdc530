//! `GET /v1/metrics`: figures about the channels of an account.

use std::collections::BTreeMap;
use std::time::Duration;

use model::error::ErrorCode;
use model::id::ChannelId;
use model::status::Status;
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use shard::call::usage::AccountFigures;
use shard::usage::{Hour, Latencies};

use crate::query::Query;
use crate::reply::{Outcome, Reply};
use crate::request_context::AccountCall;
use crate::route::{GET, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::account(GET, "/v1/metrics", show)
            .multi_channel()
            .doc("get_metrics", "Get metrics of the account's channels")
            .about(
                "Counts are for the window, which begins at a full hour: see `since`. `channels`, `queued` and \
                 `retrying` are current. A latency is null while nothing was measured.",
            )
            .query(asked)
            .ok::<Metrics>()
            .errors(&[ErrorCode::ChannelNotFound]),
    ]
}

/// The time span of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    word: &'static str,
    hours: u64,
}

const WINDOWS: [Window; 4] = [
    Window { word: "1h", hours: 1 },
    Window { word: "24h", hours: 24 },
    Window { word: "7d", hours: 7 * 24 },
    Window { word: "30d", hours: 30 * 24 },
];

const DEFAULT_WINDOW: Window = WINDOWS[1];

impl Window {
    fn parse(text: &str) -> Option<Self> {
        WINDOWS.into_iter().find(|window| window.word == text)
    }

    /// The first hour of the window. Usage is counted by hour, so a window begins with a whole hour.
    fn since(self, now: Timestamp) -> Hour {
        Hour::of(now.minus(Duration::from_secs(self.hours * 3600)))
    }
}

#[derive(Serialize, JsonSchema)]
struct Metrics {
    /// Time window of the counts.
    #[schemars(extend("enum" = WINDOWS.map(|window| window.word)))]
    window: &'static str,
    /// Start of the window.
    since: Timestamp,
    /// Present number of channels by status.
    channels: BTreeMap<&'static str, u64>,
    /// Messages in the window.
    messages: MessageMetrics,
    /// Time from a send to its acceptance by the network, in milliseconds.
    send_latency_ms: LatencyView,
    /// Webhook deliveries in the window.
    webhooks: WebhookMetrics,
    media_bytes: u64,
}

#[derive(Serialize, JsonSchema)]
struct MessageMetrics {
    /// Outbound messages.
    outbound: OutboundMetrics,
    /// Messages received.
    inbound: u64,
}

#[derive(Serialize, JsonSchema)]
struct OutboundMetrics {
    /// Sends that the network accepted.
    sent: u64,
    /// Messages queued at present.
    queued: u64,
    /// Sends that failed.
    failed: u64,
}

#[derive(Serialize, JsonSchema)]
struct WebhookMetrics {
    /// Deliveries that reached their endpoint.
    delivered: u64,
    /// Deliveries that wait for a retry at present.
    retrying: u64,
    /// Deliveries that were given up.
    exhausted: u64,
    /// Time from the request to the start of the receiver's answer, in milliseconds.
    latency_ms: LatencyView,
}

/// Quantiles of a latency; `null` if nothing was measured.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Latencies")]
struct LatencyView {
    /// Median, in milliseconds.
    p50: Option<u64>,
    /// 95th percentile, in milliseconds.
    p95: Option<u64>,
    /// 99th percentile, in milliseconds.
    p99: Option<u64>,
}

impl From<&Latencies> for LatencyView {
    fn from(latencies: &Latencies) -> Self {
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|part| latencies.quantile(part));
        Self { p50, p95, p99 }
    }
}

/// Reads the window, and the channel if only one is asked about.
fn asked(query: &Query<'_>) -> (Window, Option<ChannelId>) {
    let window = query.word("window", &WINDOWS.map(|window| window.word), Window::parse).unwrap_or(DEFAULT_WINDOW);
    (window, query.id("channel_id"))
}

async fn show(call: &mut AccountCall) -> Outcome {
    let (window, only) = call.asked(asked)?;
    let (customer, context) = (call.customer_id(), call.context());
    let live: Vec<ChannelId> = match only {
        Some(id) => vec![call.own_channel(id)?.id],
        None => {
            let channels = call.directory().read(|state| state.channels_of(customer, None, usize::MAX));
            channels.iter().map(|channel| channel.id).collect()
        }
    };
    let since = window.since(call.now);
    let figures = call.cluster().account_figures(customer, since, only, &live, &context).await?;
    let mut channels: BTreeMap<&'static str, u64> = Status::ALL.iter().map(|status| (status.as_str(), 0)).collect();
    for live in call.cluster().channel_statuses(&live, &context).await?.values() {
        *channels.entry(live.status.as_str()).or_default() += 1;
    }
    let AccountFigures { used, queued, retrying } = figures;
    let counts = used.counts;
    let outbound = OutboundMetrics { sent: counts.sent, queued, failed: counts.failed };
    Ok(Reply::ok(&Metrics {
        window: window.word,
        since: since.start(),
        channels,
        messages: MessageMetrics { outbound, inbound: counts.received },
        send_latency_ms: LatencyView::from(&used.sends),
        webhooks: WebhookMetrics {
            delivered: counts.delivered,
            retrying,
            exhausted: counts.exhausted,
            latency_ms: LatencyView::from(&used.webhooks),
        },
        media_bytes: counts.media_bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_with_a_whole_hour() {
        let half_past_noon = Timestamp(1_767_270_600_000);
        let since = |word| Window::parse(word).map(|window| window.since(half_past_noon).start().to_iso());
        assert_eq!(since("1h").as_deref(), Some("2026-01-01T11:00:00.000Z"));
        assert_eq!(since("30d").as_deref(), Some("2025-12-02T12:00:00.000Z"));
        assert_eq!(since("2h"), None);
    }
}

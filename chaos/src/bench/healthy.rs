//! How soon a healthy endpoint receives inbound messages while others fail.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::json;
use tests::cluster::Dev;
use tests::http::{Api, client};
use tests::receiver::Receiver;
use tokio_util::sync::CancellationToken;

use crate::bench::target::{Channel, FIRST_RECIPIENT};

/// Pause between two messages to the channel: they are a probe, not a load.
const EVERY: Duration = Duration::from_millis(50);

/// Timeout for the last webhook.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time from a phone's message to the webhook.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    pub events: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// A channel whose messages go to a receiver that answers at once.
pub struct Healthy {
    receiver: Receiver,
    simulator: Api,
    number: String,
}

impl Healthy {
    /// Creates the endpoint of a channel.
    ///
    /// # Errors
    /// When a request is refused.
    pub async fn prepare(dev: &Dev, api: &Api, channel: &Channel) -> anyhow::Result<Self> {
        let receiver = Receiver::start().await;
        let body = json!({
            "url": receiver.url("/well"), "events": ["message.received"], "channel_id": channel.id,
        });
        let made = api.post("/v1/webhook-endpoints", body).await;
        ensure!(made.status == 201, "an endpoint was answered {}: {}", made.status, made.text());
        let simulator = Api::new(client(), &dev.simulator, None);
        Ok(Self { receiver, simulator, number: channel.number.clone() })
    }

    /// Lets a phone write until `stop`, and waits until all its messages were delivered.
    ///
    /// # Errors
    /// When a message is refused, or not delivered in time.
    pub async fn measure(&self, stop: CancellationToken) -> anyhow::Result<Latency> {
        self.receiver.clear();
        let mut written = HashMap::new();
        let mut ticks = tokio::time::interval(EVERY);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let text = format!("message {}", written.len());
            written.insert(text.clone(), SystemTime::now());
            let body = json!({ "to": self.number, "type": "text", "text": text });
            let answer = self.simulator.post(&format!("/phones/{FIRST_RECIPIENT}/messages"), body).await;
            ensure!(answer.status == 201, "a phone was answered {}: {}", answer.status, answer.text());
        }
        let end = tokio::time::Instant::now() + PATIENCE;
        while self.receiver.received().len() < written.len() {
            ensure!(tokio::time::Instant::now() < end, "not every message was heard of after {PATIENCE:?}");
            tokio::time::sleep(EVERY).await;
        }
        let mut latencies = Histogram::<u64>::new(3)?;
        for request in self.receiver.received() {
            let text =
                request.json()["data"]["body"]["text"].as_str().map(str::to_owned).context("a message has a text")?;
            // Only the first delivery of a message counts.
            if let Some(at) = written.remove(&text) {
                latencies.record(request.at.duration_since(at).unwrap_or_default().as_micros() as u64)?;
            }
        }
        let ms = |part| latencies.value_at_quantile(part) as f64 / 1_000.0;
        Ok(Latency { events: latencies.len(), p50_ms: ms(0.5), p99_ms: ms(0.99) })
    }
}

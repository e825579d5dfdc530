//! Brings spans to an OpenTelemetry collector, as OTLP over HTTP in JSON.

use std::time::{Duration, Instant};

use anyhow::Context;
use model::id::NodeId;
use reqwest::Client;
use serde_json::{Value as Json, json};
use shard::trace::{self, Span};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

/// Spans of one request, at most.
const BATCH: usize = 512;

/// How long spans gather.
const EVERY: Duration = Duration::from_secs(1);

/// How long the collector may take. What it does not take is dropped: traces are to hold nobody up.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a collector that does not answer is complained of.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// The way to a collector.
pub struct Exporter {
    client: Client,
    url: String,
    node: NodeId,
}

impl Exporter {
    /// `endpoint` without `/v1/traces`, as collectors document it.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(endpoint: &str, node: NodeId) -> anyhow::Result<Self> {
        let client = Client::builder().timeout(PATIENCE).build().context("making an HTTP client")?;
        Ok(Self { client, url: format!("{}/v1/traces", endpoint.trim_end_matches('/')), node })
    }

    /// Exports until the stop, and then what is left.
    pub async fn run(self, mut spans: Receiver<Span>, stop: CancellationToken) {
        let mut complained: Option<Instant> = None;
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            let stopped = stop.run_until_cancelled(ticks.tick()).await.is_none();
            while !spans.is_empty() {
                let mut batch = Vec::new();
                spans.recv_many(&mut batch, BATCH).await;
                let Err(error) = self.send(&batch).await else { continue };
                trace::dropped(batch.len() as u64);
                if complained.is_none_or(|at| at.elapsed() > COMPLAIN_EVERY) {
                    complained = Some(Instant::now());
                    tracing::warn!(%error, collector = self.url, "spans cannot be exported");
                }
            }
            if stopped {
                return;
            }
        }
    }

    async fn send(&self, batch: &[Span]) -> Result<(), reqwest::Error> {
        let answer = self.client.post(&self.url).json(&self.message(batch)).send().await?;
        answer.error_for_status().map(drop)
    }

    fn message(&self, batch: &[Span]) -> Json {
        let resource = [
            attribute("service.name", &"gateway".into()),
            attribute("service.version", &env!("CARGO_PKG_VERSION").into()),
            attribute("service.instance.id", &format!("node-{}", self.node).into()),
        ];
        json!({ "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": { "name": "gateway" }, "spans": batch.iter().map(shown).collect::<Vec<_>>() }],
        }] })
    }
}

fn shown(span: &Span) -> Json {
    let attributes: Vec<Json> = span.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let links: Vec<Json> = span
        .link
        .iter()
        .map(|(trace, span)| json!({ "traceId": hex::encode(trace), "spanId": hex::encode(span) }))
        .collect();
    // 2 is an error, 0 says nothing.
    let status = span.failure.as_ref().map_or_else(|| json!({}), |why| json!({ "code": 2, "message": why }));
    json!({
        "traceId": hex::encode(span.trace),
        "spanId": hex::encode(span.id),
        "parentSpanId": span.parent.map(hex::encode).unwrap_or_default(),
        "name": span.name,
        "kind": span.kind as u8,
        // 64-bit numbers are texts in OTLP's JSON.
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes,
        "links": links,
        "status": status,
    })
}

fn attribute(key: &str, value: &Json) -> Json {
    match value {
        Json::Number(number) => json!({ "key": key, "value": { "intValue": number.to_string() } }),
        text => json!({ "key": key, "value": { "stringValue": text } }),
    }
}

//! Exports spans to an OpenTelemetry collector, as OTLP over HTTP in JSON.

use std::time::{Duration, Instant};

use anyhow::Context;
use model::id::NodeId;
use reqwest::Client;
use serde_json::{Value as Json, json};
use shard::trace::{self, Span};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

/// Maximum number of spans in one export request.
const BATCH: usize = 512;

/// How often collected spans are sent.
const EVERY: Duration = Duration::from_secs(1);

/// Timeout of a request to the collector. Spans that the collector does not accept are dropped: tracing must not delay
/// anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often at most a failing collector is logged.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Client of a collector.
pub struct Exporter {
    client: Client,
    url: String,
    node: NodeId,
}

impl Exporter {
    /// `endpoint` is the base URL without `/v1/traces`, as collectors document it.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn new(endpoint: &str, node: NodeId) -> anyhow::Result<Self> {
        let client = Client::builder().timeout(PATIENCE).build().context("making an HTTP client")?;
        Ok(Self { client, url: format!("{}/v1/traces", endpoint.trim_end_matches('/')), node })
    }

    /// Exports until `stop` is cancelled, then sends the remaining spans.
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
    // Status codes of OTLP: 2 is an error, 0 is unset.
    let status = span.failure.as_ref().map_or_else(|| json!({}), |why| json!({ "code": 2, "message": why }));
    json!({
        "traceId": hex::encode(span.trace),
        "spanId": hex::encode(span.id),
        "parentSpanId": span.parent.map(hex::encode).unwrap_or_default(),
        "name": span.name,
        "kind": span.kind as u8,
        // OTLP's JSON encodes 64-bit integers as strings.
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

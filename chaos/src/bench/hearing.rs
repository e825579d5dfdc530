//! B4: how soon a webhook receiver gets an event, at 500 events per second, with all receivers healthy and with a tenth
//! of them hanging.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::json;
use tests::http::Api;
use tests::receiver::{Receiver, Reply};
use tokio::time::Instant;

use crate::bench::caller::{Accepted, Caller};
use crate::bench::open::Load;
use crate::bench::plan::{Plan, Sides};
use crate::bench::results::{Row, Section, Spread, Target};
use crate::bench::target::{Channel, FIRST_RECIPIENT, want};
use crate::connection::Connection;

const NUMBER: &str = "B4";

const PER_SECOND: f64 = 500.0;
const WANTED_MS: f64 = 50.0;
const WANTED_RATIO: f64 = 1.2;

/// Endpoints of one channel each; an account may have fifty.
const ENDPOINTS: usize = 40;
const HANGING: usize = ENDPOINTS / 10;

/// Phones that write in turn, since messages of one conversation are delivered one after the other.
const WRITERS: u64 = 97;

const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(1);

/// Timeout for the last event.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(250);

/// Timeout for the next probe of an endpoint with an open circuit breaker, which comes every thirty seconds.
const PROBED: Duration = Duration::from_secs(90);

/// Times from when a phone should have written to the receiver.
#[derive(Clone, Copy, Debug, Serialize)]
struct Heard {
    events: u64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

/// Measures B4.
///
/// # Errors
/// When an event is not delivered in time.
pub async fn measure(sides: &Sides, plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let receiver = Receiver::start().await;
    let api = sides.target.api();
    let channels = sides.channels.get(..ENDPOINTS).context("there are forty channels")?;
    let endpoints = endpoints(&api, channels, &receiver).await?;
    let mut pairs = Vec::new();
    for _ in 0..plan.pairs {
        let well = heard(sides, channels, &receiver, 0, plan.length).await?;
        let beside = heard(sides, channels, &receiver, HANGING, plan.length).await?;
        tell(&format!(
            "all well: p50 {:.1} ms, p99 {:.1} ms; {HANGING} of {ENDPOINTS} hang: p50 {:.1} ms, p99 {:.1} ms at the others",
            well.p50_ms, well.p99_ms, beside.p50_ms, beside.p99_ms
        ));
        pairs.push((well, beside));
        receiver.answer(|_| Reply::Status(204));
        for endpoint in &endpoints[..HANGING] {
            give_up(&api, endpoint).await?;
        }
        recover(sides, &channels[..HANGING], &receiver).await?;
    }
    for endpoint in &endpoints {
        want(api.delete(&format!("/v1/webhook-endpoints/{endpoint}")).await, 204)?;
    }
    let well = Spread::of(pairs.iter().map(|(well, _)| well.p99_ms));
    let ratio = Spread::of(pairs.iter().map(|(well, beside)| beside.p99_ms / well.p99_ms));
    let made_of = format!("p50 {:.1} ms", Spread::of(pairs.iter().map(|(well, _)| well.p50_ms)).median);
    let beside = Spread::of(pairs.iter().map(|(_, beside)| beside.p99_ms)).median;
    let rows = vec![
        Row::new(NUMBER, "event to webhook, p99 at 500 events/s", well, "ms", Target::AtMost(WANTED_MS)).note(made_of),
        Row::new(
            NUMBER,
            "the same with a tenth of the endpoints hanging ÷ without",
            ratio,
            "",
            Target::AtMost(WANTED_RATIO),
        )
        .note(format!("p99 {beside:.1} ms at those that are well")),
    ];
    let pairs: Vec<_> = pairs.iter().map(|(well, beside)| json!({ "well": well, "beside_hanging": beside })).collect();
    Ok(Section { rows, details: json!({ NUMBER: pairs }) })
}

async fn endpoints(api: &Api, channels: &[Channel], receiver: &Receiver) -> anyhow::Result<Vec<String>> {
    let mut ids = Vec::new();
    for (n, channel) in channels.iter().enumerate() {
        let url = receiver.url(&format!("/{n}"));
        let body = json!({ "url": url, "events": ["message.received"], "channel_id": channel.id });
        let made = want(api.post("/v1/webhook-endpoints", body).await, 201)?;
        ids.push(made["id"].as_str().context("an endpoint has an id")?.to_owned());
    }
    Ok(ids)
}

/// Phones write to all channels in turn; the first `hanging` receivers never answer.
async fn heard(
    sides: &Sides,
    channels: &[Channel],
    receiver: &Receiver,
    hanging: usize,
    length: Duration,
) -> anyhow::Result<Heard> {
    let hang: Vec<String> = (0..hanging).map(|n| format!("/{n}")).collect();
    receiver.answer(move |request| if hang.contains(&request.path) { Reply::Hang } else { Reply::Status(204) });
    receiver.clear();
    let numbers = numbers(channels);
    let writers = (0..CONNECTIONS).map(|_| Phones::new(&sides.target.dev.simulator, &numbers));
    let load = Load::start(writers.collect::<anyhow::Result<_>>()?, PER_SECOND, WARM_UP);
    tokio::time::sleep(WARM_UP + length).await;
    let written = load.end().await?;
    ensure!(written.summary.failed == 0, "phones could not write: {:?}", written.summary.first_failure);

    // The same endpoints are counted whether the others hang or not.
    let is_well = |n: u64| n as usize % channels.len() >= HANGING;
    let counted = (0..written.calls).filter(|n| is_well(*n) && written.time_of(*n) >= written.counted_from);
    let mut waited_for: HashMap<String, u64> = counted.map(|n| (text(n), n)).collect();
    let mut latencies = Histogram::<u64>::new(3)?;
    let end = Instant::now() + PATIENCE;
    loop {
        for request in receiver.take() {
            let body = request.json();
            // Only the first delivery of an event counts.
            let Some(n) = body["data"]["body"]["text"].as_str().and_then(|text| waited_for.remove(text)) else {
                continue;
            };
            let took = request.at.duration_since(written.time_of(n)).unwrap_or_default();
            latencies.record(u64::try_from(took.as_micros())?)?;
        }
        if waited_for.is_empty() {
            break;
        }
        ensure!(Instant::now() < end, "{} events were not heard of after {PATIENCE:?}", waited_for.len());
        tokio::time::sleep(LOOK).await;
    }
    let ms = |micros: u64| micros as f64 / 1_000.0;
    Ok(Heard {
        events: latencies.len(),
        p50_ms: ms(latencies.value_at_quantile(0.5)),
        p99_ms: ms(latencies.value_at_quantile(0.99)),
        max_ms: ms(latencies.max()),
    })
}

/// Purges what an endpoint left unanswered, so that the next measurement begins without it.
async fn give_up(api: &Api, endpoint: &str) -> anyhow::Result<()> {
    let path = format!("/v1/webhook-deliveries?endpoint_id={endpoint}&state=pending,retrying,paused");
    want(api.delete(&path).await, 202)?;
    let end = Instant::now() + PATIENCE;
    loop {
        let stats = want(api.get(&format!("/v1/webhook-endpoints/{endpoint}/stats")).await, 200)?;
        if ["pending", "retrying", "in_flight"].iter().all(|state| stats[state] == 0) {
            return Ok(());
        }
        ensure!(Instant::now() < end, "an endpoint still has deliveries after {PATIENCE:?}: {stats}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Writes to channels whose receivers hung, and waits until each receives it: their circuit breakers are closed then.
async fn recover(sides: &Sides, channels: &[Channel], receiver: &Receiver) -> anyhow::Result<()> {
    receiver.clear();
    let mut phones = Phones::new(&sides.target.dev.simulator, &numbers(channels))?;
    for n in 0..channels.len() as u64 {
        phones.call(n).await?;
    }
    let mut silent: BTreeSet<String> = (0..channels.len()).map(|n| format!("/{n}")).collect();
    let end = Instant::now() + PROBED;
    loop {
        for request in receiver.take() {
            silent.remove(&request.path);
        }
        if silent.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{silent:?} heard of nothing {PROBED:?} after they hung");
        tokio::time::sleep(LOOK).await;
    }
}

fn numbers(channels: &[Channel]) -> Arc<Vec<String>> {
    Arc::new(channels.iter().map(|channel| channel.number.clone()).collect())
}

fn text(n: u64) -> String {
    format!("event {n}")
}

/// Phones that write to the channels.
struct Phones {
    simulator: Connection,
    numbers: Arc<Vec<String>>,
}

impl Phones {
    fn new(simulator: &str, numbers: &Arc<Vec<String>>) -> anyhow::Result<Self> {
        Ok(Self { simulator: Connection::without_key(simulator)?, numbers: numbers.clone() })
    }
}

impl Caller for Phones {
    async fn call(&mut self, n: u64) -> anyhow::Result<Accepted> {
        let to = &self.numbers[n as usize % self.numbers.len()];
        let body = json!({ "to": to, "type": "text", "text": text(n) }).to_string();
        let path = format!("/phones/{}/messages", FIRST_RECIPIENT + n % WRITERS);
        let response = self.simulator.post(&path, Bytes::from(body)).await?;
        ensure!(response.status == 201, "{} {}", response.status, String::from_utf8_lossy(&response.body));
        Ok(Accepted::default())
    }
}

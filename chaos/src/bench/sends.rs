//! Durable sends a second: so many senders, each with one request under way at a time, over many channels and all nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::Value;

use crate::bench::target::{Channel, Target};
use crate::bench::usage::Usage;
use crate::connection::Connection;

/// Runs before the clock starts: connections, caches, logs that grow for the first time.
const WARM_UP: Duration = Duration::from_secs(2);

/// Latencies are kept to three digits.
const DIGITS: u8 = 3;

/// What one level of concurrency came to.
#[derive(Clone, Debug, Serialize)]
pub struct Level {
    pub senders: usize,
    pub channels: usize,
    pub seconds: f64,
    pub accepted: u64,
    /// Accepted with `queued` rather than `sent`.
    pub queued: u64,
    /// Answered otherwise than 202, or not at all.
    pub failed: u64,
    /// The first answer that was no 202.
    pub first_failure: Option<String>,
    pub accepted_per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// Of all nodes together.
    pub fsyncs_per_send: Option<f64>,
    pub cpu_ms_per_send: Cpu,
    /// The part of the machine's processor time that others took meanwhile.
    pub cpu_elsewhere: f64,
}

/// Processor time for one accepted send.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cpu {
    pub nodes: f64,
    pub simulator: f64,
    pub client: f64,
}

/// One sender's count.
struct Tally {
    latency: Histogram<u64>,
    queued: u64,
    failed: u64,
    first_failure: Option<String>,
}

/// Measures one level for `length`, after a warm-up.
///
/// # Errors
/// When no send was accepted, or a process has gone.
pub async fn measure(
    target: &Target,
    channels: &Arc<Vec<Channel>>,
    senders: usize,
    length: Duration,
) -> anyhow::Result<Level> {
    let start = Instant::now() + WARM_UP;
    let end = start + length;
    let mut tasks = Vec::new();
    for sender in 0..senders {
        let node = &target.dev.nodes[sender % target.dev.nodes.len()];
        let connection = Connection::new(&node.api, &target.dev.api_key)?;
        tasks.push(tokio::spawn(send_until(connection, channels.clone(), sender, senders, start, end)));
    }
    tokio::time::sleep_until(start.into()).await;
    let before = Usage::now(&target.dev).await?;
    tokio::time::sleep_until(end.into()).await;
    let used = Usage::now(&target.dev).await?.since(before);

    let mut latency = Histogram::<u64>::new(DIGITS)?;
    let (mut queued, mut failed, mut first_failure) = (0, 0, None);
    for task in tasks {
        let tally = task.await.context("a sender panicked")??;
        latency.add(&tally.latency)?;
        queued += tally.queued;
        failed += tally.failed;
        first_failure = first_failure.or(tally.first_failure);
    }
    let accepted = latency.len();
    ensure!(accepted > 0, "no send was accepted: {}", first_failure.unwrap_or_default());
    let per_send = |cost: Duration| cost.as_secs_f64() * 1_000.0 / accepted as f64;
    let ms = |micros: u64| micros as f64 / 1_000.0;
    Ok(Level {
        senders,
        channels: channels.len(),
        seconds: length.as_secs_f64(),
        accepted,
        queued,
        failed,
        first_failure,
        accepted_per_second: accepted as f64 / length.as_secs_f64(),
        p50_ms: ms(latency.value_at_quantile(0.5)),
        p99_ms: ms(latency.value_at_quantile(0.99)),
        max_ms: ms(latency.max()),
        fsyncs_per_send: used.fsyncs.map(|fsyncs| fsyncs as f64 / accepted as f64),
        cpu_ms_per_send: Cpu {
            nodes: per_send(used.nodes),
            simulator: per_send(used.simulator),
            client: per_send(used.client),
        },
        cpu_elsewhere: used.elsewhere(),
    })
}

/// One sender: goes round its share of the channels, so that no two senders meet on one.
async fn send_until(
    mut connection: Connection,
    channels: Arc<Vec<Channel>>,
    sender: usize,
    senders: usize,
    start: Instant,
    end: Instant,
) -> anyhow::Result<Tally> {
    let mut tally = Tally { latency: Histogram::new(DIGITS)?, queued: 0, failed: 0, first_failure: None };
    let share: Vec<_> = channels.iter().skip(sender % channels.len()).step_by(senders).map(request).collect();
    for (path, body) in share.iter().cycle() {
        let began = Instant::now();
        if began >= end {
            break;
        }
        let outcome = connection.post(path, body.clone()).await;
        let answered = Instant::now();
        if began < start || answered > end {
            continue;
        }
        match outcome {
            Ok(response) if response.status == 202 => {
                tally.latency.record((answered - began).as_micros() as u64)?;
                let answer: Value = serde_json::from_slice(&response.body)?;
                tally.queued += u64::from(answer["status"] == "queued");
            }
            other => {
                tally.failed += 1;
                tally.first_failure.get_or_insert_with(|| match other {
                    Ok(response) => format!("{} {}", response.status, String::from_utf8_lossy(&response.body)),
                    Err(error) => format!("{error:#}"),
                });
                // A refusal comes at once; asking again at once would measure nothing but refusals.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
    Ok(tally)
}

/// Path and body of a channel's sends, made once.
pub fn request(channel: &Channel) -> (String, Bytes) {
    let body =
        format!(r#"{{"type":"text","to":"{}","text":"{}"}}"#, channel.recipient, "a text of fair length. ".repeat(5));
    (format!("/v1/channels/{}/messages", channel.id), Bytes::from(body))
}

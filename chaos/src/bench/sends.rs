//! The rate of durable sends in a closed loop over many channels and all nodes, and their cost.

use std::time::Duration;

use serde::Serialize;

use crate::bench::caller::Sends;
use crate::bench::closed::Loop;
use crate::bench::tally::Summary;
use crate::bench::target::{Channel, Target};
use crate::bench::usage::Usage;

/// The results of one level of concurrency.
#[derive(Clone, Debug, Serialize)]
pub struct Level {
    pub senders: usize,
    pub channels: usize,
    #[serde(flatten)]
    pub sends: Summary,
    /// Of all nodes together.
    pub fsyncs_per_send: Option<f64>,
    /// Of log entries at one node: those that a send commits, its acceptance and its outcome.
    pub log_bytes_per_send: Option<f64>,
    pub cpu_ms_per_send: Cpu,
    /// The part of the machine's processor time that other programs used meanwhile.
    pub cpu_elsewhere: f64,
}

/// Processor time per accepted send, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cpu {
    pub nodes: f64,
    pub simulator: f64,
    pub client: f64,
}

/// Measures one level for `length`, after a warm-up.
///
/// # Errors
/// When no send was accepted, or a process is gone.
pub async fn measure(target: &Target, channels: &[Channel], senders: usize, length: Duration) -> anyhow::Result<Level> {
    let running = Loop::start(Sends::to(target, senders, channels), length);
    tokio::time::sleep_until(running.start.into()).await;
    let before = Usage::now(&target.dev).await?;
    tokio::time::sleep_until(running.end.into()).await;
    let used = Usage::now(&target.dev).await?.since(before);
    let sends = running.summary().await?;
    let of_one = |count: u64| count as f64 / sends.accepted as f64;
    let per_send = |cost: Duration| cost.as_secs_f64() * 1_000.0 / sends.accepted as f64;
    Ok(Level {
        senders,
        channels: channels.len(),
        fsyncs_per_send: used.fsyncs.map(of_one),
        log_bytes_per_send: used.log_bytes.map(|bytes| of_one(bytes) / target.dev.nodes.len() as f64),
        cpu_ms_per_send: Cpu {
            nodes: per_send(used.nodes),
            simulator: per_send(used.simulator),
            client: per_send(used.client),
        },
        cpu_elsewhere: used.elsewhere(),
        sends,
    })
}

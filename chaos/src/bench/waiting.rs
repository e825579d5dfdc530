//! What pending deliveries cost the sends and the webhooks of others: before there are any, while many are due at
//! receivers that are down, while these accept them again, and after the rest was purged.
//!
//! Each measurement comes right after one at a twin, a second cluster with the same sends and no deliveries: if the
//! machine becomes slower, or a store grows with the sends, both sides are affected.

use std::time::{Duration, Instant};

use ::tests::http::Api;
use ::tests::receiver::Receiver;
use anyhow::{Context, bail, ensure};
use serde::Serialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::healthy::{Healthy, Latency};
use crate::bench::sends::{self, Level};
use crate::bench::target::{Channel, FIRST_RECIPIENT, Target};
use crate::bench::usage;

/// Channels whose events go to receivers that are down, and the endpoints of each: with the healthy one fifty in all,
/// which is the limit of an account.
const VICTIMS: usize = 7;
const ENDPOINTS: usize = 7;

/// The most messages that the simulator is asked to write in one call.
const WRITTEN_AT_ONCE: usize = 1_000;

/// The number of requests that shows that the receivers are called again, or a tenth of the deliveries if they are few:
/// the others may wait for hours until their next attempt.
const BACK: usize = 1_000;

/// Timeout until all deliveries exist, until the receivers are called again, and until the rest is purged.
const PATIENCE: Duration = Duration::from_secs(600);

/// Pause between two checks of an awaited condition.
const LOOK: Duration = Duration::from_secs(1);

/// One state of the store, and the sends during it.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    pub name: &'static str,
    pub deliveries_due: u64,
    /// Resident memory of each node.
    pub node_mib: Vec<u64>,
    /// Attempts that the nodes made during the phase.
    pub attempts: u64,
    /// Latency of a healthy endpoint meanwhile.
    pub webhook: Latency,
    pub pairs: Vec<Pair>,
}

/// A measurement and its twin.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// At the cluster that never has pending deliveries.
    pub without: Level,
    pub with: Level,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub jobs: usize,
    pub channels: usize,
    pub senders: usize,
    pub rounds: usize,
    pub length: Duration,
}

/// Measures the four phases at `target`, and `twin` beside it; calls `tell` with each level and step.
///
/// # Errors
/// When a request is refused, or the deliveries do not come in time.
pub async fn measure(target: &Target, twin: &Target, plan: Plan, tell: impl Fn(&str)) -> anyhow::Result<Vec<Phase>> {
    let count = plan.channels + VICTIMS + 1;
    tell(&format!("pairing {count} channels, twice"));
    let mut channels = target.channels(count, false).await?;
    let mut twins = twin.channels(count, false).await?;
    twins.truncate(plan.channels);
    let mut victims = channels.split_off(plan.channels);
    let api = target.api();
    let well = victims.pop().context("one channel more was paired")?;
    let bench =
        Bench { target, twin, plan, channels, twins, healthy: Healthy::prepare(&target.dev, &api, &well).await? };

    let mut phases = vec![bench.phase("before", 0, &tell).await?];
    let port = free_port()?;
    let endpoints = endpoints(&api, &victims, port).await?;
    tell(&format!("making {} deliveries", plan.jobs));
    write(target, &victims, plan.jobs.div_ceil(ENDPOINTS)).await?;
    let due = filled(&api, &endpoints, plan.jobs as u64).await?;
    phases.push(bench.phase("waiting", due, &tell).await?);
    let receiver = Receiver::start_at(port).await;
    tell("the receivers are back");
    called_again(&receiver, back(plan.jobs)).await?;
    phases.push(bench.phase("coming back", due_at(&api, &endpoints).await?, &tell).await?);
    for endpoint in &endpoints {
        let path = format!("/v1/webhook-deliveries?endpoint_id={endpoint}&state=pending,retrying,paused");
        let answer = api.delete(&path).await;
        ensure!(answer.status == 202, "purging was answered {}: {}", answer.status, answer.text());
    }
    given_up(&api, &endpoints).await?;
    phases.push(bench.phase("after", 0, &tell).await?);
    Ok(phases)
}

/// What is the same in all phases.
struct Bench<'a> {
    target: &'a Target,
    twin: &'a Target,
    plan: Plan,
    channels: Vec<Channel>,
    twins: Vec<Channel>,
    healthy: Healthy,
}

impl Bench<'_> {
    async fn phase(&self, name: &'static str, deliveries_due: u64, tell: &impl Fn(&str)) -> anyhow::Result<Phase> {
        tell(&format!("{name}: {deliveries_due} deliveries due"));
        let dev = &self.target.dev;
        let before = usage::attempts(dev).await.unwrap_or_default();
        let stop = CancellationToken::new();
        let (pairs, webhook) = tokio::join!(
            async {
                let pairs = self.pairs(tell).await;
                stop.cancel();
                pairs
            },
            self.healthy.measure(stop.clone())
        );
        let attempts = usage::attempts(dev).await.unwrap_or_default().saturating_sub(before);
        let node_mib = dev.nodes.iter().map(|node| Ok(usage::resident_kib(node.pid)? / 1_024));
        let node_mib = node_mib.collect::<anyhow::Result<_>>()?;
        Ok(Phase { name, deliveries_due, node_mib, attempts, webhook: webhook?, pairs: pairs? })
    }

    async fn pairs(&self, tell: &impl Fn(&str)) -> anyhow::Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        for _ in 0..self.plan.rounds {
            let without = self.level(self.twin, &self.twins, tell).await?;
            let with = self.level(self.target, &self.channels, tell).await?;
            pairs.push(Pair { without, with });
        }
        Ok(pairs)
    }

    async fn level(&self, at: &Target, channels: &[Channel], tell: &impl Fn(&str)) -> anyhow::Result<Level> {
        let level = sends::measure(at, channels, self.plan.senders, self.plan.length).await?;
        tell(&crate::bench::report::level(&level));
        Ok(level)
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Creates endpoints at a port without a listener.
async fn endpoints(api: &Api, victims: &[Channel], port: u16) -> anyhow::Result<Vec<String>> {
    let mut ids = Vec::new();
    for victim in victims {
        for n in 0..ENDPOINTS {
            let body = json!({
                "url": format!("http://127.0.0.1:{port}/{n}"), "events": ["message.received"], "channel_id": victim.id,
            });
            let made = api.post("/v1/webhook-endpoints", body).await;
            ensure!(made.status == 201, "an endpoint was answered {}: {}", made.status, made.text());
            ids.push(made.json()["id"].as_str().context("an endpoint has an id")?.to_owned());
        }
    }
    Ok(ids)
}

/// Lets phones write this many messages to the victims, in turn.
async fn write(target: &Target, victims: &[Channel], messages: usize) -> anyhow::Result<()> {
    let simulator = target.simulator();
    let mut left = messages;
    for victim in victims.iter().cycle() {
        let count = left.min(WRITTEN_AT_ONCE);
        if count == 0 {
            return Ok(());
        }
        left -= count;
        let body = json!({ "to": victim.number, "type": "text", "text": "is anybody there?", "count": count });
        let from = FIRST_RECIPIENT;
        let answer = simulator.post(&format!("/phones/{from}/messages"), body).await;
        ensure!(answer.status == 201, "a phone was answered {}: {}", answer.status, answer.text());
    }
    bail!("there is no channel to write to")
}

async fn filled(api: &Api, endpoints: &[String], jobs: u64) -> anyhow::Result<u64> {
    let end = Instant::now() + PATIENCE;
    loop {
        let due = due_at(api, endpoints).await?;
        if due >= jobs {
            return Ok(due);
        }
        ensure!(Instant::now() < end, "{due} of {jobs} deliveries are there after {PATIENCE:?}");
        tokio::time::sleep(LOOK).await;
    }
}

/// The number of requests to wait for when this many deliveries were due.
fn back(jobs: usize) -> usize {
    jobs.div_ceil(10).min(BACK)
}

async fn called_again(receiver: &Receiver, requests: usize) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let came = receiver.received().len();
        if came >= requests {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{came} of {requests} requests have come {PATIENCE:?} after the receivers");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn given_up(api: &Api, endpoints: &[String]) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let due = due_at(api, endpoints).await?;
        if due == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{due} deliveries are still due {PATIENCE:?} after they were given up");
        tokio::time::sleep(LOOK).await;
    }
}

async fn due_at(api: &Api, endpoints: &[String]) -> anyhow::Result<u64> {
    let mut due = 0;
    for endpoint in endpoints {
        let answer = api.get(&format!("/v1/webhook-endpoints/{endpoint}/stats")).await;
        ensure!(answer.status == 200, "stats were answered {}: {}", answer.status, answer.text());
        let stats = answer.json();
        due += ["pending", "retrying", "in_flight"].iter().filter_map(|state| stats[state].as_u64()).sum::<u64>();
    }
    Ok(due)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_requests_are_waited_for_than_there_are_deliveries() {
        for (jobs, requests) in [(1, 1), (7, 1), (500, 50), (10_000, 1_000), (200_000, 1_000)] {
            assert_eq!(back(jobs), requests, "{jobs} deliveries");
        }
    }
}

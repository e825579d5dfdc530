//! B6: a rolling restart of three nodes while sends go on: how many sends fail, and how long the slowest takes.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;
use tests::cluster::Options;
use tests::http::client;
use tests::load::Report;

use crate::bench::caller::{Balancer, Sends};
use crate::bench::open::Load;
use crate::bench::plan::Plan;
use crate::bench::results::{Row, Section, Spread, Target as Goal};
use crate::bench::target::Target;

const NUMBER: &str = "B6";

const PER_SECOND: f64 = 500.0;
const STALL_MS: f64 = 500.0;

const CHANNELS: usize = 100;
const CONNECTIONS: usize = 256;
const WARM_UP: Duration = Duration::from_secs(2);

/// Measures B6.
///
/// # Errors
/// When a node does not come back, or an accepted send does not arrive exactly once.
pub async fn measure(plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let target = Target::start_with(Options::default().arg("--set=drain.initial_wait=500ms")).await;
    let cluster = target.cluster.clone().context("it was started just now")?;
    tell(&format!("pairing {CHANNELS} channels"));
    let channels = target.channels(CHANNELS, false).await?;
    let urls = |without: Option<u64>| {
        let nodes = cluster.dev().nodes.into_iter().filter(|node| Some(node.id) != without);
        nodes.map(|node| node.api).collect::<Vec<_>>()
    };
    let mut rounds = Vec::new();
    // Each round has three restarts.
    for _ in 0..if plan.quick { 1 } else { plan.pairs } {
        let balancer = Balancer::over(urls(None));
        let callers = Sends::workers(CONNECTIONS, &balancer, &target.dev.api_key, &channels);
        let load = Load::start(callers, PER_SECOND, WARM_UP);
        tokio::time::sleep(WARM_UP + plan.length).await;
        for node in cluster.node_ids() {
            // As a load balancer reacts when the node reports that it is not ready.
            balancer.set(urls(Some(node)));
            let stopped = cluster.command(&["dev", "stop", &node.to_string()]).await;
            ensure!(stopped.status.success(), "node {node} did not stop: {}", stopped.stderr);
            cluster.restart(&[node]).await;
            balancer.set(urls(None));
        }
        let outcome = load.end().await?;
        let summary = &outcome.summary;
        tell(&format!(
            "{:.0} sends/s for {:.0} s: {} failed, p50 {:.1} ms, p99 {:.1} ms, longest {:.0} ms; {} queued",
            summary.accepted_per_second,
            summary.seconds,
            summary.failed,
            summary.p50_ms,
            summary.p99_ms,
            summary.max_ms,
            summary.queued
        ));
        if let Some(failure) = &summary.first_failure {
            tell(&format!("first failure: {failure}"));
        }
        let simulator = cluster.simulator(&client());
        Report { taken: outcome.taken, ..Report::default() }.prove(&simulator).await;
        rounds.push(outcome.summary);
        target.settled(CHANNELS as u64).await?;
    }
    let failed = Spread::of(rounds.iter().map(|round| round.failed as f64));
    let longest = Spread::of(rounds.iter().map(|round| round.max_ms));
    let sends: u64 = rounds.iter().map(|round| round.accepted).sum();
    let made_of = format!(
        "{sends} sends at {PER_SECOND}/s in an open loop, each accepted once by the network; p99 {:.0} ms",
        Spread::of(rounds.iter().map(|round| round.p99_ms)).median
    );
    let rows = vec![
        // Both rows show the worst round.
        Row::new(NUMBER, "rolling restart of three nodes: failed sends", worst(failed), "", Goal::AtMost(0.0))
            .note(made_of),
        Row::new(
            NUMBER,
            "the same: the longest that a send took, from when it should have begun",
            worst(longest),
            "ms",
            Goal::AtMost(STALL_MS),
        ),
    ];
    Ok(Section { rows, details: json!({ NUMBER: rounds }) })
}

/// Puts the worst value in place of the median, for what must never happen.
pub fn worst(spread: Spread) -> Spread {
    Spread { median: spread.max, ..spread }
}

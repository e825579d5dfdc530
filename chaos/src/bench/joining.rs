//! B9: a fourth node joins, takes its share and gives it back while sends go on: how many fail, and how many replicas moved
//! that need not have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::tests::grown::Grown;
use ::tests::load::Report;
use ::tests::tenant::{Tenant, number};
use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::bench::caller::{Balancer, Sends};
use crate::bench::open::Load;
use crate::bench::plan::Plan;
use crate::bench::restarting::worst;
use crate::bench::results::{Row, Section, Spread, Target};
use crate::bench::target::Channel;

const NUMBER: &str = "B9";

const PER_SECOND: f64 = 200.0;
const CHANNELS: usize = 48;
const CONNECTIONS: usize = 128;
const WARM_UP: Duration = Duration::from_secs(2);

/// The node that comes and goes.
const FOURTH: u64 = 4;

/// # Errors
/// When a step of the cluster's does not come to its end, or a send that was taken does not arrive once.
pub async fn measure(plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let mut grown = Grown::start().await;
    grown.join(1, 2).await;
    grown.join(2, 3).await;
    let before = grown.settled(1, 3, &[]).await;
    let tenant = Tenant::new(&grown.cluster).await;
    tell(&format!("pairing {CHANNELS} channels"));
    let recipient = number();
    tenant.simulator().phone(&recipient, json!({})).await;
    let mut channels = Vec::new();
    for n in 0..CHANNELS {
        let paired = tenant.paired(&format!("Channel {n}")).await;
        channels.push(Channel { id: paired.id, recipient: recipient.clone(), number: paired.number });
    }
    let nodes = grown.cluster.dev().nodes.into_iter().map(|node| node.api).collect();
    let callers = Sends::workers(CONNECTIONS, &Balancer::over(nodes), &tenant.key, &channels);
    let load = Load::start(callers, PER_SECOND, WARM_UP);
    tokio::time::sleep(WARM_UP + plan.length).await;

    grown.join(3, FOURTH).await;
    let applied = grown.command(1, &["layout", "apply"]).await;
    ensure!(applied.status.success(), "the layout was not applied: {} {}", applied.stdout, applied.stderr);
    let with = grown.settled(1, 3, &[]).await;
    let removed = grown.command(1, &["node", "remove", &FOURTH.to_string(), "--wait"]).await;
    ensure!(removed.status.success(), "the node was not drained: {} {}", removed.stdout, removed.stderr);
    let after = grown.settled(1, 3, &[FOURTH]).await;
    let outcome = load.end().await?;
    let summary = &outcome.summary;

    let (before, with, after) = (replicas(&before)?, replicas(&with)?, replicas(&after)?);
    let share = with.values().filter(|nodes| nodes.contains(&FOURTH)).count();
    ensure!(share > 0, "the fourth node got no replica");
    // What comes to the fourth node must, and what it gives back goes to one other node each.
    let (came, went) = (moved(&before, &with), moved(&with, &after));
    let above = (came + went).saturating_sub(2 * share);
    tell(&format!(
        "{came} replicas moved to join and {went} to drain, {share} were needed each; {:.0} sends/s for {:.0} s: {} failed, longest {:.0} ms",
        summary.accepted_per_second, summary.seconds, summary.failed, summary.max_ms
    ));
    if let Some(failure) = &summary.first_failure {
        tell(&format!("first failure: {failure}"));
    }
    let made_of = format!(
        "{} sends at {PER_SECOND}/s, each accepted once by the network; p99 {:.0} ms, longest {:.0} ms",
        summary.accepted, summary.p99_ms, summary.max_ms
    );
    Report { taken: outcome.taken, ..Report::default() }.prove(&tenant.simulator()).await;
    let failed = worst(Spread::of([summary.failed as f64]));
    let rows = vec![
        Row::new(NUMBER, "a fourth node joins and is drained: failed sends", failed, "", Target::AtMost(0.0))
            .note(made_of),
        Row::new(
            NUMBER,
            "the same: replicas moved above the minimum",
            Spread::of([above as f64]),
            "",
            Target::AtMost(1.0),
        )
        .note(format!("{came} to join and {went} to drain, for {share} that the fourth node held")),
    ];
    let details = json!({ "sends": summary, "joined": came, "drained": went, "share": share });
    Ok(Section { rows, details: json!({ NUMBER: details }) })
}

type Replicas = BTreeMap<u64, BTreeSet<u64>>;

/// The nodes of each shard.
fn replicas(layout: &Value) -> anyhow::Result<Replicas> {
    let shards = layout["shards"].as_array().context("a layout has shards")?;
    let nodes = |shard: &Value| Some(shard["replicas"].as_array()?.iter().filter_map(Value::as_u64).collect());
    let shards = shards.iter().map(|shard| Some((shard["shard"].as_u64()?, nodes(shard)?)));
    shards.collect::<Option<_>>().context("a shard has a number and replicas")
}

/// Replicas that are where there was none.
fn moved(from: &Replicas, to: &Replicas) -> usize {
    to.iter().map(|(shard, nodes)| from.get(shard).map_or(nodes.len(), |old| nodes.difference(old).count())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_counts_where_there_was_none() {
        let shards = |nodes: &[[u64; 3]]| -> Replicas {
            (0..).zip(nodes.iter().map(|nodes| nodes.iter().copied().collect())).collect()
        };
        let (before, after) = (shards(&[[1, 2, 3], [1, 2, 3]]), shards(&[[1, 2, 4], [3, 1, 2]]));
        assert_eq!(moved(&before, &after), 1);
        assert_eq!(moved(&after, &before), 1);
    }
}

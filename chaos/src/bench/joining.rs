//! B9: a fourth node joins, takes its share and gives it back while sends go on: how many sends fail, and how many
//! replicas move unnecessarily. Each round uses a new node, as the id of a removed one cannot be used again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::tests::grown::Grown;
use ::tests::load::Report;
use ::tests::tenant::{Tenant, number};
use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use crate::bench::caller::{Balancer, Sends};
use crate::bench::open::Load;
use crate::bench::plan::Plan;
use crate::bench::restarting::worst;
use crate::bench::results::{Row, Section, Spread, Target};
use crate::bench::tally::Summary;
use crate::bench::target::Channel;

const NUMBER: &str = "B9";

const PER_SECOND: f64 = 200.0;
const CHANNELS: usize = 48;
const CONNECTIONS: usize = 128;
const WARM_UP: Duration = Duration::from_secs(2);

/// The first node that joins and leaves.
const FOURTH: u64 = 4;

/// The results for one node.
#[derive(Clone, Debug, Serialize)]
struct Round {
    node: u64,
    sends: Summary,
    /// Replicas that moved until it had its share, and until it had none.
    joined: usize,
    drained: usize,
    /// Replicas that it held in between.
    share: usize,
}

impl Round {
    /// Replicas that moved beyond the minimum: each of its share moves to it and away once.
    fn above(&self) -> usize {
        (self.joined + self.drained).saturating_sub(2 * self.share)
    }
}

/// Measures B9.
///
/// # Errors
/// When a change of the cluster does not complete, or an accepted send does not arrive exactly once.
pub async fn measure(plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let mut grown = Grown::start().await;
    grown.join(1, 2).await;
    grown.join(2, 3).await;
    let mut layout = grown.settled(1, 3, &[]).await;
    let tenant = Tenant::new(&grown.cluster).await;
    tell(&format!("pairing {CHANNELS} channels"));
    let recipient = number();
    tenant.simulator().phone(&recipient, json!({})).await;
    let mut channels = Vec::new();
    for n in 0..CHANNELS {
        let paired = tenant.paired(&format!("Channel {n}")).await;
        channels.push(Channel { id: paired.id, recipient: recipient.clone(), number: paired.number });
    }
    // Clients call only the nodes that stay; a new node takes part as an owner and as a replica.
    let nodes: Vec<String> = grown.cluster.dev().nodes.into_iter().map(|node| node.api).collect();
    let mut rounds = Vec::new();
    for node in (FOURTH..).take(if plan.quick { 1 } else { plan.pairs }) {
        let callers = Sends::workers(CONNECTIONS, &Balancer::over(nodes.clone()), &tenant.key, &channels);
        let load = Load::start(callers, PER_SECOND, WARM_UP);
        tokio::time::sleep(WARM_UP + plan.length).await;
        let (with, after) = come_and_go(&mut grown, node).await?;
        let outcome = load.end().await?;
        // A removed node serves nothing, but would take processor time from the others.
        grown.kill(node);
        grown.cluster.note_gone(node);

        let (before, with, gone) = (replicas(&layout)?, replicas(&with)?, replicas(&after)?);
        layout = after;
        let share = with.values().filter(|nodes| nodes.contains(&node)).count();
        ensure!(share > 0, "the fourth node got no replica");
        let (joined, drained) = (moved(&before, &with), moved(&with, &gone));
        let round = Round { node, sends: outcome.summary, joined, drained, share };
        tell(&format!(
            "{joined} replicas moved to join and {drained} to drain, {share} were needed each; {:.0} sends/s for {:.0} s: \
             {} failed, longest {:.0} ms",
            round.sends.accepted_per_second, round.sends.seconds, round.sends.failed, round.sends.max_ms
        ));
        if let Some(failure) = &round.sends.first_failure {
            tell(&format!("first failure: {failure}"));
        }
        Report { taken: outcome.taken, ..Report::default() }.prove(&tenant.simulator()).await;
        rounds.push(round);
    }
    Ok(Section { rows: rows(&rounds), details: json!({ NUMBER: rounds }) })
}

/// A node joins, takes its share and gives it back. Returns both resulting layouts.
async fn come_and_go(grown: &mut Grown, node: u64) -> anyhow::Result<(Value, Value)> {
    grown.join(3, node).await;
    let applied = grown.command(1, &["layout", "apply", "--yes"]).await;
    ensure!(applied.status.success(), "the layout was not applied: {} {}", applied.stdout, applied.stderr);
    let with = grown.settled(1, 3, &[]).await;
    let removed = grown.command(1, &["node", "remove", &node.to_string(), "--wait", "--yes"]).await;
    ensure!(removed.status.success(), "the node was not drained: {} {}", removed.stdout, removed.stderr);
    Ok((with, grown.settled(1, 3, &[node]).await))
}

/// Both rows show the worst round.
fn rows(rounds: &[Round]) -> Vec<Row> {
    let spread = |of: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
    let sum = |of: &dyn Fn(&Round) -> usize| rounds.iter().map(of).sum::<usize>();
    let made_of = format!(
        "{} sends at {PER_SECOND}/s, each accepted once by the network; p99 {:.0} ms, longest {:.0} ms",
        rounds.iter().map(|round| round.sends.accepted).sum::<u64>(),
        spread(&|round| round.sends.p99_ms).median,
        spread(&|round| round.sends.max_ms).max
    );
    let failed = worst(spread(&|round| round.sends.failed as f64));
    let above = worst(spread(&|round| round.above() as f64));
    let moves = format!(
        "{} to join and {} to drain, for {} that the fourth node held",
        sum(&|round| round.joined),
        sum(&|round| round.drained),
        sum(&|round| round.share)
    );
    vec![
        Row::new(NUMBER, "a fourth node joins and is drained: failed sends", failed, "", Target::AtMost(0.0))
            .note(made_of),
        Row::new(NUMBER, "the same: replicas moved above the minimum", above, "", Target::AtMost(1.0)).note(moves),
    ]
}

type Replicas = BTreeMap<u64, BTreeSet<u64>>;

/// The nodes of each shard.
fn replicas(layout: &Value) -> anyhow::Result<Replicas> {
    let shards = layout["shards"].as_array().context("a layout has shards")?;
    let nodes = |shard: &Value| Some(shard["replicas"].as_array()?.iter().filter_map(Value::as_u64).collect());
    let shards = shards.iter().map(|shard| Some((shard["shard"].as_u64()?, nodes(shard)?)));
    shards.collect::<Option<_>>().context("a shard has a number and replicas")
}

/// The number of replicas at nodes that had none of the shard before.
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

    #[test]
    fn the_worst_round_is_judged() {
        let round = |failed: u64, drained: usize| Round {
            node: FOURTH,
            sends: Summary {
                seconds: 1.0,
                accepted: 200,
                queued: 0,
                failed,
                first_failure: None,
                accepted_per_second: 200.0,
                p50_ms: 1.0,
                p99_ms: 2.0,
                max_ms: 3.0,
            },
            joined: 15,
            drained,
            share: 15,
        };
        let rows = rows(&[round(0, 15), round(1, 16), round(0, 15)]);
        let judged: Vec<_> = rows.iter().map(|row| (row.value.median, row.value.trials, row.met)).collect();
        assert_eq!(judged, [(1.0, 3, Some(false)), (1.0, 3, Some(true))]);
        assert_eq!(rows[1].note, "45 to join and 46 to drain, for 45 that the fourth node held");
    }
}

//! B11: the cost of a send in a cluster of five nodes, beside one of three.

use serde::Serialize;
use serde_json::json;
use tests::cluster::Options;

use crate::bench::plan::Plan;
use crate::bench::results::{Row, Section, Spread, Target as Goal};
use crate::bench::sends;
use crate::bench::target::Target;

const NUMBER: &str = "B11";

/// Permitted growth of the cost: shards have three replicas in both.
const GROWTH: f64 = 1.1;

const FEW: usize = 3;
const MORE: usize = 5;

/// The same number of shards for both clusters, since more shards split the same work into smaller entries. With six,
/// each of five nodes leads at least one.
const SAME_SHARDS: &str = "--set=cluster.shards=6";

const SENDERS: usize = 32;

/// A pair of measurements: the processor time of a send at all nodes, and the rate of accepted sends.
#[derive(Clone, Copy, Debug, Serialize)]
struct Pair {
    few_ms: f64,
    more_ms: f64,
    few_per_second: f64,
    more_per_second: f64,
}

/// Measures B11. Both clusters run side by side and are measured in turn, as the machine's speed drifts.
///
/// # Errors
/// When a channel cannot be paired, or no send is accepted.
pub async fn measure(plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let start = |nodes| Target::start_with(Options { args: vec![SAME_SHARDS.to_owned()], ..Options::nodes(nodes) });
    let (few, more) = (start(FEW).await, start(MORE).await);
    tell(&format!("pairing {} channels at {FEW} nodes and at {MORE}", plan.channels));
    let (at_few, at_more) = (few.channels(plan.channels, false).await?, more.channels(plan.channels, false).await?);
    let mut pairs = Vec::new();
    for _ in 0..plan.pairs {
        let here = sends::measure(&few, &at_few, SENDERS, plan.length).await?;
        let there = sends::measure(&more, &at_more, SENDERS, plan.length).await?;
        let pair = Pair {
            few_ms: here.cpu_ms_per_send.nodes,
            more_ms: there.cpu_ms_per_send.nodes,
            few_per_second: here.sends.accepted_per_second,
            more_per_second: there.sends.accepted_per_second,
        };
        tell(&format!(
            "{:.3} ms a send and {:.0}/s at {FEW} nodes, {:.3} ms and {:.0}/s at {MORE}",
            pair.few_ms, pair.few_per_second, pair.more_ms, pair.more_per_second
        ));
        pairs.push(pair);
    }
    let middle = |of: &dyn Fn(&Pair) -> f64| Spread::of(pairs.iter().map(of)).median;
    let made_of = format!(
        "{:.2} and {:.2} ms of all nodes; {:.0} and {:.0} sends/s of {SENDERS} clients on one machine",
        middle(&|pair| pair.more_ms),
        middle(&|pair| pair.few_ms),
        middle(&|pair| pair.more_per_second),
        middle(&|pair| pair.few_per_second),
    );
    let ratio = Spread::of(pairs.iter().map(|pair| pair.more_ms / pair.few_ms));
    let name = format!("CPU of a send at {MORE} nodes ÷ at {FEW}");
    let row = Row::new(NUMBER, name, ratio, "", Goal::AtMost(GROWTH)).note(made_of);
    Ok(Section { rows: vec![row], details: json!({ NUMBER: pairs }) })
}

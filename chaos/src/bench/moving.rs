//! B5, third part: how long sends wait during a planned move of their shard's leadership.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use crate::bench::caller::Sends;
use crate::bench::open::Load;
use crate::bench::plan::Plan;
use crate::bench::restarting::worst;
use crate::bench::results::{Row, Section, Spread, Target as Goal};
use crate::bench::tally::Summary;
use crate::bench::target::{Channel, Target, want};

const NUMBER: &str = "B5";

const WANTED_MS: f64 = 50.0;

/// Channels among which those of one shard are looked up.
const CHANNELS: usize = 60;

const PER_SECOND: f64 = 200.0;
const CONNECTIONS: usize = 32;
const WARM_UP: Duration = Duration::from_secs(1);

/// Sends go on for this long after a move.
const BEHIND: Duration = Duration::from_millis(500);

const LOOK: Duration = Duration::from_millis(10);
const GIVE_UP: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Serialize)]
struct Trial {
    from: u64,
    to: u64,
    sends: Summary,
}

/// Moves one shard's leadership to another replica and back repeatedly, under an open loop of sends to its channels.
///
/// # Errors
/// When a move does not complete.
pub async fn measure(
    target: &Target,
    channels: &[Channel],
    plan: &Plan,
    tell: impl Fn(&str),
) -> anyhow::Result<Section> {
    let mut placed = Vec::new();
    for channel in channels.iter().take(CHANNELS) {
        let place = place(target, channel).await?;
        placed.push((channel, place));
    }
    let (_, first) = placed.first().context("there is a channel")?;
    let Place { shard, node: home } = *first;
    let of_shard = placed.iter().filter(|(_, place)| place.shard == shard).map(|(channel, _)| (*channel).clone());
    let channels: Vec<Channel> = of_shard.collect();
    let other = target.dev.nodes.iter().map(|node| node.id).find(|id| *id != home).context("there are two nodes")?;
    let mut trials = Vec::new();
    for n in 0..plan.trials {
        let (from, to) = if n % 2 == 0 { (home, other) } else { (other, home) };
        let load = Load::start(Sends::to(target, CONNECTIONS, &channels), PER_SECOND, WARM_UP);
        tokio::time::sleep(WARM_UP + BEHIND).await;
        let moved = target.operator().post(&format!("/v1/admin/shards/{shard}/move"), json!({ "node_id": to })).await;
        want(moved, 202)?;
        let asked = Instant::now();
        while place(target, &channels[0]).await?.node != to {
            ensure!(asked.elapsed() < GIVE_UP, "shard {shard} has not moved to node {to} within {GIVE_UP:?}");
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(BEHIND).await;
        let sends = load.end().await?.summary;
        tell(&format!(
            "shard {shard} from node {from} to {to}: {} sends, {} failed; p50 {:.1} ms, longest {:.1} ms",
            sends.accepted, sends.failed, sends.p50_ms, sends.max_ms
        ));
        trials.push(Trial { from, to, sends });
    }
    Ok(Section { rows: rows(&trials), details: json!({ "B5 moves": trials }) })
}

fn rows(trials: &[Trial]) -> Vec<Row> {
    let spread = |of: &dyn Fn(&Summary) -> f64| Spread::of(trials.iter().map(|trial| of(&trial.sends)));
    let made_of = format!(
        "sends at {PER_SECOND}/s to the shard's channels, from when each should have begun; p50 {:.1} ms",
        spread(&|sends| sends.p50_ms).median
    );
    let longest = spread(&|sends| sends.max_ms);
    let failed = worst(spread(&|sends| sends.failed as f64));
    vec![
        Row::new(
            NUMBER,
            "a shard moves as planned: the longest that a send took",
            longest,
            "ms",
            Goal::AtMost(WANTED_MS),
        )
        .note(made_of),
        Row::new(NUMBER, "the same: failed sends", failed, "", Goal::AtMost(0.0)),
    ]
}

#[derive(Clone, Copy)]
struct Place {
    shard: u64,
    node: u64,
}

async fn place(target: &Target, channel: &Channel) -> anyhow::Result<Place> {
    let row: Value = want(target.operator().get(&format!("/v1/admin/channels/{}", channel.id)).await, 200)?;
    let number = |field: &str| row[field].as_u64().with_context(|| format!("no {field}: {row}"));
    Ok(Place { shard: number("shard")?, node: number("node_id")? })
}

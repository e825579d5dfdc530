//! B7: the memory of an idle channel at its owner and at a replica; and B8: the processor time of a send as the number
//! of channels rises. Both need a growing cluster.
//!
//! One node is drained before the first channel is created and never owns any, so that its growth is the share of a
//! replica. Sends are measured in turn with those at a twin, a second cluster that keeps the first size: if the machine
//! becomes slower, it does so on both sides.

use std::time::{Duration, Instant};

use ::tests::cluster::Options;
use anyhow::ensure;
use serde::Serialize;
use serde_json::json;

use crate::bench::plan::Plan;
use crate::bench::results::{Row, Section, Spread, Target as Goal};
use crate::bench::sends;
use crate::bench::target::{Channel, Target, want};
use crate::bench::usage;

const MEMORY: &str = "B7";
const PROCESSOR: &str = "B8";

/// Targets in KiB per channel.
const OWNER: f64 = 9.0;
const REPLICA: f64 = 1.2;
const WHOLE: f64 = OWNER + 2.0 * REPLICA;

/// For a cluster of `AT_REST` channels at rest: target of all nodes' memory in MiB, and of each node's part of a core.
const AT_REST: usize = 1_000;
const TOGETHER_MIB: f64 = 500.0;
const CORES_EACH: f64 = 0.02;

/// Permitted deviation of the ratio in both directions.
const WITHIN: f64 = 0.15;

/// With fewer channels, there is no target: one-time memory of nodes (caches, logs, memtables) outweighs that of
/// channels.
const ENOUGH: usize = 10_000;

/// Sessions that a node may hold: half of the most channels and some reserve, as two nodes own them.
const ROOM: usize = 200_000;

const SENDERS: usize = 32;

/// A cluster is at rest when neither any node's memory nor the processor time of all nodes together has changed by more
/// than this for `STILL`: after channels were paired, compactions go on for a while.
const STILL_KIB: u64 = 512;
const STILL_CORES: f64 = 0.05;
const STILL: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);

/// The measurements at one number of channels.
#[derive(Clone, Debug, Serialize)]
struct Size {
    channels: usize,
    /// Of the nodes in order; the last one owns nothing.
    resident_kib: Vec<u64>,
    /// Cores that all nodes together use while nothing is sent.
    idle_cores: f64,
    simulator_kib: u64,
    paired_per_second: f64,
    /// Processor time of all nodes per send in milliseconds, here and at the twin.
    cpu_ms: Vec<(f64, f64)>,
}

/// Measures B7 and B8.
///
/// # Errors
/// When a channel cannot be paired, or sends are not accepted.
pub async fn measure(plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    ensure!(plan.sizes.len() > 1, "sizes are compared with each other: {:?} is too few", plan.sizes);
    let room = || Options::nodes(3).arg(&format!("--set=node.max_channels={ROOM}"));
    let (target, twin) = (Target::start_with(room()).await, Target::start_with(room()).await);
    for side in [&target, &twin] {
        // Both clusters have one node drained, so that sends find the same number of owners in both.
        side.drain(2).await?;
    }
    let first = plan.sizes.first().copied().unwrap_or_default();
    tell(&format!("pairing {first} channels at the twin"));
    let twins = twin.channels(first, false).await?;
    let mut sizes: Vec<Size> = Vec::new();
    let mut fell_short = None;
    for count in &plan.sizes {
        match grow(&target, *count, (&twin, &twins), plan, &tell).await {
            Ok(size) => sizes.push(size),
            // The results of smaller sizes remain valid.
            Err(error) if sizes.len() > 1 => {
                let why = format!("{count} channels were not reached: {error:#}");
                tell(&why);
                fell_short = Some(why);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let mut rows = memory(&sizes);
    rows.extend(sizes.iter().find(|size| size.channels == AT_REST).into_iter().flat_map(at_rest));
    rows.extend(fell_short.map(|why| short(&sizes, &plan.sizes, why)));
    rows.extend(processor(&sizes));
    Ok(Section { rows, details: json!({ "B7 and B8": sizes }) })
}

async fn grow(
    target: &Target,
    count: usize,
    twin: (&Target, &[Channel]),
    plan: &Plan,
    tell: &impl Fn(&str),
) -> anyhow::Result<Size> {
    let there = target.connected_now().await?;
    let began = Instant::now();
    let channels = target.channels(count, false).await?;
    let paired_per_second = (count as f64 - there as f64) / began.elapsed().as_secs_f64();
    tell(&format!("{count} channels, paired at {paired_per_second:.0}/s"));
    // At the first size, sends come before the first measurement of memory, so that what nodes keep of sends (caches,
    // tables in memory, the allocator's reserve) does not count as memory of channels.
    let mut cpu_ms = Vec::new();
    if there == 0 {
        cpu_ms = cost(target, &channels, twin, plan, tell).await?;
    }
    let (resident_kib, idle_cores) = rest(target).await?;
    let simulator_kib = usage::resident_kib(target.dev.simulator_pid)?;
    let mib: Vec<u64> = resident_kib.iter().map(|kib| kib / 1_024).collect();
    let simulator_mib = simulator_kib / 1_024;
    tell(&format!(
        "{count} channels: nodes {mib:?} MiB and {idle_cores:.3} cores at rest, simulator {simulator_mib} MiB"
    ));
    if there > 0 {
        cpu_ms = cost(target, &channels, twin, plan, tell).await?;
    }
    Ok(Size { channels: count, resident_kib, idle_cores, simulator_kib, paired_per_second, cpu_ms })
}

/// Processor time of a send at all nodes, here and at the twin, in milliseconds.
async fn cost(
    target: &Target,
    channels: &[Channel],
    (twin, twins): (&Target, &[Channel]),
    plan: &Plan,
    tell: &impl Fn(&str),
) -> anyhow::Result<Vec<(f64, f64)>> {
    let mut pairs = Vec::new();
    let mut channels = channels.to_vec();
    for _ in 0..plan.pairs {
        // Each round uses other channels, if there are enough: most of many channels have not sent for a while.
        let next = channels.len() / plan.pairs;
        channels.rotate_left(next);
        let beside = sends::measure(twin, twins, SENDERS, plan.length).await?.cpu_ms_per_send.nodes;
        let here = sends::measure(target, &channels, SENDERS, plan.length).await?.cpu_ms_per_send.nodes;
        tell(&format!("{} channels: {here:.3} ms a send; at the twin {beside:.3} ms", channels.len()));
        pairs.push((here, beside));
    }
    Ok(pairs)
}

/// The nodes' memory, and the cores that they use, once the cluster is at rest.
async fn rest(target: &Target) -> anyhow::Result<(Vec<u64>, f64)> {
    let memory =
        || target.dev.nodes.iter().map(|node| usage::resident_kib(node.pid)).collect::<anyhow::Result<Vec<_>>>();
    let used = || target.dev.nodes.iter().map(|node| usage::cpu(node.pid)).sum::<anyhow::Result<Duration>>();
    let began = Instant::now();
    let mut last = (memory()?, f64::INFINITY);
    loop {
        let (from, before) = (Instant::now(), used()?);
        tokio::time::sleep(STILL).await;
        let cores = used()?.saturating_sub(before).as_secs_f64() / from.elapsed().as_secs_f64();
        let next = (memory()?, cores);
        let memory_is_still = last.0.iter().zip(&next.0).all(|(last, next)| last.abs_diff(*next) <= STILL_KIB);
        if memory_is_still && (last.1 - next.1).abs() <= STILL_CORES || began.elapsed() > PATIENCE {
            return Ok(next);
        }
        last = next;
    }
}

fn memory(sizes: &[Size]) -> Vec<Row> {
    let of = |pick: &dyn Fn(&Size) -> u64| slope(sizes.iter().map(|size| (size.channels as f64, pick(size) as f64)));
    let whole = of(&|size| size.resident_kib.iter().sum());
    let replica = of(&|size| size.resident_kib.last().copied().unwrap_or_default());
    let most = sizes.last().map_or(0, |size| size.channels);
    let goal = |most_kib: f64| if most >= ENOUGH { Goal::AtMost(most_kib) } else { Goal::None };
    let shown: Vec<String> = sizes
        .iter()
        .map(|size| {
            let mib = size.resident_kib.iter().sum::<u64>() / 1_024;
            format!("{mib} MiB and {:.2} cores at {}", size.idle_cores, size.channels)
        })
        .collect();
    let made_of = format!("one slope through {} sizes", sizes.len());
    let row = |what: &str, kib: f64, goal: Goal| {
        Row::new(MEMORY, format!("memory of an idle channel, {what}, up to {most}"), Spread::of([kib]), "KiB", goal)
            .note(&made_of)
    };
    vec![
        // The three nodes together have two replicas and the owner of a channel.
        row("owner", whole - 2.0 * replica, goal(OWNER)),
        row("replica", replica, goal(REPLICA)),
        row("over three nodes", whole, goal(WHOLE)).note(format!("{made_of}: {}", shown.join(", "))),
    ]
}

/// Memory and processor time of nodes without load.
fn at_rest(size: &Size) -> [Row; 2] {
    let (nodes, channels) = (size.resident_kib.len(), size.channels);
    let mib = size.resident_kib.iter().sum::<u64>() as f64 / 1_024.0;
    let name = format!("memory of {nodes} nodes with {channels} idle channels, together");
    let memory = Row::new(MEMORY, name, Spread::of([mib]), "MiB", Goal::AtMost(TOGETHER_MIB));
    let cores = Spread::of([size.idle_cores / nodes as f64]);
    [memory, Row::new(MEMORY, "the same, of a core each", cores, "", Goal::AtMost(CORES_EACH))]
}

/// A size that was not reached is a missed target, not just a shorter table.
fn short(sizes: &[Size], wanted: &[usize], why: String) -> Row {
    let most = sizes.last().map_or(0, |size| size.channels);
    let goal = Goal::AtLeast(wanted.iter().copied().max().unwrap_or_default() as f64);
    Row::new(MEMORY, "idle channels", Spread::of([most as f64]), "", goal).note(why)
}

fn processor(sizes: &[Size]) -> Vec<Row> {
    let rows = sizes.iter().skip(1).map(|size| {
        let ratio = Spread::of(size.cpu_ms.iter().map(|(here, beside)| here / beside));
        let goal = Goal::Between(1.0 - WITHIN, 1.0 + WITHIN);
        let first = sizes.first().map_or(0, |size| size.channels);
        let name = format!("CPU of a send at {} channels ÷ at {first}", size.channels);
        let made_of = format!(
            "{:.2} and {:.2} ms of the nodes",
            Spread::of(size.cpu_ms.iter().map(|(here, _)| *here)).median,
            Spread::of(size.cpu_ms.iter().map(|(_, beside)| *beside)).median
        );
        Row::new(PROCESSOR, name, ratio, "", goal).note(made_of)
    });
    rows.collect()
}

/// Slope of the least-squares line through points; NaN for fewer than two.
fn slope(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let points: Vec<_> = points.collect();
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let (over, under) = points.iter().fold((0.0, 0.0), |(over, under), point| {
        (over + (point.0 - x) * (point.1 - y), under + (point.0 - x) * (point.0 - x))
    });
    over / under
}

impl Target {
    /// Drains a node, and waits until it owns nothing. Nodes are counted from 0.
    ///
    /// # Errors
    /// When it still owns something after a minute.
    async fn drain(&self, node: usize) -> anyhow::Result<()> {
        let id = self.dev.nodes[node].id;
        want(self.operator().act(&format!("/v1/admin/nodes/{id}/drain")).await, 202)?;
        let began = Instant::now();
        while self.owned_by(id).await? > 0 {
            ensure!(began.elapsed() < PATIENCE, "node {id} still owns shards after {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster that takes 14 KiB per channel at the owner and 2 KiB at a replica.
    fn size(channels: usize) -> Size {
        Size {
            channels,
            resident_kib: vec![
                10_000 + 8 * channels as u64,
                10_000 + 8 * channels as u64,
                10_000 + 2 * channels as u64,
            ],
            idle_cores: 0.0,
            simulator_kib: 0,
            paired_per_second: 0.0,
            cpu_ms: Vec::new(),
        }
    }

    #[test]
    fn memory_is_one_slope_and_its_rows_say_so() {
        let rows = memory(&[size(1_000), size(10_000), size(100_000)]);
        let kib: Vec<f64> = rows.iter().map(|row| row.value.median.round()).collect();
        assert_eq!(kib, [14.0, 2.0, 18.0]);
        for row in rows {
            assert_eq!(row.value.trials, 1);
            assert!(row.note.starts_with("one slope through 3 sizes"), "{}", row.note);
        }
    }

    #[test]
    fn a_size_that_was_not_reached_is_missed() {
        let row = short(&[size(1_000), size(10_000)], &[1_000, 10_000, 100_000], "no room".to_owned());
        assert_eq!((row.met, row.value.median, row.note.as_str()), (Some(false), 10_000.0, "no room"));
    }

    #[test]
    fn a_slope_is_that_of_the_line_through_the_points() {
        let line = (0..5).map(|x| (f64::from(x), 7.0 + 3.0 * f64::from(x)));
        assert!((slope(line) - 3.0).abs() < 1e-9);
        assert!(slope([(1.0, 1.0)].into_iter()).is_nan());
    }
}

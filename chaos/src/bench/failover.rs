//! B5: from `kill -9` of an owner to the first accepted send of each of its channels, beside etcd's leader and the next
//! put.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::future::select_all;
use serde::Serialize;
use serde_json::{Value, json};
use tests::cluster::Cluster;

use crate::bench::caller::{JsonPuts, request};
use crate::bench::etcd::Etcd;
use crate::bench::forwarding::owners;
use crate::bench::plan::{Plan, Sides};
use crate::bench::report;
use crate::bench::results::{Row, Section, Spread, Target as Goal};
use crate::bench::target::{Channel, Target};
use crate::connection::Connection;

const NUMBER: &str = "B5";

const RATIO: f64 = 0.7;
const MEDIAN_MS: f64 = 600.0;
const WORST_MS: f64 = 1_000.0;

/// Channels that are probed.
const CHANNELS: usize = 60;

/// Timeout of a put: one that a member has forwarded to the dead leader is not answered for seven seconds.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The value of puts while etcd has no leader: `probe`, in Base64.
const PROBE_VALUE: &str = "cHJvYmU=";

/// Pause between two probes of one channel: finer than what is measured.
const PROBE: Duration = Duration::from_millis(10);

/// Time after which a trial has failed.
const GIVE_UP: Duration = Duration::from_secs(30);

/// One kill.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    pub node: u64,
    /// The number of channels that the killed node owned.
    pub channels: usize,
    /// Times to the first 202 of the first, the median and the last of them.
    pub first_ms: f64,
    pub median_ms: f64,
    pub last_ms: f64,
    /// First 202s with `queued`: promised before the session was back.
    pub queued: usize,
}

/// All trials.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub trials: Vec<Trial>,
    /// Over all channels of all trials.
    pub channels: usize,
    pub median_ms: f64,
    pub p99_ms: f64,
    pub worst_ms: f64,
    /// Median over the trials of the last channel's time: when all work of a killed node has been taken over.
    pub median_of_last_ms: f64,
    /// Times from the kill of etcd's leader to the next put, one after each trial.
    pub etcd_ms: Vec<f64>,
}

/// Measures B5 by kills of owners and of etcd's leader in turn.
///
/// # Errors
/// When a channel has no accepted send within [`GIVE_UP`], or etcd no put.
pub async fn section(sides: &mut Sides, plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let channels = sides.channels[..CHANNELS.min(sides.channels.len())].to_vec();
    let (target, etcd) = (&sides.target, &mut sides.etcd);
    let summary = measure(target, &channels, etcd, plan.trials, |n, trial| tell(&report::trial(n, trial))).await?;
    tell(&report::summary(&summary));
    let etcd = Spread::of(summary.etcd_ms.iter().copied());
    let ratio = Spread { median: summary.median_ms / etcd.median, trials: plan.trials, ..ratios(&summary) };
    let made_of = format!(
        "median {:.0} ms over {} channels, etcd {:.0} ms ({:.0} to {:.0})",
        summary.median_ms, summary.channels, etcd.median, etcd.min, etcd.max
    );
    let worst = Spread::of(summary.trials.iter().map(|trial| trial.last_ms));
    let worst = Spread { median: worst.max, ..worst };
    let middle = Spread { median: summary.median_ms, ..Spread::of(summary.trials.iter().map(|trial| trial.median_ms)) };
    let rows = vec![
        Row::new(
            NUMBER,
            "kill of the owner to the first 202 of its channels ÷ etcd's leader to its next put",
            ratio,
            "",
            Goal::AtMost(RATIO),
        )
        .note(made_of),
        Row::new(NUMBER, "the same, in the middle of all channels", middle, "ms", Goal::AtMost(MEDIAN_MS)),
        Row::new(NUMBER, "the same, the last channel of the worst trial", worst, "ms", Goal::AtMost(WORST_MS)),
    ];
    Ok(Section { rows, details: json!({ NUMBER: summary }) })
}

/// Ratio of each trial's median channel to the etcd measurement after it.
fn ratios(summary: &Summary) -> Spread {
    Spread::of(summary.trials.iter().zip(&summary.etcd_ms).map(|(trial, etcd)| trial.median_ms / etcd))
}

/// Kills owners in turn, and etcd's leader after each, and restarts what was killed before the next trial.
///
/// # Errors
/// When a channel has no accepted send within [`GIVE_UP`], or etcd no put.
pub async fn measure(
    target: &Target,
    channels: &[Channel],
    etcd: &mut Etcd,
    trials: usize,
    report: impl Fn(usize, &Trial),
) -> anyhow::Result<Summary> {
    let cluster = target.cluster.as_ref().context("only a cluster of its own is killed")?;
    let nodes = cluster.node_ids();
    ensure!(nodes.len() >= 3, "fail-over wants three nodes");
    let all = target.connected_now().await?;
    let (mut done, mut waits, mut etcd_ms) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..trials {
        let victim = nodes[n % nodes.len()];
        let owned = owned_by(target, channels, victim).await?;
        ensure!(!owned.is_empty(), "node {victim} owns none of the {} channels", channels.len());
        let (trial, mut times) = strike(target, cluster, victim, &owned).await?;
        report(n, &trial);
        done.push(trial);
        waits.append(&mut times);
        cluster.restart(&[victim]).await;
        target.settled(all).await?;
        etcd_ms.push(strike_etcd(etcd).await?);
    }
    waits.sort_by(f64::total_cmp);
    let mut last: Vec<_> = done.iter().map(|trial| trial.last_ms).collect();
    last.sort_by(f64::total_cmp);
    Ok(Summary {
        channels: waits.len(),
        median_ms: quantile(&waits, 0.5),
        p99_ms: quantile(&waits, 0.99),
        worst_ms: quantile(&waits, 1.0),
        median_of_last_ms: quantile(&last, 0.5),
        trials: done,
        etcd_ms,
    })
}

/// Kills etcd's leader and puts through the others until one accepts; returns milliseconds, with all members running
/// again.
async fn strike_etcd(etcd: &mut Etcd) -> anyhow::Result<f64> {
    let leader = etcd.leader().await?;
    let mut urls = etcd.urls();
    urls.remove(leader);
    let mut probes = Vec::new();
    for url in urls {
        let mut connection = Connection::without_key(&url)?;
        JsonPuts::put(&mut connection, 0, PROBE_VALUE).await.context("before the kill")?;
        probes.push(connection);
    }
    let struck = Instant::now();
    etcd.kill(leader);
    let probes = probes.into_iter().map(|mut connection| {
        Box::pin(async move {
            loop {
                let put = JsonPuts::put(&mut connection, 0, PROBE_VALUE);
                if matches!(tokio::time::timeout(ASK_AGAIN, put).await, Ok(Ok(()))) || struck.elapsed() > GIVE_UP {
                    return struck.elapsed();
                }
                tokio::time::sleep(PROBE).await;
            }
        })
    });
    let (took, ..) = select_all(probes).await;
    ensure!(took < GIVE_UP, "etcd took no put within {GIVE_UP:?}");
    etcd.restart(leader).await?;
    Ok(took.as_secs_f64() * 1_000.0)
}

/// Kills a node, and probes each of its channels through the other nodes until a send was accepted.
async fn strike(
    target: &Target,
    cluster: &Cluster,
    victim: u64,
    owned: &[Channel],
) -> anyhow::Result<(Trial, Vec<f64>)> {
    let alive: Vec<_> = target.dev.nodes.iter().filter(|node| node.id != victim).collect();
    // Connected before the kill, so that no handshake is measured.
    let mut probes = Vec::new();
    for (n, channel) in owned.iter().enumerate() {
        let mut connection = Connection::new(&alive[n % alive.len()].api, &target.dev.api_key)?;
        let (path, body) = request(channel);
        let warm = connection.post(&path, body.clone()).await?;
        ensure!(warm.status == 202, "before the kill: {} {}", warm.status, String::from_utf8_lossy(&warm.body));
        probes.push((connection, path, body));
    }
    let struck = Instant::now();
    let waiting = probes.into_iter().map(|(mut connection, path, body)| {
        tokio::spawn(async move {
            let mut last = String::new();
            while struck.elapsed() < GIVE_UP {
                match connection.post(&path, body.clone()).await {
                    Ok(response) if response.status == 202 => {
                        let answer: Value = serde_json::from_slice(&response.body)?;
                        return Ok((struck.elapsed(), answer["status"] == "queued"));
                    }
                    Ok(response) => last = format!("{} {}", response.status, String::from_utf8_lossy(&response.body)),
                    Err(error) => last = format!("{error:#}"),
                }
                tokio::time::sleep(PROBE).await;
            }
            anyhow::bail!("{path}: nothing accepted within {GIVE_UP:?}; last: {last}")
        })
    });
    cluster.kill(victim);
    let waiting: Vec<_> = waiting.collect();
    let (mut times, mut queued) = (Vec::new(), 0);
    for task in waiting {
        let (took, was_queued) = task.await.context("a probe panicked")??;
        times.push(took.as_secs_f64() * 1_000.0);
        queued += usize::from(was_queued);
    }
    times.sort_by(f64::total_cmp);
    let trial = Trial {
        node: victim,
        channels: owned.len(),
        first_ms: quantile(&times, 0.0),
        median_ms: quantile(&times, 0.5),
        last_ms: quantile(&times, 1.0),
        queued,
    };
    Ok((trial, times))
}

/// The channels whose shard a node leads.
async fn owned_by(target: &Target, channels: &[Channel], node: u64) -> anyhow::Result<Vec<Channel>> {
    let owners = owners(target, channels).await?;
    Ok(channels.iter().zip(owners).filter(|(_, owner)| *owner == node).map(|(channel, _)| channel.clone()).collect())
}

/// The quantile of sorted values by nearest rank.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(rank).copied().unwrap_or(f64::NAN)
}

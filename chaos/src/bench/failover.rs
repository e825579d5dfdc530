//! From `kill -9` of an owner to the first accepted send of each of its channels, trial by trial.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::Value;
use tests::cluster::Cluster;
use tests::http::{client, try_answer};

use crate::bench::sends::request;
use crate::bench::target::{Channel, Target};
use crate::connection::Connection;

/// Between two tries of one channel: finer than what is measured.
const PROBE: Duration = Duration::from_millis(10);

/// After that a trial has failed.
const GIVE_UP: Duration = Duration::from_secs(30);

/// One kill.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    pub node: u64,
    /// The channels that the killed node owned.
    pub channels: usize,
    /// To the first 202 of the first, the middle and the last of them.
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
    /// Of the trials' last channels: when a killed node's work is taken over whole.
    pub median_of_last_ms: f64,
}

/// Kills owners in turn and restarts each before the next trial.
///
/// # Errors
/// When a channel has no accepted send within [`GIVE_UP`].
pub async fn measure(
    target: &Target,
    channels: &[Channel],
    trials: usize,
    report: impl Fn(usize, &Trial),
) -> anyhow::Result<Summary> {
    let cluster = target.cluster.as_ref().context("only a cluster of its own is killed")?;
    let nodes = cluster.node_ids();
    ensure!(nodes.len() >= 3, "fail-over wants three nodes");
    let (mut done, mut waits) = (Vec::new(), Vec::new());
    for n in 0..trials {
        let victim = nodes[n % nodes.len()];
        let owned = owned_by(cluster, channels, victim).await?;
        ensure!(!owned.is_empty(), "node {victim} owns none of the {} channels", channels.len());
        let (trial, mut times) = strike(target, cluster, victim, &owned).await?;
        report(n, &trial);
        done.push(trial);
        waits.append(&mut times);
        cluster.restart(&[victim]).await;
        settle(cluster, channels).await?;
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
    })
}

/// Kills a node and asks for each of its channels, through the nodes that live, until each was accepted once.
async fn strike(
    target: &Target,
    cluster: &Cluster,
    victim: u64,
    owned: &[Channel],
) -> anyhow::Result<(Trial, Vec<f64>)> {
    let alive: Vec<_> = target.dev.nodes.iter().filter(|node| node.id != victim).collect();
    // Connected beforehand: what is measured is the cluster, not the handshake.
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
async fn owned_by(cluster: &Cluster, channels: &[Channel], node: u64) -> anyhow::Result<Vec<Channel>> {
    let operator = cluster.operator(node, &client());
    let mut owned = Vec::new();
    for channel in channels {
        let row = operator.get(&format!("/v1/admin/channels/{}", channel.id)).await;
        ensure!(row.status == 200, "{}", row.text());
        if row.json()["node_id"] == node {
            owned.push(channel.clone());
        }
    }
    Ok(owned)
}

/// Waits until every node owns a channel again and all are connected: leadership comes back to a restarted node.
async fn settle(cluster: &Cluster, channels: &[Channel]) -> anyhow::Result<()> {
    let start = Instant::now();
    let nodes = cluster.node_ids();
    let operator = cluster.operator(nodes[0], &client());
    loop {
        let mut owners = std::collections::BTreeSet::new();
        let mut connected = 0;
        for channel in channels {
            let path = format!("/v1/admin/channels/{}", channel.id);
            let answer = try_answer(operator.request(reqwest::Method::GET, &path)).await?;
            if answer.status == 200 {
                let row = answer.json();
                owners.extend(row["node_id"].as_u64());
                connected += usize::from(row["status"] == "connected");
            }
        }
        if owners.len() == nodes.len() && connected == channels.len() {
            return Ok(());
        }
        ensure!(
            start.elapsed() < Duration::from_secs(60),
            "owners are {owners:?} and {connected} of {} channels are connected a minute after the restart",
            channels.len()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Of sorted values; the nearest rank.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(rank).copied().unwrap_or(f64::NAN)
}

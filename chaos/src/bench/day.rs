//! Whether disk use stays bounded: days of steady load in minutes, with all retention periods scaled down accordingly.
//!
//! Sends go on at one rate, each with a webhook, and everything that a node keeps is kept for seconds instead of days:
//! history, deliveries, the log behind a snapshot, rows that wait for a table. Once all of that has expired at least
//! once, the nodes' folders must not grow any more.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use ::tests::cluster::{Cluster, Options};
use ::tests::load::Load;
use ::tests::receiver::Receiver;
use ::tests::tenant::{Tenant, number};
use anyhow::ensure;
use serde::Serialize;
use serde_json::json;

/// Retention by time, in seconds instead of days; and retention by size, small enough to be reached several times.
const SCALED: [&str; 10] = [
    "history.retention=6s",
    "history.keep_ids=6s",
    "history.trim_every=500ms",
    "webhooks.keep_delivered=4s",
    "webhooks.keep_deliveries=6s",
    "webhooks.allow_cidrs=[\"127.0.0.0/8\"]",
    "raft.keep_entries=500",
    "raft.snapshot_every=100",
    "raft.most_log_bytes=1048576",
    "raft.buffer_bytes=1048576",
];

/// Folders vary in size with compactions. By how much the second half may exceed its own first window:
const GROWTH: f64 = 0.25;
/// and by how many MiB more, for compactions of small folders.
const SWING_MIB: f64 = 8.0;

/// Load and duration of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub channels: usize,
    pub sends_per_second: u32,
    pub windows: usize,
    /// Length of one window.
    pub length: Duration,
}

/// The state at the end of a window.
#[derive(Clone, Debug, Serialize)]
pub struct Window {
    /// Sends that the network had accepted by then.
    pub accepted: u64,
    /// The largest of the nodes' folders, and its parts.
    pub largest: Sizes,
}

/// Disk space of a node's folder.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sizes {
    pub log_mib: f64,
    pub state_mib: f64,
    pub all_mib: f64,
}

/// The windows of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Day {
    pub windows: Vec<Window>,
}

impl Day {
    /// The most space that the second half used, and its bound, in MiB.
    ///
    /// # Errors
    /// When there are too few windows for two halves.
    pub fn bound(&self) -> anyhow::Result<(f64, f64)> {
        let later = &self.windows[self.windows.len() / 2..];
        ensure!(later.len() >= 2, "{} windows are too few", self.windows.len());
        let most = later.iter().map(|window| window.largest.all_mib).fold(0.0, f64::max);
        Ok((most, later[0].largest.all_mib * (1.0 + GROWTH) + SWING_MIB))
    }
}

/// Measures a cluster of its own, and calls `tell` with each window.
///
/// # Errors
/// When a folder cannot be read, or sends fail.
pub async fn measure(plan: Plan, tell: impl Fn(&Window)) -> anyhow::Result<Day> {
    let options = SCALED.iter().fold(Options::default(), |options, set| options.arg(&format!("--set={set}")));
    let cluster = Cluster::start(options).await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    tenant.endpoint(&receiver.url("/day"), &["*"], json!({})).await;
    let mut channels = Vec::new();
    for number in 0..plan.channels {
        channels.push(tenant.paired(&format!("Channel {number}")).await);
    }
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;
    let load = Load::start(&tenant, &channels, &to, &cluster.node_ids(), plan.sends_per_second);
    let mut windows = Vec::new();
    for _ in 0..plan.windows {
        tokio::time::sleep(plan.length).await;
        // Keeps the receiver's memory from growing; only nodes are measured.
        receiver.clear();
        let mut largest = Sizes::default();
        for node in cluster.dev().nodes {
            let sizes = sizes(&node.data)?;
            if sizes.all_mib > largest.all_mib {
                largest = sizes;
            }
        }
        let window = Window { accepted: tenant.simulator().stat("accepted").await, largest };
        tell(&window);
        windows.push(window);
    }
    let report = load.end().await;
    ensure!(report.failures.is_empty(), "of {} sends failed: {:?}", report.taken.len(), report.failures);
    Ok(Day { windows })
}

fn sizes(node: &Path) -> io::Result<Sizes> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    Ok(Sizes {
        log_mib: mib(taken(&node.join("raft"))?),
        state_mib: mib(taken(&node.join("data"))?),
        all_mib: mib(taken(node)?),
    })
}

/// Bytes of allocated blocks: files are preallocated beyond their length.
fn taken(path: &Path) -> io::Result<u64> {
    // Files may disappear meanwhile.
    let gone_is_nothing = |error: io::Error| if error.kind() == io::ErrorKind::NotFound { Ok(0) } else { Err(error) };
    let facts = match fs::symlink_metadata(path) {
        Ok(facts) => facts,
        Err(error) => return gone_is_nothing(error),
    };
    if !facts.is_dir() {
        return Ok(facts.blocks() * 512);
    }
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| taken(&entry?.path())).sum(),
        Err(error) => gone_is_nothing(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn day(sizes: &[f64]) -> Day {
        let window = |all_mib: &f64| Window { accepted: 0, largest: Sizes { all_mib: *all_mib, ..Sizes::default() } };
        Day { windows: sizes.iter().map(window).collect() }
    }

    #[test]
    fn only_the_second_half_is_held_against_its_beginning() {
        let steady = day(&[10.0, 20.0, 40.0, 38.0, 44.0, 40.0]).bound().unwrap();
        assert_eq!(steady, (44.0, 38.0 * 1.25 + 8.0));
        let (most, bound) = day(&[10.0, 20.0, 40.0, 60.0, 80.0, 100.0]).bound().unwrap();
        assert!(most > bound);
        assert!(day(&[10.0, 10.0]).bound().is_err());
    }
}

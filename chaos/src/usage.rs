//! What a load costs: processor time of each kind of process, and fsyncs.

use std::time::Duration;

use anyhow::Context;
use tests::cluster::Dev;
use tests::http::{Api, client, try_answer};

/// Ticks of `/proc/*/stat` a second: `USER_HZ`, 100 on every Linux that Rust runs on.
const TICKS_PER_SECOND: u64 = 100;

/// The histogram whose count is the number of synced log batches, one fsync each.
const FSYNCS: &str = "raft_log_sync_seconds_count";

/// Totals since the processes started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub nodes: Duration,
    pub simulator: Duration,
    /// The program that measures.
    pub client: Duration,
    /// None when the nodes do not tell.
    pub fsyncs: Option<u64>,
}

impl Usage {
    /// Reads all of it now.
    ///
    /// # Errors
    /// When a process is gone.
    pub async fn now(dev: &Dev) -> anyhow::Result<Self> {
        let mut usage =
            Self { simulator: cpu(dev.simulator_pid)?, client: cpu(std::process::id() as i32)?, ..Self::default() };
        for node in &dev.nodes {
            usage.nodes += cpu(node.pid)?;
        }
        usage.fsyncs = fsyncs(dev).await;
        Ok(usage)
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_sub(earlier.nodes),
            simulator: self.simulator.saturating_sub(earlier.simulator),
            client: self.client.saturating_sub(earlier.client),
            fsyncs: self.fsyncs.zip(earlier.fsyncs).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// Resident memory of a process, in MiB.
///
/// # Errors
/// When the process is gone.
pub fn resident_mib(pid: i32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().with_context(|| line.to_owned())?;
    Ok(kib / 1_024)
}

/// User and system time of a process.
fn cpu(pid: i32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name in parentheses may hold spaces; utime and stime are the 12th and 13th field after it.
    let (_, rest) = stat.rsplit_once(')').context("no process name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).with_context(|| format!("{path}: {stat}"))?;
    Ok(Duration::from_millis((user + system) * 1_000 / TICKS_PER_SECOND))
}

async fn fsyncs(dev: &Dev) -> Option<u64> {
    let client = client();
    let mut total = None;
    for node in &dev.nodes {
        let operator = Api::new(client.clone(), &node.ops, Some(&dev.operator_token));
        let answer = try_answer(operator.request(reqwest::Method::GET, "/metrics")).await.ok()?;
        let text = answer.text();
        let lines = text.lines().filter(|line| line.starts_with(FSYNCS));
        for value in lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()) {
            *total.get_or_insert(0) += value as u64;
        }
    }
    total
}

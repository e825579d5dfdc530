//! The cost of a load: processor time of each kind of process, fsyncs and log bytes.

use std::time::Duration;

use anyhow::{Context, bail};
use tests::cluster::Dev;
use tests::http::{Api, client, try_answer};

/// Ticks per second in `/proc/*/stat`: `USER_HZ`, 100 on every Linux that Rust runs on.
const TICKS_PER_SECOND: u64 = 100;

/// The histogram whose count is the number of synced log batches, one fsync each.
const FSYNCS: &str = "raft_log_sync_seconds_count";

/// The counter of bytes of entries in those batches.
const LOG_BYTES: &str = "raft_log_entry_bytes_total";

/// The counter of webhook delivery attempts.
const ATTEMPTS: &str = "gateway_webhook_attempts_total";

/// Totals since the processes started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub nodes: Duration,
    pub simulator: Duration,
    /// The measuring program itself.
    pub client: Duration,
    /// `None` if the nodes do not report it.
    pub fsyncs: Option<u64>,
    /// Of all nodes' logs together; `None` if the nodes do not report it.
    pub log_bytes: Option<u64>,
    /// Of all cores, for all programs.
    pub machine: Machine,
}

/// Processor time of a machine's cores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine {
    pub busy: Duration,
    pub whole: Duration,
}

impl Machine {
    pub fn since(self, earlier: Self) -> Self {
        Self { busy: self.busy.saturating_sub(earlier.busy), whole: self.whole.saturating_sub(earlier.whole) }
    }

    /// The part of the cores' time in which they were busy.
    pub fn load(self) -> f64 {
        self.busy.as_secs_f64() / self.whole.as_secs_f64().max(f64::EPSILON)
    }
}

impl Usage {
    /// Reads all totals now.
    ///
    /// # Errors
    /// When a process is gone.
    pub async fn now(dev: &Dev) -> anyhow::Result<Self> {
        let mut usage =
            Self { simulator: cpu(dev.simulator_pid)?, client: cpu(std::process::id() as i32)?, ..Self::default() };
        for node in &dev.nodes {
            usage.nodes += cpu(node.pid)?;
        }
        usage.fsyncs = counted(dev, FSYNCS).await;
        usage.log_bytes = counted(dev, LOG_BYTES).await;
        usage.machine = machine()?;
        Ok(usage)
    }

    /// The usage since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_sub(earlier.nodes),
            simulator: self.simulator.saturating_sub(earlier.simulator),
            client: self.client.saturating_sub(earlier.client),
            fsyncs: self.fsyncs.zip(earlier.fsyncs).map(|(now, then)| now.saturating_sub(then)),
            log_bytes: self.log_bytes.zip(earlier.log_bytes).map(|(now, then)| now.saturating_sub(then)),
            machine: self.machine.since(earlier.machine),
        }
    }

    /// The part of the machine that other programs used. Figures taken beside much of it are unreliable.
    pub fn elsewhere(&self) -> f64 {
        let own = self.nodes + self.simulator + self.client;
        self.machine.busy.saturating_sub(own).as_secs_f64() / self.machine.whole.as_secs_f64().max(f64::EPSILON)
    }
}

/// Resident memory of a process, in KiB.
///
/// # Errors
/// When the process is gone.
pub fn resident_kib(pid: i32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    line.trim().trim_end_matches("kB").trim().parse().with_context(|| line.to_owned())
}

/// Processor time of all cores since the machine started.
///
/// # Errors
/// When `/proc/stat` cannot be read.
pub fn machine() -> anyhow::Result<Machine> {
    let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).context("no sum of all cores")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user already.
    let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).take(8).collect();
    let [_, _, _, idle, iowait, ..] = fields[..] else { bail!("/proc/stat: {line}") };
    let whole: u64 = fields.iter().sum();
    Ok(Machine { busy: ticks(whole - idle - iowait), whole: ticks(whole) })
}

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 1_000 / TICKS_PER_SECOND)
}

/// User and system time of a process.
///
/// # Errors
/// When the process is gone.
pub fn cpu(pid: i32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name in parentheses may contain spaces; utime and stime are the 12th and 13th field after it.
    let (_, rest) = stat.rsplit_once(')').context("no process name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let (user, system) = field(11).zip(field(12)).with_context(|| format!("{path}: {stat}"))?;
    Ok(ticks(user + system))
}

/// The number of delivery attempts by the nodes; `None` if they do not report it.
pub async fn attempts(dev: &Dev) -> Option<u64> {
    counted(dev, ATTEMPTS).await
}

/// The sum of a metric over its labels and the nodes.
async fn counted(dev: &Dev, metric: &str) -> Option<u64> {
    let client = client();
    let mut total = None;
    for node in &dev.nodes {
        let operator = Api::new(client.clone(), &node.ops, Some(&dev.operator_token));
        let answer = try_answer(operator.request(reqwest::Method::GET, "/metrics")).await.ok()?;
        let text = answer.text();
        let lines = text.lines().filter(|line| line.starts_with(metric));
        for value in lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()) {
            *total.get_or_insert(0) += value as u64;
        }
    }
    total
}

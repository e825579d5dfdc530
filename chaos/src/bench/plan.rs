//! How much is measured, and what several benchmarks share.

use std::time::Duration;

use anyhow::Context;

use crate::bench::etcd::Etcd;
use crate::bench::sends;
use crate::bench::target::{Channel, Target};

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Shorter than figures should be taken from.
    pub quick: bool,
    /// Measurements of ours, each with one of etcd's beside it.
    pub pairs: usize,
    /// Length of each.
    pub length: Duration,
    /// Kills of an owner, and of etcd's leader.
    pub trials: usize,
    /// Channels that sends go to.
    pub channels: usize,
    /// Sessions that a killed node holds at least.
    pub sessions: usize,
    /// Idle channels, from the fewest to the most: two sizes at least, as they are compared.
    pub sizes: Vec<usize>,
}

impl Plan {
    pub fn whole() -> Self {
        Self {
            quick: false,
            pairs: 5,
            length: Duration::from_secs(8),
            trials: 20,
            channels: 1_000,
            sessions: 1_000,
            sizes: vec![1_000, 10_000, 100_000],
        }
    }

    /// All of it within eight minutes.
    pub fn quick() -> Self {
        Self {
            quick: true,
            pairs: 2,
            length: Duration::from_secs(2),
            trials: 3,
            channels: 200,
            sessions: 100,
            sizes: vec![300, 1_500],
        }
    }
}

/// Ours and etcd's, side by side, for the benchmarks that compare them or need nothing of their own.
pub struct Sides {
    pub target: Target,
    pub channels: Vec<Channel>,
    pub etcd: Etcd,
    /// As much as one send commits to the log: the size of etcd's values.
    pub value_bytes: usize,
}

impl Sides {
    /// Starts both, pairs the channels, and learns what a send commits.
    ///
    /// # Errors
    /// When either does not come up.
    pub async fn start(plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Self> {
        // First: it is the one that may not be installed.
        let etcd = Etcd::start().await?;
        let target = Target::start(3).await;
        tell(&format!("pairing {} channels", plan.channels));
        let channels = target.channels(plan.channels, false).await?;
        let level = sends::measure(&target, &channels, 32, plan.length).await?;
        let committed = level.log_bytes_per_send.context("the nodes do not tell how much they log")?;
        let value_bytes = committed.ceil() as usize;
        tell(&format!("a send commits {value_bytes} bytes, and etcd's values are as large"));
        Ok(Self { target, channels, etcd, value_bytes })
    }
}

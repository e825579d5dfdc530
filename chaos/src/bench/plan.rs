//! How much is measured, and what several benchmarks share.

use std::time::Duration;

use crate::bench::etcd::Etcd;
use crate::bench::etcd::promise::Promises;
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
    /// What makes the same promise on etcd.
    pub promises: Promises,
}

/// The size of the values that are put into etcd: a text with what is noted of it, and nothing else.
pub const VALUE_BYTES: usize = 512;

impl Sides {
    /// Starts all, and pairs the channels.
    ///
    /// # Errors
    /// When either does not come up.
    pub async fn start(plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Self> {
        // First: it is the one that may not be installed.
        let etcd = Etcd::start().await?;
        let target = Target::start(3).await;
        tell(&format!("pairing {} channels", plan.channels));
        let channels = target.channels(plan.channels, false).await?;
        let promises = Promises::start(&etcd, &target, plan.channels).await?;
        Ok(Self { target, channels, etcd, promises })
    }
}

//! How much is measured, and what several benchmarks share.

use std::time::Duration;

use crate::bench::etcd::Etcd;
use crate::bench::etcd::promise::Promises;
use crate::bench::target::{Channel, Target};

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whether the run is too short for reliable figures.
    pub quick: bool,
    /// Measurements of the gateway, each with one of etcd beside it.
    pub pairs: usize,
    /// Length of each measurement.
    pub length: Duration,
    /// Kills of an owner, and of etcd's leader.
    pub trials: usize,
    /// Channels that sends go to.
    pub channels: usize,
    /// The fewest sessions of a killed node.
    pub sessions: usize,
    /// Numbers of idle channels, ascending; at least two, as they are compared.
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

    /// A plan of at most eight minutes.
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

/// The gateway and etcd, side by side, for benchmarks that compare them or need no cluster of their own.
pub struct Sides {
    pub target: Target,
    pub channels: Vec<Channel>,
    pub etcd: Etcd,
    /// Programs that make the same promise on etcd.
    pub promises: Promises,
}

/// Size of the values that are put into etcd: that of a text with its metadata alone.
pub const VALUE_BYTES: usize = 512;

impl Sides {
    /// Starts everything, and pairs the channels.
    ///
    /// # Errors
    /// When either side does not start.
    pub async fn start(plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Self> {
        // First, as etcd may not be installed.
        let etcd = Etcd::start().await?;
        let target = Target::start(3).await;
        tell(&format!("pairing {} channels", plan.channels));
        let channels = target.channels(plan.channels, false).await?;
        let promises = Promises::start(&etcd, &target, plan.channels).await?;
        Ok(Self { target, channels, etcd, promises })
    }
}

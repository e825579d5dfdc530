//! What a seed means: the size of the cluster, the load, and the faults.

use std::ops::Range;
use std::time::Duration;

use model::id::NodeId;
use raft::host::LogLimits;
use raft::simulation::{Chance, Weather};

use super::bug::Bug;

/// Range of the time during which faults are injected.
const FAULTS: Range<Duration> = Duration::from_secs(6)..Duration::from_secs(14);

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub nodes: Vec<NodeId>,
    pub shards: u16,
    pub channels: usize,
    pub limits: LogLimits,
    /// Range of the duration of a sync on a healthy disk.
    pub sync: Range<Duration>,
    /// Network conditions while faults are injected.
    pub weather: Weather,
    pub faults_last: Duration,
    /// Range of the pause between two faults.
    pub between_faults: Range<Duration>,
    /// Range of the pause between two calls of one client.
    pub between_calls: Range<Duration>,
    /// How many of a thousand entries find the core of their group busy.
    pub busy: u32,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        // A generator separate from that of the run, so that the plan does not depend on what the run draws.
        let chance = Chance::new(seed ^ 0x5eed_0f9a_11a4_5ced);
        let ms = Duration::from_millis;
        let rough = chance.hits(600);
        let rate = |most: u64| if rough { chance.among(0..most) as u32 } else { 0 };
        let keep_entries = chance.among(5..60);
        Self {
            seed,
            nodes: (1..=chance.among(3..6)).collect(),
            shards: chance.among(1..4) as u16,
            channels: chance.among(2..6) as usize,
            limits: LogLimits { keep_entries, snapshot_every: chance.among(20..80), ..LogLimits::default() },
            sync: Duration::from_micros(200)..ms(chance.among(1..6)),
            weather: Weather {
                delay: Duration::from_micros(100)..ms(chance.among(1..15)),
                lost: rate(60),
                doubled: rate(60),
                overtaken: rate(100),
                late: rate(60),
            },
            faults_last: chance.time(&FAULTS),
            between_faults: ms(100)..ms(chance.among(400..2_500)),
            between_calls: ms(5)..ms(chance.among(40..200)),
            busy: 5,
        }
    }

    /// Adjusts the plan so that the bug shows in more than one run of a hundred.
    pub fn for_bug(self, bug: Option<Bug>) -> Self {
        let ms = Duration::from_millis;
        match bug {
            // Unsynced data is lost only within the duration of a sync.
            Some(Bug::SkipSync) => Self { sync: ms(40)..ms(160), ..self },
            // A forgotten vote shows only while the candidates that asked for it still stand, so faults follow each
            // other faster.
            Some(Bug::ForgetVote) => Self { sync: ms(40)..ms(160), between_faults: ms(20)..ms(120), ..self },
            // The bug shows when a duplicate of a proposal arrives after its writer has written again.
            Some(Bug::NoRepeatCheck) => Self {
                weather: Weather { doubled: 500, late: 500, ..self.weather },
                between_calls: ms(1)..ms(5),
                ..self
            },
            // The bug shows when an owner's entry enters the log after another owner had the shard.
            Some(Bug::NoEpochCheck) => Self { busy: 40, ..self },
            // The bug shows when a node restarts before the nodes to which it promised to wait have waited.
            Some(Bug::VoteAtOnce) => Self { between_faults: ms(20)..ms(120), ..self },
            _ => self,
        }
    }
}

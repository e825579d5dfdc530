//! What a seed means: how large the cluster is, how much happens, and how bad it gets.

use std::ops::Range;
use std::time::Duration;

use model::id::NodeId;
use raft::host::LogLimits;
use raft::simulation::{Chance, Weather};

use super::bug::Bug;

/// How long things go wrong.
const FAULTS: Range<Duration> = Duration::from_secs(6)..Duration::from_secs(14);

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub nodes: Vec<NodeId>,
    pub shards: u16,
    pub channels: usize,
    pub limits: LogLimits,
    /// How long a sync takes on a healthy disk.
    pub sync: Range<Duration>,
    /// While things go wrong.
    pub weather: Weather,
    pub faults_last: Duration,
    /// Between two faults.
    pub between_faults: Range<Duration>,
    /// Between two calls of one client.
    pub between_calls: Range<Duration>,
    /// Of a thousand entries, how many find the core of their group busy.
    pub busy: u32,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        // Not the dice of the run itself: what is drawn here must not depend on what is drawn there.
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

    /// What a bug needs to show in more than one run of a hundred.
    pub fn for_bug(self, bug: Option<Bug>) -> Self {
        let ms = Duration::from_millis;
        match bug {
            // What is not synced is lost only within the time that a sync takes.
            Some(Bug::SkipSync) => Self { sync: ms(40)..ms(160), ..self },
            // A forgotten vote shows only while the candidates that asked for it still stand: so faults come sooner
            // after each other.
            Some(Bug::ForgetVote) => Self { sync: ms(40)..ms(160), between_faults: ms(20)..ms(120), ..self },
            // A proposal arrives twice, and the second time when its writer has written again.
            Some(Bug::NoRepeatCheck) => Self {
                weather: Weather { doubled: 500, late: 500, ..self.weather },
                between_calls: ms(1)..ms(5),
                ..self
            },
            // An owner's entry comes into the log when another has owned the shard meanwhile.
            Some(Bug::NoEpochCheck) => Self { busy: 40, ..self },
            // A node starts again before those have waited to whom it had promised to wait.
            Some(Bug::VoteAtOnce) => Self { between_faults: ms(20)..ms(120), ..self },
            _ => self,
        }
    }
}

//! How severe a run is: which faults, how often and for how long, and how many nodes may be broken at once.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::fault::{Kind, Lane};

/// How long a cluster of few channels may take to heal.
const HEALED: Duration = Duration::from_secs(30);

/// How long a cluster of [`MANY`] channels may take: to check each of them takes longer than [`HEALED`].
const MANY_HEALED: Duration = Duration::from_secs(180);
const MANY: usize = 10_000;

/// Parameters from which a schedule is drawn.
#[derive(Clone, Debug)]
pub struct Profile {
    pub name: String,
    /// Its arguments on the command line.
    pub arguments: String,
    /// From the first fault to the end of the last.
    pub length: Duration,
    pub nodes: u8,
    /// Connected channels of the workload.
    pub channels: usize,
    /// How long the cluster may take to heal after the last fault (I10).
    pub healed: Duration,
    /// Nodes that may be disabled at the same time.
    pub most_broken: usize,
    /// Each kind is drawn once before one is drawn again; a kind that is listed twice comes twice as often.
    pub kinds: Vec<Kind>,
    /// The pace of each lane.
    pub pace: fn(Lane) -> Pace,
}

/// How long faults of a lane, and the pauses between them, last, in milliseconds.
#[derive(Clone, Debug)]
pub struct Pace {
    pub lasts: RangeInclusive<u64>,
    pub pause: RangeInclusive<u64>,
}

impl Profile {
    /// Every kind that begins and heals quickly, to test each change of the code with.
    pub fn quick() -> Self {
        use Kind as K;
        Self {
            name: "quick".to_owned(),
            arguments: "--profile quick".to_owned(),
            length: Duration::from_secs(180),
            nodes: 3,
            channels: 8,
            healed: HEALED,
            most_broken: 3,
            kinds: vec![
                K::Kill,
                K::KillOwner,
                K::KillMajority,
                K::KillAll,
                K::Pause,
                K::Isolate,
                K::OneWay,
                K::Bridge,
                K::Offline,
                K::Failpoint,
                K::Loss,
                K::Congest,
                K::Delay,
                K::Reorder,
                K::Network,
                K::Drain,
                K::RollingRestart,
            ],
            pace: |lane| match lane {
                Lane::Nodes => Pace { lasts: 1_500..=5_000, pause: 1_500..=3_500 },
                Lane::Network => Pace { lasts: 2_000..=6_000, pause: 3_000..=8_000 },
                Lane::Operator => Pace { lasts: 3_000..=6_000, pause: 10_000..=20_000 },
                Lane::Tenants => Pace { lasts: 5_000..=8_000, pause: 10_000..=12_000 },
            },
        }
    }

    /// All kinds, for an hour.
    pub fn hour() -> Self {
        use clap::ValueEnum;
        Self {
            name: "hour".to_owned(),
            arguments: "--profile hour".to_owned(),
            length: Duration::from_secs(3_600),
            channels: 24,
            kinds: Kind::value_variants().to_vec(),
            pace: |lane| match lane {
                Lane::Nodes => Pace { lasts: 1_000..=30_000, pause: 5_000..=20_000 },
                Lane::Network => Pace { lasts: 5_000..=30_000, pause: 10_000..=60_000 },
                Lane::Operator => Pace { lasts: 10_000..=40_000, pause: 30_000..=90_000 },
                Lane::Tenants => Pace { lasts: 5_000..=10_000, pause: 10_000..=20_000 },
            },
            ..Self::quick()
        }
    }

    /// As many channels as a node is meant for, with frequent changes of owners.
    pub fn ownership() -> Self {
        use Kind as K;
        Self {
            name: "ownership".to_owned(),
            arguments: "--profile ownership".to_owned(),
            length: Duration::from_secs(1_800),
            channels: MANY,
            healed: MANY_HEALED,
            kinds: vec![
                K::Kill,
                K::KillOwner,
                K::Pause,
                K::Isolate,
                K::Offline,
                K::Drain,
                K::Reweigh,
                K::RollingRestart,
            ],
            pace: |lane| match lane {
                Lane::Nodes => Pace { lasts: 2_000..=15_000, pause: 10_000..=40_000 },
                _ => Pace { lasts: 10_000..=40_000, pause: 30_000..=90_000 },
            },
            ..Self::quick()
        }
    }

    /// Only these kinds, for a minute.
    pub fn only(kinds: &[Kind]) -> Self {
        let names: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
        Self {
            name: format!("only {}", names.join(", ")),
            arguments: format!("--only {}", names.join(",")),
            length: Duration::from_secs(60),
            kinds: kinds.to_vec(),
            ..Self::quick()
        }
    }

    /// The same profile with another length.
    pub fn lasting(self, length: Duration) -> Self {
        let arguments = format!("{} --seconds {}", self.arguments, length.as_secs());
        Self { length, arguments, ..self }
    }

    /// The profile of a stored run by its name. For other names all but the name is that of [`Self::quick`].
    pub fn named(name: &str) -> Self {
        let known = [Self::hour(), Self::ownership()].into_iter().find(|profile| profile.name == name);
        known.unwrap_or_else(|| Self { name: name.to_owned(), ..Self::quick() })
    }
}

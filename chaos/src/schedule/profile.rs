//! How hard a run is: which faults, how often and how long, and how much may be broken at once.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::fault::{Kind, Lane};

/// What a schedule is drawn from.
#[derive(Clone, Debug)]
pub struct Profile {
    pub name: String,
    /// What the command line says for it.
    pub arguments: String,
    /// From the first fault to the end of the last.
    pub length: Duration,
    pub nodes: u8,
    /// Connected channels of the workload.
    pub channels: usize,
    /// Nodes that may be out of work at the same time.
    pub most_broken: usize,
    /// Each kind is drawn once before one is drawn again; a kind that stands here twice comes twice as often.
    pub kinds: Vec<Kind>,
    /// How long faults of a lane last, and how long its pauses are, in milliseconds.
    pub pace: fn(Lane) -> Pace,
}

/// How dense a lane's faults are, in milliseconds.
#[derive(Clone, Debug)]
pub struct Pace {
    pub lasts: RangeInclusive<u64>,
    pub pause: RangeInclusive<u64>,
}

impl Profile {
    /// Every kind that is quick to begin and to heal: what each change to the code is tried with.
    pub fn quick() -> Self {
        use Kind as K;
        Self {
            name: "quick".to_owned(),
            arguments: "--profile quick".to_owned(),
            length: Duration::from_secs(180),
            nodes: 3,
            channels: 8,
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
            },
        }
    }

    /// All kinds, an hour long.
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
            },
            ..Self::quick()
        }
    }

    /// These kinds alone, a minute long.
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

    /// For so long.
    pub fn lasting(self, length: Duration) -> Self {
        let arguments = format!("{} --seconds {}", self.arguments, length.as_secs());
        Self { length, arguments, ..self }
    }

    /// Of a run that was named so, without what its schedule was drawn from.
    pub fn named(name: &str) -> Self {
        let hour = Self::hour();
        if name == hour.name { hour } else { Self { name: name.to_owned(), ..Self::quick() } }
    }
}

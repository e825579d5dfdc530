//! The faults of a run and their times, drawn from a seed: the same seed gives the same schedule.
//!
//! - [`fault`]: the kinds of faults; [`done`]: an executed fault. [`profile`]: how severe a run is.

pub mod done;
pub mod fault;
pub mod profile;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use raft::failpoint::Point;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use self::fault::{Damage, DiskFault, Fault, Foreign, Kind, Lane, NetworkFault, Rank, Stop, TenantFault, Who};
use self::profile::Profile;

/// All faults of a schedule from a file must end within this time.
const LONGEST: Duration = Duration::from_secs(86_400);

/// A fault with its time, counted from the beginning of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub at: Duration,
    pub lasts: Duration,
    pub lane: Lane,
    pub fault: Fault,
}

impl Step {
    pub fn end(&self) -> Duration {
        self.at + self.lasts
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.at < other.end() && other.at < self.end()
    }
}

/// All faults of a run, in the order of their beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    pub seed: u64,
    pub steps: Vec<Step>,
}

/// A schedule and the name of the profile from which it was drawn: enough to repeat it even when the seed draws other
/// faults by now. A run's `report.json` can be read as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub profile: String,
    pub schedule: Schedule,
}

impl Plan {
    pub fn of(seed: u64, profile: &Profile) -> Self {
        Self { profile: profile.name.clone(), schedule: Schedule::of(seed, profile) }
    }

    /// Reads a plan from a file.
    ///
    /// # Errors
    /// When the file holds no plan, or one that cannot be executed.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| name.to_string())?;
        let plan: Self = serde_json::from_str(&text).with_context(|| {
            format!(
                "{name} holds no schedule: give a run's report.json, or what `gateway-chaos schedule --json` has printed"
            )
        })?;
        let steps = &plan.schedule.steps;
        ensure!(!steps.is_empty(), "{name} holds a schedule without a fault");
        let is_played = |step: &Step| step.at.checked_add(step.lasts).is_some_and(|end| end <= LONGEST);
        ensure!(steps.iter().all(is_played), "{name} holds a fault that does not end within a day");
        Ok(plan)
    }
}

impl Schedule {
    /// Draws a schedule: in each lane one fault after the other, and never more broken nodes than the profile allows.
    pub fn of(seed: u64, profile: &Profile) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut lanes: BTreeMap<Lane, Vec<Kind>> = BTreeMap::new();
        for kind in &profile.kinds {
            lanes.entry(kind.lane()).or_default().push(*kind);
        }
        let mut steps: Vec<Step> = Vec::new();
        for (lane, mut kinds) in lanes {
            let pace = (profile.pace)(lane);
            let mut deck = Vec::new();
            let mut cursor = Duration::from_millis(rng.random_range(pace.pause.clone()));
            loop {
                if deck.is_empty() {
                    deck = kinds.clone();
                    deck.shuffle(&mut rng);
                }
                let Some(kind) = deck.pop() else { break };
                let lasts = Duration::from_millis(rng.random_range(pace.lasts.clone()));
                let fault = draw(kind, profile.nodes, &mut rng);
                if fault.breaks(usize::from(profile.nodes)) > profile.most_broken {
                    kinds.retain(|other| *other != kind);
                    continue;
                }
                let Some(step) = place(Step { at: cursor, lasts, lane, fault }, &steps, profile) else { break };
                cursor = step.end() + Duration::from_millis(rng.random_range(pace.pause.clone()));
                steps.push(step);
            }
        }
        steps.sort_by_key(|step| (step.at, step.lane));
        Self { seed, steps }
    }

    fn has(&self, is_it: impl Fn(Fault) -> bool) -> bool {
        self.steps.iter().any(|step| is_it(step.fault))
    }

    /// Whether nodes need faulty disks.
    pub fn needs_disks(&self) -> bool {
        self.has(|fault| matches!(fault, Fault::Disk { .. } | Fault::PowerCut { .. }))
    }

    /// Whether traffic between nodes must go through relays.
    pub fn needs_relays(&self) -> bool {
        self.has(|fault| matches!(fault, Fault::Delay { .. }))
    }

    /// Whether nodes need adjustable wall clocks.
    pub fn needs_clocks(&self) -> bool {
        self.has(|fault| matches!(fault, Fault::Clock { .. }))
    }

    /// Whether the workload needs a quiet tenant to be measured beside a noisy one.
    pub fn needs_neighbours(&self) -> bool {
        self.has(|fault| matches!(fault, Fault::Tenants(TenantFault::Noise | TenantFault::Sizes)))
    }

    /// Whether nodes need adjustable monotonic clocks.
    pub fn needs_boots(&self) -> bool {
        self.has(|fault| matches!(fault, Fault::Boot { .. }))
    }
}

/// Moves a step to the first time, from its own on, at which the profile allows it. `None` if there is none left.
fn place(mut step: Step, placed: &[Step], profile: &Profile) -> Option<Step> {
    let nodes = usize::from(profile.nodes);
    loop {
        if step.end() > profile.length {
            return None;
        }
        let beside: Vec<&Step> = placed.iter().filter(|other| other.overlaps(&step)).collect();
        // Steps that overlap this one need not overlap each other, so the sum errs towards fewer faults.
        let broken: usize = beside.iter().map(|other| other.fault.breaks(nodes)).sum();
        let own = step.fault.breaks(nodes);
        if own == 0 || broken + own <= profile.most_broken {
            return Some(step);
        }
        step.at = beside.iter().map(|other| other.end()).min()?;
    }
}

/// Draws the node and the severity of a fault of this kind.
fn draw(kind: Kind, nodes: u8, rng: &mut StdRng) -> Fault {
    let node: Rank = rng.random_range(0..nodes);
    match kind {
        Kind::Kill => Fault::Kill(Who::One(node)),
        Kind::KillOwner => Fault::Kill(Who::BusiestOwner),
        Kind::KillMajority => Fault::Kill(Who::Majority(node)),
        Kind::KillAll => Fault::Kill(Who::All),
        Kind::Pause => Fault::Pause(if rng.random() { Who::BusiestOwner } else { Who::One(node) }),
        Kind::Isolate => Fault::Isolate(node),
        Kind::OneWay => {
            if rng.random() {
                Fault::Mute(node)
            } else {
                Fault::Deaf(node)
            }
        }
        Kind::Bridge => Fault::Bridge(node),
        Kind::Offline => Fault::Offline(node),
        Kind::Loss => Fault::Loss { node, percent: rng.random_range(5..=40) },
        Kind::Congest => Fault::Congest { node, kbit: rng.random_range(200..=2_000) },
        Kind::Delay => Fault::Delay { node, ms: rng.random_range(20..=200), spread: rng.random_range(0..=50) },
        Kind::Reorder => Fault::Delay { node, ms: 0, spread: rng.random_range(50..=300) },
        Kind::Clock => {
            let seconds = rng.random_range(2..=7_200);
            Fault::Clock { node, seconds: if rng.random() { seconds } else { -seconds } }
        }
        Kind::Boot => Fault::Boot { node, days: rng.random_range(1..=400) },
        Kind::Disk => Fault::Disk { node, how: draw_disk(rng) },
        Kind::PowerCut => {
            let who = if rng.random() { Who::All } else { Who::One(node) };
            Fault::PowerCut { who, torn: rng.random::<bool>().then(|| rng.random()) }
        }
        Kind::Failpoint => {
            let point = rng.random_range(0..u8::try_from(Point::ALL.len()).unwrap_or(u8::MAX));
            Fault::Failpoint { node, point, dies: rng.random_bool(0.8) }
        }
        Kind::Network => Fault::Network(draw_network(node, rng)),
        Kind::Drain => Fault::Drain(node),
        Kind::Reweigh => Fault::Reweigh { node, weight: rng.random_range(2..=4) },
        Kind::Join => Fault::Join,
        Kind::RollingRestart => Fault::RollingRestart,
        Kind::Damage => {
            let hows = [Damage::FlippedBit, Damage::FlippedTables, Damage::Truncated, Damage::Wiped];
            let how = hows.choose(rng).copied();
            Fault::Damage { node, how: how.unwrap_or(Damage::Wiped) }
        }
        Kind::Foreign => Fault::Foreign { node, how: if rng.random() { Foreign::Wiped } else { Foreign::Restored } },
        Kind::Stop => {
            let how = [Stop::Disconnect, Stop::Disable, Stop::Unlink].choose(rng).copied();
            Fault::Stop { how: how.unwrap_or(Stop::Disconnect), after_ms: rng.random_range(0..=400) }
        }
        Kind::StaleDirectory => Fault::StaleDirectory(node),
        Kind::Panic => {
            Fault::Panic { node, point: rng.random_range(0..u8::try_from(Point::ALL.len()).unwrap_or(u8::MAX)) }
        }
        Kind::Noise => Fault::Tenants(TenantFault::Noise),
        Kind::Sizes => Fault::Tenants(TenantFault::Sizes),
        Kind::Namesakes => Fault::Tenants(TenantFault::Namesakes),
        Kind::Notices => Fault::Tenants(TenantFault::Notices),
    }
}

fn draw_disk(rng: &mut StdRng) -> DiskFault {
    match rng.random_range(0..4) {
        0 => DiskFault::Slow(rng.random_range(20..=500)),
        1 => DiskFault::Full(rng.random_range(16..=1_024)),
        2 => DiskFault::FailSyncs,
        _ => DiskFault::FailWrites,
    }
}

fn draw_network(node: Rank, rng: &mut StdRng) -> NetworkFault {
    match rng.random_range(0..9) {
        0 => NetworkFault::SlowAccept(rng.random_range(200..=3_000)),
        1 => NetworkFault::LoseSends(rng.random_range(5..=50)),
        2 => NetworkFault::LoseAcceptances(rng.random_range(5..=50)),
        3 => NetworkFault::Refuse(rng.random_range(5..=30)),
        4 => NetworkFault::RefuseLogins,
        5 => NetworkFault::SlowLogins(rng.random_range(200..=3_000)),
        6 => NetworkFault::KeepRepeats,
        7 => NetworkFault::HoldAcks,
        _ => NetworkFault::CutNode(node),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use clap::ValueEnum;
    use proptest::prelude::*;

    use super::*;

    fn profiles() -> impl Strategy<Value = Profile> {
        let single = proptest::sample::subsequence(Kind::value_variants().to_vec(), 1..6);
        let of = |kinds: Vec<Kind>| Profile::only(&kinds);
        prop_oneof![
            Just(Profile::quick()),
            Just(Profile::hour()),
            single.prop_map(of),
            (1..=3_usize).prop_map(|most_broken| Profile { most_broken, ..Profile::quick() })
        ]
    }

    proptest! {
        #[test]
        fn never_is_more_broken_at_once_than_the_profile_allows_and_every_fault_ends(
            seed: u64, profile in profiles()
        ) {
            let schedule = Schedule::of(seed, &profile);
            let nodes = usize::from(profile.nodes);
            for step in &schedule.steps {
                prop_assert!(step.end() <= profile.length && step.lasts > Duration::ZERO, "{step:?}");
                // The number of broken nodes rises only when a fault begins.
                let then = schedule.steps.iter().filter(|other| other.at <= step.at && step.at < other.end());
                let broken: usize = then.map(|other| other.fault.breaks(nodes)).sum();
                prop_assert!(broken <= profile.most_broken, "{broken} at {:?}: {schedule:?}", step.at);
            }
        }

        #[test]
        fn in_each_lane_one_fault_ends_before_the_next_begins(seed: u64, profile in profiles()) {
            let schedule = Schedule::of(seed, &profile);
            for lane in [Lane::Nodes, Lane::Network, Lane::Operator, Lane::Tenants] {
                let own: Vec<&Step> = schedule.steps.iter().filter(|step| step.lane == lane).collect();
                prop_assert!(own.windows(2).all(|two| two[0].end() <= two[1].at), "{own:?}");
            }
        }

        #[test]
        fn a_seed_draws_the_same_schedule_again(seed: u64, profile in profiles()) {
            prop_assert_eq!(Schedule::of(seed, &profile), Schedule::of(seed, &profile));
        }
    }

    #[test]
    fn an_hour_has_faults_of_every_kind_and_other_seeds_have_others() {
        let hour = Schedule::of(1, &Profile::hour());
        let names: BTreeSet<String> = hour
            .steps
            .iter()
            .map(|step| format!("{:?}", step.fault).split(['(', ' ']).next().unwrap_or_default().to_owned())
            .collect();
        // The number of variants of `Fault`.
        assert_eq!(names.len(), 26, "{names:?}");
        assert_ne!(hour.steps, Schedule::of(2, &Profile::hour()).steps);
        assert!(hour.steps.len() > 100, "{}", hour.steps.len());
    }

    #[test]
    fn a_schedule_is_played_again_from_what_was_printed_and_from_a_report_of_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("schedule.json");
        let plan = Plan::of(7, &Profile::hour());
        fs::write(&path, serde_json::to_string(&plan).unwrap()).unwrap();
        assert_eq!(Plan::load(&path).unwrap(), plan);
        let mut report = serde_json::to_value(&plan).unwrap();
        report["faults"] = serde_json::json!([]);
        fs::write(&path, report.to_string()).unwrap();
        assert_eq!(Plan::load(&path).unwrap(), plan);
        let again = Profile::named(&plan.profile);
        assert_eq!((again.name, again.channels), ("hour".to_owned(), Profile::hour().channels));
        assert_eq!(Profile::named("only kill").channels, Profile::quick().channels);
    }

    #[test]
    fn a_slow_disk_is_read_as_older_reports_have_it() {
        let fault: Fault = serde_json::from_str(r#"{ "disk": { "node": 1, "how": { "slow": 120 } } }"#).unwrap();
        assert_eq!(fault, Fault::Disk { node: 1, how: DiskFault::Slow(120) });
        assert_eq!(fault.to_string(), "disk of node #2: syncs take 120 ms more and writes 600 µs");
    }

    /// The runs of `tests/clusters/quick_run.rs` are just long enough for all their kinds of faults.
    #[test]
    fn every_kind_comes_up_whatever_the_seed_where_there_is_time_for_it() {
        let heavy = [Kind::Clock, Kind::Boot, Kind::Disk, Kind::PowerCut, Kind::Damage, Kind::Join, Kind::Reweigh];
        let heavy = Profile::only(&heavy).lasting(Duration::from_secs(75));
        let quick = Profile::quick().lasting(Duration::from_secs(120));
        for seed in 0..500 {
            let (heavy, quick) = (Schedule::of(seed, &heavy), Schedule::of(seed, &quick));
            let words: BTreeSet<String> = heavy.steps.iter().map(|step| step.fault.word()).collect();
            assert_eq!(words.len(), 7, "{words:?}");
            let damages = heavy.steps.iter().filter(|step| matches!(step.fault, Fault::Damage { .. }));
            // At least two, as one of them may be where the node need not read.
            assert!(damages.count() >= 2, "{heavy:?}");
            // Each kind is drawn once before one is drawn again. The operator's lane may have to wait, so does not
            // count.
            let of_nodes = Profile::quick().kinds.iter().filter(|kind| kind.lane() == Lane::Nodes).count();
            assert!(quick.steps.iter().filter(|step| step.lane == Lane::Nodes).count() >= of_nodes, "{quick:?}");
        }
    }

    #[test]
    fn a_file_that_is_no_schedule_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("schedule.json");
        let refusal = || format!("{:#}", Plan::load(&path).unwrap_err());
        assert!(refusal().contains("schedule.json"), "{}", refusal());
        let mut never = Plan::of(7, &Profile::quick());
        never.schedule.steps[0].lasts = Duration::MAX;
        let empty = Plan { schedule: Schedule { seed: 7, steps: Vec::new() }, ..never.clone() };
        let files = [
            ("{}".to_owned(), "holds no schedule: give a run's report.json"),
            ("seed 7".to_owned(), "holds no schedule"),
            (serde_json::to_string(&empty).unwrap(), "without a fault"),
            (serde_json::to_string(&never).unwrap(), "within a day"),
        ];
        for (text, why) in files {
            fs::write(&path, text).unwrap();
            assert!(refusal().contains("schedule.json") && refusal().contains(why), "{}", refusal());
        }
    }

    #[test]
    fn a_world_has_what_its_faults_need() {
        let needs = |kinds: &[Kind]| {
            let schedule = Schedule::of(1, &Profile::only(kinds));
            [schedule.needs_disks(), schedule.needs_relays(), schedule.needs_clocks(), schedule.needs_boots()]
        };
        assert!(Schedule::of(1, &Profile::only(&[Kind::Noise])).needs_neighbours());
        assert!(!Schedule::of(1, &Profile::only(&[Kind::Notices])).needs_neighbours());
        assert_eq!(needs(&[Kind::Kill, Kind::Isolate]), [false; 4]);
        assert_eq!(needs(&[Kind::Disk]), [true, false, false, false]);
        assert_eq!(needs(&[Kind::PowerCut]), [true, false, false, false]);
        assert_eq!(needs(&[Kind::Delay]), [false, true, false, false]);
        assert_eq!(needs(&[Kind::Reorder]), [false, true, false, false]);
        assert_eq!(needs(&[Kind::Clock]), [false, false, true, false]);
        assert_eq!(needs(&[Kind::Boot]), [false, false, false, true]);
    }
}

//! A run: a world, a workload, a schedule of faults, an end to all faults, and a judgement.
//!
//! - [`faults`]: a schedule as it happens. [`injector`]: one fault.
//! - [`replicas`]: what the replicas hold when all is at rest.

pub mod faults;
pub mod injector;
pub mod replicas;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use chrono::Utc;

use crate::check;
use crate::history::{Collected, Recorder};
use crate::report::Report;
use crate::schedule::Schedule;
use crate::schedule::profile::Profile;
use crate::workload::{Pace, Workload};
use crate::world::{Options, World};

/// How long the cluster may take to heal after the last fault (I10).
pub const HEALED: Duration = Duration::from_secs(30);

/// What a run is made from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Draws the schedule and the workload.
    pub seed: u64,
    pub profile: Profile,
    pub pace: Pace,
    /// What nodes find in their environment, as `FAILPOINTS`.
    pub environment: Vec<(String, String)>,
    /// Where all that is known of the run is kept; made, and must not exist.
    pub folder: PathBuf,
}

impl Setup {
    pub fn new(seed: u64, profile: Profile, folder: PathBuf) -> Self {
        let pace = Pace { channels: profile.channels, ..Pace::default() };
        Self { seed, profile, pace, environment: Vec::new(), folder }
    }
}

/// Does a run and judges it. The folder then holds history, evidence, logs and report.
///
/// # Errors
/// When the world or its workload cannot be made, or does not tell afterwards what it knows. What the faults did to it is
/// no error: that is the report's.
pub async fn run(setup: &Setup, tell: impl Fn(&str)) -> anyhow::Result<Report> {
    let Setup { seed, profile, pace, environment, folder } = setup;
    ensure!(!folder.exists(), "{} is there already: name a folder that is not", folder.display());
    let (began_at, start) = (Utc::now(), Instant::now());
    let schedule = Schedule::of(*seed, profile);
    ensure!(!schedule.steps.is_empty(), "no fault of {} fits into that time: give more --seconds", profile.name);
    let options = Options {
        nodes: profile.nodes,
        flags: Vec::new(),
        clocks: profile.needs_clocks(),
        disks: profile.needs_disks(),
        relays: profile.needs_relays(),
        environment: environment.clone(),
    };
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    // Nothing is known of a run that had no world.
    let world = World::found(options).await.inspect_err(|_| drop(std::fs::remove_dir(folder)))?;
    tell(&format!("{} nodes are ready after {:.1?}", profile.nodes, start.elapsed()));
    let played = play(&world, &schedule, *seed, *pace, folder, &tell).await;
    // Also of a run that came to no end: they say why.
    keep_logs(&world, folder)?;
    let (faults, evidence) = played?;
    drop(world);
    evidence.store(folder)?;
    let report = Report::new(profile, schedule, faults, began_at, start.elapsed());
    // Judging an hour takes a while, and may be interrupted.
    report.begin(folder)?;
    judge(folder, report)
}

type Played = (Vec<faults::Done>, crate::history::Evidence);

/// From the first client to the last look at what is there.
async fn play(
    world: &World,
    schedule: &Schedule,
    seed: u64,
    pace: Pace,
    folder: &Path,
    tell: impl Fn(&str),
) -> anyhow::Result<Played> {
    let recorder = Arc::new(Recorder::create(folder, seed)?);
    let workload = Workload::start(world.maps(), seed, recorder.clone(), pace).await?;
    tell(&format!("the workload goes on after {}", recorder.now()));
    let faults = faults::play(world, schedule, &recorder, |done| tell(&done.to_string())).await;
    injector::heal(world).await.context("all faults are to end")?;
    let since = recorder.now();
    let liveness = workload.heal(since, HEALED).await;
    tell(&format!("faults ended at {since}, looked at until {}", recorder.now()));
    let mut evidence = workload.stop(Some(liveness)).await?;
    match replicas::collect(world, &recorder).await {
        Ok(looks) => {
            evidence.replicas = looks.last().map(|look| look.replicas.clone()).unwrap_or_default();
            evidence.looks = looks;
        }
        Err(error) => evidence.untold.push(format!("the replicas' states: {error:#}")),
    }
    recorder.finish().context("the history")?;
    tell(&format!("all is gathered after {}", recorder.now()));
    Ok((faults, evidence))
}

/// Judges what a run's folder holds, and writes the report into it.
fn judge(folder: &Path, report: Report) -> anyhow::Result<Report> {
    let collected = Collected::load(folder)?;
    let report = report.judged(&collected, check::judge(&collected));
    report.write(folder, &collected)?;
    Ok(report)
}

/// Judges a run that was stored, again.
///
/// # Errors
/// When the folder does not hold one.
pub fn judge_again(folder: &Path) -> anyhow::Result<Report> {
    judge(folder, Report::load(folder)?)
}

fn keep_logs(world: &World, folder: &Path) -> anyhow::Result<()> {
    for log in world.logs()? {
        let name = log.file_name().context("a log has a name")?;
        std::fs::copy(&log, folder.join(name)).with_context(|| log.display().to_string())?;
    }
    Ok(())
}

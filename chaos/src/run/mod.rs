//! A run: a world, a workload, a schedule of faults, the end of all faults, and the checks.
//!
//! - [`faults`]: executes the schedule. [`injector`]: one fault. [`damage`]: faults that change files.
//! - [`stopping`]: a channel that is stopped during many sends.
//! - [`replicas`]: the state of all replicas at the end.

pub mod damage;
pub mod faults;
pub mod injector;
pub mod replicas;
pub mod stopping;

use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Context, ensure};
use chrono::Utc;

use crate::check;
use crate::history::{Collected, Evidence, Recorder};
use crate::report::Report;
use crate::schedule::done::Done;
use crate::setup::Setup;
use crate::workload::Workload;
use crate::world::{Options, World};

/// Marker file in the folder of an interrupted run.
const INTERRUPTED: &str = "interrupted";

/// Executes and checks a run. Its folder then holds history, evidence, logs and report; a run that is dropped before
/// its end leaves its history there.
///
/// # Errors
/// When the world or its workload cannot be set up, or cannot be read at the end. Effects of faults are no errors; they
/// are in the report.
pub async fn run(setup: &Setup, tell: impl Fn(&str)) -> anyhow::Result<Report> {
    let Setup { profile, schedule, folder, .. } = setup;
    ensure!(!folder.exists(), "{} is there already: name a folder that is not", folder.display());
    let (began_at, start) = (Utc::now(), Instant::now());
    ensure!(!schedule.steps.is_empty(), "no fault of {} fits into that time: give more --seconds", profile.name);
    let options = Options {
        nodes: profile.nodes,
        flags: Vec::new(),
        clocks: schedule.needs_clocks(),
        boots: schedule.needs_boots(),
        disks: schedule.needs_disks(),
        relays: schedule.needs_relays(),
        environment: setup.environment(),
    };
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    // Declared before the world, so that it is dropped after it.
    let mut unfinished = Unfinished { folder, recorder: OnceLock::new(), is_over: false };
    let world = World::found(options).await?;
    tell(&format!("{} nodes are ready after {:.1?}", profile.nodes, start.elapsed()));
    let played = play(&world, setup, &unfinished.recorder, &tell).await;
    unfinished.is_over = true;
    // Before the errors of the run are returned: the logs explain them.
    keep_logs(&world, folder)?;
    let (faults, evidence) = played?;
    drop(world);
    evidence.store(folder)?;
    let report = Report::new(setup, faults, began_at, start.elapsed());
    // The checks of an hour take a while, and may be interrupted.
    report.begin(folder)?;
    let judged = folder.clone();
    tokio::task::spawn_blocking(move || judge(&judged, report)).await?
}

/// Completes the folder of a run that is dropped before its end.
struct Unfinished<'a> {
    folder: &'a Path,
    /// Set once there is something to record.
    recorder: OnceLock<Arc<Recorder>>,
    is_over: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Errors, such as that of a full disk, cannot be reported from `drop`.
        let _ = match self.recorder.get() {
            Some(recorder) => recorder.finish().and_then(|()| fs::write(self.folder.join(INTERRUPTED), "")),
            // A run without a world has recorded nothing.
            None => fs::remove_dir(self.folder),
        };
    }
}

type Played = (Vec<Done>, Evidence);

/// The part from the first client to the last look at the replicas.
async fn play(
    world: &World,
    setup: &Setup,
    recorded: &OnceLock<Arc<Recorder>>,
    tell: impl Fn(&str),
) -> anyhow::Result<Played> {
    let Setup { schedule, pace, folder, .. } = setup;
    let recorder = Arc::new(Recorder::create(folder, schedule.seed)?);
    let recorder = recorded.get_or_init(|| recorder);
    let workload = Workload::start(world.maps(), schedule.seed, recorder.clone(), *pace).await?;
    tell(&format!("the workload goes on after {}", recorder.now()));
    let faults = faults::play(world, workload.acts(), schedule, recorder, |done| tell(&done.to_string())).await;
    injector::heal(world).await.context("all faults are to end")?;
    let removals = world.end_removals().await;
    let since = recorder.now();
    let liveness = workload.heal(since, setup.profile.healed).await;
    tell(&format!("faults ended at {since}, looked at until {}", recorder.now()));
    let mut evidence = workload.stop(Some(liveness)).await?;
    if let Err(error) = removals {
        evidence.untold.push(format!("removals that were begun: {error:#}"));
    }
    match replicas::collect(world, recorder).await {
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

/// Checks the run in a folder, and writes the report there.
fn judge(folder: &Path, report: Report) -> anyhow::Result<Report> {
    let collected = Collected::load(folder)?;
    let report = report.judged(&collected, check::judge(&collected));
    report.write(folder, &collected)?;
    Ok(report)
}

/// Checks a stored run again.
///
/// # Errors
/// When the folder does not hold a complete run.
pub fn judge_again(folder: &Path) -> anyhow::Result<Report> {
    let was_interrupted = folder.join(INTERRUPTED).exists();
    ensure!(!was_interrupted, "{}: this run was interrupted, it has no report", folder.display());
    judge(folder, Report::load(folder)?)
}

fn keep_logs(world: &World, folder: &Path) -> anyhow::Result<()> {
    for log in world.logs()? {
        let name = log.file_name().context("a log has a name")?;
        fs::copy(&log, folder.join(name)).with_context(|| log.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::history::FaultKind;

    #[test]
    fn an_interrupted_run_leaves_its_history_and_says_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let unfinished = || {
            fs::create_dir(&folder).unwrap();
            Unfinished { folder: &folder, recorder: OnceLock::new(), is_over: false }
        };
        drop(unfinished());
        assert!(!folder.exists(), "it had no world");

        let interrupted = unfinished();
        let recorder = interrupted.recorder.get_or_init(|| Arc::new(Recorder::create(&folder, 7).unwrap()));
        recorder.fault(recorder.now(), FaultKind::Crash, &[1], "kill -9 of node 1");
        drop(interrupted);
        assert!(fs::read_to_string(folder.join("history.jsonl")).unwrap().contains("kill -9 of node 1"));
        let refused = judge_again(&folder).unwrap_err().to_string();
        assert!(refused.contains("this run was interrupted, it has no report"), "{refused}");

        fs::remove_dir_all(&folder).unwrap();
        let mut over = unfinished();
        over.is_over = true;
        drop(over);
        assert!(folder.exists() && !judge_again(&folder).unwrap_err().to_string().contains("interrupted"));
    }
}

//! The gateway's core on simulated time: the real state machines of the directory and of shards under openraft, with
//! owners, clients and a messaging network around them, and the faults that the seed determines. One seed is one run.
//!
//! - [`plan`]: what a seed means. [`scene`]: the state that all parts of a run share.
//! - [`node`]: a node's lifecycle; [`directory`]: its requests to the directory; [`owner`]: its part as the owner of a
//!   shard, with [`members`], [`channel`] and [`late`], a delayed way into the log.
//! - [`messaging`]: the network that phones are on, which knows epochs.
//! - [`client`]: sends, writes and reads; [`faults`]: injects faults meanwhile.
//! - [`machines`]: the state machines, observed; [`checks`], [`progress`], [`panics`]: what must hold during the run;
//!   [`ending`]: what must hold at its end.
//! - [`bug`]: bugs of the gateway that are put back on purpose. [`corpus`]: seeds that every test runs first.
//! - [`costs`]: what a send costs in clusters of different sizes, without faults.

pub mod bug;
mod channel;
pub mod checks;
mod client;
pub mod corpus;
pub mod costs;
mod directory;
mod ending;
mod faults;
mod late;
mod machines;
mod members;
mod messaging;
mod node;
mod owner;
mod panics;
pub mod plan;
mod progress;
mod scene;
mod trace;

use std::time::Duration;

use raft::simulation::clock;

pub use self::bug::Bug;
pub use self::checks::Counts;
use self::plan::Plan;
use self::scene::Scene;

/// Time within which a cluster must form on a healthy network.
const FORM_PATIENCE: Duration = Duration::from_secs(20);

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    /// The violations found, in the order of their discovery. Empty if everything held.
    pub violations: Vec<String>,
    pub counts: Counts,
    /// Hash of everything that happened, in order, with its time. Two runs of the same seed have the same hash.
    pub hash: u64,
    /// The trace of the run, if it was requested.
    pub lines: Vec<String>,
}

impl Outcome {
    pub fn held(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Runs one seed, with the given bug put back, if any.
pub fn run(seed: u64, bug: Option<Bug>, traced: bool) -> Outcome {
    run_plan(Plan::of(seed).for_bug(bug), bug, traced)
}

/// Runs a plan, with the given bug put back, if any.
pub fn run_plan(plan: Plan, bug: Option<Bug>, traced: bool) -> Outcome {
    let seed = plan.seed;
    let run = async move {
        let scene = Scene::new(plan, bug, traced);
        if node::form(&scene, FORM_PATIENCE).await {
            client::start(&scene);
            scene.spawn("the judge of progress", progress::watch(scene.clone()));
            faults::run(&scene).await;
            ending::judge(&scene).await;
        } else {
            scene.checks.violated("the cluster was not formed on a healthy network");
        }
        // Owners and the scene hold references to each other; without this neither would be freed.
        scene.owners.lock().clear();
        Outcome {
            seed,
            violations: scene.checks.violations(),
            counts: scene.checks.counts(),
            hash: scene.trace.hash(),
            lines: scene.trace.lines(),
        }
    };
    let (mut outcome, panics) = panics::counted(|| clock::run(seed, run));
    if panics > 0 {
        outcome.violations.push(format!("{panics} tasks panicked"));
    }
    outcome
}

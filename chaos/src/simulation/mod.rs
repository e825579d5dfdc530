//! The gateway's core on simulated time: the real state machines of the directory and of shards under openraft, with
//! owners, clients and a messaging network around them, and every fault that a seed holds. One seed is one run.
//!
//! - [`plan`]: what a seed means. [`scene`]: what the parts of a run share.
//! - [`node`]: a node's life; [`directory`]: what it asks of the directory; [`owner`]: its part as the owner of a
//!   shard, with [`members`], [`channel`] and [`late`], the way into the log.
//! - [`messaging`]: the network that phones are on, which knows epochs.
//! - [`client`]: who sends, writes and reads; [`faults`]: what goes wrong meanwhile.
//! - [`machines`]: the machines, watched; [`checks`], [`progress`], [`panics`]: what must hold; [`ending`]: what must hold at the end.
//! - [`bug`]: faults of the gateway that are put back on purpose. [`corpus`]: seeds that every test runs first.
//! - [`costs`]: what a send costs clusters of different sizes, without faults.

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

/// Within what time a cluster is formed on a healthy network.
const FORM_PATIENCE: Duration = Duration::from_secs(20);

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    /// What did not hold, in the order of its discovery. Empty: all held.
    pub violations: Vec<String>,
    pub counts: Counts,
    /// Of everything that happened, in order, with its time: two runs of a seed have the same.
    pub hash: u64,
    /// What happened, when it was asked for.
    pub lines: Vec<String>,
}

impl Outcome {
    pub fn held(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Runs one seed, with a bug put back if one is named.
pub fn run(seed: u64, bug: Option<Bug>, traced: bool) -> Outcome {
    run_plan(Plan::of(seed).for_bug(bug), bug, traced)
}

/// Runs a plan, with a bug put back if one is named.
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
        // Owners hold the scene, which holds them: without this neither is freed.
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

//! A run: a world, a workload, a schedule of faults, an end to all faults, and a judgement.
//!
//! - [`faults`]: a schedule as it happens. [`injector`]: one fault.
//! - [`healing`]: what must be so again afterwards. [`probe`]: how each node shows it.

pub mod faults;
pub mod healing;
pub mod injector;
pub mod probe;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::faults::Done;
use self::probe::Probe;
use crate::schedule::Schedule;
use crate::schedule::profile::Profile;
use crate::world::{Options, World};

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    pub schedule: Schedule,
    pub faults: Vec<Done>,
    /// How long the cluster took to heal, or why it did not (I10).
    pub healed: Result<Duration, String>,
}

/// Runs a profile with a seed.
///
/// # Errors
/// When the world cannot be made; what the faults did to it is no error.
pub async fn run(seed: u64, profile: &Profile, tell: impl Fn(&str)) -> anyhow::Result<Outcome> {
    let start = Instant::now();
    let schedule = Schedule::of(seed, profile);
    let options = Options { nodes: profile.nodes, clocks: profile.needs_clocks(), ..Options::default() };
    let world = Arc::new(World::found(options).await?);
    let probe = Probe::pair(&world).await?;
    tell(&format!("{} nodes are ready after {:.0?}", profile.nodes, start.elapsed()));
    let faults = faults::play(world.clone(), &schedule, start, |done| tell(&done.to_string())).await;
    let healed = healing::heal(&world, &probe).await.map_err(|error| format!("{error:#}"));
    Ok(Outcome { schedule, faults, healed })
}

//! A schedule as it happens: each lane does its faults one after the other, late rather than two at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::damage::Damaged;
use super::injector;
use crate::history::{At, Damage, Ended, Record, Recorder};
use crate::schedule::fault::{Fault, Lane};
use crate::schedule::{Schedule, Step};
use crate::workload::acts::Acts;
use crate::world::World;

/// How often it is looked whether all processes are there.
const LOOK: Duration = Duration::from_millis(250);

/// A fault that was done, or could not be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    pub fault: Fault,
    pub lane: Lane,
    pub from: At,
    pub to: At,
    /// Why it could not be done or undone; the cluster may have been too broken for it.
    pub problem: Option<String>,
    /// What has to be known of it besides.
    #[serde(default)]
    pub note: Option<Note>,
}

/// What there may be to know of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// Nobody came to the place at which a node was to die.
    #[serde(rename = "nothing came to that place")]
    Unreached,
}

impl Done {
    /// Whether it was done and had no effect.
    pub fn is_idle(&self) -> bool {
        self.problem.is_none() && self.note == Some(Note::Unreached)
    }

    /// What is to be said of it besides.
    pub fn more(&self) -> impl Iterator<Item = String> {
        self.problem.clone().into_iter().chain(self.note.map(|note| note.to_string()))
    }
}

/// Does the whole schedule, whose time begins now.
pub async fn play(
    world: &World,
    acts: &Acts,
    schedule: &Schedule,
    recorder: &Recorder,
    tell: impl Fn(&Done),
) -> Vec<Done> {
    let began = Instant::now();
    let mut lanes: BTreeMap<Lane, Vec<(Step, u64)>> = BTreeMap::new();
    // A schedule drawn from a seed stays the same, whatever else its faults have to have drawn.
    let mut seeds = StdRng::seed_from_u64(schedule.seed);
    for step in &schedule.steps {
        lanes.entry(step.lane).or_default().push((*step, seeds.random()));
    }
    let tell = &tell;
    let playing = lanes.into_values().map(|steps| async move {
        let mut done = Vec::new();
        for (step, seed) in steps {
            tokio::time::sleep_until((began + step.at).into()).await;
            let fault = play_one(world, acts, step, seed, recorder).await;
            tell(&fault);
            done.push(fault);
        }
        done
    });
    let over = CancellationToken::new();
    let playing = async {
        let done = join_all(playing).await.concat();
        over.cancel();
        done
    };
    let (mut done, ()) = futures::join!(playing, watch(world, recorder, &over));
    done.sort_by_key(|fault| fault.from);
    done
}

/// Notes which nodes end by themselves.
async fn watch(world: &World, recorder: &Recorder, over: &CancellationToken) {
    let mut known = BTreeSet::new();
    loop {
        for (node, process, how) in world.ended() {
            if known.insert(process) {
                let how = format!("{how}: {}", world.last_line(node));
                recorder.write(&Record::Ended(Ended { at: recorder.now(), node, how }));
            }
        }
        if over.is_cancelled() {
            return;
        }
        over.run_until_cancelled(tokio::time::sleep(LOOK)).await;
    }
}

async fn play_one(world: &World, acts: &Acts, step: Step, seed: u64, recorder: &Recorder) -> Done {
    let (from, fault) = (recorder.now(), step.fault);
    let (mut nodes, mut besides) = (Vec::new(), None);
    let played = async {
        let begun = injector::begin(world, acts, fault, seed).await?;
        nodes = begun.nodes;
        besides = begun.besides;
        if let Some(Damaged { node, place, refused, harmless }) = begun.damage {
            let what = format!("{fault}: {place}");
            recorder.write(&Record::Damage(Damage { at: recorder.now(), node, what, refused, harmless }));
        }
        tokio::time::sleep(step.lasts).await;
        injector::end(world, acts, begun.undo).await
    };
    let (problem, note) = match played.await {
        Ok(note) => (None, note),
        Err(error) => (Some(format!("{error:#}")), None),
    };
    // Also one that was not done whole: judges have to allow for what was.
    let what = match &nodes[..] {
        [] => fault.to_string(),
        nodes => format!("{fault} (nodes {nodes:?})"),
    };
    if let Some(kind) = besides {
        recorder.fault(from, kind, &[], what.clone());
    }
    recorder.fault(from, fault.kind(), &nodes, what);
    Done { fault, lane: step.lane, from, to: recorder.now(), problem, note }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>10} to {:>10}  {}", self.from.to_string(), self.to.to_string(), self.fault)?;
        self.more().try_for_each(|more| write!(f, "; {more}"))
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unreached => "nothing came to that place",
        })
    }
}

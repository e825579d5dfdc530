//! A schedule as it happens: each lane does its faults one after the other, late rather than two at once.

use std::collections::BTreeMap;
use std::time::Instant;

use futures::future::join_all;
use serde::{Deserialize, Serialize};

use super::injector::{self, Damaged};
use crate::history::{At, Damage, Record, Recorder};
use crate::schedule::fault::{Fault, Lane};
use crate::schedule::{Schedule, Step};
use crate::world::World;

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
    pub note: Option<String>,
}

/// Does the whole schedule, whose time begins now.
pub async fn play(world: &World, schedule: &Schedule, recorder: &Recorder, tell: impl Fn(&Done)) -> Vec<Done> {
    let began = Instant::now();
    let mut lanes: BTreeMap<Lane, Vec<Step>> = BTreeMap::new();
    for step in &schedule.steps {
        lanes.entry(step.lane).or_default().push(*step);
    }
    let tell = &tell;
    let playing = lanes.into_values().map(|steps| async move {
        let mut done = Vec::new();
        for step in steps {
            tokio::time::sleep_until((began + step.at).into()).await;
            let fault = play_one(world, step, recorder).await;
            tell(&fault);
            done.push(fault);
        }
        done
    });
    let mut done = join_all(playing).await.concat();
    done.sort_by_key(|fault| fault.from);
    done
}

async fn play_one(world: &World, step: Step, recorder: &Recorder) -> Done {
    let (from, fault) = (recorder.now(), step.fault);
    let mut nodes = Vec::new();
    let played = async {
        let begun = injector::begin(world, fault).await?;
        nodes = begun.nodes;
        if let Some(Damaged { node, refused }) = begun.damage {
            let what = fault.to_string();
            recorder.write(&Record::Damage(Damage { at: recorder.now(), node, what, refused, harmless: false }));
        }
        tokio::time::sleep(step.lasts).await;
        injector::end(world, begun.undo).await
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
    recorder.fault(from, fault.kind(), &nodes, what);
    Done { fault, lane: step.lane, from, to: recorder.now(), problem, note }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>10} to {:>10}  {}", self.from.to_string(), self.to.to_string(), self.fault)?;
        self.problem.iter().chain(&self.note).try_for_each(|more| write!(f, "; {more}"))
    }
}

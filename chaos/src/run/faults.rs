//! A schedule as it happens: each lane does its faults one after the other, late rather than two at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde::{Deserialize, Serialize};

use super::injector;
use crate::schedule::fault::{Fault, Lane};
use crate::schedule::{Schedule, Step};
use crate::world::World;

/// A fault that was done, or could not be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    pub fault: Fault,
    pub lane: Lane,
    /// Since the beginning of the run.
    pub from: Duration,
    pub to: Duration,
    /// Why it could not be done or undone; the cluster may have been too broken for it.
    pub problem: Option<String>,
}

/// Does the whole schedule, whose time begins now; `start` is the run's beginning.
pub async fn play(world: Arc<World>, schedule: &Schedule, start: Instant, tell: impl Fn(&Done)) -> Vec<Done> {
    let began = Instant::now();
    let mut lanes: BTreeMap<Lane, Vec<Step>> = BTreeMap::new();
    for step in &schedule.steps {
        lanes.entry(step.lane).or_default().push(*step);
    }
    let (world, tell) = (&world, &tell);
    let playing = lanes.into_values().map(|steps| async move {
        let mut done = Vec::new();
        for step in steps {
            tokio::time::sleep_until((began + step.at).into()).await;
            let fault = play_one(world, step, start).await;
            tell(&fault);
            done.push(fault);
        }
        done
    });
    let mut done = join_all(playing).await.concat();
    done.sort_by_key(|fault| fault.from);
    done
}

async fn play_one(world: &World, step: Step, start: Instant) -> Done {
    let from = start.elapsed();
    let played = async {
        let undo = injector::begin(world, step.fault).await?;
        tokio::time::sleep(step.lasts).await;
        injector::end(world, undo).await
    };
    let problem = played.await.err().map(|error| format!("{error:#}"));
    Done { fault: step.fault, lane: step.lane, from, to: start.elapsed(), problem }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>7.1} s to {:>6.1} s  {}", self.from.as_secs_f64(), self.to.as_secs_f64(), self.fault)?;
        self.problem.as_ref().map_or(Ok(()), |problem| write!(f, "; {problem}"))
    }
}

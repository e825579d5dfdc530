//! Executes a schedule. The faults of a lane follow each other: one is delayed while another of its lane goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio_util::sync::CancellationToken;

use super::damage::Damaged;
use super::injector;
use crate::history::{Damage, Ended, Record, Recorder};
use crate::schedule::done::Done;
use crate::schedule::fault::Lane;
use crate::schedule::{Schedule, Step};
use crate::workload::acts::Acts;
use crate::world::World;

/// How often the nodes' processes are checked.
const LOOK: Duration = Duration::from_millis(250);

/// Executes a whole schedule, beginning now.
pub async fn play(
    world: &World,
    acts: &Acts,
    schedule: &Schedule,
    recorder: &Recorder,
    tell: impl Fn(&Done),
) -> Vec<Done> {
    let began = Instant::now();
    let mut lanes: BTreeMap<Lane, Vec<(Step, u64)>> = BTreeMap::new();
    // A generator of its own for what faults draw when they begin, so that the drawn schedule does not depend on it.
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

/// Records nodes that end by themselves.
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
    // A fault that was done in part is recorded too: the checks must allow for its effects.
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

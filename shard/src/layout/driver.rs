//! Has the placement changed, step by step, while this node leads the directory. Everything that it knows stands in the
//! directory, so that whoever leads next goes on where this one ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::NodeId;
use model::time::Timestamp;
use raft::directory::command::Command;
use raft::directory::layout::{LayoutCommand, LayoutRecord, MoveRecord, MoveState};
use raft::directory::members::{MemberCommand, NodeState};
use raft::directory::records::{NodeRecord, PlacementRecord};
use raft::directory::state::DirectoryState;
use raft::directory::{Directory, UpdateError};
use tokio_util::sync::CancellationToken;

use super::plan;

/// How often the leader looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long one update may take; what fails is tried again at a later look.
const UPDATE_PATIENCE: Duration = Duration::from_secs(10);

/// How many moves run at once when nobody says otherwise: each copies a shard's state, and sends must not feel it.
pub const AT_ONCE: u16 = 2;

/// What is to be done next.
#[derive(Debug, PartialEq)]
enum Step {
    Start(u64, Vec<u16>),
    Repair(LayoutRecord),
    Remove(NodeId),
}

/// Drives changes of the placement until cancelled.
pub async fn run(directory: Arc<Directory>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if directory.group().leadership().borrow().ready_epoch.is_none() {
            continue;
        }
        let voters = directory.group().members().voters;
        let Some(step) = directory.read(|state| next(state, |node| voters.contains(&node), Timestamp::now())) else {
            continue;
        };
        if let Err(error) = take(&directory, step).await {
            tracing::warn!(%error, "the layout could not be changed yet");
        }
    }
}

async fn take(directory: &Directory, step: Step) -> Result<(), UpdateError> {
    let update =
        async |command| directory.update(command, Vec::new(), Instant::now() + UPDATE_PATIENCE).await.map(drop);
    match step {
        Step::Start(number, shards) => {
            for shard in shards {
                tracing::info!(shard, layout = number, "a shard begins to move");
                update(Command::Layout(LayoutCommand::Start { number, shard })).await?;
            }
            Ok(())
        }
        Step::Repair(layout) => {
            tracing::info!(moves = layout.moves.len(), "shards are given the replicas that they lack");
            update(Command::Layout(LayoutCommand::Begin(layout))).await
        }
        Step::Remove(node) => {
            tracing::info!(node, "nothing is placed on a leaving node any more: it is removed");
            update(Command::Members(MemberCommand::Remove(node))).await
        }
    }
}

fn next(state: &DirectoryState, votes: impl Fn(NodeId) -> bool, now: Timestamp) -> Option<Step> {
    state.cluster.as_ref()?;
    if let Some(layout) = state.layout.as_ref().filter(|layout| layout.is_running()) {
        let shards = due(layout);
        return (!shards.is_empty()).then_some(Step::Start(layout.number, shards));
    }
    let present: Vec<&PlacementRecord> = state.placement.values().map(|place| &**place).collect();
    if present.iter().any(|place| !place.formed) {
        return None;
    }
    let moves = plan::repair(&present, &holders(state));
    if !moves.is_empty() {
        return Some(Step::Repair(begin(state, moves, AT_ONCE, true, now)));
    }
    let leaving = state.nodes.values().filter(|node| node.state == NodeState::Leaving);
    let empty = leaving
        .map(|node| node.id)
        .find(|id| !votes(*id) && present.iter().all(|place| place.settled && !place.replicas.contains(id)));
    empty.map(Step::Remove)
}

/// The moves that may start: one of a shard at a time, in their order.
fn due(layout: &LayoutRecord) -> Vec<u16> {
    let free = usize::from(layout.at_once.max(1)).saturating_sub(layout.count(MoveState::Running));
    let mut shards: Vec<u16> = Vec::new();
    let is_moving = |shard| layout.moves.iter().any(|each| each.shard == shard && each.state == MoveState::Running);
    for each in layout.moves.iter().filter(|each| each.state == MoveState::Waiting) {
        if shards.len() < free && !is_moving(each.shard) && !shards.contains(&each.shard) {
            shards.push(each.shard);
        }
    }
    shards
}

/// The nodes that replicas may stand on.
pub fn holders(state: &DirectoryState) -> Vec<NodeRecord> {
    state.nodes.values().filter(|node| node.state.holds_replicas()).map(|node| (**node).clone()).collect()
}

/// A change of the layout that follows the last one.
pub fn begin(
    state: &DirectoryState,
    moves: Vec<MoveRecord>,
    at_once: u16,
    automatic: bool,
    now: Timestamp,
) -> LayoutRecord {
    let number = state.layout.as_ref().map_or(0, |last| last.number) + 1;
    LayoutRecord { number, moves, at_once, automatic, began_at: now, ended_at: None, cancelled_at: None }
}

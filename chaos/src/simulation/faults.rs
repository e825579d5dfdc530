//! The faults of a run: crashes, partitions, lost and delayed messages, slow disks; and changes of the cluster.

use std::sync::Arc;
use std::time::Duration;

use model::id::NodeId;
use raft::directory::command::Command;
use raft::directory::layout::{LayoutCommand, LayoutRecord, MoveRecord};
use raft::simulation::{Crash, Life, Weather, clock};

use super::directory;
use super::members::may_lead;
use super::node;
use super::scene::{DIRECTORY, Scene};

/// Longest duration of a partition.
const CUT: Duration = Duration::from_secs(3);

/// Longest downtime of a node: for a quick restart, and for a longer absence.
const RESTART: Duration = Duration::from_millis(300);
const AWAY: Duration = Duration::from_secs(3);

/// Longest stall of a node.
const STALL: Duration = Duration::from_millis(1_500);

/// Timeout of a change of the cluster.
const CHANGE_PATIENCE: Duration = Duration::from_secs(2);

/// Injects faults for as long as the plan says, then removes them all.
pub async fn run(scene: &Arc<Scene>) {
    scene.world.router().set_weather(scene.plan.weather.clone());
    let until = clock::now() + scene.plan.faults_last;
    while clock::now() < until {
        clock::sleep(scene.chance.time(&scene.plan.between_faults)).await;
        scene.checks.count(|counts| counts.faults += 1);
        one(scene).await;
    }
    scene.world.router().set_weather(Weather::FAIR);
    scene.world.router().mend();
    for node in &scene.plan.nodes {
        scene.world.set_sync(*node, scene.plan.sync.clone());
    }
    scene.trace.note(format_args!("all is well again"));
    // Crashed nodes restart by themselves, within this time.
    clock::sleep(AWAY).await;
}

async fn one(scene: &Arc<Scene>) {
    match scene.chance.among(0..100) {
        0..=19 => crash_some(scene, 1),
        20..=27 => crash_leader(scene),
        28..=32 => crash_some(scene, scene.plan.nodes.len() / 2 + 1),
        33..=35 => crash_some(scene, scene.plan.nodes.len()),
        36..=43 => isolate(scene, scene.any()),
        44..=51 => isolate(scene, scene.leader_of(any_group(scene))),
        52..=57 => split(scene),
        58..=63 => cut_one_way(scene),
        64..=69 => stall(scene),
        70..=74 => slow_disk(scene),
        75..=79 => transfer_directory(scene).await,
        80..=91 => transfer_shard(scene),
        _ => move_shard(scene).await,
    }
}

fn any_group(scene: &Scene) -> u16 {
    scene.chance.among(0..u64::from(scene.plan.shards) + 1) as u16
}

/// Crashes a node, and restarts it after a while.
fn crash(scene: &Arc<Scene>, life: Life) {
    let crash = if scene.chance.hits(500) { Crash::Kill } else { Crash::PowerCut };
    let longest = if scene.chance.hits(500) { RESTART } else { AWAY };
    let away = scene.chance.time(&(Duration::from_millis(10)..longest));
    scene.trace.note(format_args!("node {}: {crash:?}, away for {away:?}", life.node));
    scene.checks.count(|counts| counts.crashes += 1);
    scene.world.crash(life.node, crash);
    scene.network.lost(life);
    scene.owners.lock().retain(|(owner, _), _| *owner != life);
    let held = scene.clone();
    scene.spawn("a restart", async move {
        clock::sleep(away).await;
        node::start(&held, life.node).await;
    });
}

fn crash_some(scene: &Arc<Scene>, count: usize) {
    for _ in 0..count {
        if let Some(life) = scene.any() {
            crash(scene, life);
        }
    }
}

fn crash_leader(scene: &Arc<Scene>) {
    if let Some(life) = scene.leader_of(any_group(scene)) {
        crash(scene, life);
    }
}

/// Heals all partitions after a while.
fn mend_later(scene: &Arc<Scene>) {
    let after = scene.chance.time(&(Duration::from_millis(50)..CUT));
    let held = scene.clone();
    scene.spawn("a mend", async move {
        clock::sleep(after).await;
        held.world.router().mend();
    });
}

fn isolate(scene: &Arc<Scene>, life: Option<Life>) {
    let Some(life) = life else { return };
    scene.trace.note(format_args!("node {} is cut off", life.node));
    for other in scene.plan.nodes.iter().filter(|node| **node != life.node) {
        scene.world.router().cut(life.node, *other);
        scene.world.router().cut(*other, life.node);
    }
    mend_later(scene);
}

fn split(scene: &Arc<Scene>) {
    let (left, right): (Vec<NodeId>, Vec<NodeId>) =
        scene.plan.nodes.iter().copied().partition(|_| scene.chance.hits(500));
    scene.trace.note(format_args!("{left:?} and {right:?} are apart"));
    for one in &left {
        for other in &right {
            scene.world.router().cut(*one, *other);
            scene.world.router().cut(*other, *one);
        }
    }
    mend_later(scene);
}

/// Cuts one direction between two nodes, or all directions to or from a node.
fn cut_one_way(scene: &Arc<Scene>) {
    let (Some(from), Some(to)) = (scene.chance.pick(&scene.plan.nodes), scene.chance.pick(&scene.plan.nodes)) else {
        return;
    };
    let (hears, speaks) = (scene.chance.hits(300), scene.chance.hits(300));
    scene.trace.note(format_args!("{from} does not reach {to} (deaf {hears}, mute {speaks})"));
    for other in &scene.plan.nodes {
        if other == to || speaks {
            scene.world.router().cut(*from, *other);
        }
        if hears {
            scene.world.router().cut(*other, *from);
        }
    }
    mend_later(scene);
}

fn stall(scene: &Scene) {
    if let Some(life) = scene.any() {
        let time = scene.chance.time(&(Duration::from_millis(50)..STALL));
        scene.trace.note(format_args!("node {} is not heard for {time:?}", life.node));
        scene.world.router().stall(life.node, time);
    }
}

fn slow_disk(scene: &Scene) {
    if let Some(life) = scene.any() {
        let most = Duration::from_millis(scene.chance.among(20..200));
        scene.trace.note(format_args!("node {} syncs in up to {most:?}", life.node));
        scene.world.set_sync(life.node, scene.plan.sync.start..most);
    }
}

async fn transfer_directory(scene: &Scene) {
    let target = scene.chance.pick(&scene.plan.nodes).copied();
    if let (Some(leader), Some(target)) = (scene.leader_of(DIRECTORY), target) {
        scene.trace.note(format_args!("the directory's lead goes from {} to {target}", leader.node));
        let _ = scene.group(leader, DIRECTORY).transfer_leader(target, CHANGE_PATIENCE).await;
    }
}

/// Has an owner transfer its leadership to another replica; the placement may bring it back.
fn transfer_shard(scene: &Arc<Scene>) {
    let owners: Vec<_> = scene.owners.lock().values().cloned().collect();
    let Some(owner) = scene.chance.pick(&owners).cloned() else { return };
    let Some(target) = scene.chance.pick(&scene.plan.nodes).copied().filter(|node| may_lead(&owner, *node)) else {
        return;
    };
    scene.spawn("a transfer", async move { owner.transfer(target).await });
}

/// Changes the replicas of a shard, or its leader, as an operator would.
async fn move_shard(scene: &Arc<Scene>) {
    let Some(life) = scene.leader_of(DIRECTORY) else { return };
    let shard = scene.chance.among(1..u64::from(scene.plan.shards) + 1) as u16;
    let (place, number, runs) = scene.copy(life).read(|state| {
        let layout = state.layout.as_ref();
        let number = layout.map_or(0, |layout| layout.number);
        (state.placement.get(&shard).cloned(), number + 1, layout.is_some_and(|layout| layout.is_running()))
    });
    let Some(place) = place.filter(|place| place.formed && place.settled && !runs) else { return };
    let first = scene.chance.among(0..scene.plan.nodes.len() as u64) as usize;
    let others = scene.plan.nodes.iter().cycle().skip(first).copied();
    let to: Vec<NodeId> = others.take(place.replicas.len()).collect();
    let Some(leader) = scene.chance.pick(&to).copied() else { return };
    scene.trace.note(format_args!("shard {shard} moves from {:?} to {to:?}", place.replicas));
    let moving = MoveRecord::waiting(&place, to, leader);
    let layout = LayoutRecord {
        number,
        moves: vec![moving],
        at_once: 1,
        automatic: false,
        began_at: scene.now(),
        ended_at: None,
        cancelled_at: None,
    };
    for command in [LayoutCommand::Begin(layout), LayoutCommand::Start { number, shard }] {
        if !directory::update(scene, life, Command::Layout(command), CHANGE_PATIENCE).await {
            return;
        }
    }
}

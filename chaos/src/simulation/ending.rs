//! Checks after the last fault: the cluster heals by itself within a bound, and nothing that was answered is lost,
//! duplicated or out of order.

use std::sync::Arc;
use std::time::Duration;

use model::id::{ChannelId, ShardId};
use raft::simulation::clock;
use shard::history::Direction;
use shard::simulation::{messages, outbox, status};

use super::client;
use super::scene::{DIRECTORY, Scene};

/// Time within which the cluster must heal (I10).
const HEAL: Duration = Duration::from_secs(30);

/// Pause between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Attempts of the last send of a channel.
const LAST_TRIES: usize = 200;

/// Waits until the cluster has healed, then checks the final state.
pub async fn judge(scene: &Arc<Scene>) {
    scene.end();
    let deadline = clock::now() + HEAL;
    for channel in scene.channels.clone() {
        let left = deadline - clock::now();
        if clock::within(left, client::send_one(scene, channel, LAST_TRIES)).await != Some(true) {
            return scene.checks.violated(format_args!("channel {channel} takes no send after {HEAL:?}"));
        }
    }
    while let Some(missing) = what_is_missing(scene) {
        if clock::now() >= deadline {
            return scene.checks.violated(format_args!("after {HEAL:?} {missing}"));
        }
        clock::sleep(LOOK_AGAIN).await;
    }
    for channel in &scene.channels {
        look_at(scene, *channel);
    }
    for (channel, ids) in scene.tried.lock().iter() {
        let ledger = scene.network.ledger(*channel);
        let effects = ids.iter().filter(|id| ledger.contains(id)).count();
        if effects > 1 {
            scene.checks.violated(format_args!("channel {channel}: one send reached the network {effects} times"));
        }
    }
}

/// What has not healed yet, if anything.
fn what_is_missing(scene: &Scene) -> Option<String> {
    if scene.is_busy() {
        return Some("a write of the directory is not answered".to_owned());
    }
    let up = scene.up();
    if up.len() < scene.plan.nodes.len() {
        return Some("a node is down".to_owned());
    }
    let Some(leader) = scene.leader_of(DIRECTORY) else { return Some("the directory has no leader".to_owned()) };
    let first = scene.group(leader, DIRECTORY).state_hash();
    if up.iter().any(|life| scene.group(*life, DIRECTORY).state_hash() != first) {
        return Some("copies of the directory differ".to_owned());
    }
    (1..=scene.plan.shards).find_map(|shard| missing_in(scene, shard))
}

fn missing_in(scene: &Scene, shard: ShardId) -> Option<String> {
    let Some(leader) = scene.leader_of(shard) else { return Some(format!("shard {shard} has no leader")) };
    let group = scene.group(leader, shard);
    let place = scene.copy(leader).read(|state| state.placement.get(&shard).cloned())?;
    let wanted = place.replicas.iter().copied().collect();
    let members = group.members();
    if !place.settled || members.voters != wanted || !members.learners.is_empty() {
        return Some(format!("shard {shard} is at {members:?} and not at {place:?}"));
    }
    let first = group.state_hash();
    let lives = scene.up().into_iter().filter(|life| place.replicas.contains(&life.node));
    for life in lives {
        if scene.group(life, shard).state_hash() != first {
            return Some(format!("replicas of shard {shard} are not level"));
        }
    }
    scene.channels_of(shard).into_iter().find_map(|channel| {
        let waiting = group.view(|view| outbox(view, channel).len()).unwrap_or(0);
        if waiting > 0 {
            return Some(format!("{waiting} sends of channel {channel} wait"));
        }
        (!scene.network.is_read(channel)).then(|| format!("items wait for channel {channel}"))
    })
}

/// Compares one channel's sends and items in the store with those at the network.
fn look_at(scene: &Scene, channel: ChannelId) {
    let shard = scene.shard_of(channel);
    let Some(leader) = scene.leader_of(shard) else { return };
    let group = scene.group(leader, shard);
    let ledger = scene.network.ledger(channel);
    let answered = scene.answered.lock();
    let answered: Vec<_> = answered.iter().filter(|(of, _)| *of == channel).map(|(_, id)| id).collect();
    for id in answered {
        let stored = group.view(|view| status(view, channel, Direction::Outbound, id)).flatten();
        if stored.is_none() || !ledger.contains(id) {
            scene.checks.violated(format_args!("send {} was answered, and is lost: {stored:?}", id.as_str()));
        }
    }
    let places: Vec<_> = ledger.iter().map(|id| scene.checks.place_of(channel, id)).collect();
    if places.iter().any(Option::is_none) {
        scene.checks.violated(format_args!("channel {channel}: the network has a send that no owner took"));
    }
    if !places.is_sorted() {
        scene.checks.violated(format_args!("channel {channel}: the network got sends in another order (I4)"));
    }
    let arrived = scene.network.arrived(channel);
    for item in &arrived {
        if group.view(|view| status(view, channel, Direction::Inbound, item)).flatten().is_none() {
            scene.checks.violated(format_args!("item {} was acknowledged, and is lost", item.as_str()));
        }
    }
    let stored = group.view(|view| messages(view, channel)).unwrap_or(0);
    if stored != ledger.len() + arrived.len() {
        let (sent, came) = (ledger.len(), arrived.len());
        scene.checks.violated(format_args!("channel {channel}: {stored} rows for {sent} sends and {came} items"));
    }
}

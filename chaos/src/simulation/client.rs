//! The clients of the cluster: senders, whose channels also receive messages, and writers and readers of the directory.

use std::sync::Arc;
use std::time::Duration;

use model::id::{ChannelId, MessageId, Slot};
use raft::directory::command::Command;
use raft::simulation::{Life, clock};
use shard::simulation::candidate;

use super::bug::Bug;
use super::directory;
use super::scene::Scene;

/// Timeout of one attempt of a call.
const TRY_PATIENCE: Duration = Duration::from_millis(1_500);

/// Attempts of a send before its client gives up, leaving the outcome unknown.
const TRIES: usize = 6;

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(40);

/// Number of reading clients.
const READERS: usize = 2;

/// In how many of a thousand rounds of a sender a message arrives for its channel.
const ARRIVALS: u32 = 300;

pub fn start(scene: &Arc<Scene>) {
    for channel in scene.channels.clone() {
        scene.spawn("a sender", send(scene.clone(), channel));
        scene.spawn("a writer", write(scene.clone(), channel));
    }
    for _ in 0..READERS {
        scene.spawn("a reader", read(scene.clone()));
    }
}

async fn pause(scene: &Scene) {
    clock::sleep(scene.chance.time(&scene.plan.between_calls)).await;
}

/// Sends one message after the other; now and then a message arrives for the channel.
pub async fn send(scene: Arc<Scene>, channel: ChannelId) {
    while !scene.is_over() {
        if scene.chance.hits(ARRIVALS) {
            scene.network.arrives(channel, scene.message());
        }
        if !send_one(&scene, channel, TRIES).await {
            scene.checks.count(|counts| counts.sends_in_doubt += 1);
        }
        pause(&scene).await;
    }
}

/// Sends one message, retrying under the same id at random nodes. Returns whether it was answered.
pub async fn send_one(scene: &Arc<Scene>, channel: ChannelId, tries: usize) -> bool {
    let mut message = scene.message();
    let place = {
        let mut tried = scene.tried.lock();
        tried.push((channel, vec![message.clone()]));
        tried.len() - 1
    };
    for number in 0..tries {
        if let Some(life) = scene.any() {
            if ask_owner(scene, life, channel, &message, number).await.is_some() {
                scene.trace.note(format_args!("send {} answered by way of node {}", message.as_str(), life.node));
                scene.answered.lock().push((channel, message));
                scene.checks.count(|counts| counts.sends_answered += 1);
                return true;
            }
            if scene.bug == Some(Bug::NewIdOnRetry) {
                message = scene.message();
                scene.tried.lock()[place].1.push(message.clone());
            }
        }
        clock::sleep(RETRY_PAUSE).await;
    }
    false
}

/// Forwards a send from the node that received the request to the owner of its channel, as the router does.
async fn ask_owner(
    scene: &Arc<Scene>,
    life: Life,
    channel: ChannelId,
    message: &MessageId,
    tries: usize,
) -> Option<()> {
    let copy = scene.copy(life);
    let shard = copy.read(|state| state.shard_of(Slot::of_channel(channel)))?;
    let place = copy.read(|state| state.placement.get(&shard).cloned());
    let group = scene.group(life, shard);
    let known = group.members().voters.contains(&life.node).then(|| group.leadership().leader);
    let node = candidate(known, None, place.as_deref(), tries)?;
    let (held, message) = (scene.clone(), message.clone());
    let asked = scene.world.router().call(life, node, TRY_PATIENCE, move |there| {
        let owner = held.owners.lock().get(&(there, shard)).cloned();
        let message = message.clone();
        async move { owner?.accept(channel, message).await }
    });
    asked.await.ok()
}

/// Renames a channel again and again, each time once the previous name is committed.
async fn write(scene: Arc<Scene>, channel: ChannelId) {
    let mut value = 0;
    while !scene.is_over() {
        value += 1;
        scene.begins();
        write_one(&scene, channel, value).await;
        scene.ends();
        pause(&scene).await;
    }
}

async fn write_one(scene: &Arc<Scene>, channel: ChannelId, value: u64) {
    scene.checks.write_begins(channel, value);
    let proposal = directory::proposal(
        scene,
        Command::UpdateChannel { customer: scene.customer, id: channel, name: Some(value.to_string()), metadata: None },
    );
    loop {
        if let Some(life) = scene.any() {
            match directory::propose(scene, life, proposal.clone(), TRY_PATIENCE).await {
                Some(Ok(_)) => return scene.checks.write_ends(channel, value),
                Some(Err(rejection)) => {
                    return scene.checks.violated(format_args!("the write of {value} was refused: {rejection}"));
                }
                None => {}
            }
        }
        clock::sleep(RETRY_PAUSE).await;
    }
}

async fn read(scene: Arc<Scene>) {
    while !scene.is_over() {
        let channel = scene.chance.pick(&scene.channels).copied();
        if let (Some(life), Some(channel)) = (scene.any(), channel) {
            let at_least = scene.checks.read_begins(channel);
            if let Some(value) = directory::read(&scene, life, channel, TRY_PATIENCE).await {
                scene.checks.read_ends(life.node, channel, at_least, value);
            }
        }
        pause(&scene).await;
    }
}

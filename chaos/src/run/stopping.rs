//! Stops a channel during many sends, kills its owner meanwhile, and resumes it.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tokio::task::JoinSet;

use super::injector::{Begun, Undo, revive};
use crate::history::FaultKind;
use crate::history::record::Channel;
use crate::schedule::fault::Stop;
use crate::workload::acts::{self, Acts};
use crate::world::World;
use crate::world::asking::get;

/// Delay of the network's acceptances meanwhile, so that the outbox is not empty when the channel is stopped.
const ACCEPT: Duration = Duration::from_secs(4);

/// Time for all sends to be committed.
const TAKEN: Duration = Duration::from_millis(600);

/// A channel that was stopped, and its owner, which was killed.
#[derive(Debug)]
pub struct Stopped {
    owner: u64,
    channel: Channel,
    how: Stop,
    sends: JoinSet<()>,
}

/// Stops the channel and kills its owner. When this returns, the network accepts without delay again.
///
/// # Errors
/// When there is no such channel, or it has no owner.
pub async fn stop(world: &World, acts: &Acts, how: Stop, after: Duration) -> anyhow::Result<Begun> {
    let channel = acts.to_be_stopped().await?;
    world.set_network(json!({ "accept_delay_ms": ACCEPT.as_millis() as u64 })).await?;
    let stopped = amid_sends(world, acts, &channel, how, after).await;
    // Resets only the delay; other faults of the network continue.
    world.set_network(json!({ "accept_delay_ms": 0 })).await?;
    let (owner, sends) = stopped?;
    let undo = Undo::LetOn(Box::new(Stopped { owner, channel, how, sends }));
    Ok(Begun { besides: Some(FaultKind::Slow), ..Begun::at(owner, undo) })
}

async fn amid_sends(
    world: &World,
    acts: &Acts,
    channel: &Channel,
    how: Stop,
    after: Duration,
) -> anyhow::Result<(u64, JoinSet<()>)> {
    let sends = acts.flood(channel);
    tokio::time::sleep(TAKEN).await;
    let owner = owner(world, channel).await?;
    let death = async {
        tokio::time::sleep(after).await;
        world.kill(&[owner])
    };
    let ((), killed) = futures::join!(acts.stop(channel, how), death);
    killed.map(|()| (owner, sends))
}

async fn owner(world: &World, channel: &Channel) -> anyhow::Result<u64> {
    let path = format!("/v1/admin/channels/{}", channel.id);
    let (_, operator) = world.ready_operator(None, Duration::from_secs(10)).await?;
    get(&operator, &path).await?["node_id"].as_u64().context("nobody owns the channel")
}

/// Starts the killed node, and resumes the channel.
///
/// # Errors
/// When either does not come back.
pub async fn let_on(world: &World, acts: &Acts, stopped: Stopped) -> anyhow::Result<()> {
    let Stopped { owner, channel, how, sends } = stopped;
    if world.node_ids().contains(&owner) {
        revive(world, owner).await?;
    }
    acts::all(sends).await?;
    acts.resume(&channel, how).await
}

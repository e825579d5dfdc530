//! Stops a channel in the midst of many sends, has its owner die meanwhile, and lets it on again.

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

/// How slowly the network accepts meanwhile, so that the outbox is not empty when the channel is stopped.
const ACCEPT: Duration = Duration::from_secs(4);

/// For all sends to stand in the log.
const TAKEN: Duration = Duration::from_millis(600);

/// A channel that was stopped, and whose owner died.
#[derive(Debug)]
pub struct Stopped {
    owner: u64,
    channel: Channel,
    how: Stop,
    sends: JoinSet<()>,
}

/// Does it. The network accepts as before when this returns.
///
/// # Errors
/// When there is no such channel, or nobody owns it.
pub async fn stop(world: &World, acts: &Acts, how: Stop, after: Duration) -> anyhow::Result<Begun> {
    let channel = acts.to_be_stopped().await?;
    world.set_network(json!({ "accept_delay_ms": ACCEPT.as_millis() as u64 })).await?;
    let stopped = amid_sends(world, acts, &channel, how, after).await;
    // Whatever else is wrong with the network stays so.
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

/// Starts the node that died, and lets the channel on.
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

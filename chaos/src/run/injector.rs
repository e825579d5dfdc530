//! Does a fault to a world, and undoes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use crate::schedule::fault::{Damage, Fault, NetworkFault, Rank, Who};
use crate::world::World;
use crate::world::asking::until;
use crate::world::wires::{Cut, CutId, End};

/// How long a node with damaged files may take to refuse them.
const REFUSAL: Duration = Duration::from_secs(20);

/// A fault that is on, and what ends it.
#[derive(Debug)]
#[must_use]
pub enum Undo {
    /// It is over already.
    Nothing,
    Launch(Vec<u64>),
    Resume(Vec<u64>),
    Mend(CutId),
    SetClock(u64),
    CalmNetwork,
    Undrain(u64),
    Weigh(u64),
    Remove(u64),
    Replace(u64),
}

/// Begins a fault.
///
/// # Errors
/// When it cannot be done to the world as it is; what had begun of it is undone, or ends with the run's healing.
pub async fn begin(world: &World, fault: Fault) -> anyhow::Result<Undo> {
    let nodes = world.node_ids();
    let id = |rank: Rank| {
        let members = nodes.len().max(1);
        nodes.get(usize::from(rank) % members).copied().context("there is no node")
    };
    Ok(match fault {
        Fault::Kill(who) => {
            let victims = victims(world, who, &nodes).await?;
            world.kill(&victims)?;
            Undo::Launch(victims)
        }
        Fault::Pause(who) => {
            let victims = victims(world, who, &nodes).await?;
            for victim in &victims {
                world.pause(*victim)?;
            }
            Undo::Resume(victims)
        }
        Fault::Isolate(node) => Undo::Mend(world.cut(around(world, id(node)?, true, true, 100)?)?),
        Fault::Mute(node) => Undo::Mend(world.cut(around(world, id(node)?, false, true, 100)?)?),
        Fault::Deaf(node) => Undo::Mend(world.cut(around(world, id(node)?, true, false, 100)?)?),
        Fault::Loss { node, percent } => Undo::Mend(world.cut(around(world, id(node)?, true, true, percent)?)?),
        Fault::Bridge(node) => {
            let (one, next) = (world.end(id(node)?)?, world.end(id(node.wrapping_add(1))?)?);
            Undo::Mend(world.cut(vec![Cut::whole(one, next), Cut::whole(next, one)])?)
        }
        Fault::Offline(node) => {
            let node = world.end(id(node)?)?;
            let cuts = vec![Cut::whole(node, End::Simulator), Cut::whole(End::Simulator, node)];
            Undo::Mend(world.cut(cuts)?)
        }
        Fault::Clock { node, seconds } => {
            let node = id(node)?;
            world.set_clock(node, i64::from(seconds))?;
            Undo::SetClock(node)
        }
        Fault::Network(fault) => {
            world.set_network(settings(fault)).await?;
            Undo::CalmNetwork
        }
        Fault::Drain(node) => {
            let node = id(node)?;
            world.drain(node).await?;
            Undo::Undrain(node)
        }
        Fault::Reweigh { node, weight } => {
            let node = id(node)?;
            world.weigh(node, u32::from(weight)).await?;
            Undo::Weigh(node)
        }
        Fault::Join => Undo::Remove(world.grow().await?),
        Fault::RollingRestart => {
            world.rolling_restart().await?;
            Undo::Nothing
        }
        Fault::Damage { node, how } => {
            let node = id(node)?;
            damage(world, node, how).await?;
            Undo::Replace(node)
        }
    })
}

/// Ends a fault.
///
/// # Errors
/// When the world does not take it.
pub async fn end(world: &World, undo: Undo) -> anyhow::Result<()> {
    match undo {
        Undo::Nothing => Ok(()),
        Undo::Launch(ids) => ids.into_iter().try_for_each(|id| world.launch(id)),
        Undo::Resume(ids) => ids.into_iter().try_for_each(|id| world.resume(id)),
        Undo::Mend(cut) => world.mend(cut),
        Undo::SetClock(id) => world.set_clock(id, 0),
        Undo::CalmNetwork => world.calm_network().await,
        Undo::Undrain(id) => world.undrain(id).await,
        Undo::Weigh(id) => world.weigh(id, 1).await,
        Undo::Remove(id) => world.remove(id).await,
        Undo::Replace(id) => world.replace(id).await.map(drop),
    }
}

async fn victims(world: &World, who: Who, nodes: &[u64]) -> anyhow::Result<Vec<u64>> {
    let from = |rank: Rank, count: usize| {
        let ring = nodes.iter().cycle().skip(usize::from(rank) % nodes.len().max(1));
        ring.take(count).copied().collect()
    };
    Ok(match who {
        Who::One(rank) => from(rank, 1),
        Who::Majority(rank) => from(rank, nodes.len() / 2 + 1),
        Who::All => nodes.to_vec(),
        Who::BusiestOwner => vec![world.busiest_owner().await?],
    })
}

/// Cuts between a node and all others.
fn around(world: &World, id: u64, inward: bool, outward: bool, lost: u8) -> anyhow::Result<Vec<Cut>> {
    let own = world.end(id)?;
    let mut cuts = Vec::new();
    for other in world.node_ids().into_iter().filter(|other| *other != id) {
        let other = world.end(other)?;
        if inward {
            cuts.push(Cut { from: other, to: own, lost });
        }
        if outward {
            cuts.push(Cut { from: own, to: other, lost });
        }
    }
    Ok(cuts)
}

/// What the simulator is told.
fn settings(fault: NetworkFault) -> Value {
    match fault {
        NetworkFault::SlowAccept(ms) => json!({ "accept_delay_ms": ms, "accept_jitter_ms": ms / 2 }),
        NetworkFault::LoseSends(percent) => json!({ "drop_before_accept_pct": percent }),
        NetworkFault::LoseAcceptances(percent) => json!({ "drop_after_accept_pct": percent }),
        NetworkFault::Refuse(percent) => json!({ "nack": { "code": 500, "pct": percent } }),
        NetworkFault::RefuseLogins => json!({ "refuse_logins": true }),
        NetworkFault::HoldAcks => json!({ "hold_inbound_acks": true }),
    }
}

/// Ends a node, damages its files, and starts it again: it has to refuse them.
async fn damage(world: &World, id: u64, how: Damage) -> anyhow::Result<()> {
    world.kill(&[id])?;
    let data = world.data(id)?;
    match how {
        Damage::FlippedBit => {
            let file = largest(&data.join("raft"))?;
            let mut bytes = fs::read(&file)?;
            let middle = bytes.len() / 2;
            *bytes.get_mut(middle).context("the file is empty")? ^= 0x10;
            fs::write(&file, bytes)?;
        }
        Damage::Truncated => {
            let file = fs::OpenOptions::new().write(true).open(largest(&data.join("raft"))?)?;
            file.set_len(file.metadata()?.len() / 2)?;
        }
        Damage::Wiped => {
            fs::remove_dir_all(&data)?;
        }
    }
    world.launch(id)?;
    until(&format!("node {id} refuses its files"), REFUSAL, async || {
        anyhow::ensure!(!world.is_running(id), "its process runs");
        Ok(())
    })
    .await
}

fn largest(folder: &Path) -> anyhow::Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let logs = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "log"));
    let largest = logs.max_by_key(|entry| entry.metadata().map_or(0, |found| found.len()));
    largest.map(|entry| entry.path()).with_context(|| format!("{} holds no log", folder.display()))
}

/// Ends whatever may still be on: no process is stopped or down, nothing is cut, all clocks are right.
///
/// # Errors
/// When the world does not take it.
pub async fn heal(world: &World) -> anyhow::Result<()> {
    world.mend_all()?;
    for id in world.node_ids() {
        // A world without clocks that can be set has right ones, and a node that is down hears nothing.
        let _ = world.set_clock(id, 0);
        let _ = world.resume(id);
        world.launch(id)?;
    }
    world.calm_network().await
}

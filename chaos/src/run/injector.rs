//! Injects a fault into a world, and ends it.

use std::time::Duration;

use anyhow::Context;
use raft::failpoint::{Point, Wire};
use serde_json::{Value, json};

use super::damage::{self, Damaged};
use super::stopping::{self, Stopped};
use crate::disk::{Faults, Files, Loss};
use crate::history::FaultKind;
use crate::schedule::done::Note;
use crate::schedule::fault::{DiskFault, Fault, NetworkFault, Rank, Who, slow_write};
use crate::workload::acts::{Acting, Acts};
use crate::world::World;
use crate::world::asking::{get, until};
use crate::world::founding::READY;
use crate::world::relay::Hold;
use crate::world::wires::{Cut, CutId, End};

/// Failpoint action that does not end the node: it delays the caller by 200 ms, 20 times.
const WAITS: &str = "20*sleep(200)";

/// What ends an active fault.
#[derive(Debug)]
#[must_use]
pub enum Undo {
    /// The fault has ended already.
    Nothing,
    Launch(Vec<u64>),
    Resume(Vec<u64>),
    Mend(CutId),
    Widen(u64),
    LetGo(u64),
    SetClock(u64),
    CalmNetwork,
    MendDisk(u64),
    Disarm {
        node: u64,
        point: Point,
        dies: bool,
    },
    /// Reconnects a node to the directory.
    Hear(u64),
    /// Starts a node, and lets the channel resume that was stopped when the node died.
    LetOn(Box<Stopped>),
    Calm(Acting),
    Undrain(u64),
    Weigh(u64),
    Remove(u64),
    Replace(u64),
}

impl Undo {
    /// The node whose own state this restores, if it concerns only one.
    fn node(&self) -> Option<u64> {
        match self {
            Self::Widen(id) | Self::LetGo(id) | Self::SetClock(id) | Self::MendDisk(id) | Self::Hear(id) => Some(*id),
            Self::Disarm { node, .. } => Some(*node),
            Self::Nothing
            | Self::LetOn(_)
            | Self::Calm(_)
            | Self::Launch(_)
            | Self::Resume(_)
            | Self::Mend(_)
            | Self::CalmNetwork
            | Self::Undrain(_)
            | Self::Weigh(_)
            | Self::Remove(_)
            | Self::Replace(_) => None,
        }
    }
}

/// A fault that has begun.
#[derive(Debug)]
pub struct Begun {
    pub undo: Undo,
    /// The affected nodes; empty if all or none are.
    pub nodes: Vec<u64>,
    /// The result of damage to a node's files.
    pub damage: Option<Damaged>,
    /// Another kind of fault that this one causes besides its own.
    pub besides: Option<FaultKind>,
}

impl Begun {
    pub(super) fn at(node: u64, undo: Undo) -> Self {
        Self::among(vec![node], undo)
    }

    fn among(nodes: Vec<u64>, undo: Undo) -> Self {
        Self { undo, nodes, damage: None, besides: None }
    }
}

/// Begins a fault. Details that the schedule leaves open, such as the place of damage in a file, are drawn from `seed`.
///
/// # Errors
/// When the world's current state does not allow the fault. Its begun parts are undone, or end when the run heals.
pub async fn begin(world: &World, acts: &Acts, fault: Fault, seed: u64) -> anyhow::Result<Begun> {
    let nodes = world.node_ids();
    let id = |rank: Rank| {
        let members = nodes.len().max(1);
        nodes.get(usize::from(rank) % members).copied().context("there is no node")
    };
    let cut = |node: Rank, inward: bool, outward: bool, lost: u8| {
        let node = id(node)?;
        let cut = world.cut(around(world, node, inward, outward, lost)?)?;
        anyhow::Ok(Begun::at(node, Undo::Mend(cut)))
    };
    Ok(match fault {
        Fault::Kill(who) => {
            let victims = victims(world, who, &nodes).await?;
            world.kill(&victims)?;
            Begun::among(victims.clone(), Undo::Launch(victims))
        }
        Fault::PowerCut { who, torn } => {
            let victims = victims(world, who, &nodes).await?;
            world.cut_power(&victims, torn.map_or(Loss::Everything, |seed| Loss::SomePages { seed: seed.into() }))?;
            Begun::among(victims.clone(), Undo::Launch(victims))
        }
        Fault::Pause(who) => {
            let victims = victims(world, who, &nodes).await?;
            for victim in &victims {
                world.pause(*victim)?;
            }
            Begun::among(victims.clone(), Undo::Resume(victims))
        }
        Fault::Isolate(node) => cut(node, true, true, 100)?,
        Fault::Mute(node) => cut(node, false, true, 100)?,
        Fault::Deaf(node) => cut(node, true, false, 100)?,
        Fault::Loss { node, percent } => cut(node, true, true, percent)?,
        Fault::Bridge(node) => {
            let apart = vec![id(node)?, id(node.wrapping_add(1))?];
            let (one, next) = (world.end(apart[0])?, world.end(apart[1])?);
            Begun::among(apart, Undo::Mend(world.cut(vec![Cut::whole(one, next), Cut::whole(next, one)])?))
        }
        Fault::Offline(node) => {
            let (node, end) = (id(node)?, world.end(id(node)?)?);
            let cuts = vec![Cut::whole(end, End::Simulator), Cut::whole(End::Simulator, end)];
            Begun::at(node, Undo::Mend(world.cut(cuts)?))
        }
        Fault::Congest { node, kbit } => {
            let node = id(node)?;
            world.narrow(node, u32::from(kbit))?;
            Begun::at(node, Undo::Widen(node))
        }
        Fault::Delay { node, ms, spread } => {
            let node = id(node)?;
            world.hold(node, Hold { least: ms, spread })?;
            Begun::at(node, Undo::LetGo(node))
        }
        Fault::Clock { node, seconds } => {
            let node = id(node)?;
            world.set_clock(node, i64::from(seconds))?;
            Begun::at(node, Undo::SetClock(node))
        }
        Fault::Boot { node, days } => {
            let node = id(node)?;
            world.set_uptime(node, Duration::from_hours(24 * u64::from(days)))?;
            world.kill(&[node])?;
            Begun::at(node, Undo::Launch(vec![node]))
        }
        Fault::Disk { node, how } => {
            let node = id(node)?;
            world.set_disk(node, disk(how))?;
            Begun::at(node, Undo::MendDisk(node))
        }
        Fault::Failpoint { node, point, dies } => {
            let node = id(node)?;
            let point = Point::ALL.get(usize::from(point)).copied().context("there is no such failpoint")?;
            world.arm(node, point.name(), if dies { "1*return" } else { WAITS }).await?;
            Begun::at(node, Undo::Disarm { node, point, dies })
        }
        Fault::Panic { node, point } => {
            let node = id(node)?;
            let point = Point::ALL.get(usize::from(point)).copied().context("there is no such failpoint")?;
            world.arm(node, point.name(), "1*panic").await?;
            // A task that panicked may be restarted without the end of the node.
            Begun::at(node, Undo::Disarm { node, point, dies: false })
        }
        Fault::StaleDirectory(node) => {
            let node = id(node)?;
            let owned = world.owned(node).await?;
            world.arm(node, Wire::Directory.name(), "return").await?;
            let made = acts.endpoint_for(&owned, node).await;
            if made.is_err() {
                world.arm(node, Wire::Directory.name(), "off").await?;
            }
            made.map(|()| Begun::at(node, Undo::Hear(node)))?
        }
        Fault::Stop { how, after_ms } => {
            stopping::stop(world, acts, how, Duration::from_millis(after_ms.into())).await?
        }
        Fault::Tenants(what) => Begun::among(Vec::new(), Undo::Calm(acts.begin(what).await?)),
        Fault::Foreign { node, how } => {
            let (node, away) = (id(node)?, id(node.wrapping_add(1))?);
            let damaged = damage::exchange(world, node, away, how, seed).await?;
            Begun { nodes, damage: Some(damaged), ..Begun::at(node, Undo::Replace(node)) }
        }
        Fault::Network(fault) => {
            let struck = if let NetworkFault::CutNode(node) = fault { vec![id(node)?] } else { Vec::new() };
            world.set_network(settings(fault, &struck)).await?;
            Begun::among(struck, Undo::CalmNetwork)
        }
        Fault::Drain(node) => {
            let node = id(node)?;
            world.drain(node).await?;
            Begun::at(node, Undo::Undrain(node))
        }
        Fault::Reweigh { node, weight } => {
            let node = id(node)?;
            world.weigh(node, u32::from(weight)).await?;
            Begun::at(node, Undo::Weigh(node))
        }
        Fault::Join => {
            let node = world.grow().await?;
            Begun::at(node, Undo::Remove(node))
        }
        Fault::RollingRestart => {
            world.rolling_restart().await?;
            Begun::among(Vec::new(), Undo::Nothing)
        }
        Fault::Damage { node, how } => {
            let node = id(node)?;
            let damaged = damage::damage(world, node, how, seed).await?;
            Begun { damage: Some(damaged), ..Begun::at(node, Undo::Replace(node)) }
        }
    })
}

/// Ends a fault. Returns a note if there is something to report about it.
///
/// # Errors
/// When the fault cannot be ended.
pub async fn end(world: &World, acts: &Acts, undo: Undo) -> anyhow::Result<Option<Note>> {
    let note = match undo {
        // Many failpoints are rarely reached. Whether one that only waits was reached is not known.
        Undo::Disarm { node, dies: true, .. } if world.is_running(node) => Some(Note::Unreached),
        _ => None,
    };
    undone(world, acts, undo).await.map(|()| note)
}

async fn undone(world: &World, acts: &Acts, undo: Undo) -> anyhow::Result<()> {
    // An operator may have removed the node meanwhile, and its faults with it.
    let is_there = |id: &u64| world.node_ids().contains(id);
    if undo.node().is_some_and(|id| !is_there(&id)) {
        return Ok(());
    }
    match undo {
        Undo::Nothing => Ok(()),
        Undo::Launch(ids) => ids.into_iter().filter(is_there).try_for_each(|id| world.launch(id)),
        Undo::Resume(ids) => ids.into_iter().filter(is_there).try_for_each(|id| world.resume(id)),
        Undo::Mend(cut) => world.mend(cut),
        Undo::Widen(id) => world.widen(id),
        Undo::LetGo(id) => world.hold(id, Hold::default()),
        Undo::SetClock(id) => world.set_clock(id, 0),
        Undo::CalmNetwork => world.calm_network().await,
        Undo::MendDisk(id) => {
            world.set_disk(id, Faults::default())?;
            revive(world, id).await
        }
        Undo::Disarm { node, point, .. } => {
            // The node may have died already, or may die during the request.
            let _ = world.arm(node, point.name(), "off").await;
            revive(world, node).await
        }
        Undo::Hear(id) => world.arm(id, Wire::Directory.name(), "off").await,
        Undo::LetOn(stopped) => stopping::let_on(world, acts, *stopped).await,
        Undo::Calm(acting) => acting.end().await,
        Undo::Undrain(id) => world.undrain(id).await,
        Undo::Weigh(id) => world.weigh(id, 1).await,
        Undo::Remove(id) => world.remove(id).await,
        Undo::Replace(id) => world.replace(id).await.map(drop),
    }
}

/// Starts a node that a fault may have ended, as a supervisor would, until it answers: it may end a little after the
/// fault.
pub(super) async fn revive(world: &World, id: u64) -> anyhow::Result<()> {
    let operator = world.operator(id)?;
    until(&format!("node {id} is up again"), READY, async || {
        world.launch(id)?;
        get(&operator, "/healthz").await.map(drop)
    })
    .await
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

/// The cuts between a node and all others.
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

/// Request body for the simulator. `nodes` are the affected nodes of a fault that concerns nodes.
fn settings(fault: NetworkFault, nodes: &[u64]) -> Value {
    match fault {
        NetworkFault::SlowAccept(ms) => json!({ "accept_delay_ms": ms, "accept_jitter_ms": ms / 2 }),
        NetworkFault::LoseSends(percent) => json!({ "drop_before_accept_pct": percent }),
        NetworkFault::LoseAcceptances(percent) => json!({ "drop_after_accept_pct": percent }),
        NetworkFault::Refuse(percent) => json!({ "nack": { "code": 500, "pct": percent } }),
        // Not a permanent refusal: an outdated or banned client requires a person to act.
        NetworkFault::RefuseLogins => json!({ "refuse_logins": "transport" }),
        NetworkFault::SlowLogins(ms) => json!({ "login_delay_ms": ms }),
        NetworkFault::KeepRepeats => json!({ "dedup": false }),
        NetworkFault::HoldAcks => json!({ "hold_inbound_acks": true }),
        NetworkFault::CutNode(_) => json!({ "cut_node": nodes }),
    }
}

/// Settings of the faulty disk.
fn disk(fault: DiskFault) -> Faults {
    match fault {
        DiskFault::Slow(ms) => {
            let sync_delay = Duration::from_millis(ms.into());
            Faults { sync_delay, write_delay: slow_write(ms), ..Faults::default() }
        }
        DiskFault::Full(kib) => Faults { free: Some(u64::from(kib) * 1_024), ..Faults::default() },
        DiskFault::FailSyncs => Faults { failing_syncs: Some(Files::all()), ..Faults::default() },
        DiskFault::FailWrites => Faults { failing_writes: Some(Files::all()), ..Faults::default() },
    }
}

/// Ends all faults that may still be active: paused or stopped nodes, cuts, wrong clocks, faulty disks and network.
///
/// # Errors
/// When the world refuses.
pub async fn heal(world: &World) -> anyhow::Result<()> {
    world.mend_all()?;
    for id in world.node_ids() {
        // Errors are expected: not every world has such clocks and disks, and a node that is down gets no signal.
        let _ = world.set_clock(id, 0);
        let _ = world.set_disk(id, Faults::default());
        let _ = world.resume(id);
        world.launch(id)?;
    }
    world.calm_network().await
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use network::simulator::faults::{Faults, FaultsChange};

    use super::*;

    #[test]
    fn the_simulator_takes_every_fault_of_the_network() {
        use NetworkFault as F;
        let faults = [
            F::SlowAccept(200),
            F::LoseSends(5),
            F::LoseAcceptances(5),
            F::Refuse(5),
            F::RefuseLogins,
            F::SlowLogins(200),
            F::KeepRepeats,
            F::HoldAcks,
            F::CutNode(0),
        ];
        for fault in faults {
            let change: FaultsChange = serde_json::from_value(settings(fault, &[1])).unwrap();
            let (none, now) = (Faults::none(1.0), Faults::none(1.0).changed(change).unwrap());
            assert_ne!(now, none, "{fault}");
        }
    }

    #[test]
    fn a_slow_disk_is_slow_for_syncs_and_a_little_for_writes() {
        let slow = disk(DiskFault::Slow(500));
        assert_eq!((slow.sync_delay, slow.write_delay), (Duration::from_millis(500), Duration::from_micros(2_500)));
    }
}

//! The faults that can be injected into the nodes of a world.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use super::World;
use super::asking::{ask, until};
use super::node::Node;
use super::relay::{Hold, Holds};
use super::wires::{Cut, CutId, End};
use crate::disk::{Faults, Loss};

/// Timeout for a node to shut down, which includes the transfer of its leaderships.
const STOP: Duration = Duration::from_secs(60);

impl World {
    fn with<T>(&self, id: u64, act: impl FnOnce(&mut Node) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut nodes = self.nodes.lock();
        let node = nodes.get_mut(&id).with_context(|| format!("there is no node {id}"))?;
        act(node).with_context(|| format!("node {id}"))
    }

    /// Kills processes at the same time with SIGKILL, as a crash or the kernel's OOM killer would.
    ///
    /// # Errors
    /// When one of the nodes does not exist.
    pub fn kill(&self, ids: &[u64]) -> anyhow::Result<()> {
        // All processes get the signal before the first is waited for. One that has ended already counts as killed.
        for id in ids {
            let _ = self.with(*id, |node| node.signal(Signal::SIGKILL));
        }
        ids.iter().try_for_each(|id| self.with(*id, Node::kill))
    }

    /// Pauses a process with SIGSTOP.
    ///
    /// # Errors
    /// When the process does not run.
    pub fn pause(&self, id: u64) -> anyhow::Result<()> {
        self.with(id, |node| node.signal(Signal::SIGSTOP))
    }

    /// Resumes a paused process, if it still exists.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn resume(&self, id: u64) -> anyhow::Result<()> {
        self.with(id, |node| if node.is_running() { node.signal(Signal::SIGCONT) } else { Ok(()) })
    }

    /// Shuts a node down with SIGTERM, as a supervisor does, and waits until its process has ended.
    ///
    /// # Errors
    /// When the process does not end in time.
    pub async fn stop(&self, id: u64) -> anyhow::Result<()> {
        self.with(id, |node| node.signal(Signal::SIGTERM))?;
        until(&format!("node {id} has stopped"), STOP, async || {
            self.with(id, |node| {
                ensure!(!node.is_running(), "its process runs");
                Ok(())
            })
        })
        .await
    }

    /// Whether a node's process exists, paused or not.
    pub fn is_running(&self, id: u64) -> bool {
        self.with(id, |node| Ok(node.is_running())).unwrap_or(false)
    }

    /// Processes that ended by themselves and with a failure: node, process id and exit status.
    pub fn ended(&self) -> Vec<(u64, u32, String)> {
        let mut nodes = self.nodes.lock();
        let ended = nodes.iter_mut().filter_map(|(id, node)| {
            let (process, status) = node.ended().filter(|(_, status)| !status.success())?;
            Some((*id, process, status.to_string()))
        });
        ended.collect()
    }

    /// A node's end of the network.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn end(&self, id: u64) -> anyhow::Result<End> {
        self.with(id, |node| Ok(End::Place(node.home.place)))
    }

    /// Drops packets until the cut is [mended](Self::mend).
    ///
    /// # Errors
    /// When a system command fails.
    pub fn cut(&self, cuts: Vec<Cut>) -> anyhow::Result<CutId> {
        self.wires.lock().cut(cuts)
    }

    /// Ends a cut.
    ///
    /// # Errors
    /// When a system command fails.
    pub fn mend(&self, cut: CutId) -> anyhow::Result<()> {
        self.wires.lock().mend(cut)
    }

    /// Limits what a node sends to `kbit` kilobits per second; the rest is queued, or dropped.
    ///
    /// # Errors
    /// When there is no such node, or a system command fails.
    pub fn narrow(&self, id: u64, kbit: u32) -> anyhow::Result<()> {
        let place = self.with(id, |node| Ok(node.home.place))?;
        self.wires.lock().narrow(place, kbit)
    }

    /// Removes the limit of [`Self::narrow`].
    ///
    /// # Errors
    /// When there is no such node, or a system command fails.
    pub fn widen(&self, id: u64) -> anyhow::Result<()> {
        let place = self.with(id, |node| Ok(node.home.place))?;
        self.wires.lock().widen(place)
    }

    /// Delays the traffic between a node and its peers in both directions; the default [`Hold`] ends the delay.
    ///
    /// # Errors
    /// When the world was made without relays.
    pub fn hold(&self, id: u64, hold: Hold) -> anyhow::Result<()> {
        ensure!(self.options.relays, "this world's nodes cannot be held up");
        let place = self.with(id, |node| Ok(node.home.place))?;
        self.holds.lock().insert(place, hold);
        self.tell_relays()
    }

    fn tell_relays(&self) -> anyhow::Result<()> {
        let holds = self.holds.lock().clone();
        let wires = self.wires.lock();
        let peers: HashMap<IpAddr, Hold> =
            holds.iter().map(|(place, hold)| (IpAddr::from(wires.address(*place)), *hold)).collect();
        for (place, relay) in self.relays.lock().iter_mut() {
            let own = holds.get(place).copied().unwrap_or_default();
            relay.tell(&Holds { own, peers: peers.clone() }).with_context(|| format!("the relay of place {place}"))?;
        }
        Ok(())
    }

    /// Ends all cuts, limits and delays.
    ///
    /// # Errors
    /// When a system command fails.
    pub fn mend_all(&self) -> anyhow::Result<()> {
        self.holds.lock().clear();
        self.tell_relays()?;
        self.wires.lock().mend_all()
    }

    /// The data folder of a node, with its log and state.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn data(&self, id: u64) -> anyhow::Result<PathBuf> {
        self.with(id, |node| Ok(node.home.data.clone()))
    }

    /// Sets the faults of a node's disk; the default ends them all.
    ///
    /// # Errors
    /// When the world was made without faulty disks.
    pub fn set_disk(&self, id: u64, faults: Faults) -> anyhow::Result<()> {
        self.with(id, |node| {
            node.disk()?.set(faults);
            Ok(())
        })
    }

    /// Cuts the power of nodes: their processes are killed, and unsynced data is lost, all of it or some pages.
    ///
    /// # Errors
    /// When the world was made without faulty disks.
    pub fn cut_power(&self, ids: &[u64], loss: Loss) -> anyhow::Result<()> {
        self.kill(ids)?;
        ids.iter().try_for_each(|id| self.with(*id, |node| node.disk()?.crash(loss).map(drop)))
    }

    /// Arms a failpoint of a node, or disarms it (`off`).
    ///
    /// # Errors
    /// When the node refuses.
    pub async fn arm(&self, id: u64, name: &str, actions: &str) -> anyhow::Result<()> {
        let path = format!("/v1/admin/failpoints/{name}");
        ask(&self.operator(id)?, Method::PUT, &path, Some(json!({ "actions": actions }))).await.map(drop)
    }

    /// Sets faults of the messaging network; faults that are not named stay as they are.
    ///
    /// # Errors
    /// When the simulator refuses.
    pub async fn set_network(&self, faults: Value) -> anyhow::Result<()> {
        ask(self.simulator().api(), Method::PUT, "/faults", Some(faults)).await.map(drop)
    }

    /// Ends all faults of the messaging network.
    ///
    /// # Errors
    /// When the simulator refuses.
    pub async fn calm_network(&self) -> anyhow::Result<()> {
        ask(self.simulator().api(), Method::DELETE, "/faults", None).await.map(drop)
    }

    /// Sets how far a node's wall clock is ahead of the true time.
    ///
    /// # Errors
    /// When the world was made without adjustable wall clocks.
    pub fn set_clock(&self, id: u64, ahead_seconds: i64) -> anyhow::Result<()> {
        self.with(id, |node| node.home.set_clock(ahead_seconds))
    }

    /// Sets the uptime that a node's monotonic clock shows from its next start on.
    ///
    /// # Errors
    /// When there is no such node, or the world was made without adjustable monotonic clocks.
    pub fn set_uptime(&self, id: u64, uptime: Duration) -> anyhow::Result<()> {
        ensure!(self.options.boots, "this world's machines cannot boot");
        self.with(id, |node| {
            node.home.uptime = Some(uptime);
            Ok(())
        })
    }

    /// The ids of channels that a node owns now, among the first 100.
    ///
    /// # Errors
    /// When no node answers.
    pub async fn owned(&self, id: u64) -> anyhow::Result<Vec<String>> {
        let channels = self.of_any("/v1/admin/channels?limit=100").await?;
        let rows = channels["data"].as_array().context("data is a list")?;
        let owned = rows.iter().filter(|row| row["node_id"].as_u64() == Some(id));
        Ok(owned.filter_map(|row| row["id"].as_str().map(str::to_owned)).collect())
    }

    /// The leader of the shard with the most channels, as far as it is known now.
    ///
    /// # Errors
    /// When no node answers, or no shard has a leader.
    pub async fn busiest_owner(&self) -> anyhow::Result<u64> {
        let shards = self.of_any("/v1/admin/shards").await?;
        let rows = shards["data"].as_array().context("data is a list")?;
        let led = rows.iter().filter(|row| row["kind"] == "shard" && row["leader"].is_u64());
        let busiest = led.max_by_key(|row| (row["channels"].as_u64(), row["id"].as_u64()));
        busiest.and_then(|row| row["leader"].as_u64()).context("no shard is led")
    }
}

//! A cluster of real processes that is made to be broken.
//!
//! - [`map`]: where its nodes, the simulator and the receivers are; all that a workload knows of it.
//! - [`founding`]: how a world comes to be: `gateway init`, `gateway join`, a namespace for each node.
//! - [`wires`]: the network between the nodes, and what is cut of it.
//! - [`relay`]: what delays what nodes say to each other.
//! - [`node`]: a node's files and process.
//! - [`breaking`]: what can be done to nodes. [`members`]: what an operator does to them meanwhile.
//! - [`undertaker`]: what removes all of it, however the runner ends.
//!
//! Needs root: namespaces, a bridge, nftables. The simulator and the receivers live in the host's own network.

pub mod asking;
pub mod breaking;
pub mod founding;
pub mod map;
pub mod members;
pub mod node;
pub mod relay;
mod undertaker;
pub mod wires;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use reqwest::Client;
use tests::http::Api;
use tests::room::Room;
use tests::simulator::Simulator;
use tokio::sync::watch;

use self::map::{Map, Maps};
use self::node::Node;
use self::relay::{Hold, Relay};
use self::undertaker::Undertaker;
use self::wires::Wires;

/// How a world is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Members from the beginning.
    pub nodes: u8,
    /// More keys of every node's configuration, as `--set` takes them.
    pub flags: Vec<String>,
    /// Whether nodes' wall clocks can be set.
    pub clocks: bool,
    /// Whether nodes can be started with another steady clock.
    pub boots: bool,
    /// Whether nodes live on disks that can go wrong.
    pub disks: bool,
    /// Whether what nodes say to each other can be held up.
    pub relays: bool,
    /// What nodes find in their environment, as `FAILPOINTS`.
    pub environment: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 3,
            flags: Vec::new(),
            clocks: false,
            boots: false,
            disks: false,
            relays: false,
            environment: Vec::new(),
        }
    }
}

/// A running world. It ends, with all its processes, when it is dropped or its runner dies.
pub struct World {
    folder: PathBuf,
    options: Options,
    flags: Vec<String>,
    client: Client,
    wires: Mutex<Wires>,
    nodes: Mutex<BTreeMap<u64, Node>>,
    /// By place; and which hold is in force at a place.
    relays: Mutex<BTreeMap<u8, Relay>>,
    holds: Mutex<BTreeMap<u8, Hold>>,
    /// Places that were given away; none is given twice.
    places: Mutex<u8>,
    map: watch::Sender<Map>,
    simulator: Mutex<Child>,
    // Dropped in this order: processes and network, the right to run a cluster and its ports.
    _undertaker: Undertaker,
    _room: Room,
}

impl World {
    /// The world as it is now.
    pub fn map(&self) -> Map {
        self.map.borrow().clone()
    }

    /// The world as it will be.
    pub fn maps(&self) -> Maps {
        self.map.subscribe()
    }

    /// Where everything of it lies; gone when it ends, unless `GATEWAY_KEEP` is set.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What its namespaces, its bridge and its mounts are named after.
    pub fn name(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The members, whether they run or not.
    pub fn node_ids(&self) -> Vec<u64> {
        self.nodes.lock().keys().copied().collect()
    }

    /// The operator of a node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn operator(&self, id: u64) -> anyhow::Result<Api> {
        let map = self.map.borrow();
        let node = map.nodes.iter().find(|node| node.id == id).with_context(|| format!("there is no node {id}"))?;
        Ok(map.operator(node, &self.client))
    }

    pub fn simulator(&self) -> Simulator {
        self.map.borrow().simulator(&self.client)
    }

    /// The logs of all processes, by name.
    pub fn logs(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut logs: Vec<_> = std::fs::read_dir(&self.folder)?.flatten().map(|entry| entry.path()).collect();
        logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.sort();
        Ok(logs)
    }

    /// Waits until a node says that it is ready.
    ///
    /// # Errors
    /// When it does not in time, or its process has ended.
    pub async fn wait_ready(&self, id: u64, within: Duration) -> anyhow::Result<()> {
        let operator = self.operator(id)?;
        asking::until(&format!("node {id} is ready"), within, async || asking::get(&operator, "/readyz").await)
            .await
            .map(drop)
            .with_context(|| self.last_words(id))
    }

    /// What a node said last.
    pub fn last_line(&self, id: u64) -> String {
        self.last_words(id).lines().last().unwrap_or_default().trim_start_matches([' ', '|']).to_owned()
    }

    /// The end of a node's log, for an error.
    fn last_words(&self, id: u64) -> String {
        const LINES: usize = 12;
        let mut nodes = self.nodes.lock();
        let Some(node) = nodes.get_mut(&id) else { return format!("node {id} is no member") };
        let text = std::fs::read(&node.home.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let ended = node.ended().map(|(_, status)| format!(" ({status})")).unwrap_or_default();
        let tail: String =
            lines[lines.len().saturating_sub(LINES)..].iter().map(|line| format!("\n  | {line}")).collect();
        format!("node {id}{ended} said last{tail}")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for node in self.nodes.lock().values_mut() {
            let _ = node.kill();
        }
        let mut simulator = self.simulator.lock();
        let _ = simulator.kill();
        let _ = simulator.wait();
    }
}

//! A cluster of real processes that faults can be injected into.
//!
//! - [`map`]: the addresses of nodes, simulator and receivers; all that a workload knows of the world.
//! - [`founding`]: sets a world up: `gateway init`, `gateway join`, a network namespace for each node.
//! - [`wires`]: the network between the nodes, and its cuts.
//! - [`relay`]: delays traffic between nodes.
//! - [`node`]: a node's files and process.
//! - [`breaking`]: faults of nodes. [`members`]: changes by the operator.
//! - [`undertaker`]: removes everything, however the runner ends.
//!
//! Needs root for namespaces, a bridge and nftables. The simulator and the receivers run in the host's own network.

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

/// What a world is made from.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of initial members.
    pub nodes: u8,
    /// More keys of every node's configuration, in the form of `--set`.
    pub flags: Vec<String>,
    /// Whether nodes' wall clocks can be set.
    pub clocks: bool,
    /// Whether nodes can be started with another monotonic clock.
    pub boots: bool,
    /// Whether nodes' data is on faulty disks.
    pub disks: bool,
    /// Whether traffic between nodes can be delayed.
    pub relays: bool,
    /// Environment variables of nodes, such as `FAILPOINTS`.
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
    /// Relays by place, and the delays in force by place.
    relays: Mutex<BTreeMap<u8, Relay>>,
    holds: Mutex<BTreeMap<u8, Hold>>,
    /// The last place that was assigned. Places are not reused.
    places: Mutex<u8>,
    map: watch::Sender<Map>,
    simulator: Mutex<Child>,
    // Dropped last, in this order: first what remains of processes and network, then the lock on the block of ports.
    _undertaker: Undertaker,
    _room: Room,
}

impl World {
    /// The current addresses.
    pub fn map(&self) -> Map {
        self.map.borrow().clone()
    }

    /// A receiver of the current and all later addresses.
    pub fn maps(&self) -> Maps {
        self.map.subscribe()
    }

    /// The folder with all files of the world. It is removed at the end, unless `GATEWAY_KEEP` is set.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name that its namespaces, its bridge and its mounts begin with.
    pub fn name(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The members, whether they run or not.
    pub fn node_ids(&self) -> Vec<u64> {
        self.nodes.lock().keys().copied().collect()
    }

    /// A client of a node's operator port.
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

    /// Waits until a node reports that it is ready.
    ///
    /// # Errors
    /// When it does not in time. The error quotes the end of the node's log.
    pub async fn wait_ready(&self, id: u64, within: Duration) -> anyhow::Result<()> {
        let operator = self.operator(id)?;
        asking::until(&format!("node {id} is ready"), within, async || asking::get(&operator, "/readyz").await)
            .await
            .map(drop)
            .with_context(|| self.last_words(id))
    }

    /// The last line of a node's log.
    pub fn last_line(&self, id: u64) -> String {
        self.last_words(id).lines().last().unwrap_or_default().trim_start_matches([' ', '|']).to_owned()
    }

    /// The end of a node's log, for an error message.
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

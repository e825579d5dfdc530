//! Sets a world up: the simulator, `gateway init` for the first node, and `gateway join` for the others.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tests::binary;
use tests::http::{Api, client};
use tests::room::Room;
use tokio::sync::watch;

use crate::disk::FaultyDisk;

use super::asking::{ask, get, until};
use super::map::{Map, Place};
use super::node::{Home, Node, has_faketime, has_steady_clocks, spawn};
use super::relay::Relay;
use super::undertaker::{Undertaker, folder, name, remove_leftovers};
use super::wires::{NEEDED, Wires};
use super::{Options, World};

/// Timeout of one command of the gateway.
const COMMAND: Duration = Duration::from_secs(60);

/// Timeout for a node to become ready on a busy machine.
pub const READY: Duration = Duration::from_secs(60);

/// Timeout for shards to reach their placement.
pub const MOVES: Duration = Duration::from_secs(120);

/// The first port of [`Room`], and the distance between two blocks of ports. Each block has a subnet of its own.
const FIRST_PORT: u16 = 12_000;
const PORTS: u16 = 300;

/// Configuration of every node. Rate limits other than those of a customer's plan must not throttle a workload.
/// Delivery attempts follow each other quickly, so that a run has many of them, and go on for longer than any fault
/// lasts, so that a healthy receiver gets everything in the end. A draining node need not wait, since no load balancer
/// is in front of it. Logs are so short that a node that was away for a while needs snapshots.
const FLAGS: [&str; 8] = [
    "limits.ip={ burst = 1000000, refill_per_second = 1000000 }",
    "limits.customer={ burst = 1000000, refill_per_second = 1000000 }",
    "limits.channel={ burst = 1000000, refill_per_second = 1000000 }",
    "webhooks.allow_http=true",
    r#"webhooks.schedule=["0s", "1s", "2s", "3s", "5s", "8s", "15s", "30s", "60s"]"#,
    "drain.initial_wait=0s",
    "raft.keep_entries=50",
    "raft.snapshot_every=50",
];

impl World {
    /// Sets a world up, and waits until every node is ready and leads shards.
    ///
    /// # Errors
    /// When root, a program or a kernel feature is missing, or a step fails.
    pub async fn found(options: Options) -> anyhow::Result<Self> {
        static WORLDS: AtomicU8 = AtomicU8::new(0);
        let name = name(WORLDS.fetch_add(1, Ordering::Relaxed));
        let world = tokio::task::spawn_blocking(move || Self::prepare(&name, options)).await??;
        world.populate().await?;
        Ok(world)
    }

    /// Creates the simulator and the network, without nodes.
    fn prepare(name: &str, options: Options) -> anyhow::Result<Self> {
        remove_leftovers().context(NEEDED)?;
        if options.clocks {
            has_faketime()?;
        }
        if options.boots {
            has_steady_clocks()?;
        }
        let room = Room::take(options.nodes.into());
        let folder = folder(name);
        let undertaker = Undertaker::start(name, std::env::var_os("GATEWAY_KEEP").is_some())?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let (control, network) = (room.base_port + 90, room.base_port + 91);
        let subnet = u8::try_from((room.base_port - FIRST_PORT) / PORTS).context("blocks of ports are few")?;
        let wires = Wires::lay(name, subnet, network)?;
        let simulator = {
            let mut command = Command::new(binary::gateway());
            command.args(["simulator", "--control", &format!("127.0.0.1:{control}")]);
            command.args(["--network", &format!("{}:{network}", wires.host())]);
            spawn(command, &folder.join("simulator.log"))?
        };
        fs::write(folder.join("simulator.pid"), format!("{}\n", simulator.id()))?;
        let mut flags: Vec<String> = FLAGS.map(str::to_owned).into();
        flags.push(format!("webhooks.allow_cidrs=[\"{}\"]", wires.range()));
        flags.extend(options.flags.iter().cloned());
        let map = Map {
            nodes: Vec::new(),
            simulator: format!("http://127.0.0.1:{control}"),
            operator_token: String::new(),
            receivers: IpAddr::V4(wires.host()),
        };
        Ok(Self {
            folder,
            options,
            flags,
            client: client(),
            wires: Mutex::new(wires),
            nodes: Mutex::default(),
            relays: Mutex::default(),
            holds: Mutex::default(),
            places: Mutex::new(0),
            map: watch::Sender::new(map),
            simulator: Mutex::new(simulator),
            _undertaker: undertaker,
            _room: room,
        })
    }

    async fn populate(&self) -> anyhow::Result<()> {
        let control = Api::new(self.client.clone(), &self.map().simulator, None);
        until("the simulator answers", READY, async || get(&control, "/healthz").await).await?;
        let first = self.init().await?;
        self.wait_ready(first, READY).await?;
        let mut others = Vec::new();
        for _ in 1..self.options.nodes {
            others.push(self.admit(first).await?);
        }
        for other in others {
            self.wait_ready(other, READY).await?;
        }
        if self.options.nodes > 1 {
            self.spread().await?;
        }
        Ok(())
    }

    /// Initializes the cluster and starts its first node.
    async fn init(&self) -> anyhow::Result<u64> {
        let home = self.new_home()?;
        let network = format!("{}:{}", self.wires.lock().host(), self.network_port()?);
        let mut args = vec!["init".to_owned(), "--network".to_owned(), network];
        args.extend(["--base-url".to_owned(), home.api()]);
        args.extend(home.args());
        self.gateway(args).await?;
        let token = fs::read_to_string(home.dir.join("operator.token"))?;
        self.map.send_modify(|map| map.operator_token = token.trim().to_owned());
        self.settle(home)
    }

    /// Joins a new node via the node `via`, starts it, and waits until it is ready.
    ///
    /// # Errors
    /// When a step fails. The node may be a member then, running or not.
    pub async fn join(&self, via: u64) -> anyhow::Result<u64> {
        let id = self.admit(via).await?;
        self.wait_ready(id, READY).await?;
        Ok(id)
    }

    /// Joins a new node via the node `via`, and starts it.
    async fn admit(&self, via: u64) -> anyhow::Result<u64> {
        let home = self.new_home()?;
        let operator = self.operator(via)?;
        let peer = self.nodes.lock().get(&via).map(|node| node.home.peer()).context("the node is no member")?;
        // A node that has just initialized the cluster needs a moment to pass on the key that signs certificates.
        let made = until("a token is made", READY, async || {
            ask(&operator, Method::POST, "/v1/admin/tokens", Some(json!({}))).await
        });
        let made = made.await?;
        let token = made["token"].as_str().context("a token is a string")?;
        let mut args = vec!["join".to_owned(), "--token".to_owned(), token.to_owned(), "--via".to_owned(), peer];
        args.extend(home.args());
        self.gateway(args).await?;
        self.settle(home)
    }

    /// The home of a new node, in a place that no node has had.
    fn new_home(&self) -> anyhow::Result<Home> {
        let place = {
            let mut places = self.places.lock();
            *places += 1;
            *places
        };
        let mut wires = self.wires.lock();
        wires.add(place)?;
        let dir = self.folder.join(format!("place-{place}"));
        let home = Home {
            place,
            address: wires.address(place),
            data: dir.join("data"),
            dir,
            log: self.folder.join(format!("place-{place}.log")),
            clock: self.options.clocks.then(|| self.folder.join(format!("place-{place}.clock"))),
            uptime: None,
            environment: self.options.environment.clone(),
            relayed: self.options.relays,
        };
        if home.relayed {
            let (listen, node) = home.relay();
            // Without the extension `.log`: not one of the logs, as the relay writes only when it fails.
            let said = self.folder.join(format!("place-{place}.relay"));
            let relay = Relay::start(&wires.namespace(place), listen, node, &said)?;
            self.relays.lock().insert(place, relay);
        }
        if home.clock.is_some() {
            home.set_clock(0)?;
        }
        Ok(home)
    }

    /// Adds a node whose configuration has been written, and starts it.
    fn settle(&self, home: Home) -> anyhow::Result<u64> {
        let id = id_of(&home.dir)?;
        let place = Place { id, api: home.api(), ops: home.ops(), peer: home.peer() };
        let disk = if self.options.disks {
            fs::create_dir_all(&home.data)?;
            Some(FaultyDisk::mount(&format!("{}-{}", self.name(), home.place), &home.data)?)
        } else {
            None
        };
        self.nodes.lock().insert(id, Node::new(home, disk));
        self.map.send_modify(|map| {
            map.nodes.push(place);
            map.nodes.sort_by_key(|node| node.id);
        });
        self.launch(id)?;
        Ok(id)
    }

    /// Starts a node unless it runs.
    ///
    /// # Errors
    /// When there is no such node, or it cannot be started.
    pub fn launch(&self, id: u64) -> anyhow::Result<()> {
        let mut nodes = self.nodes.lock();
        let node = nodes.get_mut(&id).with_context(|| format!("there is no node {id}"))?;
        let namespace = self.wires.lock().namespace(node.home.place);
        node.start(&namespace, &self.flags)
    }

    /// Runs a command of the gateway to completion.
    pub(super) async fn gateway(&self, args: Vec<String>) -> anyhow::Result<()> {
        let folder = self.folder.clone();
        let finished = tokio::task::spawn_blocking(move || binary::run(&args, &folder, COMMAND)).await?;
        ensure!(finished.status.success(), "{}: {}", finished.status, finished.stderr.trim());
        Ok(())
    }

    fn network_port(&self) -> anyhow::Result<u16> {
        let map = self.map();
        let (_, control) = map.simulator.rsplit_once(':').context("the simulator has a port")?;
        Ok(control.parse::<u16>()? + 1)
    }

    /// Spreads the shards over all nodes, and waits until each node leads some.
    async fn spread(&self) -> anyhow::Result<()> {
        let first = *self.node_ids().first().context("there is a node")?;
        let operator = self.operator(first)?;
        let replicas = usize::from(self.options.nodes.min(3));
        self.settled(replicas).await?;
        // Refused when the shards are spread already.
        let _ = ask(&operator, Method::POST, "/v1/admin/layout/apply", Some(json!({ "at_once": 16 }))).await;
        self.settled(replicas).await?;
        until("every node leads shards", MOVES, async || {
            let nodes = get(&operator, "/v1/admin/nodes").await?;
            let leads = |node: &Value| node["owns"].as_array().is_some_and(|owned| !owned.is_empty());
            let rows = nodes["data"].as_array().context("data is a list")?;
            ensure!(rows.len() == self.node_ids().len() && rows.iter().all(leads), "{nodes}");
            Ok(())
        })
        .await
    }

    /// Waits until every shard has `replicas` replicas and no move runs.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn settled(&self, replicas: usize) -> anyhow::Result<()> {
        until("all shards are where they should be", MOVES, async || {
            let layout = self.of_any("/v1/admin/layout").await?;
            let is_whole = |shard: &Value| {
                shard["settled"] == true && shard["replicas"].as_array().is_some_and(|nodes| nodes.len() == replicas)
            };
            let shards = layout["shards"].as_array().context("shards is a list")?;
            ensure!(layout["change"]["state"] != "running" && shards.iter().all(is_whole), "{layout}");
            Ok(())
        })
        .await
    }

    /// Sends a GET request to the nodes' operator ports in turn, and returns the first response.
    ///
    /// # Errors
    /// The last node's error, when none answers.
    pub async fn of_any(&self, path: &str) -> anyhow::Result<Value> {
        let mut last = anyhow::anyhow!("there is no node");
        for id in self.node_ids() {
            match get(&self.operator(id)?, path).await {
                Ok(answer) => return Ok(answer),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The node id in a configuration file.
fn id_of(dir: &Path) -> anyhow::Result<u64> {
    let path = dir.join("gateway.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let config: toml::Table = text.parse().with_context(|| path.display().to_string())?;
    let id = config.get("node").and_then(|node| node.get("id")).and_then(toml::Value::as_integer);
    u64::try_from(id.context("a configuration names its node")?).context("ids are positive")
}

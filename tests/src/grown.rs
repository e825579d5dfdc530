//! A cluster as operators make it: `gateway init`, `gateway run`, and `gateway join` for each further node.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};

use crate::binary::{self, Finished};
use crate::cluster::{Cluster, Dev, Node, SHARDS, Undertaker};
use crate::http::{Api, client, string};
use crate::room::Room;
use crate::wait::{check, eventually, seconds};

/// How long a command may take.
const COMMAND: Duration = Duration::from_secs(60);

/// How long shards may take to move on a busy machine.
pub const MOVES: Duration = Duration::from_secs(120);

/// Nodes that most of these clusters have in the end.
const GROWN: usize = 3;

/// Flags of every node, so that nothing throttles the tests.
const FLAGS: [&str; 7] = [
    "limits.ip={ burst = 1000000, refill_per_second = 1000000 }",
    "limits.customer={ burst = 1000000, refill_per_second = 1000000 }",
    "limits.channel={ burst = 1000000, refill_per_second = 1000000 }",
    "webhooks.allow_http=true",
    "webhooks.allow_loopback=true",
    "drain.initial_wait=0s",
    "media.sweep_interval=10s",
];

/// A cluster of nodes that were made by commands. Other helpers take [`Grown::cluster`], which tracks the nodes.
pub struct Grown {
    pub cluster: Cluster,
    pub client: Client,
    folder: PathBuf,
    base_port: u16,
    /// Number of places created so far. A place keeps its ports, whatever the id of its node.
    places: u16,
    children: Vec<Child>,
}

impl Grown {
    /// Starts a simulator and a cluster of one node, and waits until the node is ready.
    pub async fn start() -> Self {
        let found = tokio::task::spawn_blocking(|| Self::found(Room::take(GROWN), None));
        found.await.expect("the start did not panic").ready_first().await
    }

    /// Starts a cluster of one node at the simulator of another cluster, and waits until the node is ready.
    pub async fn beside(of: &Cluster) -> Self {
        let of = of.dev();
        let found = tokio::task::spawn_blocking(|| Self::found(Room::beside_another(), Some(of)));
        found.await.expect("the start did not panic").ready_first().await
    }

    fn found(room: Room, beside: Option<Dev>) -> Self {
        let mut temporary = tempfile::Builder::new().prefix("gateway-test-").tempdir().expect("a folder can be made");
        let keep = std::env::var_os("GATEWAY_KEEP").is_some();
        temporary.disable_cleanup(keep);
        let (folder, base_port) = (temporary.path().to_owned(), room.base_port);
        let undertaker = Undertaker::of_processes(&folder, keep);
        let mut children = Vec::new();
        let network = beside.as_ref().map_or_else(|| local(base_port + 91), network_of);
        let (simulator, simulator_pid) = match beside {
            Some(of) => (of.simulator, of.simulator_pid),
            None => {
                let control = local(base_port + 90);
                let args = ["simulator", "--control", &control, "--network", &network];
                children.push(spawn(&folder, "simulator", &args));
                (format!("http://{control}"), pid(&children[0]))
            }
        };
        let place = place(&folder, base_port, 1);
        let mut args = vec!["init".to_owned(), "--network".to_owned(), network];
        args.extend(["--base-url".to_owned(), format!("http://{}", local(base_port + 1))]);
        args.push(format!("--shards={SHARDS}"));
        args.extend(place.args());
        binary::run(&args, &folder, COMMAND).succeeded();
        let token = std::fs::read_to_string(place.dir.join("operator.token")).expect("init writes a token");
        let dev = Dev {
            simulator,
            simulator_pid,
            nodes: Vec::new(),
            customer_id: String::new(),
            api_key: String::new(),
            operator_token: token.trim().to_owned(),
        };
        let cluster = Cluster::of(folder.clone(), dev, undertaker, temporary, room);
        Self { cluster, client: client(), folder, base_port, places: 1, children }
    }

    /// Runs `gateway restore` in the first place of a new cluster, at the simulator of the cluster that the backup and
    /// the master key are from. Returns the cluster, of which no node runs yet, and the output. `more` are additional
    /// arguments.
    pub async fn restore(from: &str, master_key_file: &Path, of: &Cluster, more: &[&str]) -> (Self, Finished) {
        let (from, key, of) = (from.to_owned(), master_key_file.to_owned(), of.dev());
        let more: Vec<String> = more.iter().map(|arg| (*arg).to_owned()).collect();
        let restoring = move || {
            let room = Room::beside_another();
            let mut temporary =
                tempfile::Builder::new().prefix("gateway-test-").tempdir().expect("a folder can be made");
            let keep = std::env::var_os("GATEWAY_KEEP").is_some();
            temporary.disable_cleanup(keep);
            let (folder, base_port) = (temporary.path().to_owned(), room.base_port);
            let undertaker = Undertaker::of_processes(&folder, keep);
            let place = place(&folder, base_port, 1);
            let mut args = vec!["restore".to_owned(), "--from".to_owned(), from];
            args.extend(more);
            args.extend(["--master-key-file".to_owned(), key.display().to_string()]);
            args.extend(["--network".to_owned(), network_of(&of)]);
            args.extend(["--base-url".to_owned(), format!("http://{}", local(base_port + 1))]);
            args.extend(place.args());
            let finished = binary::run(&args, &folder, COMMAND);
            let token = std::fs::read_to_string(place.dir.join("operator.token")).unwrap_or_default();
            let dev = Dev { nodes: Vec::new(), operator_token: token.trim().to_owned(), ..of };
            let cluster = Cluster::of(folder.clone(), dev, undertaker, temporary, room);
            let grown = Self { cluster, client: client(), folder, base_port, places: 1, children: Vec::new() };
            (grown, finished)
        };
        tokio::task::spawn_blocking(restoring).await.expect("it did not panic")
    }

    async fn ready_first(mut self) -> Self {
        self.run(1, 1);
        self.cluster.wait_ready(1, &self.client).await;
        self
    }

    /// Starts the node of a place.
    pub fn run(&mut self, place_number: u16, id: u64) {
        let place = place(&self.folder, self.base_port, place_number);
        let config = place.dir.join("gateway.toml").display().to_string();
        let mut args = vec!["run".to_owned(), "--config".to_owned(), config];
        args.extend(FLAGS.iter().flat_map(|flag| ["--set".to_owned(), (*flag).to_owned()]));
        let child = spawn(&self.folder, &format!("place-{place_number}"), &args);
        let node = Node {
            id,
            api: format!("http://{}", place.api()),
            ops: format!("http://{}", place.ops()),
            peer: place.peer(),
            pid: pid(&child),
            data: place.dir.join("data"),
            log: self.folder.join(format!("place-{place_number}.log")),
        };
        self.children.push(child);
        self.cluster.note(|dev| {
            dev.nodes.retain(|known| known.id != id);
            dev.nodes.push(node);
        });
    }

    /// Creates a join token through a node's operator port.
    pub async fn token(&self, node: u64) -> String {
        string(&self.operator(node).post("/v1/admin/tokens", json!({})).await.expect(201)["token"])
    }

    /// Runs `gateway join` in a new place, through a node. Returns the number of the place and the result.
    pub async fn try_join(&mut self, token: &str, via: u64, more: &[&str]) -> (u16, Finished) {
        self.places += 1;
        let number = self.places;
        (number, self.join_at(number, token, via, more).await)
    }

    /// Like [`Grown::try_join`], in an existing place.
    pub async fn join_at(&self, number: u16, token: &str, via: u64, more: &[&str]) -> Finished {
        let place = place(&self.folder, self.base_port, number);
        let via = self.cluster.node(via).peer;
        let mut args = vec!["join".to_owned(), "--token".to_owned(), token.to_owned(), "--via".to_owned(), via];
        args.extend(place.args());
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        let folder = self.folder.clone();
        let running = tokio::task::spawn_blocking(move || binary::run(&args, &folder, COMMAND));
        running.await.expect("it did not panic")
    }

    /// Joins a node through another one, starts it, and waits until it is ready.
    pub async fn join(&mut self, via: u64, id: u64) {
        let token = self.token(via).await;
        let (number, finished) = self.try_join(&token, via, &[]).await;
        let said = finished.succeeded().stdout;
        assert!(said.contains(&format!("node {id} of a cluster")), "{said}");
        self.run(number, id);
        self.cluster.wait_ready(id, &self.client).await;
    }

    /// Starts a node that claims to have joined, with this certificate and key, and waits until it ends.
    pub async fn run_as(&self, id: u64, cert: &Path, key: &Path) -> Finished {
        let place = place(&self.folder, self.base_port, 9);
        let shown = |path: &Path| path.display().to_string();
        let config = self.dir(1).join("gateway.toml").display().to_string();
        let mut args = vec!["run".to_owned(), "--config".to_owned(), config];
        for (name, value) in [
            ("node.id", id.to_string()),
            ("node.data_dir", shown(&place.dir.join(format!("data-{id}")))),
            ("cluster.joined", "true".to_owned()),
            ("api.listen", place.api()),
            ("ops.listen", place.ops()),
            ("peer.listen", place.peer()),
            ("peer.advertise", place.peer()),
            ("peer.cert_file", shown(cert)),
            ("peer.key_file", shown(key)),
        ] {
            args.extend(["--set".to_owned(), format!("{name}={value}")]);
        }
        let folder = self.folder.clone();
        tokio::task::spawn_blocking(move || binary::run(&args, &folder, COMMAND)).await.expect("it did not panic")
    }

    /// Runs an operator command against a node.
    pub async fn command(&self, node: u64, args: &[&str]) -> Finished {
        let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let (ops, token) = (self.cluster.node(node).ops, self.dir(1).join("operator.token").display().to_string());
        args.extend(["--ops".to_owned(), ops, "--token-file".to_owned(), token]);
        let folder = self.folder.clone();
        tokio::task::spawn_blocking(move || binary::run(&args, &folder, MOVES)).await.expect("it did not panic")
    }

    /// The folder with the configuration and keys of a place.
    pub fn dir(&self, place_number: u16) -> PathBuf {
        place(&self.folder, self.base_port, place_number).dir
    }

    pub fn operator(&self, node: u64) -> Api {
        self.cluster.operator(node, &self.client)
    }

    /// The row of a node in the operator's list, read through another node.
    pub async fn node_row(&self, through: u64, id: u64) -> Option<Value> {
        let nodes = self.operator(through).get("/v1/admin/nodes").await.expect(200);
        nodes["data"].as_array().expect("data is a list").iter().find(|row| row["id"] == id).cloned()
    }

    /// Waits until every shard is settled on `replicas` nodes, none of them in `without`, and no move is in progress.
    pub async fn settled(&self, through: u64, replicas: usize, without: &[u64]) -> Value {
        eventually(&format!("all shards are settled on {replicas} replicas"), MOVES, async || {
            let answer = self.operator(through).get("/v1/admin/layout").await;
            check(answer.status == 200, answer.text())?;
            let layout = answer.json();
            let is_whole = |shard: &Value| {
                let nodes = shard["replicas"].as_array().expect("replicas is a list");
                shard["settled"] == true
                    && nodes.len() == replicas
                    && !nodes.iter().any(|node| node.as_u64().is_some_and(|node| without.contains(&node)))
            };
            let shards = layout["shards"].as_array().expect("shards is a list");
            check(layout["change"]["state"] != "running" && shards.iter().all(is_whole), layout.to_string())?;
            Ok(layout)
        })
        .await
    }

    /// Kills a node with SIGKILL.
    pub fn kill(&mut self, id: u64) {
        self.cluster.kill(id);
        self.collect();
    }

    /// Sends a node SIGTERM, and waits until it has ended.
    pub async fn stop(&mut self, id: u64) {
        let pid = self.cluster.node(id).pid;
        self.cluster.terminate(id);
        let gone = move || crate::cluster::wait_gone(pid, seconds(60));
        tokio::task::spawn_blocking(gone).await.expect("the process ends");
        self.collect();
    }

    /// Reaps processes that have ended, so that none stays a zombie.
    pub fn collect(&mut self) {
        self.children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The folder and ports of a node.
struct Place {
    dir: PathBuf,
    base_port: u16,
    number: u16,
}

fn place(folder: &Path, base_port: u16, number: u16) -> Place {
    Place { dir: folder.join(format!("place-{number}")), base_port, number }
}

impl Place {
    fn api(&self) -> String {
        local(self.base_port + self.number)
    }

    fn ops(&self) -> String {
        local(self.base_port + 100 + self.number)
    }

    fn peer(&self) -> String {
        local(self.base_port + 200 + self.number)
    }

    fn args(&self) -> Vec<String> {
        let flags = [
            ("--dir", self.dir.display().to_string()),
            ("--data-dir", self.dir.join("data").display().to_string()),
            ("--advertise", self.peer()),
            ("--peer-listen", self.peer()),
            ("--api-listen", self.api()),
            ("--ops-listen", self.ops()),
        ];
        flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }
}

/// The address at which nodes reach the simulator: the port after its control port.
fn network_of(dev: &Dev) -> String {
    let (_, port) = dev.simulator.rsplit_once(':').expect("the simulator has a port");
    local(port.parse::<u16>().expect("a port is a number") + 1)
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn pid(child: &Child) -> i32 {
    i32::try_from(child.id()).expect("process ids fit 31 bits on Linux")
}

/// Starts a process and writes its id to a file, for the undertaker.
fn spawn<S: AsRef<std::ffi::OsStr>>(folder: &Path, name: &str, args: &[S]) -> Child {
    let log = File::options().create(true).append(true).open(folder.join(format!("{name}.log"))).expect("a log opens");
    let child = Command::new(binary::gateway())
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file can be cloned"))
        .stderr(log)
        .spawn()
        .expect("gateway can be started");
    std::fs::write(folder.join(format!("{name}-{}.pid", child.id())), format!("{}\n", child.id()))
        .expect("the folder can be written");
    child
}

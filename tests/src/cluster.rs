//! A cluster of real processes: `gateway dev` with its own folder and ports.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Client;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::binary;
use crate::http::{Api, client};
use crate::network;
use crate::room::Room;
use crate::simulator::Simulator;
use crate::wait::eventually;

/// How long a cluster may take to start and become ready on a busy machine.
const START: Duration = Duration::from_secs(120);
/// How long a command on a running cluster may take.
const COMMAND: Duration = Duration::from_secs(60);
/// How many lines of each log a failing test prints.
const TAIL_LINES: usize = 40;

/// Options for starting a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    pub nodes: usize,
    /// Additional arguments of `gateway dev`.
    pub args: Vec<String>,
    /// Whether the rate limits are raised so that they do not affect tests.
    pub high_limits: bool,
    /// The program that starts the cluster and that its nodes run; `None` means the program under test.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes: 3, args: Vec::new(), high_limits: true, program: None }
    }
}

impl Options {
    pub fn nodes(nodes: usize) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Keeps the default rate limits of the API.
    pub fn default_limits(mut self) -> Self {
        self.high_limits = false;
        self
    }

    /// Sends a third of the heartbeats, an idle cluster's main work. For a long-lived cluster that loses no node.
    pub fn calm(self) -> Self {
        self.arg("--set=cluster.timing=wan")
    }

    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    fn limits(&self) -> impl Iterator<Item = String> {
        let names = ["ip", "customer", "channel"].into_iter().filter(|_| self.high_limits);
        names.flat_map(|name| ["burst", "refill"].map(|what| format!("--{name}-{what}=1000000")))
    }
}

/// The contents of `dev.json`, in which `gateway dev` records the processes and addresses of its cluster.
#[derive(Clone, Debug, Deserialize)]
pub struct Dev {
    pub simulator: String,
    pub simulator_pid: i32,
    pub nodes: Vec<Node>,
    pub customer_id: String,
    pub api_key: String,
    pub operator_token: String,
}

/// The number of shards of a three-node cluster on one machine.
pub const SHARDS: usize = 4;

/// A node in `dev.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    pub id: u64,
    pub api: String,
    pub ops: String,
    pub peer: String,
    pub pid: i32,
    pub data: PathBuf,
    pub log: PathBuf,
}

/// A running cluster. Dropping the last clone stops all of its processes.
#[derive(Clone, Debug)]
pub struct Cluster {
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    data: PathBuf,
    dev: Mutex<Dev>,
    // Dropped in this order: processes, then their folder, then their ports.
    _undertaker: Undertaker,
    _folder: TempDir,
    _room: Room,
}

impl Cluster {
    /// The three-node cluster with high limits that a program's tests share. Tests that break nodes start their own.
    pub async fn shared() -> Self {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(Options::default().calm())).await.clone()
    }

    /// Starts a cluster and waits until it is ready.
    pub async fn start(options: Options) -> Self {
        tokio::task::spawn_blocking(move || Self::start_blocking(&options)).await.expect("the start did not panic")
    }

    fn start_blocking(options: &Options) -> Self {
        let room = Room::take(options.nodes);
        let mut folder = tempfile::Builder::new().prefix("gateway-test-").tempdir().expect("a folder can be made");
        let keep = std::env::var_os("GATEWAY_KEEP").is_some();
        folder.disable_cleanup(keep);
        let data = folder.path().join("dev");
        let undertaker = Undertaker::new(&data, (!keep).then_some(folder.path()));
        let mut args = vec![
            "dev".to_owned(),
            "--detach".to_owned(),
            format!("--nodes={}", options.nodes),
            format!("--data={}", data.display()),
            format!("--base-port={}", room.base_port),
        ];
        args.extend(options.limits());
        args.extend(network::is_whatsapp().then(|| "--network=whatsapp".to_owned()));
        args.extend(options.args.iter().cloned());
        let program = options.program.clone().unwrap_or_else(binary::gateway);
        let finished = binary::run_program(&program, &args, folder.path(), START, &[]);
        if !finished.status.success() {
            print_logs(&data);
        }
        finished.succeeded();
        let dev = Mutex::new(read_dev(&data));
        Self { running: Arc::new(Running { data, dev, _undertaker: undertaker, _folder: folder, _room: room }) }
    }

    /// Wraps a cluster that was not made by `gateway dev`.
    pub(crate) fn of(data: PathBuf, dev: Dev, undertaker: Undertaker, folder: TempDir, room: Room) -> Self {
        let dev = Mutex::new(dev);
        Self { running: Arc::new(Running { data, dev, _undertaker: undertaker, _folder: folder, _room: room }) }
    }

    /// Records a change in a cluster that was not made by `gateway dev`.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Dev)) {
        change(&mut self.running.dev.lock().expect("no holder panics"));
    }

    /// Removes a node that will not return from the record.
    pub fn note_gone(&self, node: u64) {
        self.note(|dev| dev.nodes.retain(|known| known.id != node));
    }

    /// Sends a node SIGTERM, as a supervisor does.
    pub fn terminate(&self, node: u64) {
        self.signal(node, Signal::SIGTERM);
    }

    /// The current contents of `dev.json`.
    pub fn dev(&self) -> Dev {
        self.running.dev.lock().expect("no holder panics").clone()
    }

    /// The data folder of the cluster, which has `dev.json`.
    pub fn data(&self) -> &Path {
        &self.running.data
    }

    pub fn node_ids(&self) -> Vec<u64> {
        self.dev().nodes.iter().map(|node| node.id).collect()
    }

    /// The first node with a running process.
    pub fn running_node(&self) -> u64 {
        let dev = self.dev();
        dev.nodes.iter().find(|node| is_running(node.pid)).expect("some node runs").id
    }

    pub fn node(&self, id: u64) -> Node {
        self.dev().nodes.into_iter().find(|node| node.id == id).unwrap_or_else(|| panic!("no node {id}"))
    }

    /// A client of a node's API without a key.
    pub fn api(&self, node: u64, client: &Client) -> Api {
        Api::new(client.clone(), &self.node(node).api, None)
    }

    /// A client of a node's operator API.
    pub fn operator(&self, node: u64, client: &Client) -> Api {
        Api::new(client.clone(), &self.node(node).ops, Some(&self.dev().operator_token))
    }

    pub fn simulator(&self, client: &Client) -> Simulator {
        Simulator::new(client.clone(), &self.dev().simulator)
    }

    /// Kills a node with SIGKILL, and returns when its process is gone.
    pub fn kill(&self, node: u64) {
        self.kill_all(&[node]);
    }

    /// Kills several nodes at once.
    pub fn kill_all(&self, nodes: &[u64]) {
        for node in nodes {
            self.signal(*node, Signal::SIGKILL);
        }
        for node in nodes {
            wait_gone(self.node(*node).pid, Duration::from_secs(10));
        }
    }

    /// Pauses a node with SIGSTOP.
    pub fn pause(&self, node: u64) {
        self.signal(node, Signal::SIGSTOP);
    }

    /// Resumes a paused node.
    pub fn resume(&self, node: u64) {
        self.signal(node, Signal::SIGCONT);
    }

    fn signal(&self, node: u64, signal: Signal) {
        let pid = self.node(node).pid;
        kill(Pid::from_raw(pid), signal)
            .unwrap_or_else(|error| panic!("{signal} to node {node}, process {pid}: {error}"));
    }

    /// Starts stopped nodes, and waits until each answers `/readyz`.
    pub async fn restart(&self, nodes: &[u64]) {
        self.restart_with(&binary::gateway(), nodes).await;
    }

    /// Like [`Cluster::restart`], with this program.
    pub async fn restart_with(&self, program: &Path, nodes: &[u64]) {
        for node in nodes {
            self.command_of(program, &["dev", "start", &node.to_string()]).await.succeeded();
        }
        let client = client();
        for node in nodes {
            self.wait_ready(*node, &client).await;
        }
    }

    /// Waits until a node reports that it is ready.
    pub async fn wait_ready(&self, node: u64, client: &Client) {
        let api = self.api(node, client);
        eventually(&format!("node {node} is ready"), Duration::from_secs(60), async || match crate::http::try_answer(
            api.request(reqwest::Method::GET, "/readyz"),
        )
        .await
        {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(answer.text()),
            Err(error) => Err(error.to_string()),
        })
        .await;
    }

    /// Runs `gateway ARGS --data FOLDER`, then reads `dev.json` again.
    pub async fn command(&self, args: &[&str]) -> binary::Finished {
        self.command_of(&binary::gateway(), args).await
    }

    /// Like [`Cluster::command`], with this program.
    pub async fn command_of(&self, program: &Path, args: &[&str]) -> binary::Finished {
        let program = program.to_owned();
        let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        args.push(format!("--data={}", self.data().display()));
        let folder = self.data().parent().expect("the data folder lies in the test's").to_owned();
        let finished = tokio::task::spawn_blocking(move || binary::run_program(&program, &args, &folder, COMMAND, &[]));
        let finished = finished.await.expect("it did not panic");
        if self.data().join("dev.json").is_file() {
            *self.running.dev.lock().expect("no holder panics") = read_dev(self.data());
        }
        finished
    }

    /// Prints the end of each process's log, for a failing test.
    pub fn print_logs(&self) {
        print_logs(self.data());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_logs(&self.data);
        }
    }
}

/// A cluster with options other than [`Cluster::shared`], shared by tests. It starts with the first of them and stops
/// with the last running one, so that it takes no room from others.
pub struct Shared {
    options: fn() -> Options,
    running: tokio::sync::Mutex<Weak<Running>>,
}

impl Shared {
    pub const fn new(options: fn() -> Options) -> Self {
        Self { options, running: tokio::sync::Mutex::const_new(Weak::new()) }
    }

    pub async fn get(&self) -> Cluster {
        let mut running = self.running.lock().await;
        if let Some(running) = running.upgrade() {
            return Cluster { running };
        }
        let cluster = Cluster::start((self.options)()).await;
        *running = Arc::downgrade(&cluster.running);
        cluster
    }
}

/// A helper process that stops the cluster and removes its folder when the test program closes its end of a pipe,
/// however the program ends. A shared cluster is never dropped: it ends with the program.
#[derive(Debug)]
pub struct Undertaker {
    child: Child,
}

impl Undertaker {
    /// Kills the processes, since nobody needs what they leave and an orderly shutdown of three nodes takes seconds.
    /// Deletes the folder `remove` as well.
    fn new(folder: &Path, remove: Option<&Path>) -> Self {
        // Compares the folder, since another process may have the id by now. Failing disks may be mounted below it.
        let script = r#"cat
for f in "$1"/*.pid; do p=$(cat "$f"); [ "/proc/$p/cwd" -ef "$1" ] && kill -9 "$p"; done
for m in $(cut -d' ' -f2 /proc/self/mounts | grep "^$1/"); do umount -l "$m"; done
[ -z "$2" ] || rm -rf "$2""#;
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(folder).args(remove);
        Self::start(command)
    }

    /// An undertaker for processes in `folder` whose ids are in its files. Removes the folder unless `keep`.
    pub fn of_processes(folder: &Path, keep: bool) -> Self {
        Self::new(folder, (!keep).then_some(folder))
    }

    fn start(mut command: Command) -> Self {
        use std::os::unix::process::CommandExt;
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C ends the process group of the test program; the undertaker has to survive that.
            .process_group(0)
            .spawn()
            .expect("sh can be started");
        Self { child }
    }
}

impl Drop for Undertaker {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn read_dev(data: &Path) -> Dev {
    let path = data.join("dev.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}: {text}", path.display()))
}

/// Waits until a process has ended; a zombie counts as ended.
pub fn wait_gone(pid: i32, within: Duration) {
    let start = Instant::now();
    while is_running(pid) {
        assert!(start.elapsed() < within, "process {pid} still runs after {within:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process exists and is no zombie. A killed process counts as running while some of its threads still end:
/// its ports are free only after the last one.
pub fn is_running(pid: i32) -> bool {
    // The format is `pid (name) state ...`. The name may contain any character, so the last parenthesis ends it.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    !rest.trim_start().starts_with(['Z', 'X']) || threads > 1
}

fn print_logs(data: &Path) {
    let Ok(entries) = std::fs::read_dir(data) else { return };
    let mut logs: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    for path in logs {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
        let lines: Vec<_> = text.lines().collect();
        eprintln!("--- the end of {}", path.display());
        for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
            eprintln!("{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_cluster_ends_what_runs_in_its_folder_and_nothing_else() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sleep = |folder: &Path| Command::new("sleep").arg("600").current_dir(folder).spawn().unwrap();
        let (mut inside, mut outside) = (sleep(own.path()), sleep(other.path()));
        for (name, process) in [("node-1.pid", &inside), ("node-2.pid", &outside)] {
            std::fs::write(own.path().join(name), process.id().to_string()).unwrap();
        }
        drop(Undertaker::of_processes(own.path(), false));
        assert!(!own.path().exists());
        assert!(!inside.wait().unwrap().success());
        assert!(outside.try_wait().unwrap().is_none(), "its id stood there, and may be of a cluster that is gone");
        outside.kill().unwrap();
        outside.wait().unwrap();
    }
}

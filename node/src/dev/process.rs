//! The processes of a development cluster: started from this binary, and found again by their process ids.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use model::id::NodeId;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::folder::{Folder, Plan};
use crate::config::Driver;
use crate::key_files::write_private;

/// Interval of polling a process that should end.
const POLL: Duration = Duration::from_millis(10);

/// Lines of log that are shown when a process fails to start.
const TAIL_LINES: usize = 20;

/// Role of a process in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Simulator,
    /// Speaks the real network's protocol on loopback, in place of the simulator.
    TestNetwork,
    Node(NodeId),
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Simulator => f.write_str("the simulator"),
            Self::TestNetwork => f.write_str("the test network"),
            Self::Node(id) => write!(f, "node {id}"),
        }
    }
}

impl Role {
    /// The network process of a cluster.
    pub fn of_network(plan: Plan) -> Self {
        match plan.network {
            Driver::Simulated => Self::Simulator,
            Driver::Whatsapp => Self::TestNetwork,
        }
    }

    /// All processes of a cluster, the network first.
    pub fn all(plan: Plan) -> impl Iterator<Item = Self> {
        std::iter::once(Self::of_network(plan)).chain(plan.node_ids().map(Self::Node))
    }

    fn file(self, folder: &Folder, extension: &str) -> PathBuf {
        match self {
            Self::Simulator => folder.root().join(format!("simulator.{extension}")),
            Self::TestNetwork => folder.root().join(format!("test-network.{extension}")),
            Self::Node(id) => folder.root().join(format!("node-{id}.{extension}")),
        }
    }

    pub fn log_file(self, folder: &Folder) -> PathBuf {
        self.file(folder, "log")
    }

    fn pid_file(self, folder: &Folder) -> PathBuf {
        self.file(folder, "pid")
    }

    /// The arguments of the process. They contain ports or a path, so no two processes of a machine have the same ones.
    fn arguments(self, folder: &Folder, plan: Plan, qr_time_scale: f64) -> Vec<String> {
        match self {
            Self::Simulator => vec![
                "simulator".to_owned(),
                format!("--control={}", plan.ports().network_control()),
                format!("--network={}", plan.ports().network()),
                format!("--data={}", folder.simulator_dir().display()),
                format!("--qr-time-scale={qr_time_scale}"),
            ],
            Self::TestNetwork => vec![
                "test-network".to_owned(),
                format!("--control={}", plan.ports().network_control()),
                format!("--chat={}", plan.ports().network()),
                format!("--media={}", plan.ports().test_media()),
                format!("--qr-time-scale={qr_time_scale}"),
            ],
            Self::Node(id) => {
                vec!["run".to_owned(), format!("--config={}", folder.config_file(id).display())]
            }
        }
    }

    /// The argument that distinguishes this process from a later one with the same process id.
    fn token(self, folder: &Folder, plan: Plan) -> String {
        self.arguments(folder, plan, 1.0).swap_remove(1)
    }
}

/// Starts a process in its own process group, with its output appended to its log. Ctrl-C in the terminal reaches only
/// `gateway dev`, which then stops the processes in order.
///
/// # Errors
/// The log cannot be opened, or the process cannot be started.
pub fn spawn(role: Role, folder: &Folder, plan: Plan, qr_time_scale: f64) -> anyhow::Result<Started> {
    let log = File::options().create(true).append(true).open(role.log_file(folder))?;
    let log_start = log.metadata()?.len();
    let binary = std::env::current_exe().context("finding this binary")?;
    let mut command = Command::new(binary);
    command
        .args(role.arguments(folder, plan, qr_time_scale))
        .current_dir(folder.root())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    for (name, _) in std::env::vars_os() {
        // The file is the node's whole configuration; variables of the caller's shell are meant for other nodes.
        if name.to_string_lossy().starts_with("GATEWAY_") {
            command.env_remove(name);
        }
    }
    let child = command.spawn().with_context(|| format!("starting {role}"))?;
    let started = Started { role, child, log_start };
    record_pid(folder, role, started.pid())?;
    Ok(started)
}

/// A process started by this one.
#[derive(Debug)]
pub struct Started {
    pub role: Role,
    child: Child,
    /// Offset in the log at which the output of this process begins.
    log_start: u64,
}

impl Started {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids fit 31 bits on Linux")
    }

    /// The last lines of the process's output, indented.
    pub fn log_tail(&self, folder: &Folder) -> String {
        let text = fs::read(self.role.log_file(folder)).unwrap_or_default();
        let own = usize::try_from(self.log_start).ok().and_then(|start| text.get(start..)).unwrap_or_default();
        let text = String::from_utf8_lossy(own);
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        tail.iter().map(|line| format!("\n  | {line}")).collect()
    }
}

pub fn record_pid(folder: &Folder, role: Role, pid: i32) -> anyhow::Result<()> {
    write_private(&role.pid_file(folder), &format!("{pid}\n"))
}

/// The process id at the last start.
///
/// # Errors
/// The role was never started in this folder.
pub fn recorded_pid(folder: &Folder, role: Role) -> anyhow::Result<i32> {
    let path = role.pid_file(folder);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    text.trim().parse().with_context(|| path.display().to_string())
}

/// The process id of this role, if it is running.
pub fn running(role: Role, folder: &Folder, plan: Plan) -> Option<i32> {
    let pid = recorded_pid(folder, role).ok()?;
    is_process(pid, &role.token(folder, plan)).then_some(pid)
}

/// Whether process `pid` exists, is not a zombie, and was started with `argument`.
fn is_process(pid: i32, argument: &str) -> bool {
    let Ok(command_line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    // A zombie has an empty command line.
    command_line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
}

/// Whether the process of this role is exiting but not gone: its ports are free only when its last thread has ended.
fn is_ending(role: Role, folder: &Folder) -> bool {
    let Ok(pid) = recorded_pid(folder, role) else { return false };
    // An exiting process loses its memory first, including the command line, then its open files, then all threads but
    // one.
    let Ok(command_line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_zombie = stat.rsplit_once(')').is_some_and(|(_, state)| state.trim_start().starts_with('Z'));
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    command_line.is_empty() && !(is_zombie && threads <= 1)
}

/// Sends a signal to the process of this role; `false` if it is not running.
///
/// # Errors
/// The system refuses to send it.
pub fn signal(role: Role, folder: &Folder, plan: Plan, signal: Signal) -> anyhow::Result<bool> {
    let Some(pid) = running(role, folder, plan) else { return Ok(false) };
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) => Ok(true),
        Err(nix::errno::Errno::ESRCH) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("{signal} to {role}, process {pid}")),
    }
}

/// Waits until the process of this role has ended and released its ports; `false` after a timeout.
pub async fn wait_gone(role: Role, folder: &Folder, plan: Plan, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    while running(role, folder, plan).is_some() || is_ending(role, folder) {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(POLL).await;
    }
    true
}

/// Processes that this `gateway dev` has started.
#[derive(Debug, Default)]
pub struct Children {
    started: Vec<Started>,
    /// Nodes that ended because they were removed from their cluster.
    pub removed: Vec<Role>,
}

impl Children {
    pub fn add(&mut self, started: Started) {
        self.started.push(started);
    }

    pub fn get(&self, role: Role) -> Option<&Started> {
        self.started.iter().find(|started| started.role == role)
    }

    /// Takes one process that has ended since the last call.
    ///
    /// # Errors
    /// The system cannot report the status.
    pub fn take_ended(&mut self) -> io::Result<Option<(Started, ExitStatus)>> {
        for index in 0..self.started.len() {
            if let Some(status) = self.started[index].child.try_wait()? {
                return Ok(Some((self.started.swap_remove(index), status)));
            }
        }
        Ok(None)
    }
}

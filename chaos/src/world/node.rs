//! One node of a world: its files, and its process if it runs.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use raft::failpoint::VARIABLE;
use tests::binary;

use crate::disk::FaultyDisk;

/// Ports of every node, each in a network namespace of its own.
const API: u16 = 8080;
const OPS: u16 = 8081;
const PEER: u16 = 8082;
/// Port on which the node itself listens for peers when a relay has its peer port.
const BEHIND_RELAY: u16 = 8083;

/// File in which the kernel shows the machine's uptime.
const UPTIME: &str = "/proc/uptime";

/// Debian's faketime for multi-threaded programs. The loader replaces `$LIB` by the folder of the architecture.
const FAKETIME: &str = "/usr/$LIB/faketime/libfaketimeMT.so.1";

/// A node's home. Its place stays the same whatever id its node gets.
#[derive(Clone, Debug)]
pub struct Home {
    pub place: u8,
    pub address: Ipv4Addr,
    /// Folder of configuration, certificates and keys.
    pub dir: PathBuf,
    /// Folder of log and state.
    pub data: PathBuf,
    /// File for the output of the process.
    pub log: PathBuf,
    /// File with the offset of the wall clock, if that can be set.
    pub clock: Option<PathBuf>,
    /// Uptime that the monotonic clock shows at the next start, if not the machine's own.
    pub uptime: Option<Duration>,
    pub environment: Vec<(String, String)>,
    /// Whether its peers reach it through a relay.
    pub relayed: bool,
}

impl Home {
    pub fn api(&self) -> String {
        format!("http://{}:{API}", self.address)
    }

    pub fn ops(&self) -> String {
        format!("http://{}:{OPS}", self.address)
    }

    pub fn peer(&self) -> String {
        format!("{}:{PEER}", self.address)
    }

    /// The address to which peers connect, and the address on which the node listens for them.
    pub fn relay(&self) -> (SocketAddr, SocketAddr) {
        let behind = if self.relayed { BEHIND_RELAY } else { PEER };
        ((self.address, PEER).into(), (self.address, behind).into())
    }

    /// Arguments for `gateway init` and `gateway join`.
    pub fn args(&self) -> Vec<String> {
        let listen = |port: u16| format!("{}:{port}", self.address);
        let flags = [
            ("--dir", self.dir.display().to_string()),
            ("--data-dir", self.data.display().to_string()),
            ("--advertise", self.peer()),
            ("--peer-listen", self.relay().1.to_string()),
            ("--api-listen", listen(API)),
            ("--ops-listen", listen(OPS)),
        ];
        flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }

    /// Sets the wall clock of its process, from now on and at each start.
    ///
    /// # Errors
    /// When the world was made without adjustable wall clocks.
    pub fn set_clock(&self, ahead_seconds: i64) -> anyhow::Result<()> {
        let Some(clock) = &self.clock else { bail!("this world's clocks cannot be set") };
        let written = clock.with_extension("new");
        fs::write(&written, format!("{ahead_seconds:+}s\n"))?;
        fs::rename(&written, clock).with_context(|| clock.display().to_string())
    }

    /// Starts the process in a network namespace.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self, namespace: &str, flags: &[String]) -> anyhow::Result<Child> {
        let mut command = Command::new("ip");
        // `ip` and `unshare` replace themselves by the gateway with exec, so that the child's process id is the node's.
        command.args(["netns", "exec", namespace]);
        if let Some(uptime) = self.uptime {
            command.args(with_uptime(uptime)?);
        }
        command.arg(binary::gateway());
        command.args(["run", "--config"]).arg(self.dir.join("gateway.toml"));
        command.args(flags.iter().flat_map(|flag| ["--set", flag.as_str()]));
        command.env(VARIABLE, "").envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(clock) = &self.clock {
            command
                .env("LD_PRELOAD", FAKETIME)
                .env("FAKETIME_TIMESTAMP_FILE", clock)
                .env("FAKETIME_CACHE_DURATION", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("NO_FAKE_STAT", "1");
        }
        spawn(command, &self.log)
    }
}

/// Checks that wall clocks can be set: if a library is missing, the loader runs the program without it.
///
/// # Errors
/// When faketime is missing.
pub fn has_faketime() -> anyhow::Result<()> {
    let loaded = Command::new("true").env("LD_PRELOAD", FAKETIME).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&loaded.stderr);
    ensure!(said.trim().is_empty(), "clocks cannot be set: {}; install faketime", said.trim());
    Ok(())
}

/// Checks that a program can have a monotonic clock of its own: older kernels apply it only to the program's children.
///
/// # Errors
/// When that does not work here.
pub fn has_steady_clocks() -> anyhow::Result<()> {
    let year = Duration::from_hours(365 * 24);
    let [unshare, flags @ ..] = with_uptime(year)?;
    let told = Command::new(unshare).args(flags).args(["cat", UPTIME]).output()?;
    let stood = seconds(&String::from_utf8_lossy(&told.stdout));
    ensure!(
        stood.is_some_and(|stood| stood.abs_diff(year.as_secs()) < 60),
        "steady clocks cannot be set{}; that takes root, and Linux 6.1 with time namespaces",
        String::from_utf8_lossy(&told.stderr).lines().next().map(|said| format!(": {said}")).unwrap_or_default()
    );
    Ok(())
}

/// Command that starts a program whose monotonic clock shows this uptime.
fn with_uptime(uptime: Duration) -> anyhow::Result<[String; 4]> {
    let own = seconds(&fs::read_to_string(UPTIME)?).with_context(|| format!("{UPTIME} says nothing"))?;
    let ahead = uptime.as_secs().cast_signed() - own.cast_signed();
    Ok(["unshare".to_owned(), "--time".to_owned(), format!("--monotonic={ahead}"), format!("--boottime={ahead}")])
}

/// The whole seconds at the beginning of an uptime file.
fn seconds(uptime: &str) -> Option<u64> {
    uptime.split('.').next()?.trim().parse().ok()
}

/// Starts a process in the folder of a log, and appends its output to that log.
///
/// # Errors
/// When the log cannot be opened or the program cannot be started.
pub fn spawn(mut command: Command, log: &Path) -> anyhow::Result<Child> {
    let out = File::options().create(true).append(true).open(log).with_context(|| log.display().to_string())?;
    let folder = log.parent().context("a log lies in a folder")?;
    command.current_dir(folder).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    for (name, _) in std::env::vars_os() {
        // Configuration in the environment of the caller's shell is not meant for this process.
        if name.to_string_lossy().starts_with("GATEWAY_") {
            command.env_remove(name);
        }
    }
    command.spawn().with_context(|| format!("{} cannot be started", command.get_program().display()))
}

/// A node that is a member, or was about to become one.
pub struct Node {
    pub home: Home,
    /// The disk that holds its data, if the world has faulty disks.
    pub disk: Option<FaultyDisk>,
    child: Option<Child>,
}

impl Node {
    pub fn new(home: Home, disk: Option<FaultyDisk>) -> Self {
        Self { home, disk, child: None }
    }

    /// Starts the process, unless it runs.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, namespace: &str, flags: &[String]) -> anyhow::Result<()> {
        if !self.is_running() {
            self.child = Some(self.home.spawn(namespace, flags)?);
        }
        Ok(())
    }

    /// Whether the process exists, paused or not.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// The id and the exit status of its process, if that has ended by itself.
    pub fn ended(&mut self) -> Option<(u32, std::process::ExitStatus)> {
        let child = self.child.as_mut()?;
        child.try_wait().ok().flatten().map(|status| (child.id(), status))
    }

    /// The disk that holds its data.
    ///
    /// # Errors
    /// When the world was made without faulty disks.
    pub fn disk(&self) -> anyhow::Result<&FaultyDisk> {
        self.disk.as_ref().context("this world's disks cannot go wrong")
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    /// When it does not run: its process id may belong to another process by now.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_mut().context("it was not started")?;
        ensure!(matches!(child.try_wait(), Ok(None)), "it does not run");
        let pid = i32::try_from(child.id())?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("{signal} to process {pid}"))
    }

    /// Kills the process. Its ports are free when this returns.
    ///
    /// # Errors
    /// When the kill fails.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

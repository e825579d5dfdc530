//! One node of a world: where its files are, and its process, if it runs.

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

/// Ports of every node, in the network of its own.
const API: u16 = 8080;
const OPS: u16 = 8081;
const PEER: u16 = 8082;
/// Where the node itself listens when a relay has its peer port.
const BEHIND_RELAY: u16 = 8083;

/// How long the machine has run, as the system tells it.
const UPTIME: &str = "/proc/uptime";

/// Debian's faketime, for programs with threads; the loader finds the folder for the machine's architecture.
const FAKETIME: &str = "/usr/$LIB/faketime/libfaketimeMT.so.1";

/// A node's home: it stays the same place whatever id the node in it gets.
#[derive(Clone, Debug)]
pub struct Home {
    pub place: u8,
    pub address: Ipv4Addr,
    /// Configuration, certificates and keys.
    pub dir: PathBuf,
    /// Log and state.
    pub data: PathBuf,
    /// What the process says.
    pub log: PathBuf,
    /// How far its wall clock is from the true one, where it can be set.
    pub clock: Option<PathBuf>,
    /// How long its machine seems to have run, where that is not this machine's own time.
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

    /// Where its peers connect, and where the node listens for them.
    pub fn relay(&self) -> (SocketAddr, SocketAddr) {
        let behind = if self.relayed { BEHIND_RELAY } else { PEER };
        ((self.address, PEER).into(), (self.address, behind).into())
    }

    /// What `gateway init` and `gateway join` are told of it.
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
    /// When the world was made without clocks that can be set.
    pub fn set_clock(&self, ahead_seconds: i64) -> anyhow::Result<()> {
        let Some(clock) = &self.clock else { bail!("this world's clocks cannot be set") };
        let written = clock.with_extension("new");
        fs::write(&written, format!("{ahead_seconds:+}s\n"))?;
        fs::rename(&written, clock).with_context(|| clock.display().to_string())
    }

    /// Starts its process in a network namespace.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self, namespace: &str, flags: &[String]) -> anyhow::Result<Child> {
        let mut command = Command::new("ip");
        // `ip` becomes the gateway, and so does `unshare`: the child's process id is the node's.
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

/// Makes sure that clocks can be set: the loader of a program says nothing of a library that is not there.
///
/// # Errors
/// When they cannot.
pub fn has_faketime() -> anyhow::Result<()> {
    let loaded = Command::new("true").env("LD_PRELOAD", FAKETIME).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&loaded.stderr);
    ensure!(said.trim().is_empty(), "clocks cannot be set: {}; install faketime", said.trim());
    Ok(())
}

/// Makes sure that a program can be started with a steady clock of its own: an older kernel gives it to the program's children alone.
///
/// # Errors
/// When it cannot.
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

/// What starts a program whose steady clock stands as if the machine had run for so long.
fn with_uptime(uptime: Duration) -> anyhow::Result<[String; 4]> {
    let own = seconds(&fs::read_to_string(UPTIME)?).with_context(|| format!("{UPTIME} says nothing"))?;
    let ahead = uptime.as_secs().cast_signed() - own.cast_signed();
    Ok(["unshare".to_owned(), "--time".to_owned(), format!("--monotonic={ahead}"), format!("--boottime={ahead}")])
}

/// The whole seconds that the system's file tells first.
fn seconds(uptime: &str) -> Option<u64> {
    uptime.split('.').next()?.trim().parse().ok()
}

/// Starts a process whose output is appended to a log, in the folder of the log.
///
/// # Errors
/// When the log cannot be opened or the program not be started.
pub fn spawn(mut command: Command, log: &Path) -> anyhow::Result<Child> {
    let out = File::options().create(true).append(true).open(log).with_context(|| log.display().to_string())?;
    let folder = log.parent().context("a log lies in a folder")?;
    command.current_dir(folder).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    for (name, _) in std::env::vars_os() {
        // What the caller's shell says is for other nodes.
        if name.to_string_lossy().starts_with("GATEWAY_") {
            command.env_remove(name);
        }
    }
    command.spawn().with_context(|| format!("{} cannot be started", command.get_program().display()))
}

/// A node that is a member, or was about to become one.
pub struct Node {
    pub home: Home,
    /// What it lives on, where that can go wrong.
    pub disk: Option<FaultyDisk>,
    child: Option<Child>,
}

impl Node {
    pub fn new(home: Home, disk: Option<FaultyDisk>) -> Self {
        Self { home, disk, child: None }
    }

    /// Starts it, unless it runs.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, namespace: &str, flags: &[String]) -> anyhow::Result<()> {
        if !self.is_running() {
            self.child = Some(self.home.spawn(namespace, flags)?);
        }
        Ok(())
    }

    /// Whether its process is there, be it stopped.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// How its process ended by itself, once it has, and the process's id.
    pub fn ended(&mut self) -> Option<(u32, std::process::ExitStatus)> {
        let child = self.child.as_mut()?;
        child.try_wait().ok().flatten().map(|status| (child.id(), status))
    }

    /// Its disk.
    ///
    /// # Errors
    /// When the world was made without disks that can go wrong.
    pub fn disk(&self) -> anyhow::Result<&FaultyDisk> {
        self.disk.as_ref().context("this world's disks cannot go wrong")
    }

    /// # Errors
    /// When it does not run: its process id may be another's by now.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_mut().context("it was not started")?;
        ensure!(matches!(child.try_wait(), Ok(None)), "it does not run");
        let pid = i32::try_from(child.id())?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("{signal} to process {pid}"))
    }

    /// Ends it at once; it has given up its ports when this returns.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

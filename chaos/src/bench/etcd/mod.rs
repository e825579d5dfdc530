//! The system for comparison: three members of Debian's `etcd-server` on this machine, with its defaults (synced
//! writes).

pub mod promise;
pub mod rpc;

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tests::cluster::Undertaker;
use tests::http::{Api, client, try_answer};
use tokio::time::Instant;

use self::rpc::Kv;

/// Timeout of one call.
pub const CALL: Duration = Duration::from_secs(10);

/// Timeout until all members report that they are healthy.
const START: Duration = Duration::from_secs(30);

/// Pause between two checks of an awaited condition.
const LOOK: Duration = Duration::from_millis(20);

const MEMBERS: usize = 3;

/// Quota of etcd's store; its default of 2 GB is less than a long run writes.
const QUOTA_BYTES: u64 = 8 << 30;

/// Running members. Dropping it ends them.
pub struct Etcd {
    // Dropped in this order: the processes, the undertaker that ends leftovers, their folder.
    members: Vec<Member>,
    _undertaker: Undertaker,
    folder: TempDir,
}

struct Member {
    name: String,
    client: String,
    peer: String,
    child: Option<Child>,
}

impl Member {
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The member may have ended by itself; calls to it will show that.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Etcd {
    /// Starts three members and waits until all are healthy, and a value written through one is read through the
    /// others.
    ///
    /// # Errors
    /// When etcd is not installed or does not start.
    pub async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("gateway-bench-etcd-").tempdir()?;
        let undertaker = Undertaker::of_processes(folder.path(), false);
        let ports = free_ports(2 * MEMBERS)?;
        let members = (0..MEMBERS)
            .map(|n| Member {
                name: format!("m{n}"),
                client: format!("http://127.0.0.1:{}", ports[2 * n]),
                peer: format!("http://127.0.0.1:{}", ports[2 * n + 1]),
                child: None,
            })
            .collect();
        let mut etcd = Self { members, _undertaker: undertaker, folder };
        for member in 0..MEMBERS {
            etcd.spawn(member, "new")?;
        }
        for member in 0..MEMBERS {
            etcd.wait_well(member).await?;
        }
        Kv::new(&etcd.members[0].client)?.put(b"begin", b"yes").await?;
        for member in &etcd.members {
            let seen = Kv::new(&member.client)?.get(b"begin").await?;
            ensure!(seen.as_deref() == Some(b"yes"), "{} does not show what another member took", member.name);
        }
        Ok(etcd)
    }

    /// The address of each member, for gRPC and for JSON.
    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }

    /// The processes of running members.
    pub fn pids(&self) -> Vec<i32> {
        let running = self.members.iter().filter_map(|member| member.child.as_ref());
        running.filter_map(|child| i32::try_from(child.id()).ok()).collect()
    }

    /// The member that leads.
    ///
    /// # Errors
    /// When no member knows a leader in time.
    pub async fn leader(&self) -> anyhow::Result<usize> {
        let end = Instant::now() + START;
        while Instant::now() < end {
            for member in 0..MEMBERS {
                let api = Api::new(client(), &self.members[member].client, None);
                let request = api.request(Method::POST, "/v3/maintenance/status").timeout(CALL).json(&json!({}));
                let Ok(answer) = try_answer(request).await else { continue };
                let status = answer.json();
                if status["leader"].is_string() && status["leader"] == status["header"]["member_id"] {
                    return Ok(member);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("etcd has no leader after {START:?}")
    }

    /// Kills a member.
    pub fn kill(&mut self, member: usize) {
        self.members[member].kill();
    }

    /// Starts a killed member on its data, and waits until it is healthy.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self, member: usize) -> anyhow::Result<()> {
        self.spawn(member, "existing")?;
        self.wait_well(member).await
    }

    fn spawn(&mut self, number: usize, state: &str) -> anyhow::Result<()> {
        let cluster: Vec<_> = self.members.iter().map(|member| format!("{}={}", member.name, member.peer)).collect();
        let folder = self.folder.path();
        let member = &mut self.members[number];
        let log = File::options().create(true).append(true).open(folder.join(format!("{}.log", member.name)))?;
        let child = Command::new("etcd")
            .args(["--name", &member.name, "--data-dir", &member.name])
            .args(["--listen-client-urls", &member.client, "--advertise-client-urls", &member.client])
            .args(["--listen-peer-urls", &member.peer, "--initial-advertise-peer-urls", &member.peer])
            .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", state])
            .args(["--quota-backend-bytes", &QUOTA_BYTES.to_string(), "--logger", "zap", "--log-level", "error"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("etcd cannot be started; Debian has it in the package etcd-server")?;
        // For the undertaker, which ends leftovers if this program is killed.
        std::fs::write(folder.join(format!("{}.pid", member.name)), format!("{}\n", child.id()))?;
        member.child = Some(child);
        Ok(())
    }

    async fn wait_well(&self, number: usize) -> anyhow::Result<()> {
        let member = &self.members[number];
        let api = Api::new(client(), &member.client, None);
        let end = Instant::now() + START;
        loop {
            if let Ok(answer) = try_answer(api.request(Method::GET, "/health").timeout(CALL)).await
                && answer.status == 200
                && answer.json()["health"] == "true"
            {
                return Ok(());
            }
            ensure!(
                Instant::now() < end,
                "etcd's {} is not well: {}",
                member.name,
                last_words(self.folder.path(), member)
            );
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn last_words(folder: &Path, member: &Member) -> String {
    let log = std::fs::read(folder.join(format!("{}.log", member.name))).unwrap_or_default();
    String::from_utf8_lossy(&log).lines().last().unwrap_or("its log is empty").to_owned()
}

/// Ports without listeners. All are bound at the same time, so that they differ.
fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

//! One run: a workload, a fault during it, with or without bugs of the product, and the checks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::Client;
use serde_json::json;
use tests::cluster::{Cluster, Options, is_running};
use tests::http::{Answer, Api, client};
use tokio::sync::watch;

use super::harm::{Harm, busiest};
use super::proofs::Proof;
use crate::check::{Invariant, Verdict, judge};
use crate::disk::{FaultyDisk, Loss};
use crate::history::{Collected, Evidence, Recorder, Replica};
use crate::mutation::Bug;
use crate::workload::{Pace, Workload};
use crate::world::map::Map;

const NODES: usize = 3;

/// Logs so short that a few seconds of work outgrow them.
const SHORT_LOGS: [&str; 2] = ["--set=raft.keep_entries=20", "--set=raft.snapshot_every=20"];

/// High enough that a bug shows within seconds, and low enough for two cores.
const PACE: Pace =
    Pace { channels: 4, sends: 16.0, inbound: 8.0, lives: 2, streams: 0, draws: 12.0, neighbours: false };
/// Much is in flight when an owner is cut off, which stops speaking for its channels soon after; and there are more
/// deliveries than receivers are called with at a time.
const HURRY: Pace = Pace { sends: 60.0, inbound: 60.0, ..PACE };
/// An owner that dies while it commits slowly leaves sends behind, whichever channels it owns. A bucket gets many more
/// requests than it admits, as its check allows for those that the death of an owner may let pass.
const MANY_SENDS: Pace = Pace { sends: 60.0, draws: 36.0, ..PACE };
/// A channel that is cut off stops at its next commit, so there are enough channels that some send and some inbound
/// item are part of one.
const SPREAD: Pace = Pace { channels: 12, ..HURRY };
/// Enough channels that each node owns some.
const SHARED_OUT: Pace = Pace { channels: 10, ..PACE };
/// Time without faults before the fault, and after it.
const CALM: Duration = Duration::from_secs(2);
/// Time within which the cluster must heal after the fault (I10).
const HEALED: Duration = Duration::from_secs(30);
/// Time after the end of the last client within which everything in flight must arrive.
const ARRIVED: Duration = Duration::from_secs(8);

/// Number of looks at the replicas, and the time between them.
const LOOKS: usize = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);

/// A cluster for several runs, one after the other.
pub struct Ground {
    pub http: Client,
    /// The nodes' disks, once power may fail. They are unmounted before the cluster's folder is removed.
    disks: Vec<FaultyDisk>,
    pub cluster: Cluster,
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.unmount();
    }
}

/// The result of a proof.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// All bugs were found by this run, counted from one.
    Found(u64),
    /// These invariants held in every run; with the verdict of the last run.
    Missed { missing: BTreeSet<Invariant>, last: Verdict },
}

impl Ground {
    /// Starts a cluster.
    pub async fn prepare() -> Self {
        Self::of(Options::nodes(NODES)).await
    }

    async fn of(options: Options) -> Self {
        Self { http: client(), disks: Vec::new(), cluster: Cluster::start(options).await }
    }

    /// Prepares for a fault: mounts faulty disks for a power cut, or replaces the cluster by one with short logs for
    /// [`Harm::LongAway`].
    ///
    /// # Errors
    /// When this process may not mount.
    pub async fn ready_for(mut self, harm: Harm) -> anyhow::Result<Self> {
        match harm {
            Harm::PowerCut if self.disks.is_empty() => self.mount().await?,
            Harm::LongAway => {
                // The old cluster must end first: there is room for only a few nodes.
                drop(self);
                return Ok(
                    Self::of(SHORT_LOGS.iter().fold(Options::nodes(NODES), |options, set| options.arg(set))).await
                );
            }
            _ => {}
        }
        Ok(self)
    }

    /// Checks that a fault is possible here, since the first runs with it may be half an hour away.
    ///
    /// # Errors
    /// When power cuts are wanted, and this process may not mount.
    pub fn look_for(harm: Harm) -> anyhow::Result<()> {
        if harm == Harm::PowerCut {
            let folder = tempfile::tempdir().context("a folder to mount over")?;
            FaultyDisk::mount("prove-look", folder.path())
                .context("power cannot fail here; name other faults with --only")?;
        }
        Ok(())
    }

    /// Kills the nodes first, so that no process has a file open on the disks.
    fn unmount(&mut self) {
        if !self.disks.is_empty() {
            let nodes = self.cluster.dev().nodes;
            let living: Vec<u64> = nodes.iter().filter(|node| is_running(node.pid)).map(|node| node.id).collect();
            self.cluster.kill_all(&living);
            self.disks.clear();
        }
    }

    async fn mount(&mut self) -> anyhow::Result<()> {
        let nodes = self.cluster.node_ids();
        self.cluster.kill_all(&nodes);
        for node in &nodes {
            self.disks.push(FaultyDisk::mount(&format!("prove-{node}"), &self.cluster.node(*node).data)?);
        }
        self.cluster.restart(&nodes).await;
        Ok(())
    }

    /// Drops unsynced data of all nodes, which must not run.
    pub(super) fn lose_power(&self) -> anyhow::Result<()> {
        self.disks.iter().try_for_each(|disk| disk.crash(Loss::Everything).map(drop))
    }

    /// Puts bugs back, and tries to find each by the check of its invariant. Several bugs at once prove something if
    /// none of them breaks another's invariant.
    ///
    /// # Errors
    /// When a run does not complete.
    pub async fn prove(&self, proofs: &[&Proof], seed: u64) -> anyhow::Result<Outcome> {
        let bugs: Vec<Bug> = proofs.iter().map(|proof| proof.bug).collect();
        let harm = proofs.first().context("nothing is to be proven")?.harm;
        let most = proofs.iter().map(|proof| proof.runs).max().unwrap_or_default();
        let mut missing: BTreeSet<Invariant> = proofs.iter().map(|proof| proof.invariant).collect();
        let mut last = Verdict::default();
        for run in 1..=most {
            last = self.run(harm, &bugs, seed + run).await?;
            missing.retain(|invariant| last.violated().all(|violated| violated != *invariant));
            if missing.is_empty() {
                return Ok(Outcome::Found(run));
            }
        }
        Ok(Outcome::Missed { missing, last })
    }

    /// A run of ten to twenty seconds, and the verdict of the checks.
    ///
    /// # Errors
    /// When it does not complete.
    pub async fn run(&self, harm: Harm, bugs: &[Bug], seed: u64) -> anyhow::Result<Verdict> {
        let folder = tempfile::tempdir().context("a folder for the run")?;
        let recorder = Arc::new(Recorder::create(folder.path(), seed)?);
        let (_map, maps) = watch::channel(Map::from(&self.cluster.dev()));
        let workload = Workload::start(maps, seed, recorder.clone(), pace(harm)).await?;
        self.put_back(bugs).await?;
        tokio::time::sleep(CALM).await;
        harm.strike(self, &workload, &recorder).await?;
        // Restarted nodes have lost their failpoints.
        self.put_back(bugs).await?;
        tokio::time::sleep(CALM).await;
        let liveness = workload.heal(recorder.now(), HEALED).await;
        let evidence = workload.stop_within(Some(liveness), ARRIVED).await?;
        // Not earlier: a node without the bug that becomes the leader of a shard would repair what the bug has done.
        for bug in bugs {
            self.disarm(&self.cluster.node_ids(), bug.as_str()).await?;
        }
        let evidence = Evidence { replicas: self.replicas().await, ..evidence };
        recorder.finish()?;
        evidence.store(folder.path())?;
        Ok(judge(&Collected::load(folder.path())?))
    }

    async fn put_back(&self, bugs: &[Bug]) -> anyhow::Result<()> {
        for bug in bugs {
            self.arm(&self.cluster.node_ids(), bug.as_str(), "return").await?;
        }
        Ok(())
    }

    fn operator(&self, node: u64) -> Api {
        self.cluster.operator(node, &self.http)
    }

    /// The node that owns most of the channels of a run with this fault.
    pub(super) async fn busiest(&self, harm: Harm) -> anyhow::Result<u64> {
        busiest(&self.cluster, &self.operator(self.cluster.running_node()), pace(harm).channels + 1).await
    }

    /// The node that leads a group.
    pub(super) async fn leader(&self, group: u16) -> anyhow::Result<u64> {
        let shards = self.operator(self.cluster.running_node()).get("/v1/admin/shards").await.expect(200);
        let mut rows = shards["data"].as_array().into_iter().flatten();
        let leader = rows.find(|row| row["id"] == group).and_then(|row| row["leader"].as_u64());
        leader.with_context(|| format!("nobody leads group {group}"))
    }

    /// The replicas' states at a few moments; those at the same entry can be compared.
    async fn replicas(&self) -> Vec<Replica> {
        let mut replicas = Vec::new();
        for _ in 0..LOOKS {
            for node in self.cluster.node_ids() {
                let states = self.operator(node).get("/v1/admin/replicas").await.expect(200);
                replicas.extend(states["data"].as_array().into_iter().flatten().map(|state| Replica {
                    node,
                    group: state["shard"].as_u64().and_then(|group| u16::try_from(group).ok()).unwrap_or_default(),
                    applied: state["applied"].as_u64().unwrap_or_default(),
                    hash: state["state_hash"].as_str().unwrap_or_default().to_owned(),
                }));
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        replicas
    }

    /// Arms a failpoint at running nodes.
    ///
    /// # Errors
    /// When a node refuses.
    pub async fn arm(&self, nodes: &[u64], name: &str, actions: &str) -> anyhow::Result<()> {
        for node in nodes {
            let answer = self.operator(*node).put(&failpoint(name), json!({ "actions": actions })).await;
            taken(*node, name, &answer)?;
        }
        Ok(())
    }

    /// Disarms a failpoint.
    ///
    /// # Errors
    /// When a node refuses.
    pub async fn disarm(&self, nodes: &[u64], name: &str) -> anyhow::Result<()> {
        for node in nodes {
            taken(*node, name, &self.operator(*node).delete(&failpoint(name)).await)?;
        }
        Ok(())
    }
}

fn pace(harm: Harm) -> Pace {
    match harm {
        Harm::LonelyDeath => SPREAD,
        Harm::DeafNode | Harm::OldDirectory => SHARED_OUT,
        Harm::DeathAmidDeliveries => HURRY,
        Harm::DeathOfOwner => MANY_SENDS,
        _ => PACE,
    }
}

fn failpoint(name: &str) -> String {
    format!("/v1/admin/failpoints/{name}")
}

fn taken(node: u64, name: &str, answer: &Answer) -> anyhow::Result<()> {
    ensure!(answer.status == 204, "{name} at node {node}: {} {}", answer.status, answer.text());
    Ok(())
}

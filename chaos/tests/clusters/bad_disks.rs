//! Nodes on disks that fail, under load: they stop and name the file, the others go on, and a power cut takes nothing that
//! was promised. Needs root and `/dev/fuse`; some 40 s each on a machine that is not busy.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::time::Duration;

use chaos::disk::{Faults, FaultyDisk, Files, Loss, Lost};
use serde_json::Value;
use tests::cluster::{Cluster, Options, is_running};
use tests::http::string;
use tests::load::Load;
use tests::simulator::Simulator;
use tests::tenant::{CONNECT, Paired, Tenant, number, wait_status};
use tests::wait::{check, eventually};

use crate::rooted_machine;

/// For a node to find its disk bad, or to catch up, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const NODES: [u64; 3] = [1, 2, 3];
const VICTIM: u64 = 3;
/// Sends a second.
const RATE: u32 = 60;

/// A cluster, its customer's channels, and somebody to write to.
struct Scene {
    cluster: Cluster,
    tenant: Tenant,
    channels: Vec<Paired>,
    to: String,
}

impl Scene {
    async fn start() -> Self {
        let cluster = Cluster::start(Options::default()).await;
        let tenant = Tenant::new(&cluster).await;
        let mut channels = Vec::new();
        for number in 0..8 {
            channels.push(tenant.paired(&format!("Channel {number}")).await);
        }
        let to = number();
        tenant.simulator().phone(&to, serde_json::json!({})).await;
        Self { cluster, tenant, channels, to }
    }

    fn load(&self, nodes: &[u64]) -> Load {
        Load::start(&self.tenant, &self.channels, &self.to, nodes, RATE)
    }

    /// From now on, the folder of a node that is down lies on a disk that may fail.
    fn disk(&self, node: u64) -> FaultyDisk {
        FaultyDisk::mount(&format!("node-{node}"), &self.cluster.node(node).data).unwrap()
    }

    /// What a node wrote to its log since it was that long, once its process has ended.
    async fn gave_up(&self, node: u64, log_from: usize) -> String {
        let running = self.cluster.node(node);
        eventually("it stops", PATIENCE, async || check(!is_running(running.pid), "it still runs")).await;
        String::from_utf8_lossy(&fs::read(running.log).unwrap()[log_from..]).into_owned()
    }

    /// Cuts the power of nodes: their processes die, and what was not synced is lost.
    async fn cut_power(&self, disks: &BTreeMap<u64, FaultyDisk>, nodes: &[u64], loss: Loss) {
        let accepted = self.tenant.simulator().stat("accepted").await;
        self.cluster.kill_all(nodes);
        let lost: Vec<Lost> = nodes.iter().map(|node| disks[node].crash(loss).unwrap()).collect();
        assert!(lost.iter().any(|lost| lost.pages > 0), "it was a power cut: {lost:?}");
        self.cluster.restart(nodes).await;
        more_sends(&self.tenant.simulator(), accepted).await;
    }

    async fn all_connected(&self) {
        for channel in &self.channels {
            wait_status(&self.tenant.any(), &channel.id, "connected", CONNECT).await;
        }
    }

    /// The ids of all messages that are stored.
    async fn history(&self) -> HashSet<String> {
        let (api, mut ids, mut cursor) = (self.tenant.any(), HashSet::new(), String::new());
        loop {
            let page = api.get(&format!("/v1/messages?limit=100{cursor}")).await.expect(200);
            ids.extend(page["data"].as_array().unwrap().iter().map(|message| string(&message["message_id"])));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return ids,
            }
        }
    }

    /// Waits until all replicas have applied the same, and compares what they hold.
    async fn replicas_are_equal(&self) {
        let equal = eventually("all replicas have applied the same", PATIENCE, async || {
            let mut states: BTreeMap<u64, Vec<(u64, Value)>> = BTreeMap::new();
            for node in NODES {
                let operator = self.cluster.operator(node, &self.tenant.client);
                let replicas = operator.get("/v1/admin/replicas").await.expect(200);
                for replica in replicas["data"].as_array().unwrap() {
                    let (shard, applied) = (replica["shard"].as_u64().unwrap(), replica["applied"].as_u64().unwrap());
                    states.entry(shard).or_default().push((applied, replica["state_hash"].clone()));
                }
            }
            let even = |all: &Vec<(u64, Value)>| all.len() == NODES.len() && all.iter().all(|(at, _)| *at == all[0].0);
            let behind: Vec<_> = states.iter().filter(|(_, all)| !even(all)).collect();
            if behind.is_empty() && !states.is_empty() { Ok(states) } else { Err(format!("{behind:?}")) }
        })
        .await;
        for (shard, states) in equal {
            assert!(states.iter().all(|state| *state == states[0]), "shard {shard}: {states:?}");
        }
    }
}

async fn more_sends(simulator: &Simulator, than: u64) {
    eventually("sends go on", PATIENCE, async || {
        let accepted = simulator.stat("accepted").await;
        check(accepted > than + 50, format!("{accepted} accepted, {than} before"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_fails_stops_and_names_the_file_while_sends_go_on() {
    let Some(_machine) = rooted_machine().await else { return };
    let scene = Scene::start().await;
    let cluster = &scene.cluster;
    cluster.kill(VICTIM);
    let disk = scene.disk(VICTIM);
    let load = scene.load(&[1, 2]);
    let failing = [
        ("no room", Faults { free: Some(100_000), ..Faults::default() }, "No space left on device"),
        ("syncs", Faults { failing_syncs: Some(Files::below("raft")), ..Faults::default() }, "Input/output error"),
        ("writes", Faults { failing_writes: Some(Files::below("data")), ..Faults::default() }, "Input/output error"),
    ];
    for (seed, (what, faults, said)) in failing.into_iter().enumerate() {
        cluster.restart(&[VICTIM]).await;
        let log_from = fs::metadata(cluster.node(VICTIM).log).unwrap().len() as usize;
        disk.set(faults);
        let told = scene.gave_up(VICTIM, log_from).await;
        assert!(told.contains("it cannot go on safely"), "{what}: {told}");
        assert!(told.contains(said) && told.contains(&format!("node-{VICTIM}/")), "{what}: {told}");
        // What a sync had refused is not on the disk, whatever was written.
        disk.crash(Loss::SomePages { seed: seed as u64 }).unwrap();
        disk.set(Faults::default());
    }
    cluster.restart(&[VICTIM]).await;
    let report = load.end().await;
    assert_eq!(report.failures, Vec::<String>::new(), "of {} sends", report.taken.len());
    report.prove(&scene.tenant.simulator()).await;
    scene.replicas_are_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_outlives_power_cuts_of_one_node_and_of_all() {
    let Some(_machine) = rooted_machine().await else { return };
    let scene = Scene::start().await;
    scene.cluster.kill_all(&NODES);
    let disks: BTreeMap<u64, FaultyDisk> = NODES.into_iter().map(|node| (node, scene.disk(node))).collect();
    scene.cluster.restart(&NODES).await;
    scene.all_connected().await;
    let load = scene.load(&NODES);
    more_sends(&scene.tenant.simulator(), 0).await;
    scene.cut_power(&disks, &[VICTIM], Loss::Everything).await;
    scene.cut_power(&disks, &NODES, Loss::Everything).await;
    scene.cut_power(&disks, &NODES, Loss::SomePages { seed: 11 }).await;
    let report = load.end().await;
    scene.all_connected().await;
    // While all were dead nothing was taken, and nothing promised.
    report.prove(&scene.tenant.simulator()).await;
    let stored = scene.history().await;
    let missing: Vec<_> = report.taken.iter().filter(|id| !stored.contains(*id)).collect();
    assert!(missing.is_empty(), "{} of {}: {missing:?}", missing.len(), report.taken.len());
    scene.replicas_are_equal().await;
}

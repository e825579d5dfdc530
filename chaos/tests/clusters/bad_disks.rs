//! Nodes on faulty disks, under load: they stop and name the file, the others go on, and a power cut loses nothing that
//! was promised. Needs root and `/dev/fuse`; each test takes some 40 s on an idle machine.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::time::Duration;

use chaos::disk::{Faults, FaultyDisk, Files, Loss, Lost};
use serde_json::Value;
use tests::cluster::{Cluster, Options, is_running};
use tests::http::string;
use tests::load::Load;
use tests::simulator::Simulator;
use tests::tenant::{CONNECT, Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually};

use crate::rooted_machine;

/// Timeout for a node to detect a disk fault, or to catch up, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const NODES: [u64; 3] = [1, 2, 3];
const VICTIM: u64 = 3;
/// Sends per second.
const RATE: u32 = 60;

/// A cluster, its customer's channels, and a recipient.
struct Scene {
    cluster: Cluster,
    tenant: Tenant,
    channels: Vec<Paired>,
    to: String,
}

impl Scene {
    async fn start() -> Self {
        Self::with(Options::default()).await
    }

    /// With nodes that do not check for free space, so that their disks fill up.
    async fn careless() -> Self {
        let mark = |mark| format!("--set=disk.{mark}={{ percent = 0, most_bytes = 0, least_bytes = 0 }}");
        Self::with(["low", "full"].into_iter().fold(Options::default(), |options, name| options.arg(&mark(name)))).await
    }

    async fn with(options: Options) -> Self {
        let cluster = Cluster::start(options).await;
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

    /// Mounts a faulty disk over the folder of a node that is down.
    fn disk(&self, node: u64) -> FaultyDisk {
        FaultyDisk::mount(&format!("node-{node}"), &self.cluster.node(node).data).unwrap()
    }

    /// Waits for the end of a node's process, and returns its log from byte `log_from` on.
    async fn gave_up(&self, node: u64, log_from: usize) -> String {
        let running = self.cluster.node(node);
        eventually("it stops", PATIENCE, async || check(!is_running(running.pid), "it still runs")).await;
        String::from_utf8_lossy(&fs::read(running.log).unwrap()[log_from..]).into_owned()
    }

    /// Cuts the power of nodes: their processes are killed, and unsynced data is lost.
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

    /// The ids of all stored messages.
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

    /// Waits until all replicas have applied the same entries, and compares their states.
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
    let scene = Scene::careless().await;
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
        // Data whose sync has failed is not on the disk, although it was written.
        disk.crash(Loss::SomePages { seed: seed as u64 }).unwrap();
        disk.set(Faults::default());
    }
    cluster.restart(&[VICTIM]).await;
    let report = load.end().await;
    assert_eq!(report.failures, Vec::<String>::new(), "of {} sends", report.taken.len());
    report.prove(&scene.tenant.simulator()).await;
    scene.replicas_are_equal().await;
}

/// A disk with this much free space.
fn nearly_full(mib: u64) -> Faults {
    Faults { free: Some(mib << 20), ..Faults::default() }
}

/// Free space below the second mark of any disk large enough to build on, but above its half; and below that half.
const FULL_MIB: u64 = 700;
const BRIM_MIB: u64 = 40;

impl Scene {
    /// Waits until the disk check of a node has this level.
    async fn says_of_its_disk(&self, node: u64, level: &str) {
        eventually(&format!("the disk of node {node} is {level}"), PATIENCE, async || {
            let operator = self.cluster.operator(1, &self.tenant.client);
            let checks = operator.get("/v1/admin/check").await.expect(200);
            let checks = checks["checks"].as_array().unwrap().clone();
            let of_node = |check: &&Value| check["check"] == "disk" && check["node_id"] == node;
            let found = checks.iter().find(of_node).map_or("ok".to_owned(), |check| string(&check["level"]));
            check(found == level, format!("it is {found}"))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_without_room_ends_nothing_and_catches_up_when_room_is_made() {
    let Some(_machine) = rooted_machine().await else { return };
    let scene = Scene::start().await;
    let cluster = &scene.cluster;
    cluster.kill(VICTIM);
    let disk = scene.disk(VICTIM);
    cluster.restart(&[VICTIM]).await;
    scene.all_connected().await;
    let load = scene.load(&[1, 2]);
    disk.set(nearly_full(FULL_MIB));
    scene.says_of_its_disk(VICTIM, "failing").await;
    let pid = cluster.node(VICTIM).pid;
    eventually("it leads no shard", PATIENCE, async || {
        let owners = futures::future::join_all(scene.channels.iter().map(|channel| scene.tenant.owner(1, &channel.id)));
        let owned = owners.await.iter().filter(|owner| owner.node == VICTIM).count();
        check(owned == 0, format!("it owns {owned} of the channels"))
    })
    .await;
    disk.set(nearly_full(BRIM_MIB));
    more_sends(&scene.tenant.simulator(), scene.tenant.simulator().stat("accepted").await).await;
    assert!(is_running(pid), "it goes on");
    disk.set(Faults::default());
    scene.says_of_its_disk(VICTIM, "ok").await;
    let report = load.end().await;
    // Until its leadership has moved, an owner without space refuses sends with this code.
    let failures: Vec<_> = report.failures.iter().filter(|failure| !failure.contains("storage_full")).collect();
    assert!(failures.is_empty(), "of {} sends: {failures:?}", report.taken.len());
    assert!(report.failures.len() < report.taken.len() / 10, "{} were refused", report.failures.len());
    report.prove(&scene.tenant.simulator()).await;
    scene.replicas_are_equal().await;
    assert_eq!(cluster.node(VICTIM).pid, pid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_that_are_full_everywhere_hold_what_would_fill_them_and_end_no_node() {
    let Some(_machine) = rooted_machine().await else { return };
    let scene = Scene::start().await;
    let (cluster, simulator) = (&scene.cluster, scene.tenant.simulator());
    cluster.kill_all(&NODES);
    let disks: BTreeMap<u64, FaultyDisk> = NODES.into_iter().map(|node| (node, scene.disk(node))).collect();
    cluster.restart(&NODES).await;
    scene.all_connected().await;
    let (channel, api) = (&scene.channels[0], scene.tenant.any());
    let send = async || api.post(&channel.path("/messages"), text(&scene.to, "is there room?")).await;
    send().await.expect(202);
    for disk in disks.values() {
        disk.set(nearly_full(FULL_MIB));
    }
    for node in NODES {
        scene.says_of_its_disk(node, "failing").await;
    }
    eventually("the owner has heard of all of them", PATIENCE, async || {
        let status = send().await.status;
        check(status == 503, format!("it answers {status}"))
    })
    .await;
    // Sends are refused every time, and inbound messages wait.
    for _ in 0..50 {
        let refused = send().await;
        refused.expect_error(503, "storage_full");
        assert_eq!(refused.retry_after(), 60);
    }
    let inbound = async || {
        let page = api.get(&channel.path("/messages?direction=inbound&limit=100")).await.expect(200);
        page["data"].as_array().unwrap().len()
    };
    simulator.text(&scene.to, &channel.number, "it waits", 100).await;
    assert_eq!(inbound().await, 0, "reads are served, and nothing came in");
    let gone = &scene.channels[1];
    api.delete(&gone.path("")).await;
    eventually("a channel is deleted", PATIENCE, async || {
        check(api.get(&gone.path("")).await.status == 404, "it is still there")
    })
    .await;
    let pids: Vec<i32> = NODES.map(|node| cluster.node(node).pid).to_vec();
    assert!(pids.iter().all(|pid| is_running(*pid)), "no node has ended");
    for disk in disks.values() {
        disk.set(Faults::default());
    }
    eventually("sends are taken again", PATIENCE, async || {
        let answer = send().await;
        check(answer.status == 202, answer.text())
    })
    .await;
    eventually("all that waited has come in", PATIENCE, async || {
        let came = inbound().await;
        check(came == 100, format!("{came} came"))
    })
    .await;
    assert_eq!(pids, NODES.map(|node| cluster.node(node).pid));
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
    // While all nodes were down nothing was accepted or promised.
    report.prove(&scene.tenant.simulator()).await;
    let stored = scene.history().await;
    let missing: Vec<_> = report.taken.iter().filter(|id| !stored.contains(*id)).collect();
    assert!(missing.is_empty(), "{} of {}: {missing:?}", missing.len(), report.taken.len());
    scene.replicas_are_equal().await;
}

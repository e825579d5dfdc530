//! An upgrade from the previous release and a downgrade, node by node, while sends continue.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use model::format::Format;
use reqwest::Method;
use serde_json::{Value, json};
use tests::binary::{self, Finished};
use tests::cluster::{Cluster, Options, is_running, wait_gone};
use tests::http::try_answer;
use tests::load::Load;
use tests::previous::Previous;
use tests::receiver::Receiver;
use tests::tenant::{CONNECT, Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

const NODES: [u64; 3] = [1, 2, 3];

/// The format of the previous release.
const BEFORE: Format = Format::SECOND;

/// Sends per second that a machine can carry while it compiles.
const RATE: u32 = 30;

/// How long everything may take to arrive, and replicas to become equal.
const SETTLED: Duration = seconds(60);

/// How long a node may take to stop: it first answers accepted requests, which may wait for the network.
const STOPPED: Duration = seconds(60);

/// The position up to which a replica has applied its log, and the hash of its state.
type State = (u64, u64);

/// A cluster whose nodes change their release, and a customer that keeps working.
struct Upgrade {
    cluster: Cluster,
    tenant: Tenant,
    channels: Vec<Paired>,
    /// The number that the channels write to.
    to: String,
    receiver: Receiver,
}

impl Upgrade {
    async fn begin(cluster: Cluster) -> Self {
        let tenant = Tenant::new(&cluster).await;
        let receiver = Receiver::start().await;
        let mut channels = Vec::new();
        for number in 0..16 {
            channels.push(tenant.paired(&format!("Channel {number}")).await);
        }
        let to = number();
        tenant.simulator().phone(&to, json!({})).await;
        tenant.endpoint(&receiver.url("/"), &["message.sent", "message.received"], json!({})).await;
        Self { cluster, tenant, channels, to, receiver }
    }

    /// Replaces the program of nodes, one after the other, while messages flow in both directions. No send fails, and
    /// each message arrives exactly once.
    async fn replace(&self, program: &Path, nodes: &[u64]) {
        let load = Load::start(&self.tenant, &self.channels, &self.to, &NODES, RATE);
        let mut inbound = Vec::new();
        for node in nodes {
            let others: Vec<u64> = NODES.into_iter().filter(|other| other != node).collect();
            load.use_nodes(&self.tenant, &others);
            self.stop(*node).await;
            inbound.extend(self.written_back().await);
            self.cluster.restart_with(program, &[*node]).await;
            load.use_nodes(&self.tenant, &NODES);
            inbound.extend(self.written_back().await);
        }
        let report = load.end().await;
        println!("{} sends, the longest took {:?}", report.taken.len(), report.longest);
        assert_eq!(report.failures, Vec::<String>::new(), "of {} sends", report.taken.len());
        report.prove(&self.tenant.simulator()).await;
        self.heard("message.sent", &report.taken).await;
        self.heard("message.received", &inbound).await;
        for channel in &self.channels {
            wait_status(&self.tenant.any(), &channel.id, "connected", CONNECT).await;
        }
        self.alike().await;
    }

    /// Stops a node with SIGTERM, and returns when it has ended.
    async fn stop(&self, node: u64) {
        self.cluster.terminate(node);
        let pid = self.cluster.node(node).pid;
        tokio::task::spawn_blocking(move || wait_gone(pid, STOPPED)).await.unwrap();
    }

    /// Sends a text to each channel.
    async fn written_back(&self) -> Vec<String> {
        let simulator = self.tenant.simulator();
        let mut ids = Vec::new();
        for channel in &self.channels {
            ids.extend(simulator.text(&self.to, &channel.number, "written back", 1).await);
        }
        ids
    }

    /// Waits until the receiver has heard of each of these messages, and asserts one event id for each.
    async fn heard(&self, event: &str, messages: &[String]) {
        let heard = eventually(&format!("every {event} arrived"), SETTLED, async || {
            let heard = self.receiver.event_ids(event);
            let missing = messages.iter().filter(|id| !heard.contains_key(*id)).count();
            check(missing == 0, format!("{missing} of {} missing", messages.len())).map(|()| heard)
        })
        .await;
        for (id, events) in &heard {
            assert_eq!(events.len(), 1, "{event} of {id} has more than one event id");
        }
    }

    /// Kills a node and restarts it with its program. Meanwhile every channel can send through the others.
    async fn fail_over(&self, node: u64, program: &Path) {
        self.cluster.kill(node);
        let others: Vec<u64> = NODES.into_iter().filter(|other| *other != node).collect();
        for (n, channel) in self.channels.iter().enumerate() {
            let api = self.tenant.api(others[n % others.len()]);
            let words = text(&self.to, &format!("without node {node}"));
            eventually(&format!("a send without node {node}"), seconds(20), async || {
                let request = api.request(Method::POST, &channel.path("/messages")).json(&words);
                let answer = try_answer(request).await.map_err(|error| error.to_string())?;
                check(answer.status == 202, answer.text())
            })
            .await;
        }
        self.cluster.restart_with(program, &[node]).await;
    }

    /// Asserts that replicas at the same position have the same state, whichever release applied the log.
    async fn alike(&self) {
        let mut differ: BTreeSet<u16> = (0..=16).collect();
        eventually("the replicas of all groups are alike", SETTLED, async || {
            let mut nodes = Vec::new();
            for node in NODES {
                nodes.push(self.states(node, &differ).await?);
            }
            differ.retain(|group| {
                let states: BTreeSet<State> = nodes.iter().map(|states| states[group]).collect();
                let at_one_index = states.iter().all(|(index, _)| states.iter().all(|(other, _)| other == index));
                assert!(!at_one_index || states.len() == 1, "group {group} has several states: {states:x?}");
                states.len() > 1
            });
            check(differ.is_empty(), format!("groups {differ:?} are not at one index"))
        })
        .await;
    }

    /// Applied positions and state hashes of a node's replicas of these groups.
    async fn states(&self, node: u64, groups: &BTreeSet<u16>) -> Result<BTreeMap<u16, State>, String> {
        let operator = self.cluster.operator(node, &self.tenant.client);
        let answer = operator.get("/v1/admin/replicas").await;
        if answer.status != 404 {
            check(answer.status == 200, answer.text())?;
            let hash = |state: &Value| u64::from_str_radix(state["state_hash"].as_str().unwrap(), 16).unwrap();
            let state = |state: &Value| {
                let group = u16::try_from(state["shard"].as_u64().unwrap()).unwrap();
                (group, (state["applied"].as_u64().unwrap(), hash(state)))
            };
            return Ok(answer.json()["data"].as_array().unwrap().iter().map(state).collect());
        }
        // A release without this route has backups of whole groups, which leave no audit entry in the log that is read.
        let mut states = BTreeMap::new();
        for group in groups {
            let answer = operator.get(&format!("/v1/admin/backup/groups/{group}")).await;
            check(answer.status == 200, answer.text())?;
            // The file begins with magic, group, term and index, and ends with the hash.
            let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
            states.insert(*group, (number(&answer.body[18..26]), number(&answer.body[answer.body.len() - 8..])));
        }
        Ok(states)
    }

    /// Runs an operator's command of the release under test.
    async fn operator(&self, args: &[&str]) -> Finished {
        self.cluster.command(args).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_upgraded_node_by_node_and_can_go_back_until_its_format_is_raised() {
    let Some(previous) = tokio::task::spawn_blocking(Previous::build).await.unwrap() else {
        println!("NOT TRIED: this tree has no history to build the release before from");
        return;
    };
    let (old, new) = (previous.binary.clone(), binary::gateway());
    let options = Options::default().arg("--set=drain.initial_wait=500ms");
    let cluster = Cluster::start(Options { program: Some(old.clone()), ..options }).await;
    let upgrade = Upgrade::begin(cluster).await;

    // One new node with two old ones: they take over from each other in both directions.
    upgrade.replace(&new, &[1]).await;
    upgrade.fail_over(1, &new).await;
    upgrade.fail_over(2, &old).await;
    let status = upgrade.operator(&["status"]).await.stdout;
    let before = format!("format {BEFORE}");
    assert!(status.contains(&format!("{} on nodes 2, 3", previous.number)) && status.contains(&before), "{status}");
    let refused = upgrade.operator(&["format", "raise", "--yes"]).await;
    assert!(refused.code() != Some(0) && refused.stderr.contains("upgrade the node first"), "{}", refused.stderr);
    upgrade.replace(&new, &[2]).await;
    upgrade.fail_over(3, &old).await;
    upgrade.replace(&new, &[3]).await;

    // Downgrade, then upgrade again.
    upgrade.replace(&old, &[3, 1, 2]).await;
    upgrade.replace(&new, &[2, 3, 1]).await;

    let raised = upgrade.operator(&["format", "raise", "--yes"]).await.succeeded().stdout;
    assert!(raised.contains(&format!("the cluster has format {}", Format::LATEST)), "{raised}");
    upgrade.alike().await;
    too_old(&upgrade, &old).await;
    upgrade.replace(&new, &[1]).await;
}

/// A node of the old release cannot start in a cluster with a newer format, and is told what to do.
async fn too_old(upgrade: &Upgrade, old: &Path) {
    let cluster = &upgrade.cluster;
    upgrade.stop(3).await;
    let refused = cluster.command_of(old, &["dev", "start", "3"]).await;
    let latest = format!("format {}", Format::LATEST);
    assert!(refused.code() != Some(0) && refused.stderr.contains(&latest), "{}", refused.stderr);

    // A folder that was restored from an older copy does not know the format, but the other nodes do.
    let identity = cluster.node(3).data.join("identity.json");
    let sealed = std::fs::read_to_string(&identity).unwrap();
    let older = sealed.replace(&format!("\"format\": {}", Format::LATEST), &format!("\"format\": {BEFORE}"));
    assert_ne!(older, sealed);
    std::fs::write(&identity, older).unwrap();
    cluster.command_of(old, &["dev", "start", "3"]).await;
    let node = cluster.node(3);
    let log = || std::fs::read_to_string(&node.log).unwrap();
    eventually("node 3 ends", STOPPED, async || check(!is_running(node.pid), log())).await;
    let log = log();
    let last = log.rsplit_once(" starting ").unwrap().1;
    let remedy = Format::LATEST.remedy();
    assert!(last.contains("gateway: node.data_dir") && last.contains(&remedy), "{last}");
    std::fs::write(&identity, sealed).unwrap();

    let token = cluster.operator(1, &upgrade.tenant.client).post("/v1/admin/tokens", json!({})).await.expect(201);
    let (token, via) = (token["token"].as_str().unwrap().to_owned(), cluster.node(1).peer);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("node-4").display().to_string();
    let data = format!("{dir}/data");
    let args =
        ["join", "--token", &token, "--via", &via, "--advertise", "127.0.0.1:1", "--dir", &dir, "--data-dir", &data];
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let (program, at) = (old.to_owned(), folder.path().to_owned());
    let joining = move || binary::run_program(&program, &args, &at, seconds(30), &[]);
    let refused = tokio::task::spawn_blocking(joining).await.unwrap();
    assert!(refused.code() == Some(2) && refused.stderr.contains(&remedy), "{}", refused.stderr);

    cluster.restart(&[3]).await;
}

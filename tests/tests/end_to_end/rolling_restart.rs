//! A rolling restart of all nodes, as for an upgrade, while sends continue.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::client;
use tests::load::{Load, Report};
use tests::tenant::{CONNECT, Paired, Tenant, number, wait_status};
use tests::wait::{check, eventually, seconds};

/// Sends per second that a shared machine can carry. `gateway-bench b6` measures how many a restart can take.
const RATE: u32 = 200;

/// The longest duration of a send, which waits during a transfer of leadership: a send that waits longer must be
/// answered `queued`. `gateway-bench b6` measures it on a quiet machine.
const LONGEST: Duration = Duration::from_secs(10);

/// The shortest pause between two leaderships that a node returns to a restarted one.
const WARM_UP: TimeDelta = TimeDelta::seconds(1);

/// How long it may take until all leaderships are on their intended nodes.
const HOME: Duration = seconds(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_are_restarted_one_after_the_other_and_no_send_fails() {
    let cluster = Cluster::start(Options::default().arg("--set=drain.initial_wait=500ms")).await;
    let tenant = Tenant::new(&cluster).await;
    let mut channels = Vec::new();
    for number in 0..32 {
        channels.push(tenant.paired(&format!("Channel {number}")).await);
    }
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;
    let report = restart_all(&cluster, &tenant, &channels, &to).await;
    assert_eq!(report.failures, Vec::<String>::new(), "of {} sends", report.taken.len());
    report.prove(&tenant.simulator()).await;
    println!("{} sends, {:.0} a second, the longest took {:?}", report.taken.len(), report.rate(), report.longest);
    assert!(report.longest < LONGEST, "{:?}", report.longest);
    comes_home(&cluster, &tenant, &channels).await;
    for node in cluster.node_ids() {
        let log = std::fs::read_to_string(cluster.node(node).log).unwrap();
        let given = given_back(&log);
        for (target, times) in &given {
            let closest = times.windows(2).map(|pair| pair[1] - pair[0]).min();
            assert!(closest.is_none_or(|gap| gap >= WARM_UP), "node {node} gave node {target} leads at {times:?}");
        }
        println!("node {node} gave back {:?} leads", given.values().map(Vec::len).sum::<usize>());
    }
}

/// Restarts all nodes, one after the other, under load.
async fn restart_all(cluster: &Cluster, tenant: &Tenant, channels: &[Paired], to: &str) -> Report {
    let load = Load::start(tenant, channels, to, &[1, 2, 3], RATE);
    for node in [1, 2, 3] {
        // A load balancer does the same when the node reports that it is not ready.
        let others: Vec<u64> = [1, 2, 3].into_iter().filter(|other| *other != node).collect();
        load.use_nodes(tenant, &others);
        cluster.command(&["dev", "stop", &node.to_string()]).await.succeeded();
        cluster.restart(&[node]).await;
        load.use_nodes(tenant, &[1, 2, 3]);
    }
    load.end().await
}

/// Waits until all sessions are connected, and each node leads its intended shards.
async fn comes_home(cluster: &Cluster, tenant: &Tenant, channels: &[Paired]) {
    for channel in channels {
        wait_status(&tenant.any(), &channel.id, "connected", CONNECT).await;
    }
    let operator = cluster.operator(1, &client());
    eventually("every node leads again what it should", HOME, async || {
        let nodes = operator.get("/v1/admin/nodes").await.expect(200);
        let is_home =
            |row: &Value| row["owns"].as_array().map(Vec::len).map(|owns| json!(owns)) == Some(row["leads"].clone());
        check(nodes["data"].as_array().unwrap().iter().all(is_home), nodes.to_string())
    })
    .await;
}

/// The times at which a node returned leaderships, by target node, from its log.
fn given_back(log: &str) -> HashMap<&str, Vec<DateTime<Utc>>> {
    let mut given: HashMap<&str, Vec<DateTime<Utc>>> = HashMap::new();
    for line in log.lines().filter(|line| line.contains("leadership goes to the node that should have it")) {
        let time = line.split_whitespace().next().and_then(|time| time.parse().ok());
        let target = line.split("target=").nth(1).and_then(|rest| rest.split_whitespace().next());
        given.entry(target.unwrap()).or_default().push(time.unwrap());
    }
    given
}

//! All nodes restarted one after the other, as for an upgrade, while sends go on.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use serde_json::json;
use tests::cluster::{Cluster, Options};
use tests::load::Load;
use tests::tenant::{CONNECT, Tenant, number, wait_status};

/// Sends a second.
const RATE: u32 = 500;

/// A send waits for as long as a shard is handed over; a machine that is busy with compilers takes its time for that.
const LONGEST: Duration = Duration::from_secs(5);

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
    let load = Load::start(&tenant, &channels, &to, &[1, 2, 3], RATE);
    for node in [1, 2, 3] {
        // What a balancer does when the node says that it is not ready.
        let others: Vec<u64> = [1, 2, 3].into_iter().filter(|other| *other != node).collect();
        load.use_nodes(&tenant, &others);
        cluster.command(&["dev", "stop", &node.to_string()]).await.succeeded();
        cluster.restart(&[node]).await;
        load.use_nodes(&tenant, &[1, 2, 3]);
    }
    let report = load.end().await;
    assert_eq!(report.failures, Vec::<String>::new(), "of {} sends", report.taken.len());
    report.prove(&tenant.simulator()).await;
    assert!(report.longest < LONGEST, "{:?}", report.longest);
    println!("{} sends, {:.0} a second, the longest took {:?}", report.taken.len(), report.rate(), report.longest);
    for channel in &channels {
        wait_status(&tenant.any(), &channel.id, "connected", CONNECT).await;
    }
}

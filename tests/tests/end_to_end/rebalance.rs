//! Nodes and shards move while sends continue.

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::SHARDS;
use tests::grown::{Grown, MOVES};
use tests::http::answer;
use tests::load::Load;
use tests::media::{bare, fetch, noise, path};
use tests::tenant::{Paired, Tenant, number};
use tests::wait::{check, eventually, seconds};

/// Sends per second that a machine can carry while it is busy with other tests.
const RATE: u32 = 40;

/// Three nodes that share the shards, with channels on many of these.
async fn three(channels: usize) -> (Grown, Tenant, Vec<Paired>, String) {
    let mut grown = Grown::start().await;
    grown.join(1, 2).await;
    grown.join(2, 3).await;
    grown.settled(1, 3, &[]).await;
    let tenant = Tenant::new(&grown.cluster).await;
    let mut paired = Vec::new();
    for number in 0..channels {
        paired.push(tenant.paired(&format!("Channel {number}")).await);
    }
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;
    (grown, tenant, paired, to)
}

fn replicas_on(layout: &Value, node: u64) -> usize {
    let shards = layout["shards"].as_array().unwrap();
    shards.iter().filter(|shard| shard["replicas"].as_array().unwrap().contains(&json!(node))).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fourth_node_takes_its_share_and_gives_it_back_under_load_without_a_failed_send() {
    let (mut grown, tenant, channels, to) = three(16).await;
    let load = Load::start(&tenant, &channels, &to, &[1, 2, 3], RATE);

    grown.join(3, 4).await;
    let before = grown.settled(1, 3, &[]).await;
    assert_eq!(replicas_on(&before, 4), 0, "nothing moves until an operator wants it: {before}");
    let plan = grown.operator(1).post("/v1/admin/layout/plan", json!({})).await.expect(200);
    let planned = plan["moves"].as_array().unwrap().len();
    assert!(planned > 0 && plan["cost"]["replicas"].as_u64().unwrap() > 0, "{plan}");
    let sum = |key: &str| -> f64 { plan["nodes"].as_array().unwrap().iter().filter_map(|row| row[key].as_f64()).sum() };
    assert_eq!((sum("leads"), sum("leads_after")), (SHARDS as f64, SHARDS as f64), "{plan}");
    assert!(sum("load") >= SHARDS as f64 && (sum("load") - sum("load_after")).abs() < 0.01, "{plan}");
    let shown = grown.command(1, &["layout", "plan"]).await.succeeded().stdout;
    assert!(shown.contains("replicas will be copied") && shown.contains("LOAD"), "{shown}");

    let stale = json!({ "number": plan["number"].as_u64().unwrap() + 1 });
    grown.operator(1).post("/v1/admin/layout/apply", stale).await.expect_error(409, "concurrent_modification");
    let number = plan["number"].to_string();
    let shown = grown.command(2, &["layout", "apply", "--number", &number, "--yes"]).await.succeeded().stdout;
    assert!(shown.contains(&format!("{planned}/{planned}")), "{shown}");
    let after = grown.settled(4, 3, &[]).await;
    assert!(replicas_on(&after, 4) > 0, "{after}");
    let again = grown.operator(1).post("/v1/admin/layout/plan", json!({})).await.expect(200);
    assert_eq!(again["moves"], json!([]), "it is where the ring wants it");

    // A shard is moved by hand to a node without a replica of it.
    let shard = &after["shards"][0];
    let lacks_it = |node: &u64| !shard["replicas"].as_array().unwrap().contains(&json!(node));
    let destination = (1..=4).find(lacks_it).expect("three of four nodes have a replica");
    let shard = shard["shard"].as_u64();
    let place = destination.to_string();
    grown.command(3, &["shard", "move", &shard.unwrap().to_string(), "--to", &place, "--wait"]).await.succeeded();
    eventually("the shard is led where it was moved to", MOVES, async || {
        let row = grown.node_row(1, destination).await.ok_or("no row")?;
        check(row["owns"].as_array().unwrap().iter().any(|owned| owned.as_u64() == shard), row.to_string())
    })
    .await;

    grown.command(1, &["node", "remove", "4", "--wait", "--yes"]).await.succeeded();
    grown.settled(1, 3, &[4]).await;
    let report = load.end().await;
    assert_eq!(report.failures, Vec::<String>::new(), "of {} sends", report.taken.len());
    report.prove(&tenant.simulator()).await;
    println!("{} sends, {:.0} a second, the longest took {:?}", report.taken.len(), report.rate(), report.longest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layout_goes_on_after_kills_and_what_has_not_begun_can_be_cancelled() {
    let (mut grown, tenant, channels, to) = three(4).await;
    grown.join(1, 4).await;
    let begun = grown.operator(1).post("/v1/admin/layout/apply", json!({ "at_once": 1 })).await.expect(202);
    assert_eq!(begun["state"], "running", "{begun}");
    let total = begun["total"].as_u64().unwrap();

    // The node that drives the change dies, and then one that takes part in it.
    for node in [1, 4] {
        grown.kill(node);
        grown.run(node as u16, node);
        grown.cluster.wait_ready(node, &grown.client).await;
    }
    let layout = grown.settled(2, 3, &[]).await;
    assert_eq!(layout["change"]["done"].as_u64(), Some(total), "{layout}");
    assert!(replicas_on(&layout, 4) > 0, "{layout}");

    // A change back to three nodes begins, and is cancelled.
    grown.operator(2).patch("/v1/admin/nodes/4", json!({ "weight": 8 })).await.expect(200);
    let begun = grown.operator(2).post("/v1/admin/layout/apply", json!({ "at_once": 1 })).await.expect(202);
    assert!(begun["total"].as_u64().unwrap() > 1, "{begun}");
    let cancelled = grown.operator(3).post("/v1/admin/layout/cancel", json!({})).await.expect(202);
    assert!(cancelled["cancelled"].as_u64().unwrap() > 0, "{cancelled}");
    let layout = grown.settled(3, 3, &[]).await;
    assert_eq!(layout["change"]["state"], "cancelled", "{layout}");

    let load = Load::start(&tenant, &channels, &to, &[1, 2, 3, 4], RATE);
    tokio::time::sleep(seconds(3)).await;
    let report = load.end().await;
    assert_eq!(report.failures, Vec::<String>::new());
    report.prove(&tenant.simulator()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_that_leave_at_the_same_time_leave_no_media_behind() {
    let (mut grown, tenant, _, _) = three(0).await;
    grown.join(1, 4).await;
    grown.command(1, &["layout", "apply", "--yes"]).await.succeeded();
    grown.settled(1, 3, &[]).await;

    // Data stored while node 2 is paused is on the other two replicas of each of its shards.
    grown.cluster.pause(2);
    let mut stored = Vec::new();
    for number in 0..24 {
        let channel = eventually("a channel is made", seconds(30), async || {
            let body = json!({ "name": format!("Channel {number}") });
            let made = answer(tenant.api(1).request(Method::POST, "/v1/channels").json(&body)).await;
            check(made.status == 201, made.text())?;
            Ok(made.json()["id"].as_str().unwrap().to_owned())
        })
        .await;
        let bytes = noise(3_000, number);
        let made = eventually("an upload is taken", seconds(30), async || {
            let made = answer(bare(&tenant.api(1), &channel, "application/octet-stream", bytes.clone())).await;
            check(made.status == 201, made.text())?;
            Ok(made.json())
        })
        .await;
        stored.push((path(&made), bytes));
    }
    grown.cluster.resume(2);
    grown.cluster.wait_ready(2, &grown.client).await;

    // Other nodes may not have heard of node 2 yet; until they have, it gets no replicas.
    let removal = async |through: u64, node: u64| {
        let operator = grown.operator(through);
        eventually(&format!("node {node} leaves"), seconds(30), async || {
            let answer = operator.delete(&format!("/v1/admin/nodes/{node}?force=true")).await;
            check(answer.status == 202, answer.text())
        })
        .await;
    };
    tokio::join!(removal(1, 3), removal(2, 4));
    grown.settled(1, 2, &[3, 4]).await;
    eventually("both are gone", MOVES, async || {
        let (three, four) = (grown.node_row(1, 3).await, grown.node_row(1, 4).await);
        check(three.is_none() && four.is_none(), format!("{three:?} {four:?}"))
    })
    .await;
    for node in [1, 2] {
        for (path, bytes) in &stored {
            let read = fetch(&tenant.api(node), path, &[]).await;
            assert_eq!((read.status, read.body == *bytes), (200, true), "{path} through node {node}");
        }
    }
}

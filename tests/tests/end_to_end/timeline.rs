//! Events of the cluster and work of its nodes, as operators see them without a monitoring system.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::Api;
use tests::tenant::{CONNECT, Tenant, number, text};
use tests::wait::{check, eventually, seconds};

/// Seconds until something is noted that is polled every two seconds, or checked every sixteen, on a busy machine.
const NOTED: u64 = 60;

/// The matching entries of a kind, the newest first.
async fn entries(operator: &Api, kind: &str, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
    let page = operator.get(&format!("/v1/admin/timeline?kind={kind}&limit=100")).await.expect(200);
    page["data"].as_array().unwrap().iter().filter(|entry| fits(entry)).cloned().collect()
}

fn log_of(cluster: &Cluster, node: u64) -> String {
    std::fs::read_to_string(cluster.node(node).log).unwrap()
}

/// Take-overs from another node in a node's log after byte `behind`: the shard, and the duration in milliseconds.
fn taken_over_by_log(cluster: &Cluster, (node, behind): (u64, usize), from: u64) -> Vec<(String, u64)> {
    let log = log_of(cluster, node).split_off(behind);
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("{name}="))?;
        Some(rest.split(|c: char| !c.is_ascii_digit()).next()?.to_owned())
    };
    let lines = log.lines().filter(|line| line.contains("this node owns the shard"));
    let taken = lines.filter(|line| field(line, "from").as_deref() == Some(&from.to_string()));
    taken.filter_map(|line| Some((field(line, "shard")?, field(line, "away_ms")?.parse().ok()?))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_kill_of_an_owner_the_timeline_says_who_took_over_after_how_long_and_how_many_channels() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Sales").await;
    let owner = tenant.owner(1, &channel.id).await.node;
    let other = cluster.node_ids().into_iter().find(|node| *node != owner).unwrap();
    let operator = cluster.operator(other, &tenant.client);
    eventually("the begin of all nodes is noted", seconds(NOTED), async || {
        let begun = entries(&operator, "node", |entry| entry["action"] == "node.started").await;
        check(
            begun.len() == 3 && begun.iter().all(|entry| entry["details"]["release"].is_string()),
            format!("{begun:?}"),
        )
    })
    .await;

    let survivors: Vec<(u64, usize)> = cluster
        .node_ids()
        .into_iter()
        .filter(|node| *node != owner)
        .map(|node| (node, log_of(&cluster, node).len()))
        .collect();
    cluster.kill(owner);
    let lost = |entry: &Value| entry["node_id"].as_u64() == Some(owner) && entry["details"]["reason"] == "lost";
    let taken = eventually("the take-over is noted by all who took part", seconds(NOTED), async || {
        let noted = entries(&operator, "lead", lost).await;
        let shards: usize =
            noted.iter().map(|entry| entry["details"]["shards"].as_str().unwrap().split(',').count()).sum();
        let led: usize = survivors.iter().map(|node| taken_over_by_log(&cluster, *node, owner).len()).sum();
        if shards == led && led > 0 { Ok(noted) } else { Err(format!("{shards} of {led}: {noted:?}")) }
    })
    .await;
    let mut channels = 0;
    for entry in &taken {
        let said = |name: &str| entry["details"][name].as_str().unwrap().to_owned();
        let (node, away): (u64, u64) = (said("node").parse().unwrap(), said("away_ms").parse().unwrap());
        let survivor = survivors.iter().find(|(survivor, _)| *survivor == node).unwrap();
        let log = taken_over_by_log(&cluster, *survivor, owner);
        let longest =
            log.iter().filter(|(shard, _)| said("shards").split(',').any(|of| of == shard)).map(|(_, away)| *away);
        assert!(longest.max().unwrap().abs_diff(away) <= 100, "{entry} beside {log:?}");
        assert!(entry["summary"].as_str().unwrap().contains(&format!("node {node} took over shard")), "{entry}");
        channels += said("channels").parse::<usize>().unwrap();
    }
    assert_eq!(channels, 1, "{taken:?}");
    eventually("the loss is noted, and what it does to the cluster", seconds(NOTED), async || {
        let gone = entries(&operator, "node", |entry| entry["action"] == "node.lost").await;
        let checks = entries(&operator, "check", |entry| entry["details"]["check"] == "lose_a_node").await;
        let fits = gone.len() == 1 && gone[0]["node_id"].as_u64() == Some(owner);
        check(
            fits && checks.first().is_some_and(|entry| entry["details"]["was"] == "ok"),
            format!("{gone:?} {checks:?}"),
        )
    })
    .await;
    cluster.restart(&[owner]).await;
    eventually("its return is noted", seconds(NOTED), async || {
        let begun = entries(&operator, "node", |entry| entry["action"] == "node.started").await;
        check(begun.len() == 4 && begun[0]["node_id"].as_u64() == Some(owner), format!("{begun:?}"))
    })
    .await;
    // Events that nobody caused appear in the timeline only, and in the audit log if it is filtered by their action.
    let log = operator.get("/v1/admin/audit-log?limit=100").await.expect(200);
    assert!(!log["data"].as_array().unwrap().iter().any(|entry| entry["action"] == "node.lost"), "{log}");
    let log = operator.get("/v1/admin/audit-log?action=node.lost").await.expect(200);
    assert_eq!(log["data"].as_array().unwrap().len(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_operators_do_to_nodes_stands_in_the_timeline_and_a_lead_that_was_handed_over_was_not_lost() {
    let cluster = Cluster::start(Options::default()).await;
    let client = tests::http::client();
    let operator = cluster.operator(1, &client);
    operator.act("/v1/admin/nodes/2/drain").await.expect(202);
    eventually("its leads are noted as handed over", seconds(NOTED), async || {
        let given = entries(&operator, "lead", |entry| entry["node_id"] == 2).await;
        let fits = !given.is_empty() && given.iter().all(|entry| entry["details"]["reason"] == "handed_over");
        check(fits, format!("{given:?}"))
    })
    .await;
    let drained = entries(&operator, "node", |entry| entry["action"] == "node.drained").await;
    assert_eq!((drained.len(), drained[0]["node_id"].as_u64()), (1, Some(2)));
    assert_eq!(drained[0]["actor"]["type"], "operator");
    let mixed = operator.get("/v1/admin/timeline?limit=1").await.expect(200);
    let next = mixed["next_cursor"].as_str().unwrap();
    let more = operator.get(&format!("/v1/admin/timeline?limit=1&cursor={next}")).await.expect(200);
    assert_ne!(more["data"][0]["id"], mixed["data"][0]["id"]);
    operator.get("/v1/admin/timeline?kind=weather").await.expect_error(400, "invalid_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_figures_of_all_nodes_count_every_send_once() {
    const SENDS: usize = 20;
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Sales").await;
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;
    for n in 0..SENDS {
        tenant.any().post(&channel.path("/messages"), text(&to, &format!("{n}"))).await.expect(202);
    }
    let operator = cluster.operator(2, &tenant.client);
    let figures = eventually("the step that held them is over", CONNECT.max(seconds(NOTED)), async || {
        let figures = operator.get("/v1/admin/figures").await.expect(200);
        let points = figures["nodes"].as_array().unwrap().iter().flat_map(|node| node["points"].as_array().unwrap());
        let sends: u64 = points.map(|point| point["sends"].as_u64().unwrap()).sum();
        if sends == SENDS as u64 { Ok(figures) } else { Err(format!("{sends} sends: {figures}")) }
    })
    .await;
    assert_eq!((figures["step_seconds"].as_u64(), figures["nodes"].as_array().unwrap().len()), (Some(20), 3));
    for node in figures["nodes"].as_array().unwrap() {
        let last = node["points"].as_array().unwrap().last().unwrap();
        assert!(node["silence"].is_null() && last["rss_bytes"].as_u64().unwrap() > 1 << 20, "{node}");
        assert!(last["leads"].as_u64().unwrap() > 0, "{node}");
    }
    let short = operator.get("/v1/admin/figures?since=2100-01-01T00:00:00Z").await.expect(200);
    assert_eq!(short["step_seconds"], 10);

    let silent = cluster.node_ids().into_iter().find(|node| *node != 2).unwrap();
    cluster.kill(silent);
    let figures = operator.get("/v1/admin/figures").await.expect(200);
    let rows = figures["nodes"].as_array().unwrap();
    let gone = rows.iter().find(|node| node["node_id"].as_u64() == Some(silent)).unwrap();
    assert!(gone["silence"].is_string() && gone["points"] == json!([]), "{gone}");
}

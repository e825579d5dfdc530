//! Tasks that panic and shards that stall: no node may look healthy without working, and all callers get a response.

use std::time::{Duration, Instant};

use serde_json::json;
use tests::binary;
use tests::cluster::{Cluster, Options};
use tests::http::Api;
use tests::receiver::Receiver;
use tests::tenant::{Paired, Tenant, text, wait_status};
use tests::wait::{check, eventually};

const WITHIN: Duration = Duration::from_secs(60);
/// The API's deadline of a send: ten seconds for the network, and the time to find an owner and to commit.
const SEND_ENDS: Duration = Duration::from_secs(20);

async fn arm(operator: &Api, point: &str, actions: &str) {
    operator.put(&format!("/v1/admin/failpoints/{point}"), json!({ "actions": actions })).await.expect(204);
}

async fn disarm(operator: &Api, point: &str) {
    operator.delete(&format!("/v1/admin/failpoints/{point}")).await.expect(204);
}

/// How often a task of a node has panicked.
async fn panics(operator: &Api, task: &str) -> u64 {
    let line = format!("gateway_task_panics_total{{task=\"{task}\"}} ");
    let metrics = operator.get("/metrics").await.text();
    metrics.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok()).unwrap_or_default()
}

async fn send(api: &Api, channel: &Paired, words: &str) {
    eventually(&format!("{words} is accepted"), WITHIN, async || {
        let sent = api.post(&channel.path("/messages"), text("491700000001@s.example", words)).await;
        check(sent.status == 202, sent.text())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_panics_is_counted_and_begun_again() {
    let cluster = Cluster::start(Options::nodes(1)).await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    tenant.endpoint(&receiver.url("/hook"), &["message.status"], json!({})).await;
    tenant.simulator().phone("491700000001", json!({})).await;
    let channel = tenant.paired("one").await;
    let (api, operator) = (tenant.any(), cluster.operator(1, &tenant.client));
    for (point, task) in [
        ("task::deliveries", "the webhook deliveries"),
        ("task::node", "the node's own record"),
        ("task::upkeep", "the place of a shard's leader"),
        ("task::hosting", "the owner of a shard"),
        ("commit::before", "the committer of a shard"),
        ("state::before_write", "the state machine"),
        ("inbound::before_commit", "the task of a channel"),
    ] {
        let before = panics(&operator, task).await;
        arm(&operator, point, "1*panic").await;
        receiver.clear();
        if point == "inbound::before_commit" {
            let phone = format!("/phones/{}/messages", "491700000001");
            let body = json!({ "to": channel.address(), "type": "text", "text": "hello" });
            let said = tenant.simulator().api().post(&phone, body).await;
            assert!(matches!(said.status, 200..=202), "{}", said.text());
        }
        send(&api, &channel, point).await;
        eventually(&format!("{task} has panicked"), WITHIN, async || {
            let now = panics(&operator, task).await;
            check(now == before + 1, format!("{now} after {before}"))
        })
        .await;
        disarm(&operator, point).await;
        // Everything goes on: sessions, commits, deliveries.
        wait_status(&api, &channel.id, "connected", WITHIN).await;
        send(&api, &channel, &format!("after {point}")).await;
        receiver.wait_for("an event", WITHIN, |request| request.event() == "message.status").await;
        cluster.wait_ready(1, &tenant.client).await;
        let checks = operator.get("/v1/admin/check").await.expect(200);
        let mut checks = checks["checks"].as_array().unwrap().iter().filter(|found| found["check"] == "tasks");
        let told = checks.any(|found| found["message"].as_str().unwrap().contains(&format!("{task} panicked")));
        assert!(told, "{task}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_has_lost_its_tasks_for_a_follower_is_built_again_and_sends_to_it() {
    const TASK: &str = "a Raft core";
    let cluster = Cluster::start(Options::nodes(3)).await;
    let tenant = Tenant::new(&cluster).await;
    tenant.simulator().phone("491700000001", json!({})).await;
    let channel = tenant.paired("one").await;
    let owner = tenant.owner(1, &channel.id).await.node;
    let operator = cluster.operator(owner, &tenant.client);
    arm(&operator, "task::replication", "3*panic").await;
    eventually("panics of cores", WITHIN, async || {
        send(&tenant.any(), &channel, "meanwhile").await;
        let count = panics(&operator, TASK).await;
        check(count == 3, format!("{count} of 3"))
    })
    .await;
    disarm(&operator, "task::replication").await;
    let checks = operator.get("/v1/admin/check").await.expect(200);
    let mut checks = checks["checks"].as_array().unwrap().iter().filter(|found| found["check"] == "tasks");
    assert!(checks.any(|found| found["message"].as_str().unwrap().contains(&format!("{TASK} panicked"))));
    // A quorum needs at least one of the followers.
    for gone in cluster.node_ids().into_iter().filter(|node| *node != owner) {
        cluster.kill(gone);
        send(&tenant.api(owner), &channel, &format!("without node {gone}")).await;
        cluster.restart(&[gone]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_its_log_writer_or_its_shards_ends_with_code_3_and_says_why() {
    let cluster = Cluster::start(Options::default()).await;
    let config = cluster.data().join("node-3.toml");
    cluster.kill(3);
    for (armed, told) in [
        ("log::before_flush=1*panic", "the log writer panicked"),
        ("task::places=3*off->1*panic", "the hosting of shards panicked"),
    ] {
        let (folder, args) = (cluster.data().to_owned(), ["run".to_owned(), format!("--config={}", config.display())]);
        let running = move || binary::run_with(&args, &folder, WITHIN, &[("FAILPOINTS", armed)]);
        let ended = tokio::task::spawn_blocking(running).await.unwrap();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code(), Some(3), "{said}");
        assert!(said.contains(told), "{told}: {said}");
    }
    cluster.restart(&[3]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_at_the_owners_own_node_is_answered_while_the_shard_stands_still() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    tenant.simulator().phone("491700000001", json!({})).await;
    let channel = tenant.paired("one").await;
    let owner = tenant.owner(1, &channel.id).await.node;
    let (api, operator) = (tenant.api(owner), cluster.operator(owner, &tenant.client));
    send(&api, &channel, "before").await;
    // Stalls one shard's committer: that of the next commit, which is the send's.
    arm(&operator, "commit::before", "1*pause").await;
    let began = Instant::now();
    let answer = api.post(&channel.path("/messages"), text("491700000001@s.example", "stuck")).await;
    assert!(answer.status == 503 && began.elapsed() < SEND_ENDS, "{:?}: {}", began.elapsed(), answer.text());
    disarm(&operator, "commit::before").await;
    send(&api, &channel, "after").await;
}

//! Rotation of the master key while the cluster works.

use std::fs;
use std::path::PathBuf;

use futures::future::join_all;
use serde_json::{Value, json};
use tests::binary;
use tests::cluster::{Cluster, Options};
use tests::http::{string, time};
use tests::receiver::{Received, Receiver};
use tests::tenant::{CONNECT, Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

const OWN: &str = "whsec_of-the-customer's-own";

/// Further customers, whose data keys keep the rewrapping busy for some seconds.
const OTHERS: usize = 600;

/// The configuration file of a node, in which the test changes a line.
fn config(cluster: &Cluster, node: u64) -> PathBuf {
    cluster.data().join(format!("node-{node}.toml"))
}

/// Sets the previous key in a node's configuration, or removes it.
fn give_previous(cluster: &Cluster, node: u64, previous: Option<&str>) {
    let path = config(cluster, node);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with("previous_master_key"));
    let section = lines.iter().position(|line| line == "[secrets]").unwrap();
    lines.splice(section + 1..section + 1, previous.map(|key| format!("previous_master_key = \"{key}\"")));
    fs::write(path, lines.join("\n")).unwrap();
}

async fn secrets(cluster: &Cluster, tenant: &Tenant, node: u64) -> Value {
    cluster.operator(node, &tenant.client).get("/v1/admin/secrets").await.expect(200)
}

async fn default_secret(tenant: &Tenant, node: u64, endpoint: &Value) -> String {
    let path = format!("/v1/webhook-endpoints/{}/signing-secret", string(&endpoint["id"]));
    let shown = tenant.api(node).get(&path).await.expect(200);
    assert_eq!(shown["is_default"], true);
    string(&shown["signing_secret"])
}

/// Sends a message, and returns its deliveries to both endpoints: to the one with its own secret, and to the other.
async fn heard(tenant: &Tenant, node: u64, channel: &Paired, to: &str, receiver: &Receiver) -> (Received, Received) {
    let sent = tenant.api(node).post(&channel.path("/messages"), text(to, "signed")).await.expect(202);
    let message = string(&sent["message_id"]);
    let at = |path: &'static str| {
        let message = message.clone();
        let wanted = move |request: &Received| {
            request.path == path && request.event() == "message.sent" && request.json()["data"]["message_id"] == message
        };
        receiver.wait_for(path, seconds(30), wanted)
    };
    (at("/own").await, at("/default").await)
}

fn signatures(request: &Received) -> usize {
    request.header("x-gateway-signature").matches("v1=").count()
}

fn does_not_verify(request: &Received, secret: &str) {
    let header = request.header("x-gateway-signature");
    let t = header.split(',').find_map(|part| part.strip_prefix("t=")).unwrap().parse().unwrap();
    assert!(tests::signature::verify(secret, header, &request.body, t).is_err(), "{header}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_key_is_exchanged_under_a_kill_and_signatures_and_sessions_hold() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    let sent = &["message.sent"];
    tenant.endpoint(&receiver.url("/own"), sent, json!({ "signing_secret": OWN })).await;
    let by_default = tenant.endpoint(&receiver.url("/default"), sent, json!({})).await;
    let channel = tenant.paired("Sealed").await;
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;
    let make = |count: usize, node: u64| {
        let operator = cluster.operator(node, &tenant.client);
        async move {
            for each in 0..count {
                operator.post("/v1/admin/customers", json!({ "name": format!("Other {each}") })).await.expect(201);
            }
        }
    };
    join_all((0..12).map(|lane| make(OTHERS / 12, lane % 3 + 1))).await;
    let of_old = default_secret(&tenant, 2, &by_default).await;
    let (own, other) = heard(&tenant, 1, &channel, &to, &receiver).await;
    own.verify(OWN);
    other.verify(&of_old);
    let before = secrets(&cluster, &tenant, 1).await;
    assert_eq!((&before["state"], &before["exchange"]), (&json!("settled"), &Value::Null));

    // All nodes get both keys, one node after the other.
    let key_file = cluster.data().join("master.key");
    let (old, new) = (fs::read_to_string(&key_file).unwrap().trim().to_owned(), "5e".repeat(32));
    fs::write(&key_file, &new).unwrap();
    for node in [1, 2, 3] {
        give_previous(&cluster, node, Some(&old));
        cluster.command(&["dev", "stop", &node.to_string()]).await.succeeded();
        cluster.restart(&[node]).await;
        if node == 1 {
            let operator = cluster.operator(1, &tenant.client);
            let refused = operator.post("/v1/admin/keys/rotate", json!({})).await;
            refused.expect_error(400, "bad_request");
            assert!(refused.text().contains("node 2 does not have the master key"), "{}", refused.text());
            // Data that a node with both keys seals now can be opened by nodes with the old key.
            make(1, 1).await;
        }
    }
    assert_eq!(default_secret(&tenant, 3, &by_default).await, of_old, "the exchange has not begun");
    let (own, other) = heard(&tenant, 2, &channel, &to, &receiver).await;
    own.verify(OWN);
    other.verify(&of_old);
    assert_eq!((signatures(&own), signatures(&other)), (1, 2));
    let status = cluster.command(&["secrets", "status"]).await.succeeded().stdout;
    assert!(status.contains("gateway secrets rewrap"), "{status}");

    // The node that rewraps is killed meanwhile.
    let shards = cluster.operator(1, &tenant.client).get("/v1/admin/shards").await.expect(200);
    let directory = shards["data"].as_array().unwrap().iter().find(|row| row["kind"] == "directory").unwrap();
    let leader = directory["leader"].as_u64().unwrap();
    let [one, two] = [1, 2, 3].into_iter().filter(|node| *node != leader).collect::<Vec<_>>().try_into().unwrap();
    let begun = cluster.command(&["secrets", "rewrap", "--detach", "--json"]).await.succeeded();
    let begun: Value = serde_json::from_str(&begun.stdout).unwrap();
    assert_eq!(begun["state"], "rewrapping", "{begun}");
    eventually("some of it is done", seconds(30), async || {
        let now = secrets(&cluster, &tenant, one).await;
        check(now["remaining"].as_u64() < begun["data_keys"].as_u64().map(|keys| keys - 1), now.to_string())
    })
    .await;
    cluster.kill(leader);
    let killed_at = chrono::Utc::now();
    make(1, two).await;

    let wait = eventually("everything is sealed anew", seconds(60), async || {
        let now = secrets(&cluster, &tenant, two).await;
        check(now["state"] == "settled", now.to_string())?;
        Ok(now)
    });
    let after = wait.await;
    assert_eq!((&after["remaining"], &after["exchange"]["old_key_may_go"]), (&json!(0), &json!(true)), "{after}");
    assert_eq!(after["exchange"]["from"], before["master_key"]);
    let only = json!({ string(&after["master_key"]): after["data_keys"] });
    assert!(after["sealed_under"] == only && after["master_key"] != before["master_key"], "{after}");
    let operator = cluster.operator(one, &tenant.client);
    let log = operator.get("/v1/admin/audit-log?since=2020-01-01T00:00:00Z&limit=100").await.expect(200);
    for action in ["secrets.rewrap_begun", "secrets.rewrapped"] {
        let entries = log["data"].as_array().unwrap().iter().filter(|entry| entry["action"] == action);
        let [entry] = entries.collect::<Vec<_>>()[..] else { panic!("{action} is not one entry: {log}") };
        let by_the_next_leader = time(&entry["created_at"]) > killed_at;
        assert_eq!(by_the_next_leader, action == "secrets.rewrapped", "{entry}, killed at {killed_at}");
    }

    // A node that has not heard of the end learns of it from the others, so the old key can be removed there, too.
    give_previous(&cluster, leader, None);
    cluster.restart(&[leader]).await;
    cluster.kill(leader);

    // A node that lacks the new key is refused.
    let old_file = cluster.data().join("old.key");
    fs::write(&old_file, &old).unwrap();
    let args = vec![
        "run".to_owned(),
        format!("--config={}", config(&cluster, leader).display()),
        format!("--set=secrets.master_key_file={}", old_file.display()),
    ];
    let folder = cluster.data().to_owned();
    let refused = tokio::task::spawn_blocking(move || binary::run(&args, &folder, seconds(60))).await.unwrap();
    let line = refused.stderr.lines().last().unwrap_or_default();
    assert!(refused.code() == Some(2) && line.contains("secrets.master_key_file"), "{refused:?}");

    // Receivers have time to switch: deliveries are signed with both secrets.
    let of_new = default_secret(&tenant, one, &by_default).await;
    assert_ne!(of_new, of_old);
    let (own, other) = heard(&tenant, two, &channel, &to, &receiver).await;
    own.verify(OWN);
    other.verify(&of_old);
    other.verify(&of_new);
    assert_eq!((signatures(&own), signatures(&other)), (1, 2));

    // The old key is removed, and all nodes start without it.
    cluster.kill_all(&[one, two]);
    for node in [1, 2, 3] {
        give_previous(&cluster, node, None);
    }
    cluster.restart(&[1, 2, 3]).await;
    wait_status(&tenant.api(leader), &channel.id, "connected", CONNECT).await;
    let (own, other) = heard(&tenant, leader, &channel, &to, &receiver).await;
    own.verify(OWN);
    other.verify(&of_new);
    does_not_verify(&other, &of_old);
    assert_eq!((signatures(&own), signatures(&other)), (1, 1));
    let status = cluster.command(&["secrets", "status"]).await.succeeded().stdout;
    assert!(status.contains("it is no longer needed"), "{status}");
    assert_eq!(tenant.simulator().stat("conflicts").await, 0);
}

//! Commands of `gateway` for operators, answered by any node.

use serde_json::{Value, json};
use tests::binary::{self, Finished};
use tests::cluster::{Cluster, Options, SHARDS};
use tests::http::string;
use tests::receiver::{Receiver, Reply};
use tests::tenant::{Tenant, number, text};
use tests::wait::{check, eventually, seconds};

/// Runs a command that must succeed, and returns its output.
async fn shown(cluster: &Cluster, args: &[&str]) -> String {
    cluster.command(args).await.succeeded().stdout
}

/// The JSON output of a command, and its exit code.
async fn json_of(cluster: &Cluster, args: &[&str]) -> (Value, Option<i32>) {
    let finished = cluster.command(&[args, &["--json"]].concat()).await;
    let read = serde_json::from_str(&finished.stdout);
    (read.unwrap_or_else(|error| panic!("{error}: {finished:?}")), finished.code())
}

fn rows(answer: &Value) -> &Vec<Value> {
    answer["data"].as_array().unwrap_or_else(|| panic!("a list: {answer}"))
}

/// Waits until a command shows what it should; on a busy machine the cluster may look degraded for a moment.
async fn wait_for(cluster: &Cluster, args: &[&str], what: &str, wanted: impl Fn(&Value, Option<i32>) -> bool) -> Value {
    eventually(what, seconds(60), async || {
        let (answer, code) = json_of(cluster, args).await;
        if wanted(&answer, code) { Ok(answer) } else { Err(format!("{code:?} {answer}")) }
    })
    .await
}

#[tokio::test]
async fn a_cluster_that_runs_is_begun_no_second_time_and_what_stops_it_can_be_copied() {
    let cluster = Cluster::shared().await;
    let refused = cluster.command(&["dev"]).await;
    let stop = format!("; stop it with: {} dev down --data {}", binary::gateway().display(), cluster.data().display());
    assert!(refused.code() == Some(2) && refused.stderr.trim_end().ends_with(&stop), "{refused:?}");
}

#[tokio::test]
async fn a_cluster_that_is_well_is_shown_whole() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    tenant.paired("Sales").await;

    let status = wait_for(&cluster, &["status"], "the cluster is operational", |answer, code| {
        answer["status"] == "operational" && answer["nodes"]["ready"] == 3 && code == Some(0)
    })
    .await;
    assert_eq!(status["nodes"], json!({ "ready": 3, "total": 3 }));
    assert_eq!(status["shards"], json!({ "ready": SHARDS + 1, "total": SHARDS + 1 }));
    assert!(status["channels"]["connected"].as_u64() >= Some(1), "{status}");
    let told = cluster.command(&["status"]).await.stdout;
    assert!(told.contains("3 of 3 ready") && told.contains("webhooks.allow_loopback"), "{told}");

    let (nodes, _) = json_of(&cluster, &["nodes"]).await;
    assert_eq!(rows(&nodes).len(), 3);
    for node in rows(&nodes) {
        for fact in ["fsync_p50_ms", "fsync_p99_ms", "clock_ahead_ms", "disk_free_bytes", "log_bytes", "state_bytes"] {
            assert!(node[fact].is_number(), "{fact}: {node}");
        }
        assert_eq!((&node["state"], &node["silence"]), (&json!("ready"), &Value::Null));
    }
    let table = shown(&cluster, &["nodes"]).await;
    assert!(table.starts_with("NODE"), "{table}");
    let heads = table.lines().filter(|line| line.starts_with("NODE")).count();
    assert_eq!(
        table.lines().filter(|line| line.starts_with("3 ")).count(),
        heads,
        "each part shows all nodes: {table}"
    );
    for args in [&["nodes"][..], &["shards"], &["check"], &["keys"], &["customer", "list"], &["layout", "show"]] {
        let table = cluster.command(args).await.stdout;
        // Sentences below a table may be longer.
        let wide = table.lines().find(|line| line.contains("  ") && line.chars().count() > 80);
        assert_eq!(wide, None, "{args:?}: {table}");
    }

    let shards = wait_for(&cluster, &["shards"], "every shard is whole", |_, code| code == Some(0)).await;
    assert_eq!(rows(&shards).len(), SHARDS + 1);
    assert!(rows(&shards).iter().all(|shard| shard["stalled"] == false));
    assert!(
        rows(&shards).iter().all(|shard| shard["can_lose"] == 1 && shard["replicas"].as_array().unwrap().len() == 3)
    );

    let check =
        wait_for(&cluster, &["check"], "a node can be lost", |answer, _| answer["can_lose_a_node"] == true).await;
    let checks: Vec<String> = check["checks"].as_array().unwrap().iter().map(|found| string(&found["check"])).collect();
    for wanted in [
        "nodes",
        "shards",
        "lose_a_node",
        "fsync",
        "clock",
        "disk",
        "slots",
        "certificates",
        "secrets",
        "configuration",
    ] {
        assert!(checks.iter().any(|check| check == wanted), "{wanted}: {checks:?}");
    }
}

#[tokio::test]
async fn a_channel_a_message_and_its_webhooks_are_found() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let (good, bad) = (Receiver::start().await, Receiver::start().await);
    bad.answer(|_| Reply::Status(503));
    tenant.endpoint(&good.url("/good"), &["message.sent"], json!({})).await;
    tenant.endpoint(&bad.url("/bad"), &["message.sent"], json!({})).await;
    let channel = tenant.paired("Sales").await;
    let recipient = number();
    tenant.simulator().phone(&recipient, json!({})).await;
    let sent = tenant.any().post(&channel.path("/messages"), text(&recipient, "the words")).await.expect(202);
    let message = string(&sent["message_id"]);
    good.wait_message("message.sent", &message, seconds(20)).await;
    bad.wait_message("message.sent", &message, seconds(20)).await;

    let owner = tenant.owner(1, &channel.id).await;
    let (place, code) = json_of(&cluster, &["channel", "where", &channel.id]).await;
    assert_eq!(
        (place["node_id"].as_u64(), place["shard"].as_u64(), code),
        (Some(owner.node), Some(owner.shard), Some(0))
    );
    assert_eq!(place["replicas"].as_array().unwrap().len(), 3);
    let table = shown(&cluster, &["channel", "where", &channel.id]).await;
    assert!(table.contains("connected") && table.contains(&channel.number), "{table}");

    let (disabled, _) = json_of(&cluster, &["channel", "disable", &channel.id, "--reason", "abuse"]).await;
    assert_eq!(disabled["status"], "disabled_by_admin");
    assert!(shown(&cluster, &["channel", "enable", &channel.id]).await.contains(&channel.id));
    let again = cluster.command(&["channel", "enable", &channel.id]).await;
    assert!(again.code() == Some(2) && again.stderr.contains("not_disabled"), "{again:?}");

    let told = eventually("the trace shows both attempts", seconds(20), async || {
        let told = shown(&cluster, &["message", "trace", &message]).await;
        // Long lines are wrapped.
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        let all = ["accepted", "status", "/good", "success 200", "/bad", "503", "next_attempt"];
        if all.iter().all(|word| told.contains(word)) { Ok(told) } else { Err(told) }
    })
    .await;
    assert!(!told.contains("the words"), "a trace says nothing of what the message says: {told}");
    let one = ["message", "trace", &message, "--channel", &channel.id];
    let traced = json_of(&cluster, &one).await.0;
    assert_eq!(rows(&traced).len(), 1);
    // Each attempt shows its endpoint and its result.
    for (receiver, came_of_it) in [(good.url("/good"), "success 200"), (bad.url("/bad"), "http 503")] {
        let made = format!("1 (scheduled) at {receiver}: {came_of_it}");
        let steps = rows(&traced)[0]["steps"].as_array().unwrap();
        assert!(steps.iter().any(|step| step["detail"].as_str().unwrap().starts_with(&made)), "{made}: {traced}");
    }

    let stuck = ["webhooks", "stuck", "--older-than", "0s", "--customer", &tenant.customer_id];
    let found = wait_for(&cluster, &stuck, "the bad endpoint is stuck", |answer, code| {
        code == Some(1) && rows(answer).len() == 1 && rows(answer)[0]["waiting"] == 1
    })
    .await;
    assert_eq!(rows(&found)[0]["url"], bad.url("/bad"));
    assert!(rows(&found)[0]["last_error"].as_str().unwrap().contains("503"), "{found}");
    let later = shown(&cluster, &["webhooks", "stuck", "--older-than", "1h", "--customer", &tenant.customer_id]).await;
    assert!(later.contains("no endpoint is stuck"), "{later}");
}

#[tokio::test]
async fn keys_and_the_audit_log_are_shown_without_secrets() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let made =
        tenant.any().post("/v1/api-keys", json!({ "name": "reader", "scopes": ["messages.read"] })).await.expect(201);
    let prefix = string(&made["prefix"]);
    let keys = ["keys", "--customer", &tenant.customer_id];
    let table = shown(&cluster, &keys).await;
    assert!(table.contains(&prefix) && table.contains("messages.read") && table.contains("never"), "{table}");
    assert!(!table.contains(made["secret"].as_str().unwrap()), "{table}");
    tenant.any().delete(&format!("/v1/api-keys/{}", string(&made["id"]))).await.expect(204);
    assert!(!shown(&cluster, &keys).await.contains(&prefix));
    assert!(shown(&cluster, &[&keys[..], &["--revoked"]].concat()).await.contains(&prefix));

    let tail = shown(&cluster, &["audit", "tail", "--customer", &tenant.customer_id]).await;
    let (issued, revoked) = (tail.find("key.issued"), tail.find("key.revoked"));
    assert!(issued.is_some() && issued < revoked, "the newest is last: {tail}");
    let one = ["audit", "tail", "--lines", "1", "--json", "--action", "key.revoked", "--customer", &tenant.customer_id];
    let entry: Value = serde_json::from_str(&shown(&cluster, &one).await).unwrap();
    assert_eq!((&entry["action"], &entry["customer_id"]), (&json!("key.revoked"), &json!(tenant.customer_id)));
    let all = shown(&cluster, &["audit", "tail", "-n", "100"]).await;
    assert!(all.contains(&tenant.customer_id), "{all}");
}

#[tokio::test]
async fn wrong_use_ends_with_2_and_a_cluster_that_is_not_there_with_1() {
    let cluster = Cluster::shared().await;
    let nowhere = "00000000-0000-4000-8000-000000000000";
    let table: &[(&[&str], i32, &str)] = &[
        (&["channel", "where", nowhere], 2, "channel_not_found"),
        (&["channel", "where", "sales"], 2, "sales"),
        (&["message", "trace", "3EB0"], 2, "message_not_found"),
        (&["nodes", "--token", "not-the-token-of-this-cluster"], 2, "--token-file"),
        (&["nodes", "--token-file", "/nowhere/token"], 2, "/nowhere/token"),
        (&["nodes", "--ops", "ftp://x"], 2, "http://host:port"),
        (&["nodes", "--ops", "127.0.0.1:1"], 1, "127.0.0.1:1"),
        (&["webhooks", "stuck", "--older-than", "90d"], 2, "older_than_seconds"),
        (&["webhooks", "stuck", "--older-than", "soon"], 2, "1h 30m"),
        (&["customer", "create", "Acme", "plan.channels_limit=5"], 2, "cannot be set"),
    ];
    for (args, code, says) in table {
        let Finished { status, stdout, stderr } = cluster.command(args).await;
        assert_eq!(status.code(), Some(*code), "{args:?}: {stdout}{stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
    let completions = binary::run(&["completions", "bash"], cluster.data(), seconds(20)).succeeded().stdout;
    assert!(completions.contains("_gateway") && completions.contains("stuck"), "{completions}");
}

#[tokio::test]
async fn programs_are_told_one_json_also_by_commands_that_wait() {
    let cluster = Cluster::shared().await;
    let shards = wait_for(&cluster, &["shards"], "every shard is whole", |_, code| code == Some(0)).await;
    let row = rows(&shards).iter().find(|row| row["kind"] == "shard").unwrap();
    let (shard, leader) = (row["id"].to_string(), row["leader"].as_u64().unwrap());
    let to = (1..=3).find(|node| *node != leader).unwrap().to_string();

    let (moved, code) = json_of(&cluster, &["shard", "move", &shard, "--to", &to, "--wait"]).await;
    assert_eq!((&moved["to"].to_string(), code), (&to, Some(0)), "{moved}");
    let again = cluster.command(&["shard", "move", &shard, "--to", &to]).await;
    assert_eq!(again.code(), Some(2), "{again:?}");
    assert!(again.stderr.contains(&format!("node {to} is already the intended leader of shard {shard}")), "{again:?}");

    // The change that made the move has finished.
    let (change, code) = json_of(&cluster, &["layout", "watch"]).await;
    assert_eq!((&change["done"], code), (&json!(1), Some(0)), "{change}");
    let cancelled = cluster.command(&["layout", "cancel"]).await;
    assert_eq!(cancelled.code(), Some(2), "{cancelled:?}");
    for args in [&["layout", "show"][..], &["layout", "plan"], &["format", "show"], &["secrets", "status"]] {
        let (_, code) = json_of(&cluster, args).await;
        assert_eq!(code, Some(0), "{args:?}");
    }
    let (weighed, code) = json_of(&cluster, &["node", "weigh", "1", "1"]).await;
    assert_eq!((&weighed["weight"], code), (&json!(1), Some(0)), "{weighed}");
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_shown_and_done_only_when_it_is_wanted() {
    let cluster = Cluster::shared().await;
    wait_for(&cluster, &["check"], "a node can be lost", |answer, _| answer["can_lose_a_node"] == true).await;
    // There is no terminal here, so commands cannot ask for confirmation.
    let refused = async |args: &[&str], says: &[&str]| {
        let finished = cluster.command(args).await;
        assert_eq!(finished.code(), Some(2), "{args:?}: {finished:?}");
        for word in says {
            assert!(format!("{}{}", finished.stdout, finished.stderr).contains(word), "{word}: {args:?}: {finished:?}");
        }
    };
    refused(&["node", "remove", "3"], &["none of the 2 that would remain", "force"]).await;
    refused(&["node", "remove", "3", "--force"], &["node 3 (127.0.0.1:", "will be removed for good", "--yes"]).await;
    refused(&["node", "remove", "3", "--force", "--json"], &["will be removed for good", "--yes"]).await;
    let asked = cluster.command(&["node", "remove", "3", "--force", "--json"]).await;
    assert_eq!(asked.stdout, "", "a program reads the answer alone: {asked:?}");
    refused(&["node", "remove", "9", "--yes"], &["not_found"]).await;
    refused(&["format", "raise"], &["no higher one is understood", "nothing was changed"]).await;
    refused(&["format", "raise", "--yes"], &["already"]).await;
    let (nodes, _) = json_of(&cluster, &["nodes"]).await;
    let members: Vec<&Value> = rows(&nodes).iter().map(|node| &node["member"]).collect();
    assert_eq!(members, ["active"; 3], "{nodes}");
}

#[tokio::test]
async fn customers_their_members_and_their_keys_are_made_and_ended_by_commands() {
    let cluster = Cluster::shared().await;
    let (made, code) = json_of(&cluster, &["customer", "create", "Acme Ltd", "plan.channel_limit=1"]).await;
    assert_eq!(
        (&made["name"], &made["plan"]["channel_limit"], code),
        (&json!("Acme Ltd"), &json!(1), Some(0)),
        "{made}"
    );
    let (id, secret) = (string(&made["id"]), string(&made["api_key"]["secret"]));
    let api = cluster.api(1, &tests::http::client()).with_key(&secret);
    api.get("/v1/account").await.expect(200);
    let told = shown(&cluster, &["customer", "create", "Shown"]).await;
    assert!(told.contains("zpk_") && told.contains("not be shown again"), "{told}");
    assert!(shown(&cluster, &["customer", "list"]).await.contains(&id));
    let (all, _) = json_of(&cluster, &["customer", "list"]).await;
    assert!(rows(&all).iter().any(|row| row["id"] == json!(id)) && !all.to_string().contains(&secret), "{all}");

    let buckets = ["limits.customer.burst=77", "limits.customer.refill_per_second=7", "plan.channel_limit=null"];
    let (limited, _) = json_of(&cluster, &[&["customer", "limit", &id][..], &buckets].concat()).await;
    assert_eq!(limited["limits"]["customer"], json!({ "burst": 77, "refill_per_second": 7 }), "{limited}");
    assert_eq!(limited["plan"]["channel_limit"], Value::Null);
    let wrong = cluster.command(&["customer", "limit", &id, "limits.customer.burst=0"]).await;
    assert!(wrong.code() == Some(2) && wrong.stderr.contains("limits.customer.burst"), "{wrong:?}");

    let (suspended, _) = json_of(&cluster, &["customer", "suspend", &id]).await;
    assert_eq!(suspended["plan"]["status"], "past_due", "{suspended}");
    api.post("/v1/channels", json!({ "name": "Sales" })).await.expect_error(402, "payment_overdue");
    json_of(&cluster, &["customer", "suspend", &id, "--lift"]).await;
    api.post("/v1/channels", json!({ "name": "Sales" })).await.expect(201);

    let address = format!("{}@example.com", number());
    let (user, _) = json_of(&cluster, &["user", "create", &id, &address, "--role", "admin"]).await;
    assert_eq!(user["role"], "admin", "{user}");
    let login = json!({ "email": address, "password": string(&user["password"]) });
    cluster.api(2, &tests::http::client()).post("/v1/auth/login", login).await.expect(200);
    let wrong = cluster.command(&["user", "create", &id, "nobody", "--role", "king"]).await;
    assert!(wrong.code() == Some(2) && wrong.stderr.contains("role"), "{wrong:?}");

    let told = shown(&cluster, &["key", "revoke", &secret[..12]]).await;
    assert!(told.contains("revoked") && !told.contains(&secret), "{told}");
    for node in cluster.node_ids() {
        let revoked = cluster.api(node, &tests::http::client()).with_key(&secret).get("/v1/account").await;
        revoked.expect_error(401, "auth_revoked");
    }
    let again = cluster.command(&["key", "revoke", &secret[..12]]).await;
    assert!(again.code() == Some(2) && again.stderr.contains("revoked already"), "{again:?}");
    let unknown = cluster.command(&["key", "revoke", "zpk_unknown0"]).await;
    assert!(unknown.code() == Some(2) && unknown.stderr.contains("not_found"), "{unknown:?}");
    let log = shown(&cluster, &["audit", "tail", "--customer", &id]).await;
    assert!(log.contains("key.revoked") && log.contains("by operator"), "{log}");
}

#[tokio::test]
async fn a_node_that_is_away_is_a_row_that_says_so_and_no_other_can_be_lost() {
    let cluster = Cluster::start(Options::default()).await;
    wait_for(&cluster, &["check"], "a node can be lost", |answer, _| answer["can_lose_a_node"] == true).await;

    // Three healthy nodes stay three, unless forced.
    let client = tests::http::client();
    let kept = cluster.command(&["node", "remove", "3", "--yes"]).await;
    assert!(kept.code() == Some(2) && kept.stderr.contains("none of the 2 that would remain"), "{kept:?}");
    let route = cluster.operator(2, &client).delete("/v1/admin/nodes/3").await;
    assert!(route.status == 400 && route.text().contains("with force"), "{}", route.text());

    // Only one node may be out of service at a time, unless forced.
    shown(&cluster, &["drain", "3", "--wait"]).await;
    let second = cluster.command(&["drain", "2"]).await;
    assert!(second.code() == Some(2) && second.stderr.contains("node 3 is drained already"), "{second:?}");
    let route = cluster.operator(1, &client).post("/v1/admin/nodes/2/drain", json!({})).await;
    assert!(route.status == 400 && route.text().contains("node 3 is drained already"), "{}", route.text());
    shown(&cluster, &["undrain", "3", "--wait"]).await;
    // Of two concurrent drains, neither of which has seen the other, one is refused as well.
    let drain = async |node: u64, force: bool| {
        let path = format!("/v1/admin/nodes/{node}/drain");
        let answer = cluster.operator(node, &client).post(&path, json!({ "force": force })).await;
        assert!(matches!(answer.status, 202 | 400), "{}", answer.text());
        usize::from(answer.status == 202)
    };
    let drained = |nodes: &Value| rows(nodes).iter().filter(|node| node["member"] == "draining").count();
    let (first, second) = tokio::join!(drain(2, false), drain(3, false));
    let (nodes, _) = json_of(&cluster, &["nodes"]).await;
    assert!(first + second <= 1 && drained(&nodes) == first + second, "{first} {second} {nodes}");
    for node in ["2", "3"] {
        shown(&cluster, &["undrain", node, "--wait"]).await;
    }
    // By force two nodes can be drained, and never all of them.
    let (first, second, third) = tokio::join!(drain(1, true), drain(2, true), drain(3, true));
    let (nodes, _) = json_of(&cluster, &["nodes"]).await;
    let all = first + second + third;
    assert!(all <= 2 && drained(&nodes) == all, "{all} {nodes}");
    for node in ["1", "2", "3"] {
        shown(&cluster, &["undrain", node, "--wait"]).await;
    }

    // A paused process keeps its sockets and answers nobody.
    cluster.pause(2);
    let nodes = wait_for(&cluster, &["nodes"], "node 2 is down", |answer, code| {
        code == Some(1) && rows(answer)[1]["state"] == "down" && rows(answer)[1]["silence"].is_string()
    })
    .await;
    assert_eq!(rows(&nodes)[0]["state"], "ready");
    cluster.resume(2);
    wait_for(&cluster, &["check"], "a node can be lost again", |answer, _| answer["can_lose_a_node"] == true).await;

    // The first node in the file is dead, so the command asks the next one.
    cluster.kill(1);
    let found = wait_for(&cluster, &["check"], "no node can be lost", |answer, code| {
        code == Some(1) && answer["can_lose_a_node"] == false && answer["status"] == "degraded"
    })
    .await;
    let risks: Vec<&Value> =
        found["checks"].as_array().unwrap().iter().filter(|row| row["check"] == "lose_a_node").collect();
    assert_eq!(risks.len(), 2, "{found}");
    // The shard must also be intended for node 3; another one may be about to return to node 2.
    let led_from_3 = |shard: &Value| shard["kind"] == "shard" && shard["leader"] == 3 && shard["wanted_leader"] == 3;
    let shards = wait_for(&cluster, &["shards"], "node 3 leads a shard of its own", |answer, code| {
        let none_at_1 = rows(answer).iter().all(|shard| shard["leader"] != 1 && shard["can_lose"] == 0);
        code == Some(1) && none_at_1 && rows(answer).iter().any(led_from_3)
    })
    .await;
    let table = cluster.command(&["shards"]).await.stdout;
    assert!(table.contains("1(silent)"), "{table}");

    // A silent node gets no leadership, and no other node can be drained without force.
    let refused = async |args: &[&str], says: &str| {
        let finished = cluster.command(args).await;
        assert!(finished.code() == Some(2) && finished.stderr.contains(says), "{args:?}: {finished:?}");
    };
    let led_from_3 = rows(&shards).iter().find(|shard| led_from_3(shard)).unwrap()["id"].to_string();
    refused(&["shard", "move", &led_from_3, "--to", "1", "--wait"], "node 1 does not answer").await;
    refused(&["drain", "2"], "node 1 did not answer").await;
    shown(&cluster, &["drain", "2", "--force", "--wait"]).await;
    refused(&["drain", "3"], "no other node is ready").await;
    refused(&["drain", "3", "--force"], "no other node is ready").await;
    shown(&cluster, &["undrain", "2", "--wait"]).await;
    let told = shown(&cluster, &["shard", "move", &led_from_3, "--to", "2", "--wait"]).await;
    assert!(told.contains(&format!("node 2 leads shard {led_from_3}")), "{told}");

    // Without a majority nothing can be changed, and everything can be read.
    cluster.kill(2);
    let status = wait_for(&cluster, &["status"], "the cluster is out", |answer, code| {
        code == Some(1) && answer["status"] == "outage" && answer["nodes"] == json!({ "ready": 0, "total": 3 })
    })
    .await;
    assert_eq!(status["shards"], json!({ "ready": 0, "total": SHARDS + 1 }));
    for command in [&["nodes"][..], &["check"], &["shards"], &["keys"], &["audit", "tail"]] {
        // Data that was confirmed a moment ago does not count as old yet.
        eventually("it is shown, and said to be old", seconds(20), async || {
            let told = cluster.command(command).await;
            check(
                !told.stdout.is_empty() && told.stderr.contains("no majority of the voting nodes"),
                format!("{told:?}"),
            )
        })
        .await;
    }
    let refused = cluster.command(&["drain", "3"]).await;
    assert!(refused.code() == Some(1) && refused.stderr.contains("most of the cluster's voting nodes"), "{refused:?}");

    cluster.restart(&[1, 2]).await;
    wait_for(&cluster, &["check"], "a node can be lost once more", |answer, _| answer["can_lose_a_node"] == true).await;
}

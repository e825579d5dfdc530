//! Reads of a whole account, through every node: channels, their statuses, counts, buckets, the summary.

use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::http::{Api, string, time};
use tests::tenant::{CONNECT, Tenant, wait_status};
use tests::wait::{check, eventually, seconds};

/// The ids of all pages of a list.
async fn all_pages(api: &Api, route: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("{route}{cursor}")).await.expect(200);
        ids.extend(page["data"].as_array().unwrap().iter().map(|row| string(&row["id"])));
        match &page["next_cursor"] {
            Value::Null => return ids,
            next => cursor = format!("&cursor={}", string(next)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn channels_of_all_shards_are_listed_newest_first_through_every_node() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let mut made = Vec::new();
    for n in 0..24 {
        let api = tenant.api(cluster.node_ids()[n % 3]);
        let name = if n % 4 == 0 { format!("Sales {n}") } else { format!("Support {n}") };
        made.push(string(&api.post("/v1/channels", json!({ "name": name })).await.expect(201)["id"]));
    }
    let paired = tenant.paired("Sales paired").await;
    made.push(paired.id.clone());
    made.reverse();
    let sales: Vec<_> = made.iter().enumerate().filter(|(n, _)| *n == 0 || n % 4 == 0).map(|(_, id)| id).collect();

    for node in cluster.node_ids() {
        let api = tenant.api(node);
        let whole = api.get("/v1/channels").await.expect(200);
        assert_eq!(whole.get("next_cursor"), None, "paged only when a limit is given");
        let ids: Vec<_> = whole["data"].as_array().unwrap().iter().map(|row| string(&row["id"])).collect();
        assert_eq!(ids, made, "node {node}");
        for limit in [1, 7, 25, 100] {
            assert_eq!(all_pages(&api, &format!("/v1/channels?limit={limit}")).await, made, "node {node}, {limit}");
        }
        let named = all_pages(&api, "/v1/channels?name=Sales&limit=4").await;
        assert_eq!(named.iter().collect::<Vec<_>>(), sales, "node {node}");
        assert_eq!(all_pages(&api, "/v1/channels?status=connected&limit=1").await, std::slice::from_ref(&paired.id));
        for part in ["s%20PAIR", &paired.number[3..], &format!("%2B{}%20{}", &paired.number[..4], &paired.number[4..])]
        {
            let found = all_pages(&api, &format!("/v1/channels?q={part}&limit=2")).await;
            assert_eq!(found, std::slice::from_ref(&paired.id), "node {node}, {part}");
        }
        assert_eq!(all_pages(&api, "/v1/channels?q=port&limit=5").await.len(), 18, "node {node}");
        let told = api.get("/v1/channels?reasons=true&limit=2").await.expect(200);
        let reason = |n: usize| told["data"][n]["status_reason"].as_str();
        assert_eq!(reason(0), Some("login_ok"), "{told}");
        assert!(matches!(reason(1), None | Some("created")), "{told}");
        assert_eq!(whole["data"][0].get("status_reason"), None, "only where it is asked for");
        assert_eq!(all_pages(&api, "/v1/channels?status=pending&limit=10").await, made[1..], "node {node}");
        api.get("/v1/channels?status=happy").await.expect_issue(&json!(["status"]), "enum|format");
        api.get("/v1/channels?limit=5&cursor=nonsense").await.expect_issue(&json!(["cursor"]), "format");

        let account = api.get("/v1/account").await.expect(200);
        assert_eq!((&account["id"], &account["email"]), (&json!(tenant.customer_id), &Value::Null));
        assert_eq!(account["channels"], json!({ "total": 25, "connected": 1 }), "node {node}");
        assert_eq!(account["plan"]["status"], "self_hosted");
        assert_eq!(account["plan"]["channel_limit"], Value::Null);
        time(&account["created_at"]);
    }
    // A cursor is valid for one list only.
    let page = tenant.any().get("/v1/channels?limit=1").await.expect(200);
    let foreign = format!("/v1/messages?cursor={}", string(&page["next_cursor"]));
    tenant.any().get(&foreign).await.expect_issue(&json!(["cursor"]), "format");

    let operator = cluster.operator(cluster.node_ids()[1], &tenant.client);
    let rows = operator.get("/v1/admin/channels?limit=100").await.expect(200);
    let row = rows["data"].as_array().unwrap().iter().find(|row| row["id"] == json!(paired.id)).unwrap();
    assert_eq!(row["customer_id"], json!(tenant.customer_id), "all tenants' channels, with their owner");
    let owner = tenant.owner(cluster.node_ids()[0], &paired.id).await;
    assert_eq!((row["node_id"].as_u64(), row["shard"].as_u64()), (Some(owner.node), Some(owner.shard)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_remembers_its_statuses() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let channel = tenant.paired("Remembered").await;
    tenant.any().act(&channel.path("/disconnect")).await.expect(202);
    tenant.any().act(&channel.path("/connect")).await.expect(202);
    wait_status(&tenant.any(), &channel.id, "connected", CONNECT).await;
    for node in tenant.cluster.node_ids() {
        let page = tenant.api(node).get(&channel.path("/status-history")).await.expect(200);
        let changes = page["data"].as_array().unwrap();
        let steps: Vec<_> = changes.iter().map(|row| (string(&row["from"]), string(&row["to"]))).collect();
        let told = |text: &str| {
            let (from, to) = text.split_once('>').unwrap();
            (from.to_owned(), to.to_owned())
        };
        let expected = [
            "connecting>connected",
            "stopped_by_user>connecting",
            "connected>stopped_by_user",
            "connecting>connected",
            "qr>connecting",
            "pending>qr",
        ];
        assert_eq!(steps, expected.map(told), "newest first, through node {node}: {page}");
        assert!(changes.iter().all(|row| row["reason"].is_string() && row["node_id"].is_u64()), "{page}");
        changes.iter().for_each(|row| _ = time(&row["at"]));
        assert_eq!(page["next_cursor"], Value::Null);
        // Changes of the same millisecond each appear on exactly one page.
        let (mut paged, mut cursor) = (Vec::new(), String::new());
        loop {
            let page =
                tenant.api(node).get(&channel.path(&format!("/status-history?limit=1{cursor}"))).await.expect(200);
            paged.extend(page["data"].as_array().unwrap().iter().cloned());
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(paged, *changes, "node {node}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_buckets_are_told_for_the_account_and_for_a_channel() {
    let cluster = Cluster::shared().await;
    let bucket = |burst: u32| json!({ "burst": burst, "refill_per_second": 1 });
    let more = json!({ "limits": { "customer": bucket(500), "channel": bucket(70) } });
    let tenant = Tenant::with(&cluster, more).await;
    let api = tenant.any();
    let channel = tenant.channel("Counted").await;
    for _ in 0..5 {
        api.get(&format!("/v1/channels/{channel}")).await.expect(200);
    }
    let shown = api.get("/v1/limits").await.expect(200);
    assert_eq!(
        (&shown["per_channel"], &shown["channel_id"], &shown["per_key"]),
        (&json!(null), &json!(null), &json!(null))
    );
    assert_eq!(shown["per_customer"]["limit"], 500);
    time(&shown["per_customer"]["reset_at"]);
    let before = shown["per_customer"]["remaining"].as_u64().unwrap();
    for node in cluster.node_ids() {
        let shown = tenant.api(node).get(&format!("/v1/limits?channel_id={channel}")).await.expect(200);
        assert_eq!((&shown["per_channel"]["limit"], &shown["channel_id"]), (&json!(70), &json!(channel)));
        let left = shown["per_channel"]["remaining"].as_u64().unwrap();
        assert!((65..=70).contains(&left), "looking costs the channel nothing: {left}");
    }
    // Three more requests; one token is refilled each second.
    let after = api.get("/v1/limits").await.expect(200)["per_customer"]["remaining"].as_u64().unwrap();
    assert!((before - 4..=500).contains(&after), "{before} before, {after} after");

    let key = api.post("/v1/api-keys", json!({ "name": "bound", "channel_id": channel })).await.expect(201);
    let bound = api.with_key(&string(&key["secret"]));
    assert_eq!(bound.get("/v1/limits").await.expect(200)["channel_id"], json!(channel), "filled in from the key");
    api.get("/v1/limits?channel_id=nonsense").await.expect_issue(&json!(["channel_id"]), "format");
    let unknown = format!("/v1/limits?channel_id={}", uuid::Uuid::new_v4());
    api.get(&unknown).await.expect_error(404, "channel_not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_public_summary_says_that_all_is_well_and_names_nobody() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    for node in cluster.node_ids() {
        let api = tenant.api(node).without_key();
        let summary = eventually("the summary is good", seconds(20), async || {
            let summary = api.get("/v1/status/summary").await.expect(200);
            check(summary["status"] == "operational", summary.to_string()).map(|()| summary)
        })
        .await;
        assert_eq!(summary["nodes"], json!({ "ready": 3, "total": 3 }));
        let components = summary["components"].as_array().unwrap();
        let mut names: Vec<_> = components.iter().map(|row| string(&row["name"])).collect();
        names.sort();
        assert_eq!(names, ["api", "channels", "events", "media", "webhooks"]);
        time(&summary["updated_at"]);
        assert!(!summary.to_string().contains(&tenant.customer_id));
    }
}

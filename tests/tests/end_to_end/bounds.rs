//! A tenant at the limits of sizes and numbers delays nobody, since log entries are bounded in bytes.

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::future::join_all;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{Tenant, address, text};
use tests::wait::{check, eventually, seconds};

/// Contact cards with nearly as many bytes as a send may have.
fn largest(to: &str) -> Value {
    cards(to, || "x".repeat(6_000))
}

/// Contact cards of the same size, which do not compress.
fn noise(to: &str) -> Value {
    cards(to, || (0..94).map(|_| hex::encode(rand::random::<[u8; 32]>())).collect())
}

fn cards(to: &str, note: impl Fn() -> String) -> Value {
    let card = |_| json!({ "name": "Ann", "vcard": format!("BEGIN:VCARD\nNOTE:{}\nEND:VCARD", note()) });
    let cards: Vec<Value> = (0..20).map(card).collect();
    json!({ "type": "contact", "to": to, "contacts": cards })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seventy_of_the_largest_sends_at_once_are_taken_and_no_leader_stalls() {
    let scene = Scene::begin().await;
    let largest = largest(&address(&scene.peer));
    let path = scene.path("/messages");
    let sends = (0..70).map(|_| scene.api.post(&path, largest.clone()));
    let mut sent = BTreeSet::new();
    for answer in join_all(sends).await {
        sent.insert(string(&answer.expect(202)["message_id"]));
    }
    assert_eq!(sent.len(), 70);
    eventually("all of them arrive", SOON, async || {
        let inbox = scene.simulator.inbox(&scene.peer).await;
        let came: BTreeSet<String> = inbox.iter().map(|message| string(&message["id"])).collect();
        check(sent.is_subset(&came), format!("{} of 70 are there", sent.intersection(&came).count()))
    })
    .await;
    for node in scene.tenant.cluster.node_ids() {
        let ready = scene.tenant.api(node).get("/readyz").await.expect(200);
        assert!(ready["checks"].get("commits").is_none(), "{ready}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_larger_than_a_row_may_be_comes_in_cut_and_those_behind_it_whole() {
    let scene = Scene::begin().await;
    let own = scene.channel.address();
    scene.simulator.text(&scene.peer, &own, &"x".repeat(1 << 20), 1).await;
    scene.simulator.text(&scene.peer, &own, "behind it", 1).await;
    let cut = scene.event("message.received", "the large one", |data| data["truncated"] == true).await;
    let told = string(&cut["body"]["text"]).len();
    assert!((64 << 10..=256 << 10).contains(&told), "{told}");
    scene.event("message.received", "the one behind it", |data| data["body"]["text"] == "behind it").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_whose_messages_fill_its_quota_sends_none_and_still_hears_all_while_others_send() {
    const LIMIT: u64 = 1_000_000;
    // Storage is measured in tables, so these are written often here.
    let options = Options::nodes(1).arg("--set=raft.buffer_bytes=262144").arg("--set=history.trim_every=500ms");
    let cluster = Cluster::start(options).await;
    let scene = Scene::on(&cluster, json!({})).await;
    let other = Tenant::new(&cluster).await;
    let quiet = other.paired("Quiet").await;
    let operator = cluster.operator(cluster.running_node(), &scene.tenant.client);
    let customer = format!("/v1/admin/customers/{}", scene.tenant.customer_id);
    let allow = async |bytes: Value| {
        let limits = json!({ "limits": { "storage": { "message_bytes": bytes } } });
        operator.patch(&customer, limits).await.expect(200)
    };
    allow(json!(LIMIT)).await;

    let (path, to) = (scene.path("/messages"), address(&scene.peer));
    let first = string(&scene.api.post(&path, noise(&to)).await.expect(202)["message_id"]);
    let refused = eventually("the quota is used up", seconds(60), async || {
        let answer = scene.api.post(&path, noise(&to)).await;
        if answer.status == 202 { Err(answer.text()) } else { Ok(answer) }
    })
    .await;
    let details = refused.expect_error(409, "plan_limit");
    assert_has(&details, &json!({ "quota": "message_bytes", "limit": LIMIT }));
    assert!(details["used"].as_u64().is_some_and(|used| used >= LIMIT), "{details}");
    // Usage is measured after compression, so it may be somewhat below the limit.
    allow(json!(LIMIT / 2)).await;
    let used = scene.api.get("/v1/account").await.expect(200)["storage"]["message_bytes"].clone();
    assert_eq!(used["limit"], LIMIT / 2);
    assert!(used["used"].as_u64().is_some_and(|used| used >= LIMIT / 2), "{used}");

    let small = scene.api.post(&path, text(&scene.peer, "a few bytes")).await;
    assert_eq!(small.expect_error(409, "plan_limit")["quota"], "message_bytes");
    let key = json!({ "id": first, "from_me": true, "remote_jid": to });
    let deletion = json!({ "type": "delete", "to": to, "message_key": key });
    scene.api.post(&path, deletion).await.expect(202);
    other.any().post(&quiet.path("/messages"), text(&scene.peer, "beside it")).await.expect(202);

    scene.simulator.text(&scene.peer, &scene.channel.address(), "from outside", 1).await;
    let told = scene.event("message.received", "what comes in", |data| data["body"]["text"] == "from outside").await;
    let page = scene.api.get(&scene.path("/messages?limit=100")).await.expect(200);
    let row = page["data"].as_array().unwrap().iter().find(|row| row["message_id"] == told["message_id"]);
    assert_has(row.unwrap(), &json!({ "type": "text", "text": null, "chat_id": to }));

    allow(Value::Null).await;
    scene.api.post(&path, text(&scene.peer, "with room again")).await.expect(202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_revocations_of_a_channel_with_more_keys_than_a_portion_are_all_in_the_audit_log() {
    const KEYS: usize = 250;
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let channel = tenant.channel("Keyed").await;
    let body = json!({ "name": "bound", "scopes": ["messages.read"], "channel_id": channel });
    let minted = futures::stream::iter((0..KEYS).map(|_| api.post("/v1/api-keys", body.clone()))).buffer_unordered(16);
    let minted: BTreeSet<String> = minted.map(|answer| string(&answer.expect(201)["id"])).collect().await;
    assert_eq!(minted.len(), KEYS);
    api.delete(&format!("/v1/channels/{channel}")).await.expect(204);

    let mut revoked = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = match cursor.as_str() {
            Some(cursor) => format!("/v1/account/audit-log?action=key.revoked&limit=100&cursor={cursor}"),
            None => "/v1/account/audit-log?action=key.revoked&limit=100".to_owned(),
        };
        let page = api.get(&page).await.expect(200);
        revoked.extend(page["data"].as_array().unwrap().clone());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let keys: BTreeSet<String> = revoked.iter().map(|entry| string(&entry["target"]["id"])).collect();
    assert_eq!((revoked.len(), &keys), (KEYS, &minted), "each once");
    assert!(revoked.iter().all(|entry| entry["actor"]["prefix"] == json!(tenant.key[..12])), "{}", revoked[0]);
    let ended = api.get("/v1/api-keys?include_revoked=true").await.expect(200);
    let of_channel = ended["data"].as_array().unwrap().iter().filter(|key| key["channel_id"] == json!(channel));
    assert!(of_channel.clone().count() <= KEYS && of_channel.clone().all(|key| !key["revoked_at"].is_null()));
}

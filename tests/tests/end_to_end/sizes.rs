//! Size limits: inputs at their bounds and beyond, messages from the network, pages, and quotas of a plan.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::http::{answer, string};
use tests::receiver::Receiver;
use tests::tenant::{Tenant, number, text};
use tests::wait::{check, eventually, seconds};

/// The largest page, in bytes.
const LARGEST_PAGE: usize = 4 * 1024 * 1024;

/// An address of this many bytes, which no phone has.
fn address(bytes: usize) -> String {
    format!("{}@s.example", "1".repeat(bytes - "@s.example".len()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_ids_and_sums_are_taken_up_to_their_bounds_wherever_they_are_given() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let channel = tenant.paired("Sizes").await;
    let api = tenant.any();
    let messages = channel.path("/messages");

    // An address of the greatest length is valid but unreachable; a longer one is invalid.
    let details = api.post(&messages, text(&address(128), "x")).await.expect_error(400, "undeliverable_recipient");
    assert_eq!(details["reason"], "too_long");
    for long in [address(129), address(1024 * 100)] {
        api.post(&messages, text(&long, "x")).await.expect_issue(&json!(["to"]), "too_long");
        api.get(&format!("{messages}?chat_id={}", address(129))).await.expect_issue(&json!(["chat_id"]), "too_long");
    }
    api.get(&channel.path(&format!("/chats/{}", address(128)))).await.expect_error(404, "chat_not_found");
    api.get(&channel.path(&format!("/chats/{}", address(129)))).await.expect_issue(&json!(["chat_id"]), "too_long");
    let group = channel.path(&format!("/groups/{}", address(129)));
    api.get(&group).await.expect_issue(&json!(["group_id"]), "too_long");
    let id = |length: usize| format!("/v1/messages/{}/deliveries", "A".repeat(length));
    api.get(&id(255)).await.expect_error(404, "message_not_found");
    api.get(&id(256)).await.expect_issue(&json!(["message_id"]), "too_long");

    // The limit applies to all cards together.
    let card = |vcard: usize| json!({ "name": "Ann", "vcard": format!("BEGIN:VCARD{}END:VCARD", "x".repeat(vcard)) });
    let of = |vcard: usize| json!({ "type": "contact", "to": number(), "contacts": vec![card(vcard); 2] });
    let beside = "AnnBEGIN:VCARDEND:VCARD".len();
    api.post(&messages, of(64 * 1024 - beside)).await.expect_error(400, "undeliverable_recipient");
    let answered = api.post(&messages, of(64 * 1024 - "BEGIN:VCARDEND:VCARD".len())).await;
    answered.expect_issue(&json!(["contacts"]), "too_big");
    let large = json!({ "type": "text", "to": number(), "text": "x", "more": "x".repeat(256 * 1024) });
    assert_eq!(api.post(&messages, large).await.expect_error(413, "payload_too_large")["limit_bytes"], 262_144);

    // Numbers in metadata are returned unchanged or refused: floats cannot hold all integers of more than 64 bits.
    let with = |number: &str| format!(r#"{{"name":"Numbers","metadata":{{"n":{number},"in":[{number}]}}}}"#);
    let create =
        |body: String| api.request(Method::POST, "/v1/channels").header("content-type", "application/json").body(body);
    for kept in ["18446744073709551615", "-9223372036854775808", "94.52706955539223", "-23.308445025757262"] {
        let created = answer(create(with(kept))).await;
        assert!(created.status == 201 && created.text().contains(&format!(r#""n":{kept}"#)), "{}", created.text());
    }
    for refused in ["18446744073709551616", "-9223372036854775809"] {
        answer(create(with(refused))).await.expect_issue(&json!(["metadata"]), "too_big");
    }

    // An invite can be given as its code, or as the link that ends in it.
    let link = "https%3A%2F%2Fchat.g.example%2FAbCdEfGhIjKlMnOpQrStUv";
    for invite in ["AbCdEfGhIjKlMnOpQrStUv", link] {
        api.get(&channel.path(&format!("/groups/invite/{invite}"))).await.expect_error(404, "not_found");
    }
    api.get(&channel.path(&format!("/groups/invite/{}", "A".repeat(65))))
        .await
        .expect_issue(&json!(["invite_code"]), "too_long");
    let whole = answer(api.request(Method::GET, "/openapi.json").header("If-None-Match", "*")).await;
    assert_eq!(whole.status, 304);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_in_beyond_its_bounds_is_cut_and_told_so_and_what_follows_comes_too() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let channel = tenant.paired("Bounded").await;
    let receiver = Receiver::start().await;
    tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let (simulator, ann) = (tenant.simulator(), number());
    simulator.phone(&ann, json!({})).await;
    let send = async |body: Value| {
        let mut body = body;
        body["to"] = json!(channel.number);
        let sent = simulator.api().post(&format!("/phones/{ann}/messages"), body).await.expect(201);
        string(&sent["ids"][0])
    };

    let long = send(json!({ "type": "text", "text": "x".repeat(70_000) })).await;
    let cards = vec![json!({ "name": "Ann", "vcard": "v".repeat(60 * 1024) }); 10];
    let contacts = send(json!({ "type": "contact", "contacts": cards })).await;
    let whole = send(json!({ "type": "text", "text": "x".repeat(65_536) })).await;
    let last = send(json!({ "type": "text", "text": "still here" })).await;

    let received = async |id: &str| receiver.wait_message("message.received", id, seconds(20)).await.json();
    let event = received(&long).await;
    assert_eq!(
        (event["data"]["body"]["text"].as_str().unwrap().len(), &event["data"]["truncated"]),
        (65_536, &json!(true))
    );
    let event = received(&contacts).await;
    let vcards = event["data"]["body"]["contacts"].as_array().unwrap();
    let together: usize = vcards.iter().map(|card| card["vcard"].as_str().unwrap().len()).sum();
    assert_eq!((vcards.len(), event["data"]["truncated"].as_bool()), (10, Some(true)));
    assert!(together > 0 && together <= 128 * 1024, "{together}");
    let event = received(&whole).await;
    assert_eq!((event["data"]["body"]["text"].as_str().unwrap().len(), event["data"].get("truncated")), (65_536, None));
    assert_eq!(received(&last).await["data"]["body"]["text"], "still here");
    let stored = tenant.any().get(&channel.path(&format!("/messages?message_id={long}"))).await.expect(200);
    assert_eq!(stored["data"][0]["text"].as_str().unwrap().len(), 65_536);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_ends_at_its_bytes_and_the_next_one_goes_on_where_it_ended() {
    const EACH: usize = 10;
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let (simulator, ann) = (tenant.simulator(), number());
    simulator.phone(&ann, json!({})).await;
    let mut sent = BTreeSet::new();
    // Messages of two channels, which are mostly in different shards.
    for name in ["One", "Two"] {
        let channel = tenant.paired(name).await;
        // A quarter of a MiB each.
        sent.extend(simulator.text(&ann, &channel.number, &"👍".repeat(65_536), EACH).await);
    }
    let api = tenant.any();
    eventually("all messages are stored", seconds(30), async || {
        let list = api.get("/v1/messages?limit=100&type=text&deliveries=none").await.expect(200);
        check(list["next_cursor"].is_string(), "one page holds them all")
    })
    .await;
    for node in cluster.node_ids() {
        eventually("the pages hold all messages", seconds(30), async || {
            let (mut found, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
            loop {
                let page = tenant.api(node).get(&format!("/v1/messages?limit=100{cursor}")).await;
                assert!(page.text().len() <= LARGEST_PAGE, "{} bytes", page.text().len());
                let page = page.expect(200);
                found.extend(page["data"].as_array().unwrap().iter().map(|row| string(&row["message_id"])));
                pages += 1;
                match &page["next_cursor"] {
                    Value::Null => break,
                    next => cursor = format!("&cursor={}", string(next)),
                }
            }
            assert_eq!(found.len(), found.iter().collect::<BTreeSet<_>>().len(), "no row comes twice");
            check(found.len() == sent.len() && pages > 1, format!("{} in {pages} pages", found.len()))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_is_used_up_is_refused_with_its_figures_until_the_operator_raises_it() {
    let cluster = Cluster::shared().await;
    let storage = json!({ "media_bytes": 3_000, "keys": 3, "endpoints": 1 });
    let tenant = Tenant::with(&cluster, json!({ "limits": { "storage": storage } })).await;
    let nodes = cluster.node_ids();
    let full = |quota: &str, limit: u64, used: u64| json!({ "quota": quota, "limit": limit, "used": used });

    // Concurrent requests to all nodes succeed up to the quota, and no further.
    let create = |n: usize| {
        let api = tenant.api(nodes[n % nodes.len()]);
        async move { api.post("/v1/api-keys", json!({ "name": "more" })).await }
    };
    let made = futures::future::join_all((0..9).map(create)).await;
    assert_eq!(made.iter().filter(|answer| answer.status == 201).count(), 2);
    for refused in made.iter().filter(|answer| answer.status != 201) {
        assert_eq!(refused.expect_error(409, "plan_limit"), full("keys", 3, 3));
    }
    let scoped = json!({ "name": "With a key", "issue_scoped_key": true });
    tenant.any().post("/v1/channels", scoped).await.expect_error(409, "plan_limit");
    let endpoint = json!({ "url": "http://127.0.0.1:65535/", "events": ["message.sent"] });
    tenant.any().post("/v1/webhook-endpoints", endpoint.clone()).await.expect(201);
    let refused = tenant.any().post("/v1/webhook-endpoints", endpoint.clone()).await;
    assert_eq!(refused.expect_error(409, "plan_limit"), full("endpoints", 1, 1));

    // Media of all channels counts together, whatever shard it is in, while it is kept.
    let channels = [tenant.channel("One").await, tenant.channel("Two").await];
    let upload = async |channel: &str, size: usize| {
        let request = tenant.any().request(Method::POST, &format!("/v1/channels/{channel}/media"));
        answer(request.header("content-type", "text/plain").body("x".repeat(size))).await
    };
    upload(&channels[0], 1_000).await.expect(201);
    let second = string(&upload(&channels[1], 1_500).await.expect(201)["id"]);
    let refused = upload(&channels[0], 501).await.expect_error(409, "plan_limit");
    assert_eq!(refused, full("media_bytes", 3_000, 2_500));
    upload(&channels[0], 500).await.expect(201);
    let account = tenant.any().get("/v1/account").await.expect(200);
    let used = |quota: &str| account["storage"][quota].clone();
    assert_eq!(used("media_bytes"), json!({ "limit": 3_000, "used": 3_000 }));
    assert_eq!(used("keys"), json!({ "limit": 3, "used": 3 }));
    assert_eq!(used("endpoints"), json!({ "limit": 1, "used": 1 }));
    assert_eq!(used("labels"), json!({ "limit": 500, "used": null }));
    assert_eq!(used("tickets_open"), json!({ "limit": 100, "used": 0 }));
    upload(&channels[1], 1).await.expect_error(409, "plan_limit");
    assert_eq!(tenant.any().delete(&format!("/v1/channels/{}/media/{second}", channels[1])).await.status, 204);
    upload(&channels[1], 1_500).await.expect(201);

    // The operator raises a quota, and resets it to the default; others keep their value.
    let operator = cluster.operator(nodes[0], &tenant.client);
    let path = format!("/v1/admin/customers/{}", tenant.customer_id);
    let raise = json!({ "limits": { "storage": { "keys": 4, "endpoints": null } } });
    let raised = operator.patch(&path, raise).await.expect(200);
    let limits = json!({
        "media_bytes": 3_000, "message_bytes": 10_u64 << 30, "keys": 4, "labels": 500, "endpoints": 50, "tickets_open": 100,
    });
    assert_eq!(raised["limits"]["storage"], limits);
    let api = tenant.any();
    let key = string(&api.post("/v1/api-keys", json!({ "name": "fourth" })).await.expect(201)["id"]);
    api.post("/v1/api-keys", json!({ "name": "fifth" })).await.expect_error(409, "plan_limit");
    assert_eq!(api.delete(&format!("/v1/api-keys/{key}")).await.status, 204);
    api.post("/v1/api-keys", json!({ "name": "in its place" })).await.expect(201);
    api.post("/v1/webhook-endpoints", endpoint).await.expect(201);
}

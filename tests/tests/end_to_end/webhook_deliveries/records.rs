//! Delivery records: their contents, and the actions on them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::http::{string, time, uuid};
use tests::receiver::{Receiver, Reply};
use tests::tenant::Tenant;
use tests::wait::{check, eventually, seconds};

use super::rig::{Deliveries, brisk, endpoint_path, write_to};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_tells_of_its_attempts_and_is_made_again_by_hand() {
    let tenant = Tenant::new(&brisk().await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|request| match request.index {
        0 => Reply::Body(500, "no".into()),
        _ => Reply::Header(204, "x-seen", "yes".into()),
    });
    let more = json!({ "signing_secret": "the present secret", "headers": { "Authorization": "Bearer abc" } });
    let endpoint = tenant.endpoint(&receiver.url("/hook"), &["message.received"], more).await;
    assert_eq!(endpoint["headers"], json!({ "Authorization": "***" }));
    let path = endpoint_path(&endpoint);
    let channel = tenant.paired("Told").await;
    let message = write_to(&tenant, &channel, "tell me").await;
    let deliveries = Deliveries(&tenant);
    let done = deliveries.wait_state(&format!("message_id={message}"), "delivered").await;
    let id = string(&done["id"]);
    uuid(&done["id"]);
    for name in ["last_attempt_at", "delivered_at", "created_at"] {
        time(&done[name]);
    }
    assert_eq!((&done["endpoint_id"], &done["channel_id"]), (&endpoint["id"], &json!(channel.id)));
    assert_eq!((&done["event"], &done["url"]), (&json!("message.received"), &json!(receiver.url("/hook"))));
    assert_eq!((&done["attempt_count"], &done["max_attempts"]), (&json!(2), &json!(4)));
    assert_eq!((&done["last_http_status"], &done["last_outcome"]), (&json!(204), &json!("success")));
    assert_eq!(done["next_attempt_at"], Value::Null);

    let detail = tenant.any().get(&format!("/v1/webhook-deliveries/{id}")).await.expect(200);
    let attempts = detail["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!((&attempts[0]["number"], &attempts[0]["outcome"]), (&json!(1), &json!("http")));
    assert_eq!((&attempts[0]["http_status"], &attempts[0]["response_body"]), (&json!(500), &json!("no")));
    assert_eq!((&attempts[1]["trigger"], &attempts[1]["remote_ip"]), (&json!("scheduled"), &json!("127.0.0.1")));
    assert_eq!(attempts[1]["response_headers"]["x-seen"], "yes");
    assert_eq!(attempts[1]["error"], Value::Null);
    let sent = receiver.received();
    assert_eq!(detail["request"]["body"], sent[0].json());
    let headers = &detail["request"]["headers"];
    assert!(string(&headers["X-Gateway-Signature"]).ends_with(",v1=***"), "{headers}");
    assert_eq!(headers["Authorization"], "***");
    assert_eq!((&headers["Webhook-Id"], &headers["Webhook-Signature"]), (&done["event_id"], &json!("v1,***")));
    assert_eq!(headers["Webhook-Timestamp"], sent[1].header("webhook-timestamp"));
    assert_eq!(sent[0].header("authorization"), "Bearer abc");
    assert_eq!((sent[0].header("x-gateway-attempt"), sent[1].header("x-gateway-attempt")), ("1", "2"));
    assert_eq!(sent[0].header("x-gateway-delivery-id"), id);

    // A redelivery through another node has the current secret and headers, and the original body.
    tenant.any().patch(&path, json!({ "signing_secret": "a newer secret!!", "headers": {} })).await.expect(200);
    let again = format!("/v1/webhook-deliveries/{id}/redeliver");
    let nodes = tenant.cluster.node_ids();
    let due = tenant.api(*nodes.last().unwrap()).act(&again).await.expect(202);
    assert_eq!((&due["id"], &due["state"]), (&json!(id), &json!("retrying")));
    let manual = receiver.wait_for("the third request", seconds(10), |request| request.index == 2).await;
    manual.verify("a newer secret!!");
    assert_eq!((&manual.body, manual.event_id()), (&sent[0].body, sent[0].event_id()));
    assert!(manual.headers.get("authorization").is_none());
    let detail = eventually("the manual attempt is on record", seconds(10), async || {
        let detail = tenant.any().get(&format!("/v1/webhook-deliveries/{id}")).await.expect(200);
        check(detail["attempts"][2]["trigger"] == "manual", detail.to_string()).map(|()| detail)
    })
    .await;
    assert_eq!((&detail["state"], &detail["attempt_count"]), (&json!("delivered"), &json!(3)));

    // Deliveries that cannot be made again.
    let stranger = Tenant::new(&tenant.cluster).await;
    stranger.any().act(&again).await.expect_error(404, "not_found");
    stranger.any().get(&format!("/v1/webhook-deliveries/{id}")).await.expect_error(404, "not_found");
    tenant.any().act("/v1/webhook-deliveries/seven/redeliver").await.expect_error(404, "not_found");
    receiver.answer(|_| Reply::Hang);
    tenant.any().act(&again).await.expect(202);
    deliveries.wait_state(&format!("message_id={message}"), "in_flight").await;
    tenant.any().act(&again).await.expect_error(409, "no_op");
    tenant.any().patch(&path, json!({ "enabled": false })).await.expect(200);
    let details = tenant.any().act(&again).await.expect_error(400, "bad_request");
    assert_eq!(details["reason"], "endpoint_disabled");
    tenant.any().delete(&path).await.expect(204);
    tenant.any().act(&again).await.expect_error(404, "webhook_endpoint_not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_filtered_and_paged_over_all_shards() {
    let tenant = Tenant::new(&brisk().await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|request| Reply::Status(if request.path == "/bad" { 404 } else { 200 }));
    let good = tenant.endpoint(&receiver.url("/good"), &["message.received", "channel.status"], json!({})).await;
    let bad = tenant.endpoint(&receiver.url("/bad"), &["message.received"], json!({})).await;
    let channels = [tenant.paired("A").await, tenant.paired("B").await, tenant.paired("C").await];
    let mut messages = Vec::new();
    // A third message's failed attempts would open the endpoint's circuit.
    for channel in &channels[..2] {
        messages.push(write_to(&tenant, channel, "one").await);
    }
    let deliveries = Deliveries(&tenant);
    for message in &messages {
        deliveries.wait_state(&format!("message_id={message}&endpoint_id={}", string(&good["id"])), "delivered").await;
        deliveries.wait_state(&format!("message_id={message}&endpoint_id={}", string(&bad["id"])), "exhausted").await;
    }
    receiver.answer(|_| Reply::Status(200));
    messages.push(write_to(&tenant, &channels[2], "one").await);
    for endpoint in [&good, &bad] {
        let query = format!("message_id={}&endpoint_id={}", messages[2], string(&endpoint["id"]));
        deliveries.wait_state(&query, "delivered").await;
    }
    // The deliveries of a deleted channel stay.
    let gone = &channels[0];
    tenant.any().delete(&gone.path("")).await.expect(204);

    let all = deliveries.all("limit=100").await;
    let ids: Vec<String> = all.iter().map(|row| string(&row["id"])).collect();
    let mut newest_first = ids.clone();
    newest_first.sort();
    newest_first.reverse();
    assert_eq!(ids, newest_first);
    assert_eq!(deliveries.pages("limit=2").await, ids);
    let mut oldest_first = deliveries.pages("limit=3&order=asc").await;
    oldest_first.reverse();
    assert_eq!(oldest_first, ids);

    let (good_id, bad_id) = (string(&good["id"]), string(&bad["id"]));
    let first = messages[0].clone();
    let event_id = string(&all.iter().find(|row| row["message_id"] == json!(first)).unwrap()["event_id"]);
    let stranger = uuid::Uuid::new_v4();
    let table = [
        (format!("endpoint_id={bad_id}"), 3),
        (format!("endpoint_id={bad_id}&state=exhausted"), 2),
        (format!("endpoint_id={bad_id}&state=delivered,pending"), 1),
        (format!("endpoint_id={bad_id}&state=retrying,in_flight"), 0),
        (format!("event=message.received&endpoint_id={good_id}"), 3),
        ("event=message.received,qr.updated".to_owned(), 6),
        (format!("event_id={event_id}"), 2),
        (format!("message_id={first}"), 2),
        (format!("channel_id={}&event=message.received", gone.id), 2),
        ("http_status=404".to_owned(), 2),
        ("http_status=4xx".to_owned(), 2),
        (format!("http_status=2xx&endpoint_id={bad_id}"), 1),
        (format!("http_status=5xx&endpoint_id={bad_id}"), 0),
        ("http_status=none".to_owned(), 0),
        ("since=2100-01-01T00:00:00Z".to_owned(), 0),
        ("until=2020-01-01T00:00:00Z".to_owned(), 0),
        (format!("endpoint_id={stranger}"), 0),
        (format!("channel_id={stranger}"), 0),
    ];
    for (query, count) in table {
        let found = deliveries.all(&format!("{query}&limit=100")).await;
        assert_eq!(found.len(), count, "{query}: {found:?}");
    }
    let of_endpoint = tenant.any().get(&format!("{}/deliveries?limit=2", endpoint_path(&bad))).await.expect(200);
    assert_eq!(of_endpoint["data"].as_array().unwrap().len(), 2);
    // A cursor belongs to its customer, route and order.
    let page = tenant.any().get("/v1/webhook-deliveries?limit=2").await.expect(200);
    let (own, of_bad) = (string(&page["next_cursor"]), string(&of_endpoint["next_cursor"]));
    tenant.any().get(&format!("/v1/webhook-deliveries?limit=1&cursor={own}")).await.expect(200);
    for (tenant, route) in [
        (&tenant, format!("/v1/webhook-deliveries?order=asc&cursor={own}")),
        (&tenant, format!("/v1/webhook-deliveries?cursor={of_bad}")),
        (&tenant, format!("{}/deliveries?cursor={own}", endpoint_path(&bad))),
        (&tenant, format!("{}/deliveries?cursor={of_bad}", endpoint_path(&good))),
        (&Tenant::new(&tenant.cluster).await, format!("/v1/webhook-deliveries?cursor={own}")),
    ] {
        tenant.any().get(&route).await.expect_issue(&json!(["cursor"]), "format");
    }
    let missing = format!("/v1/webhook-endpoints/{stranger}/deliveries");
    tenant.any().get(&missing).await.expect_error(404, "webhook_endpoint_not_found");

    let bad_queries = [
        ("state=lost", "state", "enum"),
        ("event=nothing", "event", "enum"),
        ("http_status=6xx", "http_status", "format"),
        ("since=yesterday", "since", "format"),
        ("endpoint_id=7", "endpoint_id", "format"),
        ("order=up", "order", "enum"),
        ("limit=0", "limit", "format"),
        ("cursor=abc", "cursor", "format"),
    ];
    for (query, name, code) in bad_queries {
        tenant.any().get(&format!("/v1/webhook-deliveries?{query}")).await.expect_issue(&json!([name]), code);
    }
    // Nobody sees the deliveries of others, whatever the filter.
    let stranger = Tenant::new(&tenant.cluster).await;
    let theirs = Deliveries(&stranger);
    assert!(theirs.all(&format!("endpoint_id={good_id}")).await.is_empty());
    assert!(theirs.all(&format!("channel_id={}", channels[1].id)).await.is_empty());

    let body = json!({ "name": "bound", "channel_id": channels[1].id });
    let key = string(&tenant.any().post("/v1/api-keys", body).await.expect(201)["secret"]);
    let bound = tenant.any().with_key(&key);
    bound.get("/v1/webhook-deliveries").await.expect_error(403, "channel_scoped_key");
    let other = format!("/v1/webhook-deliveries?channel_id={}", channels[2].id);
    bound.get(&other).await.expect_error(403, "channel_access_denied");
    let unknown = format!("/v1/webhook-deliveries?channel_id={}", stranger.customer_id);
    bound.get(&unknown).await.expect_error(404, "channel_not_found");
    bound.get("/v1/webhook-deliveries?channel_id=7").await.expect_issue(&json!(["channel_id"]), "format");
    let own = bound.get(&format!("/v1/webhook-deliveries?channel_id={}&limit=100", channels[1].id)).await.expect(200);
    // A key of a channel sees its deliveries to the account's endpoints, but cannot repeat them.
    let again = format!("/v1/webhook-deliveries/{}/redeliver", string(&own["data"][0]["id"]));
    bound.act(&again).await.expect_error(404, "webhook_endpoint_not_found");
    let own: BTreeSet<String> = own["data"].as_array().unwrap().iter().map(|row| string(&row["channel_id"])).collect();
    assert_eq!(own, BTreeSet::from([channels[1].id.clone()]));
    bound.get(&format!("{}/deliveries", endpoint_path(&good))).await.expect_error(404, "webhook_endpoint_not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_exhausted_is_recovered_and_what_waits_is_purged() {
    let tenant = Tenant::new(&brisk().await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::Status(503));
    let endpoint = tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let path = endpoint_path(&endpoint);
    let id = string(&endpoint["id"]);
    let channels = [tenant.paired("R1").await, tenant.paired("R2").await];
    // Few enough that their failures open no circuit.
    for channel in &channels {
        write_to(&tenant, channel, "lost").await;
    }
    let deliveries = Deliveries(&tenant);
    let in_state = async |state: &str, count: usize| {
        eventually(&format!("{count} are {state}"), seconds(60), async || {
            let found = deliveries.all(&format!("endpoint_id={id}&state={state}&limit=100")).await;
            check(found.len() == count, format!("{found:?}"))
        })
        .await;
    };
    in_state("exhausted", 2).await;
    let stats = tenant.any().get(&format!("{path}/stats")).await.expect(200);
    assert_eq!((&stats["exhausted"], &stats["success_rate"]), (&json!(2), &json!(0.0)), "{stats}");
    assert_eq!(stats["p50_latency_ms"], Value::Null);

    let api = tenant.any();
    let ago = |days: i64| (chrono::Utc::now() - chrono::Duration::days(days)).to_rfc3339();
    api.post(&format!("{path}/recover"), json!({})).await.expect_issue(&json!(["since"]), "required");
    let long = json!({ "since": ago(31) });
    api.post(&format!("{path}/recover"), long).await.expect_issue(&json!(["since"]), "too_big");
    let other = json!({ "since": ago(1), "events": ["message.sent"] });
    assert_eq!(api.post(&format!("{path}/recover"), other).await.expect(202)["matched"], 0);
    receiver.answer(|_| Reply::Status(200));
    for _ in 0..2 {
        let counted =
            api.post(&format!("{path}/recover"), json!({ "since": ago(1), "dry_run": true })).await.expect(200);
        assert_eq!(counted, json!({ "matched": 2 }), "they are counted, and nothing happens to them");
    }
    let recovered = api.post(&format!("{path}/recover"), json!({ "since": ago(1) })).await.expect(202);
    assert_eq!(recovered["matched"], 2);
    uuid(&recovered["job_id"]);
    in_state("delivered", 2).await;
    let stats = tenant.any().get(&format!("{path}/stats")).await.expect(200);
    assert_eq!((&stats["delivered"], &stats["success_rate"]), (&json!(2), &json!(1.0)), "{stats}");
    assert!(stats["p95_latency_ms"].as_u64() >= stats["p50_latency_ms"].as_u64(), "{stats}");
    assert!(stats["p50_latency_ms"].is_u64());

    // A queue to be purged.
    receiver.answer(|_| Reply::Hang);
    for channel in &channels {
        write_to(&tenant, channel, "unwanted").await;
    }
    in_state("in_flight", 2).await;
    api.delete("/v1/webhook-deliveries").await.expect_issue(&json!(["endpoint_id"]), "required");
    let wrong = format!("/v1/webhook-deliveries?endpoint_id={id}&state=delivered");
    api.delete(&wrong).await.expect_issue(&json!(["state"]), "enum");
    let stranger = Tenant::new(&tenant.cluster).await;
    let all = format!("/v1/webhook-deliveries?endpoint_id={id}");
    assert_eq!(stranger.any().delete(&all).await.expect(202)["matched"], 0);
    let purge = format!("/v1/webhook-deliveries?endpoint_id={id}&state=pending,retrying,paused");
    assert_eq!(api.delete(&purge).await.expect(202)["matched"], 2);
    in_state("exhausted", 2).await;
    in_state("in_flight", 0).await;
    // Attempts that were running at the purge time out; they are recorded, and do not revive their deliveries.
    eventually("the attempts that were cut short are on record", seconds(40), async || {
        let found = deliveries.all(&format!("endpoint_id={id}&state=exhausted&limit=100")).await;
        check(found.iter().all(|row| row["attempt_count"] == 1), format!("{found:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_endpoints_deliveries_go_on_without_a_request_until_they_are_exhausted() {
    let tenant = Tenant::new(&brisk().await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::Status(500));
    let endpoint = tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let channel = tenant.paired("Orphaned").await;
    let message = write_to(&tenant, &channel, "too late").await;
    receiver.wait_message("message.received", &message, seconds(10)).await;
    tenant.any().delete(&endpoint_path(&endpoint)).await.expect(204);
    let requests = receiver.received().len();
    let done = Deliveries(&tenant).wait_state(&format!("message_id={message}"), "exhausted").await;
    assert_eq!((&done["last_outcome"], &done["attempt_count"]), (&json!("endpoint_deleted"), &json!(4)));
    // One attempt may have been running when the endpoint was deleted.
    assert!(receiver.received().len() <= requests + 1);
}

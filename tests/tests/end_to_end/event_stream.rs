//! The event stream: its frames, filters, end, and tickets. No node dies here; `event_stream_faults.rs` kills nodes.

use futures::future::join_all;
use reqwest::Method;
use serde_json::json;
use tests::cluster::{Cluster, Options};
use tests::http::{answer, string, time};
use tests::stream::{EventSource, Frame, assert_once};
use tests::tenant::{Paired, Tenant, number, text};
use tests::wait::{check, eventually, seconds};

/// A phone besides those of the channels.
async fn phone(tenant: &Tenant) -> String {
    let number = number();
    tenant.simulator().phone(&number, json!({})).await;
    number
}

async fn send(tenant: &Tenant, node: u64, channel: &Paired, to: &str, words: &str) -> String {
    string(&tenant.api(node).post(&channel.path("/messages"), text(to, words)).await.expect(202)["message_id"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_framed_as_readers_of_server_sent_events_expect() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let stream = EventSource::open(&tenant.any(), "").await;
    let header = |name: &str| stream.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header("content-type").as_deref(), Some("text/event-stream; charset=utf-8"));
    assert_eq!(header("cache-control").as_deref(), Some("no-store"));
    assert_eq!(header("x-accel-buffering").as_deref(), Some("no"));
    assert_eq!(header("x-ratelimit-scope").as_deref(), Some("customer"));
    assert!(header("x-ratelimit-limit").is_some() && header("x-ratelimit-remaining").is_some());
    assert!(header("x-request-id").is_some());

    let channel = tenant.paired("Framed").await;
    let peer = phone(&tenant).await;
    let id = send(&tenant, 1, &channel, &peer, "framed").await;
    let sent = stream.wait_message("message.sent", &id, seconds(10)).await;
    let raw = stream.raw();
    let first = raw.lines().next().unwrap();
    let ulid = first.strip_prefix(": connected ").unwrap_or_else(|| panic!("{first}"));
    assert_eq!(ulid.len(), 26);
    assert!(raw.starts_with(&format!("{first}\nretry: 3000\n\n")), "{raw}");
    assert!(!raw.contains('\r'));
    let (sent_id, data) = (sent.id.clone().unwrap(), &sent.data[0]);
    assert!(raw.contains(&format!("\n\nid: {sent_id}\nevent: message.sent\ndata: {data}\n\n")), "{raw}");
    let envelope = sent.json();
    assert_eq!((&envelope["event"], &envelope["event_id"]), (&json!("message.sent"), &json!(sent_id)));
    assert_eq!((&envelope["api_version"], &envelope["channel_id"]), (&json!("2026-04"), &json!(channel.id)));
    time(&envelope["occurred_at"]);
    // The stream was open before the channel was created, so it has all events of the channel's life.
    for name in ["channel.status", "qr.updated", "channel.connected"] {
        stream.wait(name, seconds(5), |frame| frame.is(name)).await;
    }
    assert_once(&stream.ids());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_channels_of_every_node_reach_streams_on_every_node_in_one_order() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let channels = join_all((0..6).map(|n| tenant.paired(["a", "b", "c", "d", "e", "f"][n]))).await;
    let peer = phone(&tenant).await;
    let nodes = tenant.cluster.node_ids();
    let mut streams = Vec::new();
    for node in &nodes {
        streams.push(EventSource::open(&tenant.api(*node), "?events=message.sent,message.status").await);
    }
    let sends = (0..60).map(|n| {
        let (tenant, peer, channels, nodes) = (&tenant, &peer, &channels, &nodes);
        async move { send(tenant, nodes[n % nodes.len()], &channels[n % channels.len()], peer, "x").await }
    });
    let sent = join_all(sends).await;
    for stream in &streams {
        for id in &sent {
            stream.wait_message("message.sent", id, seconds(20)).await;
            let delivered = |frame: &Frame| {
                let data = frame.json();
                frame.is("message.status")
                    && data["data"]["message_id"] == **id
                    && data["data"]["status"] == "delivered"
            };
            stream.wait("the receipt", seconds(20), |frame| frame.id.is_some() && delivered(frame)).await;
        }
    }
    let ids = streams[0].ids();
    assert_once(&ids);
    for stream in &streams[1..] {
        eventually("both streams show the same", seconds(10), async || {
            check(stream.ids() == ids, format!("{:?}\n{ids:?}", stream.ids()))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_narrowed_by_channel_name_and_kind_of_chat_and_by_its_key() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let (one, two) = (tenant.paired("One").await, tenant.paired("Two").await);
    let peer = phone(&tenant).await;
    let api = tenant.api(2);
    let key = api.post("/v1/api-keys", json!({ "name": "bound", "channel_id": one.id })).await.expect(201);
    let bound = api.with_key(&string(&key["secret"]));
    let all = EventSource::open(&api, "").await;
    let of_one = EventSource::open(&api, &format!("?channel_id={}", one.id)).await;
    let of_both = EventSource::open(&api, &format!("?channel_id={}&channel_id={}", one.id, two.id)).await;
    let only_sent = EventSource::open(&api, "?events=message.sent").await;
    let groups = EventSource::open(&api, "?chat_type=groups_only").await;
    let by_key = EventSource::open(&bound, "").await;
    for (n, channel) in [&one, &two, &one].into_iter().enumerate() {
        let id = send(&tenant, 1, channel, &peer, &format!("{n}")).await;
        all.wait_message("message.sent", &id, seconds(10)).await;
    }
    api.act(&one.path("/disconnect")).await.expect(202);
    for stream in [&all, &of_one, &of_both, &groups, &by_key] {
        stream.wait("the status", seconds(10), |frame| frame.is("channel.status")).await;
    }
    let channels = |stream: &EventSource| {
        let mut of: Vec<String> = stream.events().iter().map(|frame| string(&frame.json()["channel_id"])).collect();
        of.sort();
        of.dedup();
        of
    };
    let mut both = [one.id.clone(), two.id.clone()];
    both.sort();
    assert_eq!(channels(&of_one), std::slice::from_ref(&one.id));
    assert_eq!(channels(&by_key), std::slice::from_ref(&one.id));
    assert_eq!(channels(&of_both), both);
    let sent = only_sent.events();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|frame| frame.is("message.sent")));
    assert!(groups.events().iter().all(|frame| !frame.is("message.sent") && !frame.is("message.status")));

    let stranger = Tenant::new(&tenant.cluster).await;
    let theirs = stranger.channel("Theirs").await;
    api.get(&format!("/v1/events?channel_id={theirs}")).await.expect_error(404, "channel_not_found");
    bound.get(&format!("/v1/events?channel_id={}", two.id)).await.expect_error(403, "channel_access_denied");
    for (query, path, code) in [
        ("events=message.sent,message.lost", "events", "enum"),
        ("events=webhook.test", "events", "enum"),
        ("chat_type=some", "chat_type", "enum"),
        ("channel_id=7", "channel_id", "format"),
        ("last_event_id=7", "last_event_id", "format"),
    ] {
        api.get(&format!("/v1/events?{query}")).await.expect_issue(&json!([path]), code);
    }
    let reader = api.post("/v1/api-keys", json!({ "name": "r", "scopes": ["messages.read"] })).await.expect(201);
    let reader = api.with_key(&string(&reader["secret"]));
    reader.get("/v1/events").await.expect_error(403, "insufficient_scope");
    answer(api.request(Method::HEAD, "/v1/events")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_resumes_at_another_node_without_a_gap_and_says_when_there_is_one() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let channel = tenant.paired("Resumed").await;
    let peer = phone(&tenant).await;
    let first = EventSource::open(&tenant.api(1), "").await;
    let seen = send(&tenant, 1, &channel, &peer, "seen").await;
    let last = first.wait_message("message.sent", &seen, seconds(10)).await.id.unwrap();
    // Some events came before the connection was lost, and more afterwards.
    let mut missed = vec![send(&tenant, 2, &channel, &peer, "missed").await];
    drop(first);
    for _ in 0..20 {
        missed.push(send(&tenant, 3, &channel, &peer, "missed").await);
    }
    let by_header = EventSource::resume(&tenant.api(2), "", Some(&last)).await;
    let by_query = EventSource::open(&tenant.api(3), &format!("?last_event_id={last}")).await;
    for stream in [&by_header, &by_query] {
        for id in &missed {
            stream.wait_message("message.sent", id, seconds(10)).await;
        }
        let frames = stream.frames();
        assert!(!frames.iter().any(|frame| frame.is("stream.gap")), "{frames:?}");
        assert_eq!(frames[0].retry.as_deref(), Some("3000"));
        let again = stream.events().iter().any(|frame| frame.id.as_ref() == Some(&last));
        assert!(!again, "what was seen comes again");
        assert_once(&stream.ids());
    }
    let strange = "evt_01JGFJJZ008N9Y7K4S5T6V7W8X";
    let gap = EventSource::resume(&tenant.api(1), "", Some(strange)).await;
    let frame = gap.wait("the gap", seconds(5), |frame| frame.is("stream.gap")).await;
    assert_eq!((frame.id.clone(), &frame.json()["from"]), (None, &json!(strange)));
    let oldest = string(&frame.json()["oldest"]);
    gap.wait("the oldest", seconds(5), |frame| frame.id.as_ref() == Some(&oldest)).await;
    assert_eq!(gap.ids()[0], oldest);
    assert!(gap.frames()[1].is("stream.gap"), "it comes first");
    gap.wait_message("message.sent", missed.last().unwrap(), seconds(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_has_ten_streams_over_all_nodes_and_a_closed_one_frees_its_place() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let nodes = tenant.cluster.node_ids();
    let mut streams = Vec::new();
    for n in 0..10 {
        streams.push(EventSource::open(&tenant.api(nodes[n % nodes.len()]), "").await);
    }
    for node in &nodes {
        let refused = tenant.api(*node).get("/v1/events").await;
        assert_eq!(refused.expect_error(429, "sse_connection_limit"), json!({ "limit": 10, "open": 10 }));
        assert_eq!(refused.retry_after(), 5);
        assert_eq!(refused.content_type(), Some("application/json"));
    }
    EventSource::open(&Tenant::new(&tenant.cluster).await.any(), "").await;
    drop(streams.pop());
    eventually("the place is free again", seconds(5), async || {
        let answer = tenant.api(nodes[0]).request(Method::GET, "/v1/events").send().await.unwrap();
        check(answer.status() == 200, answer.status().to_string())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_or_expired_key_closes_its_streams_on_every_node_within_a_second() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let expires = (chrono::Utc::now() + chrono::TimeDelta::seconds(6)).to_rfc3339();
    let ends = api.post("/v1/api-keys", json!({ "name": "ends", "expires_at": expires })).await.expect(201);
    let key = api.post("/v1/api-keys", json!({ "name": "revoked" })).await.expect(201);
    let mut streams = Vec::new();
    for node in tenant.cluster.node_ids() {
        streams.push(EventSource::open(&tenant.api(node).with_key(&string(&key["secret"])), "").await);
    }
    let other = EventSource::open(&api, "").await;
    let expired = EventSource::open(&api.with_key(&string(&ends["secret"])), "").await;
    assert_eq!(api.delete(&format!("/v1/api-keys/{}", string(&key["id"]))).await.status, 204);
    for stream in &streams {
        let frame = stream.wait("the end", seconds(1), |frame| frame.is("stream.closing")).await;
        assert_eq!((frame.id.clone(), frame.json()), (None, json!({ "reason": "auth_revoked" })));
        stream.wait_end(seconds(1)).await;
    }
    let frame = expired.wait("the end", seconds(8), |frame| frame.is("stream.closing")).await;
    assert_eq!(frame.json(), json!({ "reason": "auth_expired" }));
    assert!(!other.has_ended());

    let operator = tenant.cluster.operator(1, &tenant.client);
    assert_eq!(operator.delete(&format!("/v1/admin/customers/{}", tenant.customer_id)).await.status, 202);
    let frame = other.wait("the end", seconds(1), |frame| frame.is("stream.closing")).await;
    assert_eq!(frame.json(), json!({ "reason": "auth_revoked" }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_opens_one_stream_at_any_node() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.api(1);
    let made = api.post("/v1/events/tickets", json!({})).await.expect(201);
    let ticket = string(&made["ticket"]);
    let left = time(&made["expires_at"]) - chrono::Utc::now();
    assert!((50..=60).contains(&left.num_seconds()), "{left}");
    let open = format!("?ticket={ticket}");
    let stream = EventSource::open(&tenant.api(2).without_key(), &open).await;
    stream.wait("the beginning", seconds(2), |frame| frame.comment.is_some()).await;
    for node in tenant.cluster.node_ids() {
        tenant.api(node).without_key().get(&format!("/v1/events{open}")).await.expect_error(401, "auth_invalid");
    }
    api.without_key().get("/v1/events?ticket=7").await.expect_error(401, "auth_malformed");
    api.without_key().get("/v1/events").await.expect_error(401, "auth_missing");
    // A ticket authenticates a stream only.
    let made = api.post("/v1/events/tickets", json!({})).await.expect(201);
    let open = format!("?ticket={}", string(&made["ticket"]));
    api.without_key().get(&format!("/v1/limits{open}")).await.expect_error(401, "auth_missing");

    // The key that requested the ticket is checked again.
    let key = api.post("/v1/api-keys", json!({ "name": "revoked", "scopes": ["events.*"] })).await.expect(201);
    let made = api.with_key(&string(&key["secret"])).post("/v1/events/tickets", json!({})).await.expect(201);
    assert_eq!(api.delete(&format!("/v1/api-keys/{}", string(&key["id"]))).await.status, 204);
    let open = format!("/v1/events?ticket={}", string(&made["ticket"]));
    tenant.api(3).without_key().get(&open).await.expect_error(401, "auth_revoked");
    let log = format!("/v1/account/audit-log?action=auth.failed&actor={}", string(&key["prefix"]));
    eventually("the failure is written", seconds(10), async || {
        let log = api.get(&log).await.expect(200);
        check(log["data"][0]["details"]["code"] == "auth_revoked", log.to_string())
    })
    .await;
    let writer = json!({ "name": "w", "scopes": ["events.write"] });
    let key = api.post("/v1/api-keys", writer).await.expect(201);
    let made = api.with_key(&string(&key["secret"])).post("/v1/events/tickets", json!({})).await.expect(201);
    let open = format!("/v1/events?ticket={}", string(&made["ticket"]));
    tenant.api(3).without_key().get(&open).await.expect_error(403, "insufficient_scope");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_stream_is_kept_alive_and_an_old_one_ends() {
    let options = Options::nodes(1).arg("--set=events.heartbeat=1s").arg("--set=events.max_age=5s");
    let tenant = Tenant::new(&Cluster::start(options).await).await;
    let stream = EventSource::open(&tenant.any(), "").await;
    let pings = |stream: &EventSource| {
        let comments = stream.frames().into_iter().filter_map(|frame| frame.comment);
        let times = comments.filter_map(|text| text.strip_prefix("ping ").map(|time| time.parse::<i64>().unwrap()));
        times.collect::<Vec<_>>()
    };
    let frame = stream.wait("the end", seconds(8), |frame| frame.is("stream.closing")).await;
    assert_eq!(frame.json(), json!({ "reason": "max_age" }));
    stream.wait_end(seconds(1)).await;
    let times = pings(&stream);
    assert!((3..=5).contains(&times.len()), "one a second of silence: {times:?}");
    assert!((chrono::Utc::now().timestamp() - times[0]).abs() < 60);
    let metrics = tenant.cluster.operator(1, &tenant.client).get("/metrics").await.text();
    assert!(metrics.contains("gateway_sse_streams 0"), "{metrics}");
}

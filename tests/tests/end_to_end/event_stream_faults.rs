//! The event stream while nodes die and stop, and with a client that does not read.

use std::collections::HashSet;

use serde_json::json;
use tests::cluster::{Cluster, Options};
use tests::http::{Api, string};
use tests::member::Member;
use tests::stream::{EventSource, assert_once};
use tests::tenant::{Paired, Tenant, number, text};
use tests::wait::{check, eventually, seconds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

/// Retries a send until it is accepted, since a leader may have to be elected.
async fn send(api: &Api, channel: &Paired, to: &str, words: &str) -> String {
    eventually("the send is taken", seconds(30), async || {
        let request = api.request(reqwest::Method::POST, &channel.path("/messages")).json(&text(to, words));
        let answer = tests::http::try_answer(request).await.map_err(|error| error.to_string())?;
        if answer.status == 202 { Ok(string(&answer.json()["message_id"])) } else { Err(answer.text()) }
    })
    .await
}

/// The messages whose `message.sent` a stream has shown.
fn sent(stream: &EventSource) -> HashSet<String> {
    let shown = stream.events().into_iter().filter(|frame| frame.is("message.sent"));
    shown.map(|frame| string(&frame.json()["data"]["message_id"])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_costs_its_clients_a_reconnection_and_others_nothing() {
    let tenant = Tenant::new(&Cluster::start(Options::default()).await).await;
    let peer = number();
    tenant.simulator().phone(&peer, json!({})).await;
    let mut channels = Vec::new();
    for n in 0..6 {
        channels.push(tenant.paired(&format!("Channel {n}")).await);
    }
    let owner = tenant.owner(1, &channels[0].id).await.node;
    let others: Vec<u64> = tenant.cluster.node_ids().into_iter().filter(|node| *node != owner).collect();
    let (lost, kept) =
        (EventSource::open(&tenant.api(owner), "").await, EventSource::open(&tenant.api(others[0]), "").await);
    let survivor = tenant.api(others[1]);
    let mut messages = HashSet::new();
    for n in 0..30 {
        messages.insert(send(&survivor, &channels[n % 6], &peer, "before").await);
    }
    // The node is killed during sends. It owns channels, holds a stream, and may be the account's coordinator.
    let sending = async {
        let mut messages = HashSet::new();
        for n in 0..60 {
            messages.insert(send(&survivor, &channels[n % 6], &peer, "during").await);
        }
        messages
    };
    let (during, ()) = tokio::join!(sending, async {
        eventually("the first events are there", seconds(20), async || {
            check(sent(&lost).len() >= 20, format!("{}", sent(&lost).len()))
        })
        .await;
        tenant.cluster.kill(owner);
    });
    messages.extend(during);
    lost.wait_end(seconds(5)).await;
    let last = lost.ids().pop().unwrap();
    let resumed = EventSource::resume(&survivor, "", Some(&last)).await;
    messages.insert(send(&survivor, &channels[0], &peer, "after").await);
    for stream in [&kept, &resumed] {
        eventually("every send shows", seconds(40), async || {
            let shown: HashSet<String> = if std::ptr::eq(stream, &raw const resumed) {
                sent(&lost).union(&sent(stream)).cloned().collect()
            } else {
                sent(stream)
            };
            let missing = messages.difference(&shown).count();
            check(missing == 0, format!("{missing} of {} are missing", messages.len()))
        })
        .await;
    }
    assert!(!resumed.frames().iter().any(|frame| frame.is("stream.gap")));
    let ids = [lost.ids(), resumed.ids()].concat();
    assert_once(&ids);
    assert_once(&kept.ids());
    // The lost stream and its continuation have the same sequence as the uninterrupted one.
    let both = kept.ids();
    let begin = both.iter().position(|id| *id == ids[0]).unwrap();
    eventually("both show the same", seconds(10), async || {
        let (through, cut) = (kept.ids(), [lost.ids(), resumed.ids()].concat());
        check(through[begin..] == cut[..], format!("{} and {}", through.len() - begin, cut.len()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_are_counted_on_when_their_home_dies_and_a_dead_nodes_come_back() {
    let tenant = Tenant::new(&Cluster::start(Options::default()).await).await;
    let mut streams = Vec::new();
    for n in 0..9 {
        streams.push((n % 3 + 1, EventSource::open(&tenant.api(n % 3 + 1), "").await));
    }
    streams.push((3, EventSource::open(&tenant.api(3), "").await));
    tenant.cluster.kill(1);
    // Streams of live nodes still count, even if the coordinator died. Those of the dead node count until their leases
    // expire, or are forgotten with the coordinator.
    assert!(streams.iter().all(|(node, stream)| *node == 1 || !stream.has_ended()));
    streams.retain(|(node, _)| *node != 1);
    while streams.len() < 10 {
        let again = eventually("a dead node's place is free", seconds(40), async || {
            EventSource::try_open(&tenant.api(2), "", None).await
        })
        .await;
        streams.push((2, again));
    }
    for node in [2, 3] {
        tenant.api(node).get("/v1/events").await.expect_error(429, "sse_connection_limit");
    }
    assert!(streams.iter().all(|(_, stream)| !stream.has_ended()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_says_so_and_another_one_goes_on() {
    let tenant = Tenant::new(&Cluster::start(Options::default()).await).await;
    let channel = tenant.paired("Drained").await;
    let peer = number();
    tenant.simulator().phone(&peer, json!({})).await;
    let stream = EventSource::open(&tenant.api(2), "").await;
    let id = send(&tenant.api(1), &channel, &peer, "before").await;
    stream.wait_message("message.sent", &id, seconds(10)).await;
    let started = std::time::Instant::now();
    tenant.cluster.command(&["dev", "stop", "2"]).await.succeeded();
    assert!(started.elapsed() < seconds(20), "a stream must not hold up the stop: {:?}", started.elapsed());
    let frame = stream.wait("the end", seconds(1), |frame| frame.is("stream.closing")).await;
    assert_eq!((frame.id.clone(), frame.json()), (None, json!({ "reason": "drain" })));
    stream.wait_end(seconds(1)).await;
    let last = stream.ids().pop().unwrap();
    let missed = send(&tenant.api(1), &channel, &peer, "after").await;
    let resumed = EventSource::resume(&tenant.api(3), "", Some(&last)).await;
    resumed.wait_message("message.sent", &missed, seconds(10)).await;
    assert!(!resumed.frames().iter().any(|frame| frame.is("stream.gap")));
    assert_once(&[stream.ids(), resumed.ids()].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_by_command_lets_balancers_notice_first_and_sends_streams_elsewhere_at_the_end() {
    let cluster = Cluster::start(Options::default().arg("--set=drain.initial_wait=4s")).await;
    let tenant = Tenant::new(&cluster).await;
    let operator = cluster.operator(1, &tenant.client);
    let owned = async || {
        let nodes = operator.get("/v1/admin/nodes").await.expect(200);
        let row = nodes["data"].as_array().unwrap().iter().find(|row| row["id"] == 2).unwrap().clone();
        row["owns"].as_array().unwrap().len()
    };
    eventually("node 2 owns shards", seconds(30), async || check(owned().await > 0, "none".to_owned())).await;
    let stream = EventSource::open(&tenant.api(2), "").await;

    let asked = std::time::Instant::now();
    operator.post("/v1/admin/nodes/2/drain", json!({})).await.expect(202);
    eventually("balancers can notice", seconds(3), async || {
        let answer = tenant.api(2).get("/readyz").await;
        check(answer.status == 503, answer.text())
    })
    .await;
    assert!(owned().await > 0 && asked.elapsed() < seconds(4), "it goes on as it was for so long");
    tenant.api(2).get("/v1/account").await.expect(200);
    let frame = stream.wait("the end", seconds(30), |frame| frame.is("stream.closing")).await;
    assert_eq!(frame.json(), json!({ "reason": "drain" }));
    assert!(asked.elapsed() >= seconds(4) && owned().await == 0, "after the wait, and when all was handed over");

    // The drained node still serves clients that connect to it, until the next drain.
    let stays = EventSource::open(&tenant.api(2), "").await;
    operator.post("/v1/admin/nodes/2/undrain", json!({})).await.expect(202);
    eventually("node 2 is ready", seconds(30), async || {
        let answer = tenant.api(2).get("/readyz").await;
        check(answer.status == 200, answer.text())
    })
    .await;
    assert!(!stays.has_ended());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_cut_off_and_holds_up_nobody() {
    let tenant = Tenant::new(&Cluster::start(Options::nodes(1)).await).await;
    let channel = tenant.paired("Overflowing").await;
    let peer = number();
    tenant.simulator().phone(&peer, json!({})).await;
    let reading = EventSource::open(&tenant.any(), "?events=message.received").await;

    // A small receive window, so that little of the stream fits into the system's buffers.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = tenant.cluster.node(1).api.trim_start_matches("http://").parse().unwrap();
    let mut slow = socket.connect(address).await.unwrap();
    let request = format!("GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", tenant.key);
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 15];
    slow.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");

    let words = "w".repeat(4000);
    let count = 2500;
    tenant.simulator().text(&peer, &channel.number, &words, count).await;
    let operator = tenant.cluster.operator(1, &tenant.client);
    eventually("the slow stream has ended", seconds(60), async || {
        let metrics = operator.get("/metrics").await.text();
        let line = metrics.lines().find(|line| line.starts_with("gateway_sse_streams ")).unwrap_or_default();
        check(line == "gateway_sse_streams 1", format!("{line}; {} read", reading.events().len()))
    })
    .await;
    // The client still gets the buffered events, then the reason, then the end.
    let mut rest = Vec::new();
    let read = tokio::time::timeout(seconds(60), slow.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "the connection is closed");
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("event: stream.overflow\ndata: {}\n\n"), "{}", &rest[rest.len().saturating_sub(200)..]);
    assert!(rest.matches("event: message.received").count() < count);
    eventually("the reading client has everything", seconds(120), async || {
        let seen = reading.events().len();
        check(seen == count, format!("{seen}"))
    })
    .await;
    assert_once(&reading.ids());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_hear_of_the_end_of_a_session_opens_no_stream_by_its_ticket() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let shards = cluster.operator(1, &tenant.client).get("/v1/admin/shards").await.expect(200);
    let groups = shards["data"].as_array().unwrap();
    let leader = groups.iter().find(|group| group["kind"] == "directory").unwrap()["leader"].as_u64().unwrap();
    let deaf = cluster.node_ids().into_iter().find(|node| *node != leader).unwrap();
    let session = Member::new(&tenant, "admin").await.session(&tenant.api(leader)).await;
    // After one stream of the account, the node need not announce further ones for a while.
    EventSource::open(&tenant.api(deaf), "").await;
    let made = session.post("/v1/events/tickets", json!({})).await.expect(201);

    let wire = "/v1/admin/failpoints/wire::directory";
    let operator = cluster.operator(deaf, &tenant.client);
    operator.put(wire, json!({ "actions": "return" })).await.expect(204);
    session.act("/v1/auth/logout").await.expect(204);
    let open = format!("/v1/events?ticket={}", string(&made["ticket"]));
    tenant.api(deaf).without_key().get(&open).await.expect_error(503, "auth_backend_unavailable");
    operator.delete(wire).await.expect(204);
    // The ticket is still valid, but its session has ended.
    let refused = async || {
        let answer = tenant.api(deaf).without_key().get(&open).await;
        (answer.status != 503).then_some(answer).ok_or_else(|| "the node does not hear yet".to_owned())
    };
    eventually("the node hears", seconds(20), refused).await.expect_error(401, "auth_revoked");
}

//! Usage is counted exactly, whichever node dies, and reported by day, by channel and over a window.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{Api, string, time, try_answer};
use tests::media::{png, upload};
use tests::receiver::{Received, Receiver, Reply};
use tests::tenant::{Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

/// The figures of usage rows, which are summed.
const FIGURES: [&str; 5] = ["sent", "received", "failed", "media_bytes", "webhook_deliveries"];

fn sum<'a>(rows: impl IntoIterator<Item = &'a Value>) -> BTreeMap<&'static str, u64> {
    // There are no rows before the first use.
    let mut sum = BTreeMap::from(FIGURES.map(|figure| (figure, 0)));
    for row in rows {
        for figure in FIGURES {
            *sum.entry(figure).or_default() += row[figure].as_u64().unwrap();
        }
    }
    sum
}

async fn usage(api: &Api, query: &str) -> Vec<Value> {
    let answer = api.get(&format!("/v1/account/usage{query}")).await.expect(200);
    assert!(answer.get("next_cursor").is_none(), "{answer}");
    answer["data"].as_array().unwrap().clone()
}

/// The usage of a channel, summed over days, since a test may run over midnight.
async fn used(api: &Api, channel: &str) -> BTreeMap<&'static str, u64> {
    let rows = usage(api, "?group_by=channel").await;
    sum(rows.iter().filter(|row| row["channel_id"] == channel))
}

/// Retries a send while a node is down. The network's ledger has the sends that it accepted.
async fn send(tenant: &Tenant, channel: &Paired, nodes: &[u64], n: usize, to: &str) {
    for attempt in 0..100 {
        let api = tenant.api(nodes[(n + attempt) % nodes.len()]);
        let request = api.request(Method::POST, &channel.path("/messages"));
        match try_answer(request.json(&text(to, &format!("{n}")))).await {
            Ok(answer) if answer.status == 202 => return,
            Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text()),
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("message {n} was not taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_used_is_counted_once_though_the_owner_dies_and_the_channel_goes() {
    let cluster = Cluster::start(Options::default()).await;
    let (tenant, other) = (Tenant::new(&cluster).await, Tenant::new(&cluster).await);
    let (receiver, simulator, phone) = (Receiver::start().await, tenant.simulator(), number());
    simulator.phone(&phone, json!({})).await;
    tenant.endpoint(&receiver.url("/"), &["message.sent", "message.received"], json!({})).await;
    let (sales, care) = (tenant.paired("Sales").await, tenant.paired("Care").await);
    let theirs = other.paired("Not ours").await;
    other.any().post(&theirs.path("/messages"), text(&phone, "not ours")).await.expect(202);

    // Forty sends through one channel, ten through the other, six replies; meanwhile the first one's owner dies.
    let nodes = cluster.node_ids();
    let victim = tenant.owner(nodes[0], &sales.id).await.node;
    let living: Vec<u64> = nodes.iter().copied().filter(|node| *node != victim).collect();
    let sends = join_all((0..40).map(|n| send(&tenant, &sales, &nodes, n, &phone)));
    let more = join_all((0..10).map(|n| send(&tenant, &care, &nodes, n, &phone)));
    let strike = async {
        eventually("some are taken", seconds(30), async || {
            let taken = simulator.ledger().await.len();
            check(taken >= 10, format!("{taken} taken"))
        })
        .await;
        cluster.kill(victim);
        simulator.text(&phone, &sales.number, "written back", 6).await
    };
    let (_, _, written) = futures::join!(sends, more, strike);
    let api = tenant.api(living[0]);
    wait_status(&api, &sales.id, "connected", seconds(60)).await;

    // The network's ledger and the receiver have the correct figures.
    let exact = eventually("the figures are what the network and the receiver have", seconds(60), async || {
        let ledger = simulator.ledger().await;
        let from = |channel: &Paired| ledger.iter().filter(|row| row["from"] == channel.address()).count() as u64;
        let events: BTreeSet<String> = receiver.received().iter().map(Received::event_id).collect();
        let (of_sales, of_care) = (used(&api, &sales.id).await, used(&api, &care.id).await);
        let right = of_sales["sent"] == from(&sales)
            && of_care["sent"] == from(&care)
            && of_sales["sent"] >= 40
            && of_care["sent"] >= 10
            && of_sales["received"] == written.len() as u64
            && of_sales["webhook_deliveries"] + of_care["webhook_deliveries"] == events.len() as u64
            && events.len() as u64 == of_sales["sent"] + of_care["sent"] + of_sales["received"];
        check(right, format!("{of_sales:?} {of_care:?}, {} events, {ledger:?}", events.len())).map(|()| of_sales)
    })
    .await;
    assert_eq!((exact["failed"], exact["media_bytes"]), (0, 0));

    // Every node reports the same, and the usage of a deleted channel stays.
    cluster.restart(&[victim]).await;
    tenant.api(victim).delete(&sales.path("")).await.expect(204);
    for node in nodes {
        let api = tenant.api(node);
        assert_eq!(used(&api, &sales.id).await, exact, "node {node}");
        let days = usage(&api, "").await;
        assert_eq!(days.len(), 30, "every day of the range");
        assert!(days.iter().all(|day| day["channel_id"].is_null()));
        assert!(days.is_sorted_by_key(|day| day["date"].as_str()));
        assert_eq!(sum(&days), sum(&usage(&api, "?group_by=channel").await));
        let hours = usage(&api, "?group_by=hour").await;
        assert!((145..=168).contains(&hours.len()), "{} hours of seven days", hours.len());
        assert!(
            hours.is_sorted_by_key(|row| time(&row["hour"])) && hours.iter().all(|row| row["channel_id"].is_null())
        );
        assert_eq!(sum(&hours), sum(&days), "the same by hour");
        assert_eq!(sum(&usage(&api, "?from=2020-01-01&to=2020-03-01").await).values().sum::<u64>(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_tell_how_the_channels_of_an_account_do() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let (receiver, simulator, phone) = (Receiver::start().await, tenant.simulator(), number());
    simulator.phone(&phone, json!({})).await;
    receiver.answer(|received| Reply::Status(if received.event() == "message.sent" { 200 } else { 500 }));
    tenant.endpoint(&receiver.url("/"), &["message.sent", "message.received"], json!({})).await;
    let (channel, silent) = (tenant.paired("Sales").await, tenant.channel("Silent").await);
    let none = tenant.any().get("/v1/metrics").await.expect(200);
    assert_eq!((&none["window"], &none["send_latency_ms"]["p50"]), (&json!("24h"), &Value::Null));

    let bytes = png(2_000, 1);
    let (api, size) = (tenant.any(), bytes.len() as u64);
    let media = upload(&api, &channel.id, "image/png", bytes).await;
    let image = json!({ "type": "image", "to": phone, "media_url": media["url"], "mime_type": "image/png" });
    for body in [text(&phone, "one"), text(&phone, "two"), image] {
        api.post(&channel.path("/messages"), body).await.expect(202);
    }
    simulator.text(&phone, &channel.number, "written back", 2).await;
    let metrics = eventually("all is counted", seconds(30), async || {
        let metrics = tenant.any().get("/v1/metrics?window=1h").await.expect(200);
        let (outbound, webhooks) = (&metrics["messages"]["outbound"], &metrics["webhooks"]);
        let all = outbound == &json!({ "sent": 3, "queued": 0, "failed": 0 })
            && metrics["messages"]["inbound"] == 2
            && (&webhooks["delivered"], &webhooks["retrying"], &webhooks["exhausted"])
                == (&json!(3), &json!(2), &json!(0));
        check(all, metrics.to_string()).map(|()| metrics)
    })
    .await;
    assert_eq!(metrics["media_bytes"], size, "what is uploaded counts when it is sent");
    assert_eq!((&metrics["channels"]["connected"], &metrics["channels"]["pending"]), (&json!(1), &json!(1)));
    for latency in [&metrics["send_latency_ms"], &metrics["webhooks"]["latency_ms"]] {
        assert!(["p50", "p95", "p99"].iter().all(|part| latency[part].is_u64()), "{metrics}");
    }
    time(&metrics["since"]);
    for node in cluster.node_ids() {
        let api = tenant.api(node);
        let one = api.get(&format!("/v1/metrics?window=30d&channel_id={}", channel.id)).await.expect(200);
        assert_eq!((&one["messages"], &one["webhooks"]["retrying"]), (&metrics["messages"], &json!(2)));
        let other = api.get(&format!("/v1/metrics?channel_id={silent}")).await.expect(200);
        assert_eq!((&other["messages"]["inbound"], &other["channels"]["connected"]), (&json!(0), &json!(0)));
        assert_eq!(other["channels"]["pending"], 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_are_for_those_who_may_see_the_account() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.channel("Bound").await;
    let api = tenant.any();
    let key = async |more: Value| {
        let mut body = json!({ "name": "k" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        api.with_key(&string(&api.post("/v1/api-keys", body).await.expect(201)["secret"]))
    };
    let (bound, reader) =
        (key(json!({ "channel_id": channel })).await, key(json!({ "scopes": ["metrics.read"] })).await);
    for path in ["/v1/account/usage", "/v1/metrics"] {
        assert_eq!(bound.get(path).await.expect_error(403, "channel_scoped_key")["key_channel_id"], channel);
    }
    reader.get("/v1/metrics").await.expect(200);
    assert_eq!(reader.get("/v1/account/usage").await.expect_error(403, "insufficient_scope")["required"], json!(["*"]));
    let foreign = Tenant::new(&cluster).await.channel("Foreign").await;
    api.get(&format!("/v1/metrics?channel_id={foreign}")).await.expect_error(404, "channel_not_found");
    let table = [
        ("/v1/account/usage?from=2026-01-01&to=2026-04-05", "from", "too_big"),
        ("/v1/account/usage?from=2026-01-02&to=2026-01-01", "from", "conflict"),
        ("/v1/account/usage?to=1st%20of%20May", "to", "format"),
        ("/v1/account/usage?group_by=minute", "group_by", "enum"),
        ("/v1/metrics?window=2h", "window", "enum"),
        ("/v1/metrics?channel_id=1", "channel_id", "format"),
    ];
    for (path, parameter, code) in table {
        api.get(path).await.expect_issue(&json!([parameter]), code);
    }
    assert_eq!(usage(&api, "?from=2026-01-01&to=2026-04-03").await.len(), 93);
}

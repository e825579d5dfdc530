//! Stored messages: filters, pages, the deliveries of a message, group receipts, and expiry.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{Api, string};
use tests::receiver::Receiver;
use tests::tenant::{Paired, Tenant, address, number, text};
use tests::wait::{check, eventually, seconds};

/// The message ids of a page.
fn ids(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(|row| string(&row["message_id"])).collect()
}

/// The message ids of all pages; `route` has a query already. `after` runs after each page with its number.
async fn all_pages(api: impl Fn() -> Api, route: &str, mut after: impl AsyncFnMut(usize)) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    for n in 0.. {
        // While a shard has no leader, the response is 503 with `Retry-After`.
        let page = eventually("a page", seconds(20), async || {
            let answer = api().get(&format!("{route}{cursor}")).await;
            check(answer.status != 503, answer.text()).map(|()| answer.expect(200))
        })
        .await;
        found.extend(ids(&page));
        match &page["next_cursor"] {
            Value::Null => return found,
            next => {
                assert!(string(next).len() <= 256, "{next}");
                cursor = format!("&cursor={}", string(next));
            }
        }
        after(n).await;
    }
    found
}

async fn send(tenant: &Tenant, channel: &Paired, body: Value) -> String {
    string(&tenant.any().post(&channel.path("/messages"), body).await.expect(202)["message_id"])
}

/// Waits until a channel's history has `count` rows that pass a filter.
async fn wait_rows(tenant: &Tenant, channel: &Paired, filter: &str, count: usize) -> Value {
    eventually(&format!("{count} rows of {filter}"), seconds(20), async || {
        let page = tenant.any().get(&channel.path(&format!("/messages?limit=100{filter}"))).await.expect(200);
        check(page["data"].as_array().unwrap().len() == count, page.to_string()).map(|()| page)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_filter_narrows_and_a_bad_value_is_named() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let simulator = tenant.simulator();
    let (one, two) = (tenant.paired("One").await, tenant.paired("Two").await);
    let (ann, ben) = (number(), number());
    for phone in [&ann, &ben] {
        simulator.phone(phone, json!({})).await;
    }
    let mut with_ref = text(&ann, "with a reference");
    with_ref["client_ref"] = json!("order-17");
    let first = send(&tenant, &one, with_ref).await;
    let second = send(&tenant, &one, text(&ben, "to ben")).await;
    let other = send(&tenant, &two, text(&ann, "from the other")).await;
    let inbound = simulator.text(&ann, &one.number, "hello", 1).await.remove(0);
    wait_rows(&tenant, &one, "", 3).await;
    wait_rows(&tenant, &one, "&status=delivered", 2).await;

    let get = async |route: String| -> BTreeSet<String> {
        ids(&tenant.any().get(&route).await.expect(200)).into_iter().collect()
    };
    let a = address(&ann);
    let since = tenant.any().get(&one.path(&format!("/messages?message_id={second}"))).await.expect(200);
    let at = string(&since["data"][0]["occurred_at"]);
    let cases: Vec<(String, Vec<&String>)> = vec![
        ("direction=inbound".into(), vec![&inbound]),
        ("direction=outbound".into(), vec![&first, &second]),
        (format!("chat_id={a}"), vec![&first, &inbound]),
        (format!("chat_id={ann}"), vec![&first, &inbound]),
        (format!("from={a}"), vec![&inbound]),
        (format!("to={ben}"), vec![&second]),
        (format!("participant={ann}"), vec![]),
        ("type=text,image".into(), vec![&first, &second, &inbound]),
        ("type=image,reaction".into(), vec![]),
        ("status=received".into(), vec![&inbound]),
        ("status=sent,delivered".into(), vec![&first, &second]),
        (format!("message_id={first}&message_id={inbound}"), vec![&first, &inbound]),
        (format!("message_id={first}&message_id={first}"), vec![&first]),
        (format!("message_id={first}&direction=inbound"), vec![]),
        ("client_ref=order-17".into(), vec![&first]),
        ("client_ref=order-1".into(), vec![]),
        ("has_media=false".into(), vec![&first, &second, &inbound]),
        ("has_media=true".into(), vec![]),
        (format!("since={at}&direction=outbound"), vec![&second]),
        (format!("until={at}&direction=outbound"), vec![&first]),
    ];
    for (filter, expected) in cases {
        let expected: BTreeSet<String> = expected.into_iter().cloned().collect();
        assert_eq!(get(one.path(&format!("/messages?{filter}"))).await, expected, "{filter}");
        let account = format!("/v1/messages?channel_id={}&{filter}", one.id);
        assert_eq!(get(account).await, expected, "{filter}, through the account");
    }
    let both = format!("/v1/messages?channel_id={}&channel_id={}&direction=outbound", one.id, two.id);
    assert_eq!(get(both).await, [&first, &second, &other].into_iter().cloned().collect());
    assert_eq!(get("/v1/messages?limit=100".into()).await.len(), 4);

    let many = |name: &str, n: usize| (0..n).map(|n| format!("{name}=M{n}")).collect::<Vec<_>>().join("&");
    for (query, field, code) in [
        ("limit=0", "limit", "format"),
        ("limit=101", "limit", "format"),
        ("order=sideways", "order", "enum"),
        ("direction=up", "direction", "enum"),
        ("chat_id=+1555", "chat_id", "format"),
        ("from=a@b@c", "from", "format"),
        ("type=text,pigeon", "type", "enum"),
        ("status=lost", "status", "enum"),
        ("message_id=", "message_id", "empty"),
        (&many("message_id", 51), "message_id", "too_many"),
        (&format!("client_ref={}", "x".repeat(129)), "client_ref", "too_long"),
        ("since=yesterday", "since", "format"),
        ("until=1", "until", "format"),
        ("has_media=perhaps", "has_media", "format"),
        ("deliveries=all", "deliveries", "enum"),
        ("cursor=AAAA", "cursor", "format"),
    ] {
        for route in [one.path("/messages"), "/v1/messages".to_owned()] {
            tenant.any().get(&format!("{route}?{query}")).await.expect_issue(&json!([field]), code);
        }
    }
    let unknown = format!("/v1/messages?channel_id={}&channel_id={}", one.id, uuid::Uuid::new_v4());
    tenant.any().get(&unknown).await.expect_error(404, "channel_not_found");
    let stranger = Tenant::new(&tenant.cluster).await;
    let foreign = format!("/v1/messages?channel_id={}", one.id);
    stranger.any().get(&foreign).await.expect_error(404, "channel_not_found");

    // A cursor belongs to its customer, route and order.
    let page = tenant.any().get("/v1/messages?limit=1").await.expect(200);
    let cursor = string(&page["next_cursor"]);
    tenant.any().get(&format!("/v1/messages?limit=2&cursor={cursor}")).await.expect(200);
    let refused = [
        tenant.any().get(&format!("/v1/messages?order=asc&cursor={cursor}")).await,
        tenant.any().get(&one.path(&format!("/messages?cursor={cursor}"))).await,
        stranger.any().get(&format!("/v1/messages?cursor={cursor}")).await,
    ];
    for answer in refused {
        answer.expect_issue(&json!(["cursor"]), "format");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_survive_inserts_and_the_death_of_an_owner() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let peer = number();
    tenant.simulator().phone(&peer, json!({})).await;
    let channels = [tenant.paired("One").await, tenant.paired("Two").await, tenant.paired("Three").await];
    let mut sent = Vec::new();
    for n in 0..24 {
        sent.push(send(&tenant, &channels[n % 3], text(&peer, &format!("message {n}"))).await);
    }
    let owner = tenant.owner(cluster.node_ids()[0], &channels[0].id).await.node;
    let asker = cluster.node_ids().into_iter().find(|node| *node != owner).unwrap();
    let found = all_pages(
        || tenant.api(asker),
        "/v1/messages?limit=5&direction=outbound",
        async |n| match n {
            // A message that comes now is newer than all pages that are still unread.
            0 => drop(send(&tenant, &channels[1], text(&peer, "late")).await),
            1 => cluster.kill(owner),
            _ => {}
        },
    )
    .await;
    sent.reverse();
    assert_eq!(found, sent, "newest first over all shards, each once");
    let ascending = all_pages(|| tenant.api(asker), "/v1/messages?limit=7&order=asc&direction=outbound", async |_| {});
    assert_eq!(ascending.await[..24], sent.iter().rev().cloned().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_tells_its_deliveries_and_an_id_in_two_channels_needs_one_named() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let receiver = Receiver::start().await;
    tenant.endpoint(&receiver.url("/"), &["message.sent", "message.received"], json!({})).await;
    let (one, two) = (tenant.paired("One").await, tenant.paired("Two").await);
    let id = send(&tenant, &one, text(&two.number, "from channel to channel")).await;
    for event in ["message.sent", "message.received"] {
        receiver.wait_message(event, &id, seconds(20)).await;
    }
    let route = format!("/v1/messages/{id}/deliveries");
    eventually("both channels have it", seconds(10), async || {
        let answer = tenant.any().get(&route).await;
        check(answer.status == 400, answer.text())
    })
    .await;
    tenant.any().get(&route).await.expect_issue(&json!(["channel_id"]), "required");
    for (channel, event) in [(&one, "message.sent"), (&two, "message.received")] {
        let list = eventually("it is delivered", seconds(10), async || {
            let list = tenant.any().get(&format!("{route}?channel_id={}", channel.id)).await.expect(200);
            check(list["data"][0]["state"] == "delivered", list.to_string()).map(|()| list)
        })
        .await;
        assert_eq!(list.get("next_cursor"), None);
        let delivery = &list["data"][0];
        assert_eq!(list["data"].as_array().unwrap().len(), 1, "{list}");
        assert_eq!((&delivery["event"], &delivery["channel_id"]), (&json!(event), &json!(channel.id)));
        assert_eq!((&delivery["message_id"], &delivery["last_outcome"]), (&json!(id), &json!("success")));
    }
    let key = tenant.any().post("/v1/api-keys", json!({ "name": "two", "channel_id": two.id })).await.expect(201);
    let bound = tenant.any().with_key(&string(&key["secret"]));
    assert_eq!(bound.get(&route).await.expect(200)["data"][0]["event"], "message.received");
    bound.get(&format!("{route}?channel_id={}", one.id)).await.expect_error(403, "channel_access_denied");
    let details = tenant.any().get("/v1/messages/3EB0NONE/deliveries").await.expect_error(404, "message_not_found");
    assert_eq!(details["message_id"], "3EB0NONE");
    let stranger = Tenant::new(&tenant.cluster).await;
    stranger.any().get(&route).await.expect_error(404, "message_not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_to_a_group_is_as_far_as_its_last_member() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let simulator = tenant.simulator();
    let channel = tenant.paired("Group").await;
    let (ann, ben) = (number(), number());
    simulator.phone(&ann, json!({})).await;
    simulator.phone(&ben, json!({ "online": false })).await;
    let new = json!({ "subject": "Friends", "participants": [channel.number, ben] });
    let group = string(&simulator.api().post(&format!("/phones/{ann}/groups"), new).await.expect(201)["id"]);
    let id = send(&tenant, &channel, text(&group, "all of you")).await;
    let row = async |status: &str, receipts: Value| {
        eventually(&format!("{status} with {receipts}"), seconds(20), async || {
            let page = tenant.any().get(&channel.path(&format!("/messages?message_id={id}"))).await.expect(200);
            let row = &page["data"][0];
            let heard = row["content"]["receipts"].as_array().cloned().unwrap_or_default();
            let heard: Vec<Value> = heard.iter().map(|one| json!([one["participant"], one["status"]])).collect();
            let mut heard = json!(heard);
            heard.as_array_mut().unwrap().sort_by_key(Value::to_string);
            check(row["status"] == status && heard == receipts, page.to_string())
        })
        .await;
    };
    let (a, b) = (address(&ann), address(&ben));
    row("sent", json!([[a, "delivered"]])).await;
    simulator.phone(&ben, json!({ "online": true })).await;
    row("delivered", json!([[a, "delivered"], [b, "delivered"]])).await;
    let open = async |phone: &str| {
        let route = format!("/phones/{phone}/open-chat");
        simulator.api().post(&route, json!({ "with": group })).await.expect(204);
    };
    open(&ann).await;
    row("delivered", json!([[a, "read"], [b, "delivered"]])).await;
    open(&ben).await;
    row("read", json!([[a, "read"], [b, "read"]])).await;
}

/// The number of expired items of a kind, over all nodes.
async fn trimmed(tenant: &Tenant, what: &str) -> u64 {
    let mut sum = 0;
    for node in tenant.cluster.node_ids() {
        let metrics = tenant.cluster.operator(node, &tenant.client).get("/metrics").await.text();
        let label = format!("what=\"{what}\"");
        let lines = metrics.lines().filter(|line| line.starts_with("gateway_trimmed_total") && line.contains(&label));
        sum += lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64;
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_orders_and_deliveries_go_when_their_time_is_over() {
    let options =
        ["history.retention=4s", "history.keep_ids=6s", "history.trim_every=500ms", "webhooks.keep_delivered=4s"];
    let options = options.iter().fold(Options::nodes(1), |options, set| options.arg(&format!("--set={set}")));
    let tenant = Tenant::new(&Cluster::start(options).await).await;
    let receiver = Receiver::start().await;
    tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let (shop, peer) = (number(), number());
    tenant.simulator().phone(&shop, json!({ "business": true })).await;
    tenant.simulator().phone(&peer, json!({})).await;
    let channel = tenant.paired_as("Forgetful", &shop).await;
    let order = json!({ "to": shop, "items": [{ "product_id": "tea", "quantity": 1 }] });
    tenant.simulator().api().post(&format!("/phones/{peer}/orders"), order).await.expect(201);
    let inbound = tenant.simulator().text(&peer, &channel.number, "soon forgotten", 3).await;
    send(&tenant, &channel, text(&peer, "and this")).await;
    for id in &inbound {
        receiver.wait_message("message.received", id, seconds(20)).await;
    }
    let deliveries = async || {
        let list = tenant.any().get("/v1/webhook-deliveries").await.expect(200);
        list["data"].as_array().unwrap().len()
    };
    assert!(deliveries().await > 0);
    wait_rows(&tenant, &channel, "", 0).await;
    tenant.any().get(&format!("/v1/messages/{}/deliveries", inbound[0])).await.expect_error(404, "message_not_found");
    eventually("rows and deliveries are deleted", seconds(30), async || {
        let gone = (trimmed(&tenant, "messages").await, trimmed(&tenant, "deliveries").await, deliveries().await);
        // An order has two rows.
        let orders = trimmed(&tenant, "projected").await;
        check((gone, orders) == ((5, 4, 0), 2), format!("{gone:?}, {orders}"))
    })
    .await;
    let orders = tenant.any().get(&channel.path("/business/orders")).await.expect(200);
    assert_eq!(orders["data"], json!([]));
    // New messages are stored as before.
    send(&tenant, &channel, text(&peer, "hello again")).await;
    wait_rows(&tenant, &channel, "", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_is_stored_receipts_still_come_and_repeats_are_dropped() {
    let options = Options::nodes(1).arg("--set=history.retention_days=0").arg("--set=history.trim_every=500ms");
    let tenant = Tenant::new(&Cluster::start(options).await).await;
    let receiver = Receiver::start().await;
    tenant.endpoint(&receiver.url("/"), &["message.status", "message.received"], json!({})).await;
    let channel = tenant.paired("Nothing").await;
    let peer = number();
    tenant.simulator().phone(&peer, json!({})).await;
    // Unacknowledged items come again at the next login.
    tenant.simulator().faults(json!({ "hold_inbound_acks": true })).await;
    let inbound = tenant.simulator().text(&peer, &channel.number, "once", 1).await.remove(0);
    let heard = receiver.wait_message("message.received", &inbound, seconds(20)).await.json();
    assert_eq!(heard["data"]["body"]["text"], "once", "events say what was written");
    tenant.any().act(&channel.path("/restart")).await.expect(202);
    tests::tenant::wait_status(&tenant.any(), &channel.id, "connected", seconds(30)).await;
    tenant.simulator().clear_faults().await;
    let sent = send(&tenant, &channel, text(&peer, "to be read")).await;
    let open = json!({ "with": channel.number });
    eventually("it arrived", seconds(20), async || {
        let rows = tenant.simulator().inbox(&peer).await;
        check(rows.iter().any(|row| row["id"] == json!(sent)), format!("{rows:?}"))
    })
    .await;
    tenant.simulator().api().post(&format!("/phones/{peer}/open-chat"), open).await.expect(204);
    receiver
        .wait_for("the read receipt", seconds(20), |request| {
            let data = &request.json()["data"];
            data["message_id"] == json!(sent) && data["status"] == "read"
        })
        .await;
    let heard = receiver.received().into_iter().filter(|request| request.event() == "message.received").count();
    assert_eq!(heard, 1, "what came twice is told once");
    for route in [channel.path("/messages"), "/v1/messages".to_owned()] {
        assert_eq!(tenant.any().get(&route).await.expect(200), json!({ "data": [], "next_cursor": null }));
    }
}

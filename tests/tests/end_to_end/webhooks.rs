//! Webhooks: rules of endpoints, secrets, retries, filters, order, and what survives a killed node.

use std::collections::BTreeSet;
use std::time::SystemTime;

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{string, time, uuid};
use tests::receiver::{Receiver, Reply};
use tests::tenant::{CONNECT, Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

/// Sends from a new phone to a channel, and returns the message id.
async fn write_to(tenant: &Tenant, channel: &Paired, words: &str) -> String {
    let sender = number();
    tenant.simulator().phone(&sender, json!({})).await;
    tenant.simulator().text(&sender, &channel.number, words, 1).await.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_is_made_read_changed_and_deleted() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let nodes = tenant.cluster.node_ids();
    let api = tenant.any();
    let channel = tenant.channel("Hooked").await;
    let body = json!({
        "url": "http://127.0.0.1:65535/hook?x=1", "events": ["message.sent", "message.received", "message.sent"],
        "channel_id": channel, "signing_secret": "a secret of 16 ch",
    });
    let made = api.post("/v1/webhook-endpoints", body).await.expect(201);
    uuid(&made["id"]);
    time(&made["created_at"]);
    time(&made["updated_at"]);
    assert_eq!(made["customer_id"], json!(tenant.customer_id));
    assert_eq!((&made["channel_id"], &made["enabled"]), (&json!(channel), &json!(true)));
    assert_eq!(made["events"], json!(["message.sent", "message.received"]), "duplicates are folded");
    assert_eq!((&made["chat_type_filter"], &made["has_custom_signing_secret"]), (&json!("all"), &json!(true)));
    assert_eq!(made["signing_secret"], "a secret of 16 ch");

    let path = format!("/v1/webhook-endpoints/{}", string(&made["id"]));
    let mut shown = made.clone();
    shown.as_object_mut().unwrap().remove("signing_secret");
    for node in &nodes {
        let api = tenant.api(*node);
        assert_eq!(api.get(&path).await.expect(200), shown, "node {node}");
        let secret = api.get(&format!("{path}/signing-secret")).await.expect(200);
        assert_eq!(secret, json!({ "signing_secret": "a secret of 16 ch", "is_default": false }));
    }
    let second = tenant.endpoint("http://127.0.0.1:65535/two", &["*"], json!({ "enabled": false })).await;
    assert_eq!((&second["events"], &second["enabled"]), (&json!(["*"]), &json!(false)));
    assert_eq!((&second["channel_id"], &second["signing_secret"]), (&Value::Null, &Value::Null));
    let list = api.get("/v1/webhook-endpoints").await.expect(200);
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect();
    assert_eq!(ids, [second["id"].clone(), made["id"].clone()], "newest first");
    assert_eq!(list.get("next_cursor"), None);

    let change = json!({
        "url": "http://127.0.0.1:65535/moved", "events": ["qr.updated"], "enabled": false, "signing_secret": null,
        "chat_type_filter": "groups_only", "channel_id": uuid::Uuid::new_v4(),
    });
    let changed = tenant.api(nodes[1]).patch(&path, change).await.expect(200);
    assert_eq!((&changed["url"], &changed["events"]), (&json!("http://127.0.0.1:65535/moved"), &json!(["qr.updated"])));
    assert_eq!((&changed["enabled"], &changed["chat_type_filter"]), (&json!(false), &json!("groups_only")));
    assert_eq!((&changed["has_custom_signing_secret"], &changed["channel_id"]), (&json!(false), &json!(channel)));
    assert_eq!(tenant.api(nodes[2]).get(&path).await.expect(200), changed);
    assert_eq!(api.get(&format!("{path}/signing-secret")).await.expect(200)["is_default"], true);

    assert_eq!(api.delete(&path).await.status, 204);
    for node in &nodes {
        tenant.api(*node).get(&path).await.expect_error(404, "webhook_endpoint_not_found");
        tenant.api(*node).delete(&path).await.expect_error(404, "webhook_endpoint_not_found");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_has_at_most_fifty_endpoints() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    for n in 0..50 {
        tenant.endpoint(&format!("http://127.0.0.1:65535/{n}"), &["message.sent"], json!({})).await;
    }
    let body = json!({ "url": "http://127.0.0.1:65535/51", "events": ["message.sent"] });
    let details = tenant.any().post("/v1/webhook-endpoints", body).await.expect_error(409, "plan_limit");
    assert_eq!(details, json!({ "quota": "endpoints", "limit": 50, "used": 50 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_urls_of_an_account_are_bounded_together_and_an_event_reaches_them_all() {
    let limits = json!({ "limits": { "storage": { "endpoints": 250 } } });
    let tenant = Tenant::with(&Cluster::shared().await, limits).await;
    let receiver = Receiver::start().await;
    let url = |name: usize, bytes: usize| {
        let start = receiver.url(&format!("/{name}/"));
        format!("{start}{}", "x".repeat(bytes - start.len()))
    };
    let create =
        async |url: String| tenant.any().post("/v1/webhook-endpoints", json!({ "url": url, "events": ["*"] })).await;
    create(url(0, 2_049)).await.expect_issue(&json!(["url"]), "too_long");
    create(url(0, 2_045) + "é😀").await.expect_issue(&json!(["url"]), "too_long");
    let mut first = String::new();
    for name in 0..64 {
        let made = create(url(name, 2_048)).await.expect(201);
        first = string(&made["id"]);
    }
    create(url(64, 40)).await.expect_issue(&json!(["url"]), "too_long");
    let path = format!("/v1/webhook-endpoints/{first}");
    tenant.any().patch(&path, json!({ "url": url(63, 1_024) })).await.expect(200);
    create(url(64, 1_025)).await.expect_issue(&json!(["url"]), "too_long");
    create(url(64, 1_024)).await.expect(201);
    tenant.any().patch(&path, json!({ "url": url(63, 1_025) })).await.expect_issue(&json!(["url"]), "too_long");

    // Channel events, sends and received messages have all of them.
    let channel = tenant.paired("Wide").await;
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;
    let sent = tenant.any().post(&channel.path("/messages"), text(&to, "out")).await.expect(202);
    let sent = string(&sent["message_id"]);
    let received = write_to(&tenant, &channel, "in").await;
    for (event, id) in [("message.sent", sent), ("message.received", received)] {
        eventually(&format!("all endpoints have {event}"), seconds(60), async || {
            let received = receiver.received();
            let of_it = received
                .iter()
                .filter(|request| request.event() == event && request.json()["data"]["message_id"] == id);
            let heard = of_it.map(|request| &request.path);
            let heard = heard.collect::<BTreeSet<_>>().len();
            check(heard == 65, heard.to_string())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_secret_is_one_customers_own_and_a_new_secret_counts_at_once() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    let endpoint = tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let path = format!("/v1/webhook-endpoints/{}", string(&endpoint["id"]));
    let default = string(&tenant.any().get(&format!("{path}/signing-secret")).await.expect(200)["signing_secret"]);
    let stranger = Tenant::new(&cluster).await;
    let theirs = stranger.endpoint("http://127.0.0.1:65535/x", &["message.received"], json!({})).await;
    let theirs = format!("/v1/webhook-endpoints/{}/signing-secret", string(&theirs["id"]));
    assert_ne!(stranger.any().get(&theirs).await.expect(200)["signing_secret"], json!(default));

    let channel = tenant.paired("Signed").await;
    let id = write_to(&tenant, &channel, "default").await;
    receiver.wait_message("message.received", &id, seconds(10)).await.verify(&default);
    // The secret is set through one node, and the owner of the channel signs with it.
    for (node, secret) in tenant.cluster.node_ids().into_iter().zip(["s".repeat(16), "t".repeat(255), "ü".repeat(20)])
    {
        tenant.api(node).patch(&path, json!({ "signing_secret": secret })).await.expect(200);
        let id = write_to(&tenant, &channel, "custom").await;
        receiver.wait_message("message.received", &id, seconds(10)).await.verify(&secret);
    }
    tenant.any().patch(&path, json!({ "signing_secret": null })).await.expect(200);
    let id = write_to(&tenant, &channel, "default again").await;
    receiver.wait_message("message.received", &id, seconds(10)).await.verify(&default);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_delivery_is_tried_again_under_the_same_event_id_with_a_new_time() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    // Each first attempt fails in another way; the second, 5 s later, succeeds. Concurrent, since they mostly wait.
    let ways = [Reply::Status(500), Reply::Status(404), Reply::Cut, Reply::Header(302, "location", "/else".into())];
    futures::future::join_all(ways.map(|way| retried(&tenant, way))).await;
}

/// Lets the first attempt of a delivery fail, and checks the second.
async fn retried(tenant: &Tenant, way: Reply) {
    let receiver = Receiver::start().await;
    let failing = way.clone();
    receiver.answer(move |request| if request.index == 0 { failing.clone() } else { Reply::Status(204) });
    let secret = "the retry's own secret";
    let channel = tenant.paired("Retried").await;
    let more = json!({ "signing_secret": secret, "channel_id": channel.id });
    tenant.endpoint(&receiver.url("/"), &["message.received"], more).await;

    let id = write_to(tenant, &channel, "try me").await;
    let path = channel.path(&format!("/messages?message_id={id}"));
    eventually("the history knows the attempts", seconds(30), async || {
        let page = tenant.any().get(&path).await.expect(200);
        let delivery = &page["data"][0]["webhook_deliveries"][0];
        check(delivery["state"] == "delivered" && delivery["attempt_count"] == 2, format!("{way:?}: {page}"))
    })
    .await;
    let all = receiver.received();
    assert_eq!(all.len(), 2, "{way:?}: nothing follows a success, and no redirect is followed");
    assert_eq!(all[0].body, all[1].body, "{way:?}");
    assert_eq!(all[0].event_id(), all[1].event_id(), "{way:?}");
    assert_eq!(all[0].header("x-gateway-correlation-id"), all[1].header("x-gateway-correlation-id"));
    let (t0, t1) = (all[0].verify(secret), all[1].verify(secret));
    // 5 s plus or minus a fifth. A busy machine may be later, but never earlier.
    assert!((3..=15).contains(&(t1 - t0)), "{way:?}: {t0} then {t1}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_gone_is_switched_off() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::Status(410));
    let endpoint = tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let path = format!("/v1/webhook-endpoints/{}", string(&endpoint["id"]));
    let channel = tenant.paired("Gone").await;
    let id = write_to(&tenant, &channel, "anyone there?").await;
    for node in tenant.cluster.node_ids() {
        eventually("the endpoint is disabled", seconds(10), async || {
            let shown = tenant.api(node).get(&path).await.expect(200);
            check(shown["enabled"] == false, shown.to_string())
        })
        .await;
    }
    let history = channel.path(&format!("/messages?message_id={id}"));
    eventually("the delivery is exhausted", seconds(5), async || {
        let page = tenant.any().get(&history).await.expect(200);
        check(page["data"][0]["webhook_deliveries"][0]["state"] == "exhausted", page.to_string())
    })
    .await;
    // Events while the endpoint is disabled are not kept for it.
    let missed = write_to(&tenant, &channel, "still there?").await;
    receiver.answer(|_| Reply::Status(200));
    eventually("the message is stored", seconds(5), async || {
        let page = tenant.any().get(&channel.path(&format!("/messages?message_id={missed}"))).await.expect(200);
        check(page["data"].as_array().is_some_and(|rows| rows.len() == 1), page.to_string())
    })
    .await;
    tenant.any().patch(&path, json!({ "enabled": true })).await.expect(200);
    let heard = write_to(&tenant, &channel, "welcome back").await;
    receiver.wait_message("message.received", &heard, seconds(10)).await;
    let ids: BTreeSet<_> = receiver.event_ids("message.received").into_keys().collect();
    assert_eq!(ids, BTreeSet::from([id, heard]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_hears_what_it_asked_for_and_nothing_else() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    let (one, two) = (tenant.paired("One").await, tenant.paired("Two").await);
    let hook = |path: &str| receiver.url(path);
    tenant.endpoint(&hook("/wide"), &["*"], json!({})).await;
    tenant.endpoint(&hook("/one"), &["message.received"], json!({ "channel_id": one.id })).await;
    tenant.endpoint(&hook("/direct"), &["message.received"], json!({ "chat_type_filter": "direct_only" })).await;
    tenant.endpoint(&hook("/groups"), &["*"], json!({ "chat_type_filter": "groups_only" })).await;
    tenant.endpoint(&hook("/off"), &["*"], json!({ "enabled": false })).await;
    tenant.endpoint(&hook("/other"), &["message.reaction"], json!({})).await;
    Tenant::new(&cluster).await.endpoint(&hook("/stranger"), &["*"], json!({})).await;

    let to_one = write_to(&tenant, &one, "to one").await;
    let to_two = write_to(&tenant, &two, "to two").await;
    let got = |path: &'static str, id: String| {
        let receiver = receiver.clone();
        async move {
            let wanted = |r: &tests::receiver::Received| r.path == path && r.json()["data"]["message_id"] == json!(id);
            receiver.wait_for(&format!("{id} at {path}"), seconds(10), wanted).await;
        }
    };
    for path in ["/wide", "/direct"] {
        got(path, to_one.clone()).await;
        got(path, to_two.clone()).await;
    }
    got("/one", to_one.clone()).await;
    // Events without a chat pass every filter.
    tenant.any().act(&two.path("/disconnect")).await.expect(202);
    for path in ["/wide", "/groups"] {
        let wanted = |r: &tests::receiver::Received| {
            r.path == path && r.event() == "channel.status" && r.json()["data"]["status"] == "stopped_by_user"
        };
        receiver.wait_for(path, seconds(10), wanted).await;
    }
    let all = receiver.received();
    let at = |path: &str| all.iter().filter(|request| request.path == path).collect::<Vec<_>>();
    assert!(at("/one").iter().all(|request| request.json()["channel_id"] == json!(one.id)));
    assert!(at("/groups").iter().all(|request| !request.event().starts_with("message.")));
    for silent in ["/off", "/other", "/stranger"] {
        assert!(at(silent).is_empty(), "{silent}: {:?}", at(silent));
    }
    // An event has the same id at every endpoint.
    let ids: BTreeSet<_> =
        all.iter().filter(|r| r.json()["data"]["message_id"] == json!(to_one)).map(|r| r.event_id()).collect();
    assert_eq!(ids.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_attempts_of_one_chat_keep_the_order_of_its_events() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let receiver = Receiver::start().await;
    // Responses of different durations would reveal any reordering.
    receiver.answer(|request| Reply::Slow(std::time::Duration::from_millis(40 * (request.index as u64 % 3)), 200));
    tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let channel = tenant.paired("Ordered").await;
    let sender = number();
    tenant.simulator().phone(&sender, json!({})).await;
    let ids = tenant.simulator().text(&sender, &channel.number, "in order", 40).await;
    eventually("all arrived", seconds(30), async || {
        check(receiver.received().len() >= ids.len(), receiver.received().len().to_string())
    })
    .await;
    let got: Vec<_> = receiver.received().iter().map(|r| string(&r.json()["data"]["message_id"])).collect();
    assert_eq!(got, ids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_receiver_slows_no_other() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|request| if request.path == "/dead" { Reply::Hang } else { Reply::Status(200) });
    tenant.endpoint(&receiver.url("/dead"), &["message.received"], json!({})).await;
    tenant.endpoint(&receiver.url("/live"), &["message.received"], json!({})).await;
    let channel = tenant.paired("Mixed").await;
    for n in 0..30 {
        let id = write_to(&tenant, &channel, &format!("number {n}")).await;
        let wanted = |r: &tests::receiver::Received| r.path == "/live" && r.json()["data"]["message_id"] == json!(id);
        receiver.wait_for("the live receiver's event", seconds(5), wanted).await;
    }
    // A hanging attempt times out after 15 s, and makes room for another one.
    let dead: Vec<_> = receiver.received().iter().filter(|r| r.path == "/dead").map(|r| r.at).collect();
    let with = |at: &SystemTime| dead.iter().filter(|other| *other >= at && **other < *at + seconds(14)).count();
    let at_a_time = dead.iter().map(with).max().unwrap_or_default();
    assert!((1..=10).contains(&at_a_time), "at most ten at a time: {dead:?}");
    // With an endless body, the attempt succeeds as soon as the response's head says so.
    receiver.answer(|_| Reply::Body(200, vec![b'x'; 1 << 20].into()));
    let id = write_to(&tenant, &channel, "long answer").await;
    let history = channel.path(&format!("/messages?message_id={id}"));
    eventually("a long answer counts", seconds(10), async || {
        let page = tenant.any().get(&history).await.expect(200);
        let deliveries = page["data"][0]["webhook_deliveries"].as_array().cloned().unwrap_or_default();
        check(deliveries.iter().any(|delivery| delivery["state"] == "delivered"), page.to_string())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_deliveries_outlive_the_node_that_held_them() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::Status(503));
    let secret = "outlives its node";
    tenant.endpoint(&receiver.url("/"), &["message.received"], json!({ "signing_secret": secret })).await;
    let channel = tenant.paired("Outlives").await;
    let mut ids = BTreeSet::new();
    for n in 0..8 {
        ids.insert(write_to(&tenant, &channel, &format!("number {n}")).await);
    }
    eventually("each was tried once", seconds(15), async || {
        let tried = receiver.event_ids("message.received");
        check(ids.iter().all(|id| tried.contains_key(id)), format!("{tried:?}"))
    })
    .await;

    let victim = tenant.owner(cluster.node_ids()[0], &channel.id).await.node;
    cluster.kill(victim);
    receiver.answer(|_| Reply::Status(200));
    let delivered = |id: &String| {
        let fits =
            |r: &&tests::receiver::Received| r.answered == Some(200) && r.json()["data"]["message_id"] == json!(id);
        receiver.received().iter().filter(fits).count()
    };
    eventually("each arrives in the end", seconds(60), async || {
        let missing: Vec<_> = ids.iter().filter(|id| delivered(id) == 0).collect();
        check(missing.is_empty(), format!("{missing:?}"))
    })
    .await;
    for (id, events) in receiver.event_ids("message.received") {
        assert_eq!(events.len(), 1, "{id}: one event id before and after the kill");
    }
    for request in receiver.received() {
        request.verify(secret);
    }
    cluster.restart(&[victim]).await;
    wait_status(&tenant.any(), &channel.id, "connected", CONNECT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_endpoint_leads_inside_in_production() {
    let cluster = Cluster::start(Options::nodes(1).arg("--strict")).await;
    let tenant = Tenant::new(&cluster).await;
    let api = tenant.any();
    let table = include_str!("../../vectors/ssrf.tsv");
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let mut columns = line.split('\t');
        let (shown, verdict) = (columns.next().unwrap(), columns.next().unwrap());
        let url = shown.replace("\\n", "\n").replace("\\t", "\t");
        let body = json!({ "url": url, "events": ["message.sent"], "enabled": false });
        let answer = api.post("/v1/webhook-endpoints", body).await;
        match verdict {
            "reject" if answer.status == 400 => {
                let issues = answer.expect_error(400, "invalid_request");
                let issue = &issues[0];
                let known = ["url_blocked", "url_scheme", "format", "too_long"].map(Value::from);
                if issue["path"] != json!(["url"]) || !known.contains(&issue["code"]) {
                    wrong.push(format!("{shown}: {issues}"));
                }
                let http = url.starts_with("http://");
                if http && issue["code"] != "url_scheme" {
                    wrong.push(format!("{shown}: {issues}: expected url_scheme"));
                }
            }
            "accept" | "resolve" if answer.status == 201 => {
                let id = string(&answer.json()["id"]);
                api.delete(&format!("/v1/webhook-endpoints/{id}")).await.expect(204);
            }
            // A name may resolve to a forbidden address here; it is checked again at each attempt.
            "resolve" if answer.status == 400 && shown.contains("nip.io") => {}
            _ => wrong.push(format!("{shown}: {verdict}, but {} {}", answer.status, answer.text())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

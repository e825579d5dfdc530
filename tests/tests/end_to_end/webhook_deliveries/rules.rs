//! The rules of attempts: concurrency, circuit, disabled endpoints, `Retry-After`, dead owners, final failures.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::receiver::{Received, Receiver, Reply};
use tests::tenant::{CONNECT, Tenant, number, wait_status};
use tests::wait::{check, eventually, seconds};

use super::rig::{Deliveries, brisk, endpoint_path, write_to};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_ten_attempts_run_at_one_endpoint_over_the_whole_cluster() {
    let tenant = Tenant::new(&brisk().await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::Hang);
    tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let channels = futures::future::join_all((0..8).map(|n| {
        let tenant = &tenant;
        async move { tenant.paired(&format!("Crowd {n}")).await }
    }))
    .await;
    // Each message is in its own chat, so that none waits for another.
    for channel in &channels {
        for _ in 0..4 {
            write_to(&tenant, channel, "all at once").await;
        }
    }
    let deliveries = Deliveries(&tenant);
    let began = Instant::now();
    let mut most = 0;
    eventually("the endpoint is used by many at once", seconds(14), async || {
        let running = deliveries.all("state=in_flight&limit=100").await.len();
        most = most.max(running);
        // A hanging request ends after 15 s, so until then every received request belongs to a running attempt.
        let requests = receiver.received().len();
        assert!(began.elapsed() > seconds(13) || requests <= 10, "{requests} at once");
        check(began.elapsed() > seconds(4), format!("{running} run"))
    })
    .await;
    assert!((4..=10).contains(&most), "{most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_fails_ten_times_in_a_row_is_left_alone_but_for_probes() {
    let tenant = Tenant::new(&brisk().await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::Status(500));
    let endpoint = tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let channel = tenant.paired("Broken").await;
    let mut messages = Vec::new();
    for n in 0..6 {
        messages.push(write_to(&tenant, &channel, &format!("number {n}")).await);
    }
    // Without the circuit, six deliveries with four attempts each would make 24 requests within a few seconds.
    eventually("the circuit opens", seconds(20), async || {
        let requests = receiver.received().len();
        check(requests >= 10, requests.to_string())
    })
    .await;
    let opened = Instant::now();
    let before = receiver.received().len();
    assert!(before <= 14, "what ran beside the tenth failure may still have come: {before}");
    let deliveries = Deliveries(&tenant);
    eventually("nothing is attempted for a while", seconds(20), async || {
        assert!(receiver.received().len() <= 14, "{}", receiver.received().len());
        check(opened.elapsed() > seconds(10), "waiting")
    })
    .await;
    let waiting = deliveries.all(&format!("endpoint_id={}&state=retrying", string(&endpoint["id"]))).await;
    assert!(!waiting.is_empty(), "a probe's delay uses up no attempt");
    receiver.answer(|_| Reply::Status(200));
    for message in &messages {
        deliveries.wait_state(&format!("message_id={message}"), "delivered").await;
    }
    assert!(opened.elapsed() > seconds(20), "it was tried again after about 30 s: {:?}", opened.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receivers_wish_to_wait_is_heeded_within_its_bounds() {
    let tenant = Tenant::new(&brisk().await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|request| match request.index {
        0 => Reply::Header(429, "retry-after", "3600".into()),
        _ => Reply::Status(200),
    });
    tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let channel = tenant.paired("Patient").await;
    let message = write_to(&tenant, &channel, "not so fast").await;
    Deliveries(&tenant).wait_state(&format!("message_id={message}"), "delivered").await;
    let all = receiver.received();
    let waited = all[1].at.duration_since(all[0].at).unwrap();
    // The planned delay is 1 s, and an hour is cut to twice that.
    assert!(waited >= Duration::from_millis(1900) && waited < seconds(15), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_of_a_disabled_endpoint_wait_until_it_is_enabled_again() {
    let tenant = Tenant::new(&brisk().await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::Status(500));
    let endpoint = tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let path = endpoint_path(&endpoint);
    let channel = tenant.paired("Paused").await;
    let message = write_to(&tenant, &channel, "wait for me").await;
    receiver.wait_message("message.received", &message, seconds(10)).await;
    tenant.any().patch(&path, json!({ "enabled": false })).await.expect(200);
    let deliveries = Deliveries(&tenant);
    let query = format!("message_id={message}");
    let paused = deliveries.wait_state(&query, "paused").await;
    assert_eq!(paused["next_attempt_at"], Value::Null);
    let since = json!({ "since": paused["created_at"] });
    let refused = tenant.any().post(&format!("{path}/recover"), since).await;
    assert_eq!(refused.expect_error(400, "bad_request")["reason"], "endpoint_disabled");
    receiver.answer(|_| Reply::Status(200));
    tenant.any().patch(&path, json!({ "enabled": true })).await.expect(200);
    eventually("the delivery is due again, within a minute", seconds(10), async || {
        let row = deliveries.all(&query).await.remove(0);
        check(row["state"] != "paused", row.to_string())
    })
    .await;
    // A manual redelivery need not wait for the schedule.
    let again = format!("/v1/webhook-deliveries/{}/redeliver", string(&paused["id"]));
    let answer = tenant.any().act(&again).await;
    assert!(matches!(answer.status, 202 | 409), "{}", answer.text());
    deliveries.wait_state(&query, "delivered").await;
    let shown = eventually("the success is noted", seconds(20), async || {
        let shown = tenant.any().get(&path).await.expect(200);
        check(shown["last_success_at"].is_string(), shown.to_string()).map(|()| shown)
    })
    .await;
    assert_eq!(shown["failing_since"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_bad_receivers_delay_no_good_one_by_more_than_a_fifth() {
    let tenant = Tenant::new(&brisk().await).await;
    let receiver = Receiver::start().await;
    let endless = vec![b'x'; 1 << 20];
    receiver.answer(move |request| match request.path.as_str() {
        "/hanging" => Reply::Hang,
        "/slow" => Reply::Slow(seconds(2), 200),
        "/failing" => Reply::Status(500),
        "/endless" => Reply::Body(200, endless.clone().into()),
        "/resetting" => Reply::Cut,
        _ => Reply::Status(200),
    });
    let channel = tenant.paired("Surrounded").await;
    tenant.endpoint(&receiver.url("/good"), &["message.received"], json!({})).await;
    let alone = median_delay(&tenant, &receiver, &channel).await;
    for bad in ["/hanging", "/slow", "/failing", "/endless", "/resetting"] {
        tenant.endpoint(&receiver.url(bad), &["message.received"], json!({})).await;
    }
    let surrounded = median_delay(&tenant, &receiver, &channel).await;
    // A fifth of a few milliseconds is less than the noise of a busy machine.
    let allowed = alone.mul_f64(1.2) + Duration::from_millis(60);
    assert!(surrounded <= allowed, "{alone:?} alone, {surrounded:?} among bad ones");
    for bad in ["/hanging", "/slow", "/failing", "/endless", "/resetting"] {
        assert!(receiver.received().iter().any(|request| request.path == bad), "{bad}");
    }
}

/// The median time from a phone's message to its arrival at the good receiver.
async fn median_delay(tenant: &Tenant, receiver: &Receiver, channel: &tests::tenant::Paired) -> Duration {
    let sender = number();
    tenant.simulator().phone(&sender, json!({})).await;
    let mut delays = Vec::new();
    for n in 0..25 {
        let sent = SystemTime::now();
        let id = tenant.simulator().text(&sender, &channel.number, &format!("{n}"), 1).await.remove(0);
        let wanted = |r: &Received| r.path == "/good" && r.json()["data"]["message_id"] == json!(id);
        let got = receiver.wait_for("the good receiver's event", seconds(10), wanted).await;
        delays.push(got.at.duration_since(sent).unwrap_or_default());
    }
    delays.sort();
    delays[delays.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_its_owner_could_not_end_is_on_record_as_interrupted() {
    let schedule = "--set=webhooks.schedule=[\"0s\",\"2s\",\"2s\"]";
    let cluster = Cluster::start(Options::default().arg(schedule)).await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::Hang);
    let endpoint = tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let channel = tenant.paired("Cut off").await;
    let message = write_to(&tenant, &channel, "hold the line").await;
    receiver.wait_message("message.received", &message, seconds(10)).await;
    let query = format!("message_id={message}");
    let deliveries = Deliveries(&tenant);
    deliveries.wait_state(&query, "in_flight").await;
    // The start of an attempt is recorded after a second.
    let since = Instant::now();
    eventually("the attempt has been under way for a while", seconds(10), async || {
        check(since.elapsed() > seconds(3), "waiting")
    })
    .await;
    let victim = tenant.owner(cluster.running_node(), &channel.id).await.node;
    receiver.answer(|_| Reply::Status(200));
    cluster.kill(victim);
    let done = deliveries.wait_state(&query, "delivered").await;
    assert_eq!(done["attempt_count"], 2);
    let detail = tenant.any().get(&format!("/v1/webhook-deliveries/{}", string(&done["id"]))).await.expect(200);
    let outcomes: Vec<&Value> = detail["attempts"].as_array().unwrap().iter().map(|a| &a["outcome"]).collect();
    assert_eq!(outcomes, [&json!("interrupted"), &json!("success")]);
    let all = receiver.received();
    assert!(all.iter().all(|request| request.event_id() == all[0].event_id()));
    assert_eq!(done["endpoint_id"], endpoint["id"]);
    cluster.restart(&[victim]).await;
    wait_status(&tenant.any(), &channel.id, "connected", CONNECT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_begins_to_fail_or_answers_again_says_so_soon() {
    let tenant = Tenant::new(&Cluster::start(Options::nodes(1)).await).await;
    let receiver = Receiver::start().await;
    let endpoint = tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let path = endpoint_path(&endpoint);
    let channel = tenant.paired("Turning").await;
    for fails in [true, false, true] {
        receiver.answer(move |_| Reply::Status(if fails { 500 } else { 200 }));
        write_to(&tenant, &channel, "how are you?").await;
        eventually("what the receiver does is shown", seconds(20), async || {
            let shown = tenant.any().get(&path).await.expect(200);
            check(shown["failing_since"].is_string() == fails, shown.to_string())?;
            check(fails || shown["last_success_at"].is_string(), shown.to_string())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_fails_for_long_is_switched_off_with_an_entry_in_the_audit_log() {
    let options = Options::nodes(1)
        .arg("--set=webhooks.schedule=[\"0s\",\"1s\",\"1s\",\"1s\",\"1s\",\"1s\"]")
        .arg("--set=webhooks.note_every=\"1s\"")
        .arg("--set=webhooks.disable_after=\"2s\"")
        .arg("--set=webhooks.disable_failures=3")
        .arg("--set=webhooks.disable_span=\"1s\"");
    let tenant = Tenant::new(&Cluster::start(options).await).await;
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::Status(500));
    let endpoint = tenant.endpoint(&receiver.url("/"), &["message.received"], json!({})).await;
    let path = endpoint_path(&endpoint);
    assert_eq!((&endpoint["failing_since"], &endpoint["last_success_at"]), (&Value::Null, &Value::Null));
    let channel = tenant.paired("Failing").await;
    for _ in 0..2 {
        write_to(&tenant, &channel, "hopeless").await;
    }
    let shown = eventually("the endpoint is disabled", seconds(40), async || {
        let shown = tenant.any().get(&path).await.expect(200);
        check(shown["enabled"] == false, shown.to_string()).map(|()| shown)
    })
    .await;
    assert_eq!(shown["disabled_reason"], "failing");
    assert!(shown["failing_since"].is_string(), "{shown}");
    let log = tenant.any().get("/v1/account/audit-log?action=webhook.auto_disabled").await.expect(200);
    let entries = log["data"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{log}");
    assert_eq!((&entries[0]["target"]["id"], &entries[0]["actor"]["type"]), (&endpoint["id"], &json!("system")));

    // An operator re-enables the endpoint and gives a reason. An endpoint that its customer disabled stays disabled.
    let operator = tenant.cluster.operator(1, &tenant.client);
    let enable = format!("/v1/admin/webhook-endpoints/{}/enable", string(&endpoint["id"]));
    operator.post(&enable, json!({})).await.expect_issue(&json!(["reason"]), "required");
    // Waiting deliveries go out at once; another failure would disable the endpoint again.
    receiver.answer(|_| Reply::Status(200));
    operator.post(&enable, json!({ "reason": "mended" })).await.expect(204);
    let shown = tenant.any().get(&path).await.expect(200);
    assert_eq!(shown["enabled"], true);
    assert_eq!((&shown["disabled_reason"], &shown["failing_since"]), (&Value::Null, &Value::Null));
    operator.post(&enable, json!({ "reason": "once more" })).await.expect_error(409, "no_op");
    tenant.any().patch(&path, json!({ "enabled": false })).await.expect(200);
    operator.post(&enable, json!({ "reason": "mended" })).await.expect_error(400, "bad_request");
    let nobody = "/v1/admin/webhook-endpoints/00000000-0000-4000-8000-000000000000/enable";
    operator.post(nobody, json!({ "reason": "mended" })).await.expect_error(404, "webhook_endpoint_not_found");
    let log = tenant.any().get("/v1/account/audit-log?action=webhook.enabled").await.expect(200);
    let entries = log["data"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{log}");
    assert_eq!((&entries[0]["target"]["id"], &entries[0]["actor"]["type"]), (&endpoint["id"], &json!("operator")));
    assert!(entries[0].to_string().contains("mended"), "{log}");
    let shown = tenant.any().patch(&path, json!({ "enabled": true })).await.expect(200);
    assert_eq!((&shown["disabled_reason"], &shown["failing_since"]), (&Value::Null, &Value::Null));
}

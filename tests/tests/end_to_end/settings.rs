//! A channel's settings: changes, and the effect of each.

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{answer, string, time};
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{Tenant, number, pair, text, wait_status};
use tests::wait::{check, eventually};

/// Changes settings of the scene's channel.
async fn settle(scene: &Scene, settings: Value) -> Value {
    scene.api.patch(&scene.path("/settings"), settings).await.expect(200)
}

/// Sends from the peer to the channel, and returns the message id.
async fn hear(scene: &Scene, body: Value) -> String {
    let mut body = body;
    body["to"] = json!(scene.channel.number);
    let sent = scene.simulator.api().post(&scene.phone_path("/messages"), body).await.expect(201);
    string(&sent["ids"][0])
}

/// The event of a received message.
async fn received(scene: &Scene, id: &str) -> Value {
    scene.event("message.received", id, |data| data["message_id"] == id).await
}

/// The stored rows of the channel.
async fn rows(scene: &Scene) -> Vec<Value> {
    let page = scene.api.get(&scene.path("/messages?limit=100")).await.expect(200);
    page["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn settings_change_and_are_reset_in_every_status() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let channel = tenant.channel("Settled").await;
    let owner = tenant.owner(tenant.cluster.running_node(), &channel).await.node;
    let api = tenant.api(tenant.cluster.node_ids().into_iter().find(|node| *node != owner).unwrap());
    let path = format!("/v1/channels/{channel}/settings");
    let made = api.get(&format!("/v1/channels/{channel}")).await.expect(200);
    let defaults = api.get(&path).await.expect(200);
    assert_eq!(defaults["updated_at"], made["created_at"], "nothing was changed yet");
    assert_has(&defaults, &json!({ "reject_calls": false, "ignore_newsletters": true, "device_name": "Gateway" }));
    api.delete(&path).await.expect_error(409, "no_op");

    let changed = api.patch(&path, json!({ "reject_calls": true, "device_name": "Shop" })).await;
    assert_eq!(changed.header("x-gateway-restart-required"), None);
    let changed = changed.expect(200);
    assert_has(&changed, &json!({ "reject_calls": true, "device_name": "Shop", "ignore_newsletters": true }));
    assert!(time(&changed["updated_at"]) > time(&defaults["updated_at"]));
    assert_eq!(api.get(&path).await.expect(200), changed);
    for same in [json!({ "reject_calls": true }), json!({ "no_such_field": true })] {
        api.patch(&path, same).await.expect_error(409, "no_op");
    }

    let if_match = async |seen: &Value, method: Method| {
        let request = api.request(method.clone(), &path).header("If-Match", format!("\"{}\"", string(seen)));
        answer(if method == Method::PATCH { request.json(&json!({ "reject_calls": false })) } else { request }).await
    };
    for stale in [&defaults["updated_at"], &json!("yesterday")] {
        let lost = if_match(stale, Method::PATCH).await;
        assert_eq!(lost.expect_error(409, "concurrent_modification"), json!({ "resource": "settings" }));
        assert_eq!(lost.retry_after(), 1);
        if_match(stale, Method::DELETE).await.expect_error(409, "concurrent_modification");
    }
    let again = if_match(&changed["updated_at"], Method::PATCH).await.expect(200);
    assert_eq!(again["reject_calls"], false);
    let reset = if_match(&again["updated_at"], Method::DELETE).await.expect(200);
    let (mut reset, mut expected) = (reset, defaults);
    for settings in [&mut reset, &mut expected] {
        settings["updated_at"] = Value::Null;
    }
    assert_eq!(reset, expected);
}

#[tokio::test]
async fn bad_settings_are_refused_by_name_and_change_nothing() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let channel = tenant.channel("Settled").await;
    let (api, path) = (tenant.any(), format!("/v1/channels/{channel}/settings"));
    let before = api.get(&path).await.expect(200);
    for (body, at, code) in [
        (json!({}), json!([]), "empty"),
        (json!({ "reject_calls": true, "always_online": "yes" }), json!(["always_online"]), "type"),
        (json!({ "auto_download_types": ["story"] }), json!(["auto_download_types", 0]), "enum"),
        (json!({ "media_retention_days": 15 }), json!(["media_retention_days"]), "too_big"),
        (json!({ "send_delay_ms": { "min": 2, "max": 1 } }), json!(["send_delay_ms", "max"]), "conflict"),
        (json!({ "proxy_url": "ftp://example.com" }), json!(["proxy_url"]), "url_scheme"),
        (json!({ "proxy_url": "http://169.254.169.254" }), json!(["proxy_url"]), "url_blocked"),
        (json!({ "proxy_url": "http://me:***@proxy.example.com" }), json!(["proxy_url"]), "format"),
    ] {
        api.patch(&path, body).await.expect_issue(&at, code);
    }
    assert_eq!(api.get(&path).await.expect(200), before);
}

#[tokio::test]
async fn a_session_goes_through_the_channels_proxy_whose_password_nobody_reads() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let (simulator, own) = (tenant.simulator(), number());
    simulator.phone(&own, json!({})).await;
    let channel = tenant.channel("Behind a proxy").await;
    let (api, path) = (tenant.any(), format!("/v1/channels/{channel}/settings"));
    let through = async || {
        let sessions = simulator.api().get(&format!("/sessions?number={own}")).await.expect(200);
        sessions["data"][0]["proxy"].clone()
    };
    let url = "socks5://me:secret@127.0.0.1:1080";
    let body = json!({ "proxy_url": url, "device_name": "Shop", "sync_full_history": true });
    let changed = api.patch(&path, body).await;
    assert_eq!(changed.header("x-gateway-restart-required"), Some("true"));
    let masked = "socks5://me:***@127.0.0.1:1080";
    assert_eq!(changed.expect(200)["proxy_url"], masked);
    assert_eq!(api.get(&path).await.expect(200)["proxy_url"], masked);
    for same in [url, masked] {
        api.patch(&path, json!({ "proxy_url": same })).await.expect_error(409, "no_op");
    }
    pair(&api, &simulator, &channel, &own).await;
    assert_eq!(through().await, url);
    let device = simulator.get_phone(&own).await["devices"][0].clone();
    assert_has(&device, &json!({ "name": "Shop", "full_history": true }));

    let restart = async || {
        api.act(&format!("/v1/channels/{channel}/restart")).await.expect(202);
        wait_status(&api, &channel, "connected", SOON).await;
    };
    let changed = api.patch(&path, json!({ "proxy_url": "http://127.0.0.1:3128/" })).await;
    assert_eq!(changed.header("x-gateway-restart-required"), Some("true"));
    assert_eq!(changed.expect(200)["proxy_url"], "http://127.0.0.1:3128");
    assert_eq!(through().await, url, "until the next connection");
    restart().await;
    assert_eq!(through().await, "http://127.0.0.1:3128");
    let reset = api.delete(&path).await;
    assert_eq!(reset.header("x-gateway-restart-required"), Some("true"));
    restart().await;
    assert_eq!(through().await, Value::Null);
}

#[tokio::test]
async fn what_a_channel_ignores_is_acknowledged_and_neither_stored_nor_told() {
    let scene = Scene::begin().await;
    let sim = scene.simulator.api();
    let body = json!({ "subject": "Noise", "participants": [scene.channel.number] });
    let group = string(&sim.post(&scene.phone_path("/groups"), body).await.expect(201)["id"]);
    scene.event("group.created", "added", |data| data["group"]["id"] == group.as_str()).await;
    let news = sim.post(&scene.phone_path("/newsletters"), json!({ "name": "News" })).await.expect(201);
    let news = string(&news["id"]);
    let subscription = format!("/phones/{}/newsletters/{news}/subscription", scene.channel.number);
    sim.post(&subscription, Value::Null).await.expect(200);
    let write = async |to: &str, text: &str| {
        let body = json!({ "to": to, "type": "text", "text": text });
        string(&sim.post(&scene.phone_path("/messages"), body).await.expect(201)["ids"][0])
    };
    settle(&scene, json!({ "ignore_groups": true })).await;
    write(&group, "unheard").await;
    write(&news, "unheard by default").await;
    sim.put(&scene.phone_path(&format!("/groups/{group}/subject")), json!({ "subject": "Quiet" })).await.expect(200);
    let heard = write(&scene.channel.number, "heard").await;
    received(&scene, &heard).await;
    assert_eq!((scene.told("message.received"), scene.told("group.updated")), (1, 0));
    let stored: Vec<String> = rows(&scene).await.iter().map(|row| string(&row["message_id"])).collect();
    assert_eq!(stored, [heard]);
    // Data that can be queried stays up to date.
    assert_eq!(scene.api.get(&scene.path(&format!("/groups/{group}"))).await.expect(200)["subject"], "Quiet");

    settle(&scene, json!({ "ignore_groups": false, "ignore_newsletters": false })).await;
    for chat in [&group, &news] {
        received(&scene, &write(chat, "heard at last").await).await;
    }
    // Ignored messages do not come again with a new session.
    scene.api.act(&scene.path("/restart")).await.expect(202);
    wait_status(&scene.api, &scene.channel.id, "connected", SOON).await;
    received(&scene, &write(&scene.channel.number, "and again").await).await;
    assert_eq!((scene.told("message.received"), rows(&scene).await.len()), (4, 4));
}

#[tokio::test]
async fn what_the_own_phone_writes_is_told_where_the_channel_wants_it() {
    let scene = Scene::begin().await;
    let own = format!("/phones/{}/messages", scene.channel.number);
    let write = async || {
        let body = json!({ "to": scene.peer, "type": "text", "text": "from my pocket" });
        string(&scene.simulator.api().post(&own, body).await.expect(201)["ids"][0])
    };
    let quiet = write().await;
    eventually("it is stored", SOON, async || {
        let rows = rows(&scene).await;
        check(rows.iter().any(|row| row["message_id"] == quiet.as_str()), format!("{rows:?}"))
    })
    .await;
    settle(&scene, json!({ "emit_device_sent": true })).await;
    let told = write().await;
    let sent = scene.event("message.sent", &told, |data| data["message_id"] == told.as_str()).await;
    assert_eq!(sent["source"], "device");
    assert_eq!(scene.told("message.sent"), 1);
}

#[tokio::test]
async fn media_that_is_not_fetched_as_it_comes_is_fetched_when_it_is_asked_for() {
    let scene = Scene::begin().await;
    let picture = json!({ "type": "image", "media": { "size": 5000 } });
    let shown = async |id: &str| received(&scene, id).await["body"]["media"].clone();
    settle(&scene, json!({ "auto_download_types": ["audio", "video"] })).await;
    let skipped = shown(&hear(&scene, picture.clone()).await).await;
    assert_eq!((&skipped["state"], &skipped["size_bytes"]), (&json!("skipped"), &json!(5000)));
    let link = tests::media::path(&skipped);
    let bytes = tests::media::fetch(&scene.api, &link, &[]).await;
    assert_eq!((bytes.status, bytes.body.len()), (200, 5000));

    settle(&scene, json!({ "auto_download_types": ["image"], "auto_download_max_bytes": 4999 })).await;
    let id = hear(&scene, picture.clone()).await;
    assert_eq!(shown(&id).await["state"], "skipped");
    let asked = scene.api.get(&scene.path(&format!("/messages/{id}/media"))).await.expect(200);
    assert_eq!(asked["state"], "ready");

    settle(&scene, json!({ "auto_download_max_bytes": 5000, "media_retention_days": 2 })).await;
    let fetched = shown(&hear(&scene, picture.clone()).await).await;
    assert_eq!(fetched["state"], "ready");
    let kept = time(&fetched["expires_at"]) - chrono::Utc::now();
    assert!((47..=48).contains(&kept.num_hours()), "{fetched}");
    let upload = tests::media::upload(&scene.api, &scene.channel.id, "image/png", tests::media::png(100, 1)).await;
    let kept = time(&upload["expires_at"]) - time(&upload["created_at"]);
    assert_eq!(kept.num_hours(), 48, "{upload}");

    settle(&scene, json!({ "auto_download_media": false })).await;
    assert_eq!(shown(&hear(&scene, picture).await).await["state"], "skipped");
}

#[tokio::test]
async fn history_keeps_what_the_channel_wants_kept() {
    let scene = Scene::begin().await;
    let write = async |text: &str| {
        let id = hear(&scene, json!({ "type": "text", "text": text })).await;
        assert_eq!(received(&scene, &id).await["body"]["text"], text);
        id
    };
    let whole = write("whole").await;
    settle(&scene, json!({ "store_bodies": false })).await;
    let envelope = write("envelope").await;
    let stored = rows(&scene).await;
    let row = |id: &str| stored.iter().find(|row| row["message_id"] == id).unwrap();
    assert_eq!(row(&whole)["text"], "whole");
    assert_has(
        row(&envelope),
        &json!({ "type": "text", "text": null, "chat_id": tests::tenant::address(&scene.peer) }),
    );
    let forward = async |id: &str| {
        let key = json!({ "id": id, "from_me": false, "remote_jid": tests::tenant::address(&scene.peer) });
        let body = json!({ "type": "forward", "to": scene.peer, "message_key": key });
        scene.api.post(&scene.path("/messages"), body).await
    };
    forward(&whole).await.expect(202);
    forward(&envelope).await.expect_error(404, "message_not_found");

    settle(&scene, json!({ "history_retention_days": 0 })).await;
    write("unwritten").await;
    assert_eq!(rows(&scene).await, Vec::<Value>::new());
    let all = scene.api.get(&format!("/v1/messages?channel_id={}", scene.channel.id)).await.expect(200);
    assert_eq!(all["data"], json!([]));
    settle(&scene, json!({ "history_retention_days": 365, "store_bodies": true })).await;
    let again = write("again").await;
    assert_eq!(rows(&scene).await[0]["message_id"], again.as_str());
}

#[tokio::test]
async fn a_text_shows_its_link_where_the_channel_wants_it() {
    let scene = Scene::begin().await;
    let preview = async |more: Value| {
        let mut body = text(&scene.peer, "see https://example.com/a");
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let sent = scene.api.post(&scene.path("/messages"), body).await.expect(202);
        let id = string(&sent["message_id"]);
        eventually("it arrived", SOON, async || {
            let inbox = scene.simulator.inbox(&scene.peer).await;
            let arrived = inbox.into_iter().find(|row| row["id"] == id.as_str());
            arrived.map(|row| row["link_preview"]["url"].clone()).ok_or_else(|| id.clone())
        })
        .await
    };
    assert_eq!(preview(json!({})).await, "https://example.com/a");
    assert_eq!(preview(json!({ "link_preview": false })).await, Value::Null);
    settle(&scene, json!({ "link_preview": false })).await;
    assert_eq!(preview(json!({})).await, Value::Null);
    assert_eq!(preview(json!({ "link_preview": true })).await, "https://example.com/a");
}

#[tokio::test]
async fn sends_keep_the_pause_between_them_and_their_order() {
    let scene = Scene::begin().await;
    settle(&scene, json!({ "send_delay_ms": { "min": 4000, "max": 4000 } })).await;
    let mut sends = tokio::task::JoinSet::new();
    for n in 0..4 {
        let (api, path) = (scene.api.clone(), scene.path("/messages"));
        let body = text(&scene.peer, &format!("paced {n}"));
        sends.spawn(async move { api.post(&path, body).await.expect(202)["status"].clone() });
        // One after the other, so that the order of acceptance is known.
        eventually("it is stored", SOON, async || {
            let stored = rows(&scene).await.len();
            check(stored > n, format!("{stored} of {}", n + 1))
        })
        .await;
    }
    let mut statuses: Vec<String> = Vec::new();
    while let Some(status) = sends.join_next().await {
        statuses.push(string(&status.unwrap()));
    }
    statuses.sort();
    assert_eq!(statuses, ["queued", "sent", "sent", "sent"], "12 seconds are more than a caller waits");
    let arrived = eventually("all arrived", SOON, async || {
        let inbox = scene.simulator.inbox(&scene.peer).await;
        check(inbox.len() == 4, format!("{inbox:?}")).map(|()| inbox)
    })
    .await;
    let texts: Vec<String> = arrived.iter().map(|row| string(&row["text"])).collect();
    assert_eq!(texts, ["paced 0", "paced 1", "paced 2", "paced 3"]);
    let times: Vec<_> = arrived.iter().map(|row| time(&row["first_at"])).collect();
    for pair in times.windows(2) {
        let pause = (pair[1] - pair[0]).num_milliseconds();
        assert!((3500..30_000).contains(&pause), "{pause} ms between two sends");
    }
}

#[tokio::test]
async fn the_chat_shows_typing_before_a_text_and_before_nothing_else() {
    let scene = Scene::begin().await;
    let presences = async || {
        let seen = scene.simulator.api().get(&scene.phone_path("/presences")).await.expect(200);
        seen["data"].as_array().unwrap().clone()
    };
    let send = async |body: Value| {
        let sent = scene.api.post(&scene.path("/messages"), body).await.expect(202);
        assert_eq!(sent["status"], "sent");
        let inbox = scene.simulator.inbox(&scene.peer).await;
        time(&inbox.iter().find(|row| row["id"] == sent["message_id"]).unwrap()["first_at"])
    };
    send(text(&scene.peer, "at once")).await;
    assert_eq!(presences().await, Vec::<Value>::new());
    settle(&scene, json!({ "simulate_typing": true })).await;
    send(json!({ "type": "location", "to": scene.peer, "latitude": 1.0, "longitude": 2.0 })).await;
    assert_eq!(presences().await, Vec::<Value>::new());
    let arrived = send(text(&scene.peer, &"x".repeat(50))).await;
    let seen = presences().await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_has(&seen[0], &json!({ "from": scene.channel.address(), "presence": "typing" }));
    let typed = (arrived - time(&seen[0]["at"])).num_milliseconds();
    assert!((1900..15_000).contains(&typed), "{typed} ms of typing for 50 characters");
}

#[tokio::test]
async fn a_channel_shows_itself_as_its_settings_say() {
    let scene = Scene::begin().await;
    let shown = async |expected: &str| {
        eventually(&format!("the phone is {expected}"), SOON, async || {
            let phone = scene.simulator.get_phone(&scene.channel.number).await;
            check(phone["presence"] == expected, phone.to_string())
        })
        .await;
    };
    let restart = async || {
        scene.api.act(&scene.path("/restart")).await.expect(202);
        wait_status(&scene.api, &scene.channel.id, "connected", SOON).await;
    };
    shown("unavailable").await;
    settle(&scene, json!({ "presence_on_connect": "available" })).await;
    shown("unavailable").await;
    restart().await;
    shown("available").await;
    settle(&scene, json!({ "presence_on_connect": "unavailable" })).await;
    restart().await;
    shown("unavailable").await;
    settle(&scene, json!({ "always_online": true })).await;
    shown("available").await;
    restart().await;
    shown("available").await;
    settle(&scene, json!({ "always_online": false })).await;
    shown("unavailable").await;
}

#[tokio::test]
async fn settings_live_on_when_the_owner_dies() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.channel("Settled").await;
    let path = format!("/v1/channels/{channel}/settings");
    let body = json!({ "ignore_groups": true, "send_delay_ms": { "min": 1, "max": 2 } });
    let before = tenant.any().patch(&path, body).await.expect(200);
    let owner = tenant.owner(cluster.running_node(), &channel).await.node;
    cluster.kill(owner);
    let after = eventually("another owner", SOON, async || {
        let answer = tenant.api(cluster.running_node()).get(&path).await;
        check(answer.status == 200, answer.text()).map(|()| answer.json())
    })
    .await;
    assert_eq!(after, before);
}

#[tokio::test]
async fn calls_are_rejected_and_the_caller_is_written_to_once() {
    let scene = Scene::begin().await;
    let ring = async || {
        let body = json!({ "to": scene.channel.number });
        string(&scene.simulator.api().post(&scene.phone_path("/calls"), body).await.expect(201)["call_id"])
    };
    let over = async |id: &str| scene.event("call.terminated", id, |data| data["call_id"] == id).await;
    settle(&scene, json!({ "reject_calls": true })).await;
    let ended = over(&ring().await).await;
    assert_has(&ended, &json!({ "reason": "rejected", "rejected_by_gateway": true }));
    assert_eq!(scene.simulator.inbox(&scene.peer).await, Vec::<Value>::new());

    settle(&scene, json!({ "reject_call_message": "Please write instead." })).await;
    over(&ring().await).await;
    let marker = string(
        &scene.api.post(&scene.path("/messages"), text(&scene.peer, "the last thing")).await.expect(202)["message_id"],
    );
    let arrived = eventually("the last thing arrived", SOON, async || {
        let inbox = scene.simulator.inbox(&scene.peer).await;
        check(inbox.iter().any(|row| row["id"] == marker.as_str()), format!("{inbox:?}")).map(|()| inbox)
    })
    .await;
    let texts: Vec<(String, u64)> =
        arrived.iter().map(|row| (string(&row["text"]), row["copies"].as_u64().unwrap())).collect();
    assert_eq!(texts, [("Please write instead.".to_owned(), 1), ("the last thing".to_owned(), 1)]);
    assert_eq!(scene.told("call.offered"), 2);

    settle(&scene, json!({ "reject_calls": false })).await;
    let id = ring().await;
    scene.event("call.offered", &id, |data| data["call_id"] == id.as_str()).await;
    scene.simulator.api().delete(&scene.phone_path(&format!("/calls/{id}"))).await;
    assert_has(&over(&id).await, &json!({ "rejected_by_gateway": false }));
}

#[tokio::test]
async fn a_message_is_read_as_it_comes_where_the_channel_wants_it() {
    let scene = Scene::begin().await;
    let sender = scene.tenant.paired("Sender").await;
    let send = async || {
        let body = text(&scene.channel.number, "are you there?");
        string(&scene.api.post(&sender.path("/messages"), body).await.expect(202)["message_id"])
    };
    let status = async |id: &str, status: &str| {
        scene.event("message.status", status, |data| data["message_id"] == id && data["status"] == status).await;
    };
    let unread = send().await;
    received(&scene, &unread).await;
    settle(&scene, json!({ "mark_read_on_receive": true })).await;
    let read = send().await;
    status(&read, "read").await;
    let row = scene.api.get(&sender.path(&format!("/messages?message_id={unread}"))).await.expect(200);
    assert_eq!(row["data"][0]["status"], "delivered", "what came before the change is left alone");
}

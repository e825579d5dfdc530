//! The channel's own account: its profile, its privacy settings, and its block list.

use serde_json::{Value, json};
use tests::http::string;
use tests::media::{picture, upload};
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{address, text};
use tests::wait::eventually;

/// Waits until a route returns a passing body.
async fn shows(scene: &Scene, path: &str, what: &str, passes: impl Fn(&Value) -> bool) -> Value {
    eventually(what, SOON, async || {
        let shown = scene.api.get(path).await.expect(200);
        if passes(&shown) { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}

#[tokio::test]
async fn a_profile_is_changed_part_by_part_here_and_on_the_phone() {
    let scene = Scene::with(json!({ "name": "Shop" })).await;
    let (api, path) = (&scene.api, scene.path("/profile"));
    let whole = json!({ "name": "Shop", "about": null, "picture_url": null });
    shows(&scene, &path, "the profile is fetched", |profile| *profile == whole).await;
    let changed = api.patch(&path, json!({ "name": "Shop", "about": "Open" })).await.expect(200);
    assert_eq!(changed, json!({ "name": "Shop", "about": "Open", "picture_url": null }));
    api.patch(&path, json!({ "name": "Shop", "about": "Open" })).await.expect_error(409, "no_op");
    let own = format!("/phones/{}/profile", scene.channel.number);
    assert_eq!(scene.simulator.api().get(&own).await.expect(200), changed);
    let peers = scene.phone_path(&format!("/contacts/{}", scene.channel.number));
    assert_has(&scene.simulator.api().get(&peers).await.expect(200), &json!({ "push_name": "Shop", "about": "Open" }));

    // Changes before a failure stay, and the error lists them.
    let failing = json!({ "name": "Store", "picture_url": "http://127.0.0.1:59998/none.png" });
    let details = api.patch(&path, failing).await.expect_error(400, "media_fetch_failed");
    assert_eq!(details["applied"], json!(["name"]));
    assert_eq!(api.get(&path).await.expect(200)["name"], "Store");
    api.patch(&path, json!({ "clear_picture": true })).await.expect_error(409, "no_op");

    let media = upload(api, &scene.channel.id, "image/png", picture(50, 50)).await;
    let pictured = api.patch(&path, json!({ "picture_url": media["url"] })).await.expect(200);
    assert!(pictured["picture_url"].is_string(), "{pictured}");
    let shown = scene.simulator.api().get(&peers).await.expect(200);
    assert_eq!(shown["picture_url"], pictured["picture_url"]);
    assert_eq!(api.patch(&path, json!({ "clear_picture": true })).await.expect(200)["picture_url"], Value::Null);

    scene.simulator.api().patch(&own, json!({ "about": "Closed" })).await.expect(204);
    shows(&scene, &path, "the phone's change is here", |profile| profile["about"] == "Closed").await;
    assert_eq!(api.patch(&path, json!({ "about": "" })).await.expect(200)["about"], Value::Null);

    let issues = [
        (json!({}), json!([]), "empty"),
        (json!({ "clear_picture": false }), json!(["clear_picture"]), "empty"),
        (json!({ "clear_picture": true, "picture_url": "http://x.example/a" }), json!(["clear_picture"]), "conflict"),
        (json!({ "name": "" }), json!(["name"]), "too_short"),
        (json!({ "about": "x".repeat(161) }), json!(["about"]), "too_long"),
    ];
    for (body, place, code) in issues {
        api.patch(&path, body).await.expect_issue(&place, code);
    }
}

#[tokio::test]
async fn privacy_is_kept_by_the_network_and_acts_there() {
    let scene = Scene::begin().await;
    let (api, path) = (&scene.api, scene.path("/settings/privacy"));
    let open = json!({
        "last_seen": "all", "online": "all", "profile_photo": "all", "about": "all", "read_receipts": "all",
        "group_add": "all", "call_add": "all", "default_ephemeral": 0,
    });
    assert_eq!(api.get(&path).await.expect(200), open);
    shows(&scene, &scene.path("/profile"), "the account is fetched", |_| true).await;
    let closed = json!({ "read_receipts": "none", "group_add": "contacts", "default_ephemeral": 86400 });
    assert_has(&api.patch(&path, closed.clone()).await.expect(200), &closed);
    api.patch(&path, closed).await.expect_error(409, "no_op");
    api.patch(&path, json!({ "online": "contacts" })).await.expect_issue(&json!(["online"]), "enum");
    api.patch(&path, json!({ "default_ephemeral": 1 })).await.expect_issue(&json!(["default_ephemeral"]), "enum");

    // Somebody who is no contact has to invite the channel.
    let body = json!({ "subject": "Strangers", "participants": [scene.channel.number] });
    let made = scene.simulator.api().post(&scene.phone_path("/groups"), body).await.expect(201);
    assert_eq!(made["participants_result"][0]["status"], "invite_required");
    // The channel sends no read receipts.
    let sender = scene.tenant.paired("Sender").await;
    let sent = scene.tenant.any().post(&sender.path("/messages"), text(&scene.channel.number, "hello")).await;
    let id = string(&sent.expect(202)["message_id"]);
    scene.event("message.received", "hello", |data| data["message_id"] == id.as_str()).await;
    scene.event("message.status", "delivered", |d| d["message_id"] == id.as_str() && d["status"] == "delivered").await;
    assert_eq!(api.act(&scene.path(&format!("/chats/{}/read", sender.number))).await.status, 204);

    let own = format!("/phones/{}/privacy", scene.channel.number);
    scene.simulator.api().patch(&own, json!({ "read_receipts": "all" })).await.expect(204);
    shows(&scene, &path, "the phone's change is here", |privacy| privacy["read_receipts"] == "all").await;
    let read = scene.receiver.received().iter().filter(|r| r.json()["data"]["status"] == "read").count();
    assert_eq!(read, 0, "the sender heard of no reading");
}

#[tokio::test]
async fn what_a_blocked_person_writes_does_not_arrive() {
    let scene = Scene::begin().await;
    let (api, peer) = (&scene.api, address(&scene.peer));
    let path = scene.path(&format!("/blacklist/{}", scene.peer));
    api.delete(&path).await.expect_error(409, "no_op");
    let blocked = api.put(&path, Value::Null).await.expect(200);
    assert_eq!(blocked["id"], peer.as_str());
    tests::http::time(&blocked["blocked_at"]);
    // The shown LID can be used at once.
    let pair = api.get(&scene.path(&format!("/contacts/lids/{}", string(&blocked["lid"])))).await.expect(200);
    assert_has(&pair, &json!({ "lid": blocked["lid"], "phone_jid": peer }));
    api.put(&path, Value::Null).await.expect_error(409, "no_op");
    let list = api.get(&scene.path("/blacklist")).await.expect(200);
    assert_eq!(list, json!({ "data": [blocked], "count": 1 }));
    assert_eq!(api.get(&scene.path("/blacklist?refresh=true")).await.expect(200)["count"], 1);
    let contact = api.get(&scene.path(&format!("/contacts/{}", scene.peer))).await.expect(200);
    assert_eq!(contact["is_blocked"], true);
    assert_eq!(api.get(&scene.path("/contacts/all?is_blocked=true")).await.expect(200)["count"], 1);
    let nobody = api.put(&scene.path("/blacklist/19999999999"), Value::Null).await;
    assert_eq!(nobody.expect_error(400, "undeliverable_recipient")["reason"], "not_registered");
    let group = api.put(&scene.path("/blacklist/12@g.example"), Value::Null).await;
    group.expect_error(400, "undeliverable_recipient");

    let lost = scene.simulator.text(&scene.peer, &scene.channel.number, "unheard", 1).await;
    assert_eq!(api.delete(&path).await.status, 204);
    let heard = scene.simulator.text(&scene.peer, &scene.channel.number, "heard", 1).await;
    scene.event("message.received", "heard", |data| data["message_id"] == heard[0].as_str()).await;
    let told = scene.receiver.received();
    assert!(!told.iter().any(|request| request.json()["data"]["message_id"] == lost[0].as_str()));
    assert_eq!(api.get(&scene.path("/blacklist")).await.expect(200), json!({ "data": [], "count": 0 }));

    // The phone's own block list.
    let own = format!("/phones/{}/blacklist/{}", scene.channel.number, scene.peer);
    scene.simulator.api().put(&own, Value::Null).await.expect(204);
    shows(&scene, &scene.path("/blacklist"), "the phone's block is here", |list| list["count"] == 1).await;
}

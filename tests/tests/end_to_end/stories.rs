//! Stories: posted to an audience through any node, seen once by each phone, never lost, gone when deleted.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::media;
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{address, number};
use tests::wait::eventually;

async fn post(scene: &Scene, body: Value) -> String {
    let posted = scene.api.post(&scene.path("/stories"), body).await.expect(202);
    assert_eq!(posted["status"], "sent", "{posted}");
    let id = string(&posted["story_id"]);
    assert!(id.len() == 40 && id.starts_with("3EB0"), "{id}");
    id
}

/// The story as seen by the phone of `number`.
async fn seen(scene: &Scene, number: &str, id: &str) -> Option<Value> {
    let stories = scene.simulator.api().get(&format!("/phones/{number}/stories")).await.expect(200);
    stories["data"].as_array().unwrap().iter().find(|story| story["id"] == id).cloned()
}

async fn view(scene: &Scene, number: &str, id: &str) {
    scene.simulator.api().act(&format!("/phones/{number}/stories/{id}/view")).await.expect(204);
}

#[tokio::test]
async fn a_story_is_posted_viewed_once_by_each_and_deleted() {
    let scene = Scene::begin().await;
    let other = number();
    scene.simulator.phone(&other, json!({})).await;
    let body = json!({
        "type": "text", "text": "Open until eight", "background_color": "#1E6E4F", "text_color": "#FFFFFF", "font": 3,
        "client_ref": "story-1",
    });
    let posted = scene.api.post(&scene.path("/stories"), body).await.expect(202);
    assert_has(&posted, &json!({ "client_ref": "story-1", "status": "sent" }));
    let id = string(&posted["story_id"]);
    let story = seen(&scene, &scene.peer, &id).await.unwrap();
    assert_has(&story, &json!({ "type": "text", "text": "Open until eight", "from": scene.channel.address() }));
    assert_eq!(story["style"], json!({ "background_color": "#1E6E4F", "text_color": "#FFFFFF", "font": 3 }));

    let path = scene.path(&format!("/stories/{id}/views"));
    assert_eq!(scene.api.get(&path).await.expect(200), json!({ "data": [], "count": 0, "next_cursor": null }));
    for viewer in [&scene.peer, &other, &scene.peer] {
        view(&scene, viewer, &id).await;
    }
    for viewer in [&scene.peer, &other].map(|number| address(number)) {
        let told = scene.event("story.viewed", &viewer, |data| data["viewer"] == viewer.as_str()).await;
        assert_has(&told, &json!({ "story_id": id, "viewer_phone": viewer }));
        assert!(told["viewed_at"].is_i64());
    }
    let first = scene.api.get(&format!("{path}?limit=1")).await.expect(200);
    let rest = scene.api.get(&format!("{path}?limit=1&cursor={}", string(&first["next_cursor"]))).await.expect(200);
    let viewers = [&first, &rest].map(|page| string(&page["data"][0]["viewer"]));
    assert_eq!(viewers, [address(&scene.peer), address(&other)], "in the order of their addresses");
    assert_eq!((&first["count"], &rest["next_cursor"]), (&json!(2), &Value::Null));

    let deleted = scene.api.delete(&scene.path(&format!("/stories/{id}"))).await.expect(202);
    assert_eq!(deleted, json!({ "story_id": id, "status": "sent" }));
    assert!(seen(&scene, &scene.peer, &id).await.is_none());
    for answer in [scene.api.get(&path).await, scene.api.delete(&scene.path(&format!("/stories/{id}"))).await] {
        let details = answer.expect_error(404, "not_found");
        assert_eq!(details, json!({ "resource": "story", "id": id }));
    }
    assert_eq!(scene.told("story.viewed"), 2);
    // A story is not a message of a chat.
    let history = scene.api.get(&scene.path("/messages")).await.expect(200);
    assert_eq!(history["data"], json!([]));
    assert_eq!(scene.told("message.sent"), 0);
}

#[tokio::test]
async fn a_large_audience_is_told_in_batches_under_one_id() {
    let scene = Scene::begin().await;
    let mut audience = vec![scene.peer.clone()];
    audience.extend((0..1100).map(|n| format!("4470{n:08}")));
    let id = post(&scene, json!({ "type": "text", "text": "For you", "recipients": audience })).await;
    let story = seen(&scene, &scene.peer, &id).await.unwrap();
    assert_eq!(story["batches"], json!([500, 500, 101]));
    let outsider = number();
    scene.simulator.phone(&outsider, json!({})).await;
    assert!(seen(&scene, &outsider, &id).await.is_none(), "it is for the audience alone");
    let refused = scene.simulator.api().act(&format!("/phones/{outsider}/stories/{id}/view")).await;
    assert_eq!(refused.status, 400);
}

#[tokio::test]
async fn pictures_videos_and_sounds_are_fetched_for_a_story_as_for_a_message() {
    let scene = Scene::begin().await;
    for (kind, mime_type, bytes) in [
        ("image", "image/png", media::png(4000, 7)),
        ("video", "video/mp4", vec![7; 3000]),
        ("audio", "audio/ogg", vec![9; 2000]),
    ] {
        let size = bytes.len();
        let uploaded = media::upload(&scene.api, &scene.channel.id, mime_type, bytes).await;
        let mut body = json!({ "type": kind, "media_url": uploaded["url"], "mime_type": mime_type });
        if kind != "audio" {
            body["caption"] = json!("Look");
        }
        let id = post(&scene, body).await;
        let story = seen(&scene, &scene.peer, &id).await.unwrap();
        assert_has(&story, &json!({ "type": kind, "size": size }));
    }
}

#[tokio::test]
async fn what_cannot_be_posted_is_refused_and_leaves_nothing() {
    let scene = Scene::begin().await;
    let path = scene.path("/stories");
    let api = &scene.api;
    api.post(&path, json!({ "type": "sticker" })).await.expect_issue(&json!(["type"]), "enum");
    api.post(&path, json!({ "type": "text", "text": "" })).await.expect_issue(&json!(["text"]), "too_short");
    let body = json!({ "type": "text", "text": "x", "recipients": ["12@g.example"] });
    assert_eq!(api.post(&path, body).await.expect_error(400, "undeliverable_recipient")["reason"], "not_numeric");
    let body = json!({ "type": "text", "text": "x", "recipients": ["123456789012345@lid"] });
    assert_eq!(api.post(&path, body).await.expect_error(400, "undeliverable_recipient")["reason"], "unknown_lid");
    let body = json!({ "type": "text", "to": "status@broadcast", "text": "x" });
    let refused = api.post(&scene.path("/messages"), body).await.expect_error(400, "undeliverable_recipient");
    assert_eq!(refused["reason"], "unknown_suffix");
    let list = api.get(&path).await.expect_error(501, "not_implemented");
    assert_eq!(list["feature"], "stories.list");
    let stories = scene.simulator.api().get(&scene.phone_path("/stories")).await.expect(200);
    let own = scene.channel.address();
    assert!(stories["data"].as_array().unwrap().iter().all(|story| story["from"] != own.as_str()));

    api.act(&scene.path("/disconnect")).await.expect(202);
    let body = json!({ "type": "text", "text": "x" });
    api.post(&path, body.clone()).await.expect_error(409, "channel_unavailable");
    let cluster = &scene.tenant.cluster;
    let operator = cluster.operator(cluster.running_node(), &scene.tenant.client);
    let customer = format!("/v1/admin/customers/{}", scene.tenant.customer_id);
    let plan = json!({ "plan": { "trial_ends_at": "2020-01-01T00:00:00.000Z" } });
    operator.patch(&customer, plan).await.expect(200);
    api.post(&path, body).await.expect_error(402, "trial_expired");
}

#[tokio::test]
async fn the_channels_own_phone_posts_too_and_its_viewers_are_told() {
    let scene = Scene::begin().await;
    let own = &scene.channel.number;
    let sim = scene.simulator.api();
    let posted = sim.post(&format!("/phones/{own}/stories"), json!({ "text": "By hand" })).await.expect(201);
    let id = string(&posted["story_id"]);
    view(&scene, &scene.peer, &id).await;
    scene.event("story.viewed", &id, |data| data["story_id"] == id.as_str()).await;
    let views = scene.api.get(&scene.path(&format!("/stories/{id}/views"))).await.expect(200);
    assert_eq!(views["count"], 1);
    sim.delete(&format!("/phones/{own}/stories/{id}")).await.expect(204);
    eventually("the story is gone", SOON, async || {
        let answer = scene.api.get(&scene.path(&format!("/stories/{id}/views"))).await;
        if answer.status == 404 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
}

#[tokio::test]
async fn a_story_is_neither_lost_nor_doubled_when_its_owner_dies() {
    let cluster = Cluster::start(Options::default()).await;
    let scene = Scene::on(&cluster, json!({})).await;
    // Acceptances of the parts get lost, so that the story is still being sent when the owner dies.
    scene.simulator.faults(json!({ "drop_after_accept_pct": 100 })).await;
    let mut audience = vec![scene.peer.clone()];
    audience.extend((0..700).map(|n| format!("4471{n:08}")));
    let body = json!({ "type": "text", "text": "Never lost", "recipients": audience });
    let posted = scene.api.post(&scene.path("/stories"), body).await.expect(202);
    assert_eq!(posted["status"], "queued");
    let id = string(&posted["story_id"]);
    scene.simulator.clear_faults().await;
    cluster.kill(scene.owner().await);
    let sent = scene.event("message.status", &id, |data| data["message_id"] == id.as_str()).await;
    assert_eq!(sent["status"], "sent");
    view(&scene, &scene.peer, &id).await;
    scene.event("story.viewed", &id, |data| data["story_id"] == id.as_str()).await;
    let views = scene.api.get(&scene.path(&format!("/stories/{id}/views"))).await.expect(200);
    assert_eq!(views["count"], 1);
    let stories = scene.simulator.api().get(&scene.phone_path("/stories")).await.expect(200);
    let mine = stories["data"].as_array().unwrap().iter().filter(|story| story["text"] == "Never lost");
    assert_eq!(mine.count(), 1);
    assert_eq!(scene.told("story.viewed"), 1);
}

//! Chats: their order, changes by the channel through any node and by its phone, and the events of those.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{Tenant, address, number, text};
use tests::wait::eventually;

/// The path of a chat of the scene's channel.
fn chat(scene: &Scene, id: &str, rest: &str) -> String {
    scene.path(&format!("/chats/{id}{rest}"))
}

/// Waits until a chat passes, and returns it.
async fn chat_when(scene: &Scene, what: &str, id: &str, passes: impl Fn(&Value) -> bool) -> Value {
    eventually(what, SOON, async || {
        let answer = scene.api.get(&chat(scene, id, "")).await;
        if answer.status == 200 && passes(&answer.json()) { Ok(answer.json()) } else { Err(answer.text()) }
    })
    .await
}

/// The ids of a list of chats.
async fn list(scene: &Scene, query: &str) -> Vec<String> {
    let list = scene.api.get(&scene.path(&format!("/chats?{query}"))).await.expect(200);
    list["data"].as_array().unwrap().iter().map(|chat| string(&chat["id"])).collect()
}

#[tokio::test]
async fn a_message_makes_a_chat_unread_and_reading_it_tells_the_sender() {
    let scene = Scene::begin().await;
    let (api, peer) = (&scene.api, address(&scene.peer));
    api.get(&chat(&scene, &peer, "")).await.expect_error(404, "chat_not_found");
    // A second channel of the customer sends, so that its read receipts can be observed.
    let sender = scene.tenant.paired("Sender").await;
    let sent = scene.tenant.any().post(&sender.path("/messages"), text(&scene.channel.number, "hello")).await;
    let id = string(&sent.expect(202)["message_id"]);
    let from = sender.address();
    let shown = chat_when(&scene, "the chat is there", &from, |chat| chat["unread"] == true).await;
    let expected = json!({
        "id": from, "pinned": false, "archived": false, "muted_until": null, "unread": true, "ephemeral_expiration": 0,
    });
    assert_has(&shown, &expected);
    assert!(shown["last_message_at"].as_i64().is_some_and(|at| at > 1_700_000_000), "{shown}");

    let wrong = api.post(&chat(&scene, &from, "/read"), json!({ "message_ids": ["3EB0"] })).await;
    assert_eq!(wrong.expect_error(404, "message_not_found"), json!({ "message_id": "3EB0" }));
    assert_eq!(api.post(&chat(&scene, &from, "/read"), json!({ "message_ids": [id] })).await.status, 204);
    assert_eq!(api.get(&chat(&scene, &from, "")).await.expect(200)["unread"], false);
    scene.event("message.status", "read", |data| data["message_id"] == id.as_str() && data["status"] == "read").await;
    let told = scene.event("chat.updated", "read", |data| data["chat"]["id"] == from.as_str()).await;
    assert_has(&told, &json!({ "changed": ["unread"] }));
    assert_eq!(told["chat"]["unread"], false);
    api.act(&chat(&scene, &from, "/read")).await.expect_error(409, "no_op");

    // The chat with the phone is marked unread by hand, and marked read as a whole.
    scene.simulator.text(&scene.peer, &scene.channel.number, "hi", 2).await;
    chat_when(&scene, "the second chat is there", &peer, |chat| chat["unread"] == true).await;
    assert_eq!(api.act(&chat(&scene, &peer, "/read")).await.status, 204);
    let marked = api.patch(&chat(&scene, &peer, ""), json!({ "unread": true })).await.expect(200);
    assert_eq!(marked["unread"], true);
    api.patch(&chat(&scene, &peer, ""), json!({ "unread": true })).await.expect_error(409, "no_op");
    assert_eq!(api.patch(&chat(&scene, &peer, ""), json!({ "unread": false })).await.expect(200)["unread"], false);
}

#[tokio::test]
async fn the_flags_of_a_chat_change_here_and_on_the_phone_and_are_told_once() {
    let scene = Scene::begin().await;
    let (api, peer, sim) = (&scene.api, address(&scene.peer), scene.simulator.api());
    // A send creates a chat, which is read.
    api.post(&scene.path("/messages"), text(&scene.peer, "hello")).await.expect(202);
    assert_eq!(api.get(&chat(&scene, &peer, "")).await.expect(200)["unread"], false);

    let patch = json!({ "pinned": true, "muted_until": 0, "ephemeral_expiration": 86400 });
    let changed = api.patch(&chat(&scene, &peer, ""), patch.clone()).await.expect(200);
    assert_has(&changed, &patch);
    api.patch(&chat(&scene, &peer, ""), patch).await.expect_error(409, "no_op");
    let archived = api.patch(&chat(&scene, &peer, ""), json!({ "archived": true, "muted_until": 0 })).await.expect(200);
    assert_has(&archived, &json!({ "archived": true, "pinned": false }));
    for (event, field, value) in
        [("chat.pinned", "pinned", true), ("chat.pinned", "pinned", false), ("chat.archived", "archived", true)]
    {
        let told = scene.event(event, field, |data| data[field] == value).await;
        assert_eq!(told["chat_id"], peer.as_str());
    }
    let muted = scene.event("chat.updated", "muted", |data| data["changed"] == json!(["muted_until"])).await;
    assert_eq!(muted["chat"]["muted_until"], 0);
    assert_eq!((scene.told("chat.pinned"), scene.told("chat.archived")), (2, 1));

    // The channel's own phone changes the chat.
    let own = format!("/phones/{}/chats/{}", scene.channel.number, scene.peer);
    sim.patch(&own, json!({ "archived": false, "muted_until": null })).await.expect(204);
    scene.event("chat.archived", "no more", |data| data["archived"] == false).await;
    let shown = chat_when(&scene, "the phone's change is here", &peer, |chat| chat["archived"] == false).await;
    assert_eq!(shown["muted_until"], Value::Null);

    // A fourth chat cannot be pinned.
    for other in [number(), number(), number()] {
        scene.simulator.phone(&other, json!({})).await;
        api.post(&scene.path("/messages"), text(&other, "hello")).await.expect(202);
        api.patch(&chat(&scene, &other, ""), json!({ "pinned": true })).await.expect(200);
    }
    let refused = api.patch(&chat(&scene, &peer, ""), json!({ "pinned": true })).await.expect_error(422, "other");
    assert_eq!(refused["upstream_text"], "pin_limit");
}

#[tokio::test]
async fn chats_are_listed_by_their_last_message_or_id_and_filtered_over_pages() {
    let scene = Scene::begin().await;
    let (api, peer) = (&scene.api, address(&scene.peer));
    let mut people = vec![peer.clone()];
    scene.simulator.text(&scene.peer, &scene.channel.number, "first", 1).await;
    chat_when(&scene, "the first is there", &peer, |_| true).await;
    for other in [number(), number()] {
        scene.simulator.phone(&other, json!({})).await;
        scene.simulator.text(&other, &scene.channel.number, "next", 1).await;
        chat_when(&scene, "the next is there", &other, |_| true).await;
        people.push(address(&other));
    }
    let body = json!({ "subject": "Friends", "participants": [scene.peer] });
    let group = string(&api.post(&scene.path("/groups"), body).await.expect(201)["id"]);
    let latest_first: Vec<String> = people.iter().rev().cloned().chain([group.clone()]).collect();
    assert_eq!(list(&scene, "").await, latest_first);
    let mut by_id = latest_first.clone();
    by_id.sort();
    assert_eq!(list(&scene, "sort=id").await, by_id);
    assert_eq!(list(&scene, "kind=group").await, [group.as_str()]);
    assert_eq!(list(&scene, "kind=direct&unread=true").await.len(), 3);
    api.patch(&chat(&scene, &group, ""), json!({ "muted_until": 0 })).await.expect(200);
    assert_eq!(list(&scene, "muted=true").await, [group.as_str()]);
    assert!(list(&scene, "archived=true").await.is_empty());

    let mut seen = Vec::new();
    let mut query = "limit=3".to_owned();
    loop {
        let page = api.get(&scene.path(&format!("/chats?{query}"))).await.expect(200);
        seen.extend(page["data"].as_array().unwrap().iter().map(|chat| string(&chat["id"])));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        query = format!("limit=3&cursor={cursor}");
    }
    assert_eq!(seen, latest_first);
    let cursor = query.strip_prefix("limit=3&cursor=").unwrap();
    let foreign = api.get(&scene.path(&format!("/chats?sort=id&cursor={cursor}"))).await;
    foreign.expect_issue(&json!(["cursor"]), "format");
    api.get(&scene.path("/chats?kind=broadcast")).await.expect_issue(&json!(["kind"]), "enum");
}

#[tokio::test]
async fn a_deleted_chat_is_gone_until_something_is_said_there() {
    let scene = Scene::begin().await;
    let (api, peer) = (&scene.api, address(&scene.peer));
    scene.simulator.text(&scene.peer, &scene.channel.number, "hi", 1).await;
    chat_when(&scene, "the chat is there", &peer, |_| true).await;
    assert_eq!(api.act(&chat(&scene, &peer, "/clear")).await.status, 204);
    assert_eq!(api.get(&chat(&scene, &peer, "")).await.expect(200)["unread"], false);
    let told = scene.event("chat.updated", "cleared", |data| data["changed"][0] == "cleared").await;
    assert_eq!(told["changed"], json!(["cleared", "unread"]));
    assert_eq!(api.post(&chat(&scene, &peer, "/clear"), json!({ "delete_chat": true })).await.status, 204);
    api.get(&chat(&scene, &peer, "")).await.expect_error(404, "chat_not_found");
    api.act(&chat(&scene, &peer, "/clear")).await.expect_error(404, "chat_not_found");
    scene.event("chat.updated", "deleted", |data| data["changed"] == json!(["deleted"])).await;
    scene.simulator.text(&scene.peer, &scene.channel.number, "again", 1).await;
    chat_when(&scene, "the chat is back", &peer, |chat| chat["unread"] == true).await;
}

#[tokio::test]
async fn bad_patches_and_queries_of_chats_are_refused_by_name() {
    let scene = Scene::begin().await;
    let path = chat(&scene, &scene.peer, "");
    let cases = [
        (json!({}), json!([]), "empty"),
        (json!({ "pinned": "yes" }), json!(["pinned"]), "type"),
        (json!({ "muted_until": 1_000 }), json!(["muted_until"]), "too_small"),
        (json!({ "ephemeral_expiration": 5 }), json!(["ephemeral_expiration"]), "enum"),
    ];
    for (body, place, code) in cases {
        scene.api.patch(&path, body).await.expect_issue(&place, code);
    }
    let many: Vec<String> = (0..101).map(|n| format!("3EB0{n}")).collect();
    let answer = scene.api.post(&chat(&scene, &scene.peer, "/read"), json!({ "message_ids": many })).await;
    answer.expect_issue(&json!(["message_ids"]), "too_many");
    scene.api.patch(&path, json!({ "pinned": true })).await.expect_error(404, "chat_not_found");
}

#[tokio::test]
async fn chats_outlive_their_owner_and_patches_that_are_overtaken_are_made_anew() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Chats").await;
    let simulator = tenant.simulator();
    let peer = number();
    simulator.phone(&peer, json!({ "name": "Ann" })).await;
    simulator.text(&peer, &channel.number, "hi", 1).await;
    let path = channel.path(&format!("/chats/{peer}"));
    let shown = async |api: &tests::http::Api, passes: &dyn Fn(&Value) -> bool| {
        eventually("the chat is as expected", SOON, async || {
            let answer = api.get(&path).await;
            if answer.status == 200 && passes(&answer.json()) { Ok(answer.json()) } else { Err(answer.text()) }
        })
        .await
    };
    shown(&tenant.any(), &|chat| chat["unread"] == true).await;
    simulator.faults(json!({ "conflicting_patches": 3 })).await;
    tenant.any().patch(&path, json!({ "archived": true })).await.expect(200);
    simulator.faults(json!({ "conflicting_patches": 4 })).await;
    let overtaken = tenant.any().patch(&path, json!({ "archived": false })).await;
    assert_eq!(overtaken.expect_error(409, "concurrent_modification"), json!({ "resource": "chat" }));
    assert_eq!(overtaken.retry_after(), 1);

    let before = shown(&tenant.any(), &|_| true).await;
    let owner = tenant.owner(cluster.running_node(), &channel.id).await.node;
    cluster.kill(owner);
    let after = shown(&tenant.any(), &|_| true).await;
    assert_eq!(after, before);
    let contact = tenant.any().get(&channel.path(&format!("/contacts/{peer}"))).await.expect(200);
    assert_eq!(contact["name"], "Ann");
}

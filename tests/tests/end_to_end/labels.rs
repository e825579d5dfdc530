//! Labels of chats and messages, created and assigned through any node and on the phone, and their events.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{Answer, string};
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{address, number, text};
use tests::wait::eventually;

/// A business account that has a chat with the peer, and the id of the chat's message.
async fn shop(cluster: &Cluster) -> (Scene, String) {
    let scene = Scene::on(cluster, json!({ "business": true })).await;
    let said = scene.simulator.text(&scene.peer, &scene.channel.number, "hi", 1).await;
    eventually("the chat is there", SOON, async || settled(scene.api.get(&chat(&scene, "")).await, 200)).await;
    (scene, said[0].clone())
}

fn settled(answer: Answer, status: u16) -> Result<Value, String> {
    if answer.status == status { Ok(answer.json()) } else { Err(answer.text()) }
}

/// The path of the chat with the peer.
fn chat(scene: &Scene, rest: &str) -> String {
    scene.path(&format!("/chats/{}{rest}", address(&scene.peer)))
}

/// A path below a label.
fn label(scene: &Scene, id: &str, rest: &str) -> String {
    scene.path(&format!("/labels/{id}{rest}"))
}

/// A path below the labels of the channel's own phone.
fn own(scene: &Scene, rest: &str) -> String {
    format!("/phones/{}{rest}", scene.channel.number)
}

async fn create(scene: &Scene, name: &str) -> String {
    string(&scene.api.post(&scene.path("/labels"), json!({ "name": name })).await.expect(201)["id"])
}

async fn rows(scene: &Scene, path: &str) -> Vec<Value> {
    scene.api.get(path).await.expect(200)["data"].as_array().unwrap().clone()
}

/// The ids of the labels of the chat with the peer.
async fn of_chat(scene: &Scene) -> Vec<String> {
    rows(scene, &chat(scene, "/labels")).await.iter().map(|label| string(&label["id"])).collect()
}

async fn shown(scene: &Scene, id: &str) -> Option<Value> {
    rows(scene, &scene.path("/labels")).await.into_iter().find(|label| label["id"] == id)
}

/// Waits for `count` events of label changes, and asserts that there are no more.
async fn told(scene: &Scene, count: usize) {
    let name = "chat.updated";
    eventually("every change of labels is told", SOON, async || match scene.told(name) {
        told if told >= count => Ok(()),
        told => Err(format!("{told} of {count}")),
    })
    .await;
    assert_eq!(scene.told(name), count);
}

#[tokio::test]
async fn labels_are_made_put_on_chats_and_messages_and_taken_off_through_any_node() {
    let (scene, said) = shop(&Cluster::shared().await).await;
    let (api, peer) = (&scene.api, address(&scene.peer));
    let predefined = rows(&scene, &scene.path("/labels")).await;
    assert_eq!(predefined.len(), 5);
    assert!(predefined.iter().all(|label| label["predefined"] == true), "{predefined:?}");

    let made = api.post(&scene.path("/labels"), json!({ "name": "Lead", "color": 1 })).await.expect(201);
    let expected = json!({ "name": "Lead", "color": 1, "color_hex": "#64c4ff", "predefined": false, "chat_count": 0 });
    assert_has(&made, &expected);
    let id = string(&made["id"]);
    assert_eq!(shown(&scene, &id).await, Some(made));
    let changed = api.patch(&label(&scene, &id, ""), json!({ "name": "Warm lead", "color": 19 })).await.expect(200);
    assert_has(&changed, &json!({ "id": id, "name": "Warm lead", "color": 19, "color_hex": "#9368cf" }));
    api.patch(&label(&scene, &id, ""), json!({ "color": 19 })).await.expect_error(409, "no_op");

    // A chat can be named by its digits, too.
    let on_chat = label(&scene, &id, &format!("/chats/{}", scene.peer));
    assert_eq!(api.put(&on_chat, json!({})).await.status, 204);
    api.put(&on_chat, json!({})).await.expect_error(409, "no_op");
    assert_eq!(shown(&scene, &id).await.unwrap()["chat_count"], 1);
    assert_eq!(of_chat(&scene).await, [id.as_str()]);
    let event = scene.event("chat.updated", "labels", |data| data["changed"] == json!(["labels"])).await;
    assert_eq!(event["chat"]["id"], peer.as_str());

    // Messages of both directions can have labels.
    let sent = api.post(&scene.path("/messages"), text(&scene.peer, "hello")).await.expect(202);
    let sent = string(&sent["message_id"]);
    for message in [&said, &sent] {
        let path = label(&scene, &id, &format!("/messages/{message}"));
        assert_eq!(api.put(&path, json!({ "chat_id": scene.peer })).await.status, 204);
        api.put(&path, json!({ "chat_id": peer })).await.expect_error(409, "no_op");
    }
    assert_eq!(shown(&scene, &id).await.unwrap()["chat_count"], 1, "messages are no chats");
    let associations = label(&scene, &id, "/associations");
    let first = api.get(&format!("{associations}?limit=1")).await.expect(200);
    assert_eq!(first["data"], json!([{ "kind": "chat", "chat_id": peer, "message_id": null }]));
    let cursor = string(&first["next_cursor"]);
    let rest = api.get(&format!("{associations}?cursor={cursor}")).await.expect(200);
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["next_cursor"]), (2, &Value::Null));
    let messages = rows(&scene, &format!("{associations}?kind=message")).await;
    assert!(messages.iter().all(|row| row["kind"] == "message" && row["chat_id"] == peer.as_str()), "{messages:?}");
    assert_eq!(rows(&scene, &format!("{associations}?kind=chat")).await.len(), 1);
    let foreign = api.get(&format!("{associations}?kind=chat&cursor={cursor}")).await;
    foreign.expect_issue(&json!(["cursor"]), "format");

    let on_message = label(&scene, &id, &format!("/messages/{sent}?chat_id={peer}"));
    assert_eq!(api.delete(&on_message).await.status, 204);
    api.delete(&on_message).await.expect_error(409, "no_op");
    assert_eq!(api.delete(&on_chat).await.status, 204);
    api.delete(&on_chat).await.expect_error(409, "no_op");
    told(&scene, 5).await;

    // The whole set is replaced at once, with one event.
    let path = chat(&scene, "/labels");
    let set = api.put(&path, json!({ "label_ids": ["1", id, "1"] })).await.expect(200);
    let ids: Vec<&str> = set["data"].as_array().unwrap().iter().map(|label| label["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["1", id.as_str()]);
    api.put(&path, json!({ "label_ids": [id, "1"] })).await.expect_error(409, "no_op");
    api.put(&path, json!({ "label_ids": ["2"] })).await.expect(200);
    api.put(&path, json!({ "label_ids": [] })).await.expect(200);
    assert!(of_chat(&scene).await.is_empty());
    told(&scene, 8).await;

    // The label still has the message when it is deleted.
    assert_eq!(api.delete(&label(&scene, &id, "")).await.status, 204);
    assert_eq!(shown(&scene, &id).await, None);
    told(&scene, 9).await;
}

#[tokio::test]
async fn what_labels_cannot_do_is_refused_with_its_reason() {
    let (scene, said) = shop(&Cluster::shared().await).await;
    let (api, nobody) = (&scene.api, address(&number()));
    // The first read queries the existing labels.
    assert_eq!(rows(&scene, &scene.path("/labels")).await.len(), 5);
    let missing = label(&scene, "99", "");
    let in_chat = json!({ "chat_id": scene.peer });
    for answer in [
        api.patch(&missing, json!({ "name": "x" })).await,
        api.delete(&missing).await,
        api.get(&format!("{missing}/associations")).await,
        api.put(&format!("{missing}/chats/{}", scene.peer), json!({})).await,
        api.delete(&format!("{missing}/chats/{}", scene.peer)).await,
        api.put(&format!("{missing}/messages/{said}"), in_chat.clone()).await,
        api.delete(&format!("{missing}/messages/{said}?chat_id={}", scene.peer)).await,
        api.put(&chat(&scene, "/labels"), json!({ "label_ids": ["1", "99"] })).await,
    ] {
        assert_eq!(answer.expect_error(404, "not_found"), json!({ "resource": "label", "id": "99" }));
    }
    for answer in [
        api.put(&label(&scene, "1", &format!("/chats/{nobody}")), json!({})).await,
        api.get(&scene.path(&format!("/chats/{nobody}/labels"))).await,
        api.put(&scene.path(&format!("/chats/{nobody}/labels")), json!({ "label_ids": ["1"] })).await,
    ] {
        assert_eq!(answer.expect_error(404, "chat_not_found"), json!({ "chat_id": nobody }));
    }
    let message = |id: &str| label(&scene, "1", &format!("/messages/{id}"));
    for (id, chat) in [("3EB0", &scene.peer), (said.as_str(), &nobody)] {
        let answer = api.put(&message(id), json!({ "chat_id": chat })).await;
        assert_eq!(answer.expect_error(404, "message_not_found"), json!({ "message_id": id }));
    }
    api.delete(&label(&scene, "1", &format!("/chats/{nobody}"))).await.expect_error(409, "no_op");

    let long = "x".repeat(101);
    let many: Vec<String> = (0..21).map(|n| n.to_string()).collect();
    let bodies = [
        (api.post(&scene.path("/labels"), json!({})).await, json!(["name"]), "required"),
        (api.post(&scene.path("/labels"), json!({ "name": "" })).await, json!(["name"]), "too_short"),
        (api.post(&scene.path("/labels"), json!({ "name": long })).await, json!(["name"]), "too_long"),
        (api.post(&scene.path("/labels"), json!({ "name": "x", "color": 20 })).await, json!(["color"]), "too_big"),
        (api.patch(&missing, json!({})).await, json!([]), "empty"),
        (api.patch(&missing, json!({ "color": "red" })).await, json!(["color"]), "type"),
        (api.put(&message(&said), json!({})).await, json!(["chat_id"]), "required"),
        (api.delete(&message(&said)).await, json!(["chat_id"]), "required"),
        (api.put(&chat(&scene, "/labels"), json!({})).await, json!(["label_ids"]), "required"),
        (api.put(&chat(&scene, "/labels"), json!({ "label_ids": many })).await, json!(["label_ids"]), "too_many"),
        (api.get(&format!("{missing}/associations?kind=all")).await, json!(["kind"]), "enum"),
    ];
    for (answer, place, code) in bodies {
        answer.expect_issue(&place, code);
    }

    for n in 5..20 {
        create(&scene, &format!("Label {n}")).await;
    }
    let refused = api.post(&scene.path("/labels"), json!({ "name": "One too many" })).await;
    assert_eq!(refused.expect_error(422, "other")["upstream_text"], "label_limit");
    assert_eq!(rows(&scene, &scene.path("/labels")).await.len(), 20);

    // The labels of a chat require the scope of labels.
    let body = json!({ "name": "l", "scopes": ["labels.read"] });
    let reader = api.with_key(&string(&api.post("/v1/api-keys", body).await.expect(201)["secret"]));
    reader.get(&chat(&scene, "/labels")).await.expect(200);
    let set = json!({ "label_ids": ["1"] });
    reader.put(&chat(&scene, "/labels"), set.clone()).await.expect_error(403, "insufficient_scope");

    assert_eq!(api.act(&scene.path("/disconnect")).await.status, 202);
    api.put(&chat(&scene, "/labels"), set).await.expect_error(409, "channel_unavailable");
    assert_eq!(rows(&scene, &scene.path("/labels")).await.len(), 20);
    assert!(of_chat(&scene).await.is_empty());
    let unpaired = scene.tenant.channel("Unpaired").await;
    assert!(rows(&scene, &format!("/v1/channels/{unpaired}/labels")).await.is_empty());
    let body = json!({ "name": "x" });
    api.post(&format!("/v1/channels/{unpaired}/labels"), body).await.expect_error(409, "not_connected");
}

#[tokio::test]
async fn what_the_phone_does_with_its_labels_is_told_and_shown() {
    let (scene, said) = shop(&Cluster::shared().await).await;
    let (api, sim) = (&scene.api, scene.simulator.api());
    let made = sim.post(&own(&scene, "/labels"), json!({ "name": "By the phone", "color": 7 })).await.expect(201);
    let id = string(&made["id"]);
    let on_chat = own(&scene, &format!("/labels/{id}/chats/{}", scene.peer));
    let on_message = own(&scene, &format!("/labels/{id}/messages/{said}"));
    // A change that is made twice is reported once.
    for _ in 0..2 {
        assert_eq!(sim.put(&on_chat, json!({})).await.status, 204);
        assert_eq!(sim.put(&on_message, json!({ "chat_id": scene.peer })).await.status, 204);
    }
    told(&scene, 2).await;
    assert_eq!(of_chat(&scene).await, [id.as_str()]);
    assert_eq!(rows(&scene, &label(&scene, &id, "/associations")).await.len(), 2);
    sim.patch(&own(&scene, &format!("/labels/{id}")), json!({ "name": "Renamed" })).await.expect(200);
    eventually("the name is known here", SOON, async || match shown(&scene, &id).await {
        Some(label) if label["name"] == "Renamed" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    // Changes made here show on the phone.
    api.put(&chat(&scene, "/labels"), json!({ "label_ids": ["1", "2"] })).await.expect(200);
    let there = sim.get(&own(&scene, &format!("/chats/{}/labels", scene.peer))).await.expect(200);
    assert_eq!((&there["total"], &there["data"][0]["chat_count"]), (&json!(2), &json!(1)));
    told(&scene, 3).await;

    // Deleting a chat also removes its labels and those of its messages.
    let deleted = json!({ "delete_chat": true });
    assert_eq!(sim.post(&own(&scene, &format!("/chats/{}/clear", scene.peer)), deleted).await.status, 204);
    let event = scene.event("chat.updated", "deleted", |data| data["changed"][0] == "deleted").await;
    assert!(event["changed"].as_array().unwrap().contains(&json!("labels")), "{event}");
    for id in ["1", "2", id.as_str()] {
        assert!(rows(&scene, &label(&scene, id, "/associations")).await.is_empty());
    }
    scene.simulator.text(&scene.peer, &scene.channel.number, "again", 1).await;
    eventually("the chat is back", SOON, async || settled(api.get(&chat(&scene, "")).await, 200)).await;
    assert!(of_chat(&scene).await.is_empty());
    assert_eq!(sim.put(&on_chat, json!({})).await.status, 204);
    assert_eq!(sim.delete(&own(&scene, &format!("/labels/{id}"))).await.status, 204);
    told(&scene, 6).await;
    assert_eq!(shown(&scene, &id).await, None);
}

#[tokio::test]
async fn only_a_business_has_labels_and_those_from_before_the_pairing_are_known() {
    let scene = Scene::begin().await;
    let (api, sim) = (&scene.api, scene.simulator.api());
    scene.simulator.text(&scene.peer, &scene.channel.number, "hi", 1).await;
    eventually("the chat is there", SOON, async || settled(api.get(&chat(&scene, "")).await, 200)).await;
    let refused = async || {
        vec![
            api.get(&scene.path("/labels")).await,
            api.post(&scene.path("/labels"), json!({ "name": "Lead" })).await,
            api.get(&chat(&scene, "/labels")).await,
            api.put(&chat(&scene, "/labels"), json!({ "label_ids": ["1"] })).await,
            api.put(&label(&scene, "1", &format!("/chats/{}", scene.peer)), json!({})).await,
            api.get(&label(&scene, "1", "/associations")).await,
        ]
    };
    for answer in refused().await {
        assert_eq!(answer.expect_error(422, "other")["upstream_text"], "not_business");
    }
    // The account becomes a business, labels a chat, and stops being a business.
    scene.simulator.phone(&scene.channel.number, json!({ "business": true })).await;
    let known = async |count: usize| {
        eventually("its labels are known", SOON, async || {
            let list = settled(api.get(&scene.path("/labels")).await, 200)?;
            if list["data"].as_array().unwrap().len() == count { Ok(()) } else { Err(list.to_string()) }
        })
        .await;
    };
    known(5).await;
    api.put(&chat(&scene, "/labels"), json!({ "label_ids": ["3"] })).await.expect(200);
    scene.simulator.phone(&scene.channel.number, json!({ "business": false })).await;
    told(&scene, 2).await;
    for answer in refused().await {
        assert_eq!(answer.expect_error(422, "other")["upstream_text"], "not_business");
    }
    scene.simulator.phone(&scene.channel.number, json!({ "business": true })).await;
    told(&scene, 3).await;
    assert_eq!(of_chat(&scene).await, ["3"]);

    // A second channel of the same phone finds the existing labels.
    sim.post(&own(&scene, "/labels"), json!({ "name": "Old" })).await.expect(201);
    let second = scene.tenant.paired_as("Second", &scene.channel.number).await;
    let list = api.get(&second.path("/labels")).await.expect(200);
    assert_eq!(list["data"].as_array().unwrap().len(), 6);
    let associations = api.get(&second.path("/labels/3/associations")).await.expect(200);
    assert_eq!(associations["data"][0]["chat_id"], address(&scene.peer).as_str());
}

#[tokio::test]
async fn labels_survive_the_death_of_their_owner() {
    let cluster = Cluster::start(Options::default()).await;
    let (scene, _) = shop(&cluster).await;
    let id = create(&scene, "Lead").await;
    let on_chat = label(&scene, &id, &format!("/chats/{}", scene.peer));
    assert_eq!(scene.api.put(&on_chat, json!({})).await.status, 204);
    told(&scene, 1).await;
    cluster.kill(scene.owner().await);
    assert_eq!(of_chat(&scene).await, [id.as_str()]);
    assert_eq!(shown(&scene, &id).await.unwrap()["chat_count"], 1);
    eventually("the next owner takes it off", SOON, async || {
        let answer = scene.api.delete(&on_chat).await;
        if answer.status == 204 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    assert!(of_chat(&scene).await.is_empty());
    told(&scene, 2).await;
}

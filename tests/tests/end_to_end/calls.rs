//! Calls: callers, how calls end, and rejections by the gateway through any node.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{address, number};
use tests::wait::eventually;

/// The peer calls the channel or a group.
async fn ring(scene: &Scene, to: &str, more: Value) -> String {
    let mut body = more;
    body["to"] = json!(to);
    let made = scene.simulator.api().post(&scene.phone_path("/calls"), body).await.expect(201);
    let id = string(&made["call_id"]);
    scene.event("call.offered", &id, |data| data["call_id"] == id.as_str()).await;
    id
}

async fn over(scene: &Scene, id: &str) -> Value {
    scene.event("call.terminated", id, |data| data["call_id"] == id).await
}

fn reject_path(scene: &Scene, id: &str) -> String {
    scene.path(&format!("/calls/{id}/reject"))
}

#[tokio::test]
async fn a_call_is_offered_and_rejected_with_or_without_naming_the_caller() {
    let scene = Scene::begin().await;
    let peer = address(&scene.peer);
    for (video, body) in [(false, None), (true, Some(json!({ "from": scene.peer })))] {
        let id = ring(&scene, &scene.channel.number, json!({ "video": video })).await;
        let offered = scene.event("call.offered", &id, |data| data["call_id"] == id.as_str()).await;
        let expected = json!({
            "from": peer, "from_phone": peer, "from_resolved": true, "is_video": video, "is_group": false,
            "group_id": null, "offline": false,
        });
        assert_has(&offered, &expected);
        assert!(offered["timestamp"].is_i64());
        let answer = match body {
            Some(body) => scene.api.post(&reject_path(&scene, &id), body).await,
            None => scene.api.act(&reject_path(&scene, &id)).await,
        };
        assert_eq!(answer.status, 204, "{}", answer.text());
        let told = over(&scene, &id).await;
        let expected = json!({
            "from": peer, "reason": "rejected", "rejected_by_gateway": true, "duration_seconds": null,
        });
        assert_has(&told, &expected);
        let calls = scene.simulator.api().get(&scene.phone_path("/calls")).await.expect(200);
        let call = calls["data"].as_array().unwrap().iter().find(|call| call["id"] == id.as_str()).unwrap().clone();
        assert_eq!(call["over"], true, "it rings no more at the caller");
        let again = scene.api.act(&reject_path(&scene, &id)).await.expect_error(404, "not_found");
        assert_eq!(again, json!({ "resource": "call", "id": id }));
    }
    assert_eq!((scene.told("call.offered"), scene.told("call.terminated")), (2, 2));
}

#[tokio::test]
async fn a_call_ends_for_each_reason_and_says_which() {
    let scene = Scene::begin().await;
    let sim = scene.simulator.api();
    let (own, peer) = (scene.channel.number.clone(), scene.peer.clone());
    let expect = async |id: &str, reason: &str| {
        let told = over(&scene, id).await;
        assert_has(&told, &json!({ "reason": reason, "rejected_by_gateway": false, "from": address(&peer) }));
        told
    };

    let id = ring(&scene, &own, json!({})).await;
    assert_eq!(sim.delete(&scene.phone_path(&format!("/calls/{id}"))).await.status, 204);
    expect(&id, "cancelled").await;

    let id = ring(&scene, &own, json!({ "ring_ms": 50 })).await;
    expect(&id, "timeout").await;

    // The channel's own phone rejects or accepts a call.
    let id = ring(&scene, &own, json!({})).await;
    assert_eq!(sim.act(&format!("/phones/{own}/calls/{id}/reject")).await.status, 204);
    expect(&id, "rejected").await;
    let id = ring(&scene, &own, json!({})).await;
    assert_eq!(sim.act(&format!("/phones/{own}/calls/{id}/accept")).await.status, 204);
    expect(&id, "accepted_elsewhere").await;
    assert_eq!(sim.delete(&format!("/phones/{own}/calls/{id}")).await.status, 204);

    // A group call that went on without the channel.
    let third = number();
    scene.simulator.phone(&third, json!({})).await;
    let body = json!({ "subject": "Callers", "participants": [own, third] });
    let group = string(&sim.post(&scene.phone_path("/groups"), body).await.expect(201)["id"]);
    let id = ring(&scene, &group, json!({})).await;
    let offered = scene.event("call.offered", &id, |data| data["call_id"] == id.as_str()).await;
    assert_has(&offered, &json!({ "is_group": true, "group_id": group }));
    sim.act(&format!("/phones/{third}/calls/{id}/accept")).await.expect(204);
    sim.delete(&scene.phone_path(&format!("/calls/{id}"))).await.expect(204);
    let told = expect(&id, "ended").await;
    assert!(told["duration_seconds"].is_u64(), "{told}");
    assert_eq!((scene.told("call.offered"), scene.told("call.terminated")), (5, 5));
}

#[tokio::test]
async fn what_cannot_be_rejected_is_refused_by_name() {
    let scene = Scene::begin().await;
    let path = |id: &str| reject_path(&scene, id);
    scene.api.act(&path("NOWHERE")).await.expect_error(404, "not_found");
    scene.api.post(&path("NOWHERE"), json!({ "from": scene.peer })).await.expect_error(404, "not_found");
    scene.api.post(&path("NOWHERE"), json!({ "from": "+1555" })).await.expect_issue(&json!(["from"]), "format");
    let id = ring(&scene, &scene.channel.number, json!({})).await;
    scene.api.post(&path(&id), json!({ "from": number() })).await.expect_error(404, "not_found");

    let accept = scene.api.act(&scene.path(&format!("/calls/{id}/accept"))).await.expect_error(501, "not_implemented");
    assert_eq!(accept["feature"], "calls.accept");
    let list = scene.api.get(&scene.path("/calls")).await.expect_error(501, "not_implemented");
    assert_eq!(list["feature"], "calls.list");

    let reader = scene.api.post("/v1/api-keys", json!({ "name": "r", "scopes": ["calls.read"] })).await.expect(201);
    let reader = scene.api.with_key(&string(&reader["secret"]));
    reader.act(&path(&id)).await.expect_error(403, "insufficient_scope");

    scene.api.act(&scene.path("/disconnect")).await.expect(202);
    scene.api.act(&path(&id)).await.expect_error(409, "channel_unavailable");
}

#[tokio::test]
async fn a_call_that_came_while_the_channel_was_away_says_so_and_survives_a_failover() {
    let cluster = Cluster::start(Options::default()).await;
    let scene = Scene::on(&cluster, json!({})).await;
    let id = ring(&scene, &scene.channel.number, json!({})).await;
    let owner = scene.owner().await;
    cluster.kill(owner);
    // The next owner knows the call, since its row names the caller, whom the network needs for the rejection.
    eventually("the call is rejected", SOON, async || {
        let answer = scene.api.act(&reject_path(&scene, &id)).await;
        if answer.status == 204 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    assert_eq!(over(&scene, &id).await["rejected_by_gateway"], true);

    scene.api.act(&scene.path("/disconnect")).await.expect(202);
    let body = json!({ "to": scene.channel.number, "ring_ms": 10 });
    let made = scene.simulator.api().post(&scene.phone_path("/calls"), body).await.expect(201);
    scene.api.act(&scene.path("/connect")).await.expect(202);
    let id = string(&made["call_id"]);
    let offered = scene.event("call.offered", "while away", |data| data["call_id"] == id.as_str()).await;
    assert_eq!(offered["offline"], true);
    assert_eq!(over(&scene, &id).await["reason"], "timeout");
}

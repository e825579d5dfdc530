//! Presence: what the channel shows, what it subscribes to, and what outlives a session.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{Tenant, address, number};
use tests::wait::eventually;

fn presence(scene: &Scene, rest: &str) -> String {
    scene.path(&format!("/presences/{}{rest}", scene.peer))
}

#[tokio::test]
async fn what_the_channel_shows_reaches_the_phone_of_the_chat() {
    let scene = Scene::begin().await;
    let (path, peer) = (scene.path("/presences"), address(&scene.peer));
    for shown in ["typing", "recording", "paused"] {
        let body = json!({ "to": scene.peer, "presence": shown });
        assert_eq!(scene.api.post(&path, body).await.expect(202), json!({ "to": peer, "presence": shown }));
        let seen = scene.simulator.api().get(&scene.phone_path("/presences")).await.expect(200);
        assert_has(&seen["data"][0], &json!({ "from": scene.channel.address(), "presence": shown }));
    }
    scene.api.post(&path, json!({ "to": scene.peer, "presence": "available" })).await.expect(202);

    let wrong = json!({ "to": scene.peer, "presence": "asleep" });
    scene.api.post(&path, wrong).await.expect_issue(&json!(["presence"]), "enum");
    scene.api.post(&path, json!({ "presence": "typing" })).await.expect_issue(&json!(["to"]), "required");
    let nobody = scene.api.post(&path, json!({ "to": "19999999999", "presence": "typing" })).await;
    assert_eq!(nobody.expect_error(400, "undeliverable_recipient")["reason"], "not_registered");
}

#[tokio::test]
async fn a_subscription_tells_of_somebody_until_it_ends() {
    let scene = Scene::begin().await;
    let (api, sim, peer) = (&scene.api, scene.simulator.api(), address(&scene.peer));
    api.get(&presence(&scene, "")).await.expect_error(404, "contact_not_found");
    api.delete(&presence(&scene, "/subscription")).await.expect_error(409, "no_op");
    assert_eq!(api.act(&presence(&scene, "/subscription")).await.status, 204);
    api.act(&presence(&scene, "/subscription")).await.expect_error(409, "no_op");
    let unknown = json!({
        "id": peer, "presence": "unknown", "last_seen_at": null, "updated_at": null, "participants": [],
    });
    assert_eq!(api.get(&presence(&scene, "")).await.expect(200), unknown);

    sim.post(&scene.phone_path("/presence"), json!({ "presence": "available" })).await.expect(204);
    let told = scene.event("presence.updated", "available", |data| data["presence"] == "available").await;
    assert_eq!(told, json!({ "id": peer, "chat_id": peer, "presence": "available", "last_seen_at": null }));
    sim.post(&scene.phone_path("/presence"), json!({ "presence": "unavailable" })).await.expect(204);
    let told = scene.event("presence.updated", "away", |data| data["presence"] == "unavailable").await;
    assert!(told["last_seen_at"].is_i64(), "{told}");
    let state = api.get(&presence(&scene, "")).await.expect(200);
    assert_has(&state, &json!({ "presence": "unavailable", "last_seen_at": told["last_seen_at"] }));
    tests::http::time(&state["updated_at"]);
    let typing = json!({ "presence": "typing", "to": scene.channel.number });
    sim.post(&scene.phone_path("/presence"), typing).await.expect(204);
    scene.event("presence.updated", "typing", |data| data["presence"] == "typing").await;

    // A member of a group.
    let body = json!({ "subject": "Friends", "participants": [scene.peer] });
    let group = string(&api.post(&scene.path("/groups"), body).await.expect(201)["id"]);
    sim.post(&scene.phone_path("/presence"), json!({ "presence": "recording", "to": group })).await.expect(204);
    let told = scene.event("presence.updated", "in the group", |data| data["chat_id"] == group.as_str()).await;
    assert_has(&told, &json!({ "id": peer, "participant": peer, "presence": "recording" }));
    let state = api.get(&scene.path(&format!("/presences/{group}"))).await.expect(200);
    assert_eq!(state["participants"], json!([{ "id": peer, "presence": "recording" }]));

    assert_eq!(api.delete(&presence(&scene, "/subscription")).await.status, 204);
    sim.post(&scene.phone_path("/presence"), json!({ "presence": "available" })).await.expect(204);
    let body = json!({ "presence": "paused", "to": scene.channel.number });
    sim.post(&scene.phone_path("/presence"), body).await.expect(204);
    scene.event("presence.updated", "paused", |data| data["presence"] == "paused").await;
    let available = |request: &tests::receiver::Received| request.json()["data"]["presence"] == "available";
    let told = scene.receiver.received().into_iter().filter(|r| r.event() == "presence.updated" && available(r));
    assert_eq!(told.count(), 1, "nothing is told once the subscription has ended");
}

#[tokio::test]
async fn who_hides_the_last_seen_time_or_blocks_the_channel_shows_nothing() {
    let scene = Scene::begin().await;
    let (api, sim) = (&scene.api, scene.simulator.api());
    let hide = json!({ "last_seen": "none", "online": "all" });
    sim.patch(&scene.phone_path("/privacy"), hide).await.expect(204);
    assert_eq!(api.act(&presence(&scene, "/subscription")).await.status, 204);
    sim.post(&scene.phone_path("/presence"), json!({ "presence": "unavailable" })).await.expect(204);
    let told = scene.event("presence.updated", "away", |data| data["presence"] == "unavailable").await;
    assert_eq!(told["last_seen_at"], Value::Null);
    let shown = api.get(&scene.path(&format!("/contacts/{}?refresh=true", scene.peer))).await.expect(200);
    assert_eq!(shown["last_seen_at"], Value::Null);
}

#[tokio::test]
async fn subscriptions_are_issued_again_by_the_next_owner_and_end_without_the_network() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.paired("Presence").await;
    let (simulator, peer) = (tenant.simulator(), number());
    simulator.phone(&peer, json!({})).await;
    let path = channel.path(&format!("/presences/{peer}"));
    assert_eq!(tenant.any().act(&format!("{path}/subscription")).await.status, 204);
    let owner = tenant.owner(cluster.running_node(), &channel.id).await.node;
    cluster.kill(owner);
    tests::tenant::wait_status(&tenant.any(), &channel.id, "connected", SOON).await;
    eventually("the next owner hears of it", SOON, async || {
        let shown = json!({ "presence": "available" });
        simulator.api().post(&format!("/phones/{peer}/presence"), shown).await.expect(204);
        let state = tenant.any().get(&path).await.expect(200);
        if state["presence"] == "available" { Ok(()) } else { Err(state.to_string()) }
    })
    .await;
    tenant.any().act(&channel.path("/disconnect")).await.expect(202);
    assert_eq!(tenant.any().get(&path).await.expect(200)["presence"], "available");
    tenant.any().act(&format!("{path}/subscription")).await.expect_error(409, "channel_unavailable");
    assert_eq!(tenant.any().delete(&format!("{path}/subscription")).await.status, 204);
    tenant.any().delete(&format!("{path}/subscription")).await.expect_error(409, "no_op");

    // Unsubscribing does not wait for a connecting channel either.
    tenant.any().act(&channel.path("/connect")).await.expect(202);
    tests::tenant::wait_status(&tenant.any(), &channel.id, "connected", SOON).await;
    assert_eq!(tenant.any().act(&format!("{path}/subscription")).await.status, 204);
    simulator.faults(json!({ "login_delay_ms": 30_000 })).await;
    tenant.any().act(&channel.path("/restart")).await.expect(202);
    assert_eq!(tenant.any().delete(&format!("{path}/subscription")).await.status, 204);
    tenant.any().delete(&format!("{path}/subscription")).await.expect_error(409, "no_op");
}

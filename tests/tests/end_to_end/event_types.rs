//! The API document and `GET /v1/event-types` describe the events that are sent: each event results from something that
//! happened, matches its schema, and is parsed by a client generated from the document.

use model::event::EventName;
use serde_json::{Value, json};
use tests::http::{client, string};
use tests::scene::Scene;
use tests::tenant::{address, number};

use crate::openapi::{generate_client, run, sources};

/// Causes every event, with several message contents and contexts.
async fn everything(scene: &Scene) {
    let (api, sim, own) = (&scene.api, scene.simulator.api(), scene.channel.number.clone());
    let write = async |body: Value| {
        let mut body = body;
        body["to"] = json!(own);
        string(&sim.post(&scene.phone_path("/messages"), body).await.expect(201)["ids"][0])
    };
    let sent = json!({ "type": "text", "to": scene.peer, "text": "look", "client_ref": "order-17" });
    let sent = string(&api.post(&scene.path("/messages"), sent).await.expect(202)["message_id"]);
    let heard = write(json!({ "type": "text", "text": "hi" })).await;
    for body in [
        json!({ "type": "image", "media": { "mime_type": "image/png", "size": 2048 }, "caption": "c" }),
        json!({ "type": "audio", "media": { "mime_type": "audio/ogg", "size": 2048, "voice": true } }),
        json!({ "type": "document", "media": { "mime_type": "application/pdf", "size": 9, "filename": "a.pdf" } }),
        json!({ "type": "edit", "message_key": { "id": heard }, "text": "hello" }),
        json!({ "type": "location", "latitude": 1.5, "longitude": 2.0, "live": true }),
        json!({ "type": "contact", "contacts": [{ "name": "Ben", "phones": ["15551230001"] }] }),
        json!({ "type": "poll", "name": "q", "options": ["x", "y"], "selectable_count": 2 }),
        json!({ "type": "event", "name": "Party", "start_at": 1_800_000_000 }),
        json!({ "type": "unknown", "raw_type": "hologram" }),
        json!({ "type": "delete", "message_key": { "id": heard } }),
        json!({
            "type": "text", "text": "see https://example.com/a", "quoted": { "id": sent }, "forwarded": true,
            "ephemeral_expiration": 604_800, "link_preview": { "url": "https://example.com/a", "title": "A" },
        }),
    ] {
        let id = write(body).await;
        scene.event("message.received", &id, |data| data["message_id"] == id.as_str()).await;
    }
    let react = json!({ "id": sent, "emoji": "😮" });
    sim.post(&scene.phone_path("/react"), react).await.expect(204);

    let third = number();
    scene.simulator.phone(&third, json!({ "hide_number": true })).await;
    scene.simulator.text(&third, &own, "guess", 1).await;
    sim.post(&format!("/phones/{third}/disclose"), json!({ "to": own })).await.expect(204);

    let group = json!({ "subject": "Friends", "participants": [scene.peer] });
    let group = string(&api.post(&scene.path("/groups"), group).await.expect(201)["id"]);
    let group_path = |rest: &str| scene.path(&format!("/groups/{group}/{rest}"));
    api.put(&group_path("subject"), json!({ "subject": "Family" })).await.expect(200);
    for (action, whom) in
        [("promote", &scene.peer), ("demote", &scene.peer), ("remove", &scene.peer), ("add", &scene.peer)]
    {
        let body = json!({ "action": action, "participants": [whom] });
        api.post(&group_path("participants"), body).await.expect(200);
    }
    let said = json!({ "type": "text", "to": group, "text": "all of you" });
    let said = string(&api.post(&scene.path("/messages"), said).await.expect(202)["message_id"]);
    scene.event("message.status", "of a member", |data| data["message_id"] == said.as_str()).await;

    let chat = scene.path(&format!("/chats/{}", address(&scene.peer)));
    api.patch(&chat, json!({ "pinned": true, "muted_until": 0 })).await.expect(200);
    api.patch(&chat, json!({ "archived": true })).await.expect(200);

    let subscription = scene.path(&format!("/presences/{}/subscription", scene.peer));
    assert_eq!(api.act(&subscription).await.status, 204);
    sim.post(&scene.phone_path("/presence"), json!({ "presence": "available" })).await.expect(204);

    let tea = json!({
        "name": "Tea", "price_amount": 4500, "currency": "EUR", "image_urls": ["https://example.com/1.jpg"],
    });
    let tea = string(&api.post(&scene.path("/business/products"), tea).await.expect(201)["id"]);
    let order = json!({ "to": own, "items": [{ "product_id": tea, "quantity": 2 }], "note": "No sugar" });
    let order = string(&sim.post(&scene.phone_path("/orders"), order).await.expect(201)["order_id"]);
    let cancel = scene.phone_path(&format!("/orders/{order}/cancel"));
    sim.post(&cancel, json!({ "reason": "Too late" })).await.expect(201);
    let cart = json!({ "to": own, "items": [{ "product_id": tea, "quantity": 3 }] });
    sim.put(&scene.phone_path("/cart"), cart).await.expect(201);

    let story = json!({ "type": "text", "text": "Open until eight" });
    let story = string(&api.post(&scene.path("/stories"), story).await.expect(202)["story_id"]);
    sim.act(&scene.phone_path(&format!("/stories/{story}/view"))).await.expect(204);

    let call = json!({ "to": own, "ring_ms": 50 });
    let call = string(&sim.post(&scene.phone_path("/calls"), call).await.expect(201)["call_id"]);
    scene.event("call.terminated", &call, |data| data["call_id"] == call.as_str()).await;

    assert_eq!(sim.post(&format!("/phones/{own}/unlink"), json!({})).await.status, 204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_is_sent_for_real_and_is_what_the_document_says() {
    let scene = Scene::with(json!({ "business": true })).await;
    everything(&scene).await;
    for name in EventName::ALL {
        scene.event(name.as_str(), "it came", |_| true).await;
    }
    let events: Vec<Value> = scene.receiver.received().iter().map(tests::receiver::Received::json).collect();

    let api = &scene.tenant.cluster.dev().nodes[0].api;
    let folder = tempfile::tempdir().unwrap();
    generate_client(api, folder.path()).await;
    let types = client().get(format!("{api}/v1/event-types")).send().await.unwrap();
    assert_eq!(types.status(), 200, "it is open to everybody");
    std::fs::write(folder.path().join("event-types.json"), types.bytes().await.unwrap()).unwrap();
    std::fs::write(folder.path().join("events.json"), serde_json::to_vec(&events).unwrap()).unwrap();
    let environment = [("PYTHONPATH", folder.path().to_str().unwrap()), ("PYTHONDONTWRITEBYTECODE", "1")];
    run("python", &[sources().join("events.py").to_str().unwrap()], folder.path(), &environment).await;
}

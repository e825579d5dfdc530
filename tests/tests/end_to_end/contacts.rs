//! Contacts and linked-device addresses: how the channel learns of people, and its queries about them.

use serde_json::{Value, json};
use tests::http::string;
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{address, number};
use tests::wait::eventually;

/// A contact of the scene's channel, once it is listed.
async fn known(scene: &Scene, of: &str) -> Value {
    eventually("the contact is listed", SOON, async || {
        let list = scene.api.get(&scene.path("/contacts/all")).await.expect(200);
        let id = if of.contains('@') { of.to_owned() } else { address(of) };
        let found = list["data"].as_array().unwrap().iter().find(|contact| contact["id"] == id.as_str());
        found.cloned().ok_or_else(|| list.to_string())
    })
    .await
}

#[tokio::test]
async fn people_become_contacts_by_writing_and_get_names_that_are_saved() {
    let scene = Scene::begin().await;
    let (api, peer) = (&scene.api, address(&scene.peer));
    scene.simulator.text(&scene.peer, &scene.channel.number, "hi", 1).await;
    let contact = known(&scene, &scene.peer).await;
    let expected = json!({
        "id": peer, "name": "Ann", "business_name": null, "about": null, "picture_url": null, "is_business": false,
        "is_blocked": false, "last_seen_at": null,
    });
    assert_has(&contact, &expected);
    let path = scene.path(&format!("/contacts/{}", scene.peer));
    assert_eq!(api.get(&path).await.expect(200)["id"], peer.as_str());

    let renamed = api.patch(&path, json!({ "name": "Ann of Sales" })).await.expect(200);
    assert_eq!(renamed["name"], "Ann of Sales");
    let own = format!("/phones/{}/contacts/{}", scene.channel.number, scene.peer);
    assert_eq!(scene.simulator.api().get(&own).await.expect(200)["saved_name"], "Ann of Sales");
    let cleared = api.patch(&path, json!({ "name": null })).await.expect(200);
    assert_eq!(cleared["name"], "Ann");
    api.patch(&path, json!({ "name": "" })).await.expect_issue(&json!(["name"]), "too_short");
    api.patch(&path, json!({ "nickname": "A" })).await.expect_issue(&json!(["name"]), "required");

    // The phone's own address book changes the name.
    scene.simulator.api().patch(&own, json!({ "name": "Annie" })).await.expect(204);
    eventually("the phone's name is here", SOON, async || {
        let shown = api.get(&path).await.expect(200);
        if shown["name"] == "Annie" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    assert_eq!(api.get(&scene.path("/contacts/all?q=anni")).await.expect(200)["count"], 1);
    assert_eq!(api.get(&scene.path("/contacts/all?q=bob")).await.expect(200)["count"], 0);
    assert_eq!(api.get(&scene.path("/contacts/all?is_business=true")).await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn somebody_new_is_found_at_the_network_and_nobody_is_not() {
    let scene = Scene::begin().await;
    let api = &scene.api;
    let shop = number();
    scene.simulator.phone(&shop, json!({ "name": "Shop", "business": true })).await;
    let found = api.get(&scene.path(&format!("/contacts/{shop}"))).await.expect(200);
    assert_has(&found, &json!({ "name": "Shop", "business_name": "Shop", "is_business": true }));
    // The shown LID can be used at once.
    let lid = string(&found["lid"]);
    let pair = json!({ "lid": lid, "phone_jid": address(&shop) });
    assert_has(&api.get(&scene.path(&format!("/contacts/lids/{lid}"))).await.expect(200), &pair);
    let text = json!({ "type": "text", "to": lid, "text": "hi" });
    assert_eq!(api.post(&scene.path("/messages"), text).await.expect(202)["to"], address(&shop).as_str());
    scene.simulator.phone(&shop, json!({ "name": "Store" })).await;
    let path = scene.path(&format!("/contacts/{}", address(&shop)));
    assert_eq!(api.get(&path).await.expect(200)["name"], "Shop");
    assert_eq!(api.get(&format!("{path}?refresh=true")).await.expect(200)["name"], "Store");

    let nobody = api.get(&scene.path("/contacts/19999999999")).await.expect_error(404, "contact_not_found");
    assert_eq!(nobody, json!({ "contact_id": "19999999999@s.example" }));
    api.patch(&scene.path("/contacts/19999999999"), json!({ "name": "X" }))
        .await
        .expect_error(404, "contact_not_found");
    api.get(&scene.path("/contacts/ann")).await.expect_error(404, "contact_not_found");
    api.get(&scene.path("/contacts/+15551234567")).await.expect_issue(&json!(["contact_id"]), "format");
}

#[tokio::test]
async fn numbers_are_checked_up_to_a_limit_and_their_addresses_kept() {
    let scene = Scene::begin().await;
    let (api, path) = (&scene.api, scene.path("/contacts/check"));
    let checked = api.post(&path, json!({ "phones": [scene.peer, "19999999999"] })).await.expect(200);
    let lid = string(&scene.simulator.get_phone(&scene.peer).await["lid"]);
    let here = json!({
        "input": scene.peer, "exists": true, "id": address(&scene.peer), "lid": lid, "is_business": false,
    });
    let nobody = json!({ "input": "19999999999", "exists": false, "id": null, "lid": null, "is_business": false });
    assert_eq!(checked["data"], json!([here, nobody]));
    let resolved = scene.event("contact.resolved", &lid, |data| data["lid"] == lid.as_str()).await;
    assert_eq!(resolved["phone_jid"], address(&scene.peer).as_str());

    let pair = json!({ "lid": lid, "phone_jid": address(&scene.peer) });
    let all = api.get(&scene.path("/contacts")).await.expect(200);
    assert_eq!(all, json!({ "data": [pair], "count": 1 }));
    for query in [format!("lid={lid}"), format!("phone={}", scene.peer)] {
        assert_eq!(api.get(&scene.path(&format!("/contacts?{query}"))).await.expect(200)["data"], json!([pair]));
    }
    assert_eq!(api.get(&scene.path("/contacts?phone=19999999999")).await.expect(200)["count"], 0);
    let known = api.get(&scene.path(&format!("/contacts/lids/{lid}"))).await.expect(200);
    assert_has(&known, &pair);
    tests::http::time(&known["first_seen_at"]);
    assert_eq!(api.get(&scene.path(&format!("/contacts/phones/{}/lid", scene.peer))).await.expect(200), pair);
    api.get(&scene.path("/contacts/lids/12@lid")).await.expect_error(404, "contact_not_found");
    api.get(&scene.path("/contacts/phones/19999999999/lid")).await.expect_error(404, "contact_not_found");

    api.post(&path, json!({ "phones": [] })).await.expect_issue(&json!(["phones"]), "empty");
    api.post(&path, json!({ "phones": ["+1555"] })).await.expect_issue(&json!(["phones", 0]), "format");
    let fifty: Vec<&str> = vec!["19999999999"; 50];
    let one_more = [fifty.clone(), vec!["19999999999"]].concat();
    api.post(&path, json!({ "phones": one_more })).await.expect_issue(&json!(["phones"]), "too_many");
    for _ in 0..3 {
        api.post(&path, json!({ "phones": fifty })).await.expect(200);
    }
    let over = api.post(&path, json!({ "phones": fifty })).await;
    assert_eq!(over.expect_error(429, "rate_limited"), json!({ "scope": "channel", "limit": 200 }));
    assert!((1..=60).contains(&over.retry_after()));

    // Other routes that reveal whether a stranger is registered share this limit; known people do not count.
    let (stranger, known) = (scene.path("/contacts/18888888888"), scene.path(&format!("/contacts/{}", scene.peer)));
    api.post(&path, json!({ "phones": fifty[..47] })).await.expect(200);
    api.get(&stranger).await.expect_error(404, "contact_not_found");
    api.get(&stranger).await.expect_error(429, "rate_limited");
    api.patch(&stranger, json!({ "name": "X" })).await.expect_error(429, "rate_limited");
    let block = scene.path("/blacklist/18888888888");
    api.put(&block, Value::Null).await.expect_error(429, "rate_limited");
    api.get(&format!("{stranger}/business-profile")).await.expect_error(429, "rate_limited");
    assert_eq!(api.get(&format!("{known}?refresh=true")).await.expect(200)["id"], address(&scene.peer).as_str());
}

#[tokio::test]
async fn a_hidden_number_is_one_contact_and_one_chat_before_and_after_it_is_known() {
    let scene = Scene::begin().await;
    let (api, hidden) = (&scene.api, number());
    let phone = scene.simulator.phone(&hidden, json!({ "name": "Shy", "hide_number": true })).await;
    let lid = string(&phone["lid"]);
    scene.simulator.text(&hidden, &scene.channel.number, "hi", 1).await;
    let contact = known(&scene, &lid).await;
    assert_has(&contact, &json!({ "id": lid, "lid": lid, "name": "Shy" }));
    api.patch(&scene.path(&format!("/chats/{lid}")), json!({ "pinned": true })).await.expect(200);

    let disclose = json!({ "to": scene.channel.number });
    scene.simulator.api().post(&format!("/phones/{hidden}/disclose"), disclose).await.expect(204);
    let contact = known(&scene, &hidden).await;
    assert_has(&contact, &json!({ "id": address(&hidden), "lid": lid, "name": "Shy" }));
    for name in [&lid, &hidden] {
        let chat = api.get(&scene.path(&format!("/chats/{name}"))).await.expect(200);
        assert_has(&chat, &json!({ "id": address(&hidden), "pinned": true, "unread": true }));
        assert_eq!(api.get(&scene.path(&format!("/contacts/{name}"))).await.expect(200), contact);
    }
    let chats = api.get(&scene.path("/chats")).await.expect(200);
    assert_eq!(chats["data"].as_array().unwrap().len(), 1, "{chats}");
    // Messages stored before the number was known are shown under it, whichever name the filter has.
    for filter in [String::new(), format!("?chat_id={lid}"), format!("?chat_id={hidden}")] {
        let rows = api.get(&scene.path(&format!("/messages{filter}"))).await.expect(200);
        assert_eq!(rows["data"].as_array().unwrap().len(), 1, "{filter}: {rows}");
        let sender =
            json!({ "from": address(&hidden), "from_resolved": true, "from_lid": lid, "from_phone": address(&hidden) });
        assert_has(&rows["data"][0], &json!({ "chat_id": address(&hidden), "direction": "inbound" }));
        assert_has(&rows["data"][0], &sender);
    }
}

#[tokio::test]
async fn groups_make_contacts_and_tell_who_is_in_them() {
    let scene = Scene::begin().await;
    let body = json!({ "subject": "Friends", "participants": [scene.peer] });
    let group = string(&scene.api.post(&scene.path("/groups"), body).await.expect(201)["id"]);
    known(&scene, &scene.peer).await;
    let common = scene.api.get(&scene.path(&format!("/contacts/{}/groups", scene.peer))).await.expect(200);
    assert_eq!(common, json!({ "data": [{ "id": group, "subject": "Friends" }] }));
    let none = scene.api.get(&scene.path("/contacts/19999999999/groups")).await.expect(200);
    assert_eq!(none["data"], json!([]));
}

#[tokio::test]
async fn the_address_book_and_chats_from_before_the_pairing_are_known() {
    let scene = Scene::begin().await;
    let (tenant, sim, own) = (&scene.tenant, scene.simulator.api(), number());
    scene.simulator.phone(&own, json!({})).await;
    sim.patch(&format!("/phones/{own}/contacts/{}", scene.peer), json!({ "name": "Old friend" })).await.expect(204);
    scene.simulator.text(&scene.peer, &own, "long ago", 1).await;
    let channel = tenant.paired_as("Late", &own).await;
    let path = channel.path(&format!("/chats/{}", scene.peer));
    let chat = eventually("the old chat is here", SOON, async || {
        let answer = scene.api.get(&path).await;
        if answer.status == 200 { Ok(answer.json()) } else { Err(answer.text()) }
    })
    .await;
    assert_has(&chat, &json!({ "id": address(&scene.peer), "unread": true }));
    scene.api.act(&channel.path("/disconnect")).await.expect(202);
    let contact = scene.api.get(&channel.path(&format!("/contacts/{}", scene.peer))).await.expect(200);
    assert_eq!(contact["name"], "Old friend");
    let patch = scene.api.patch(&path, json!({ "archived": true })).await;
    patch.expect_error(409, "channel_unavailable");
    scene.api.get(&channel.path("/contacts/18888888888")).await.expect_error(404, "contact_not_found");
}

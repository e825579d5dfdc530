//! Groups: what a channel does with them through any node, what others do, and the events of both.

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tests::http::{Answer, answer, string};
use tests::media::{jpeg_size, noise, picture, upload};
use tests::network::{group_suffix, invite_site, is_whatsapp};
use tests::scene::{Scene, assert_has};
use tests::tenant::{address, number, pair};
use tests::wait::eventually;

impl Group<'_> {
    async fn create(scene: &Scene) -> Group<'_> {
        let body = json!({ "subject": "Friends", "participants": [scene.peer] });
        let made = scene.api.post(&scene.path("/groups"), body).await.expect(201);
        assert_eq!(made["participants_result"], json!([{ "id": address(&scene.peer), "status": "ok" }]));
        Group { scene, id: string(&made["id"]) }
    }

    fn path(&self, rest: &str) -> String {
        self.scene.path(&format!("/groups/{}{rest}", self.id))
    }

    /// Path of the group at the peer's phone.
    fn peers(&self, rest: &str) -> String {
        self.scene.phone_path(&format!("/groups/{}{rest}", self.id))
    }

    async fn show(&self) -> Value {
        self.scene.api.get(&self.path("")).await.expect(200)
    }
}

struct Group<'a> {
    scene: &'a Scene,
    id: String,
}

#[tokio::test]
async fn a_group_is_made_shown_changed_and_left_through_any_node() {
    let scene = Scene::begin().await;
    let group = Group::create(&scene).await;
    let (own, peer) = (scene.channel.address(), address(&scene.peer));
    let shown = group.show().await;
    let ranks = json!([{ "id": own, "rank": "creator" }, { "id": peer, "rank": "member" }]);
    let expected = json!({
        "subject": "Friends", "description": null, "created_by": own, "participants": ranks, "invite_code": null,
        "announce": false, "restrict": false, "ephemeral": 0, "member_add_mode": true, "join_approval_mode": false,
    });
    assert_has(&shown, &expected);
    let told = scene.event("group.created", &group.id, |data| data["group"]["id"] == group.id.as_str()).await;
    assert_has(&told, &json!({ "origin": "created", "actor": own }));

    let api = &scene.api;
    let renamed = api.put(&group.path("/subject"), json!({ "subject": "Family" })).await.expect(200);
    assert_eq!(renamed["subject"], "Family");
    api.put(&group.path("/subject"), json!({ "subject": "Family" })).await.expect_error(409, "no_op");
    let described = api.put(&group.path("/description"), json!({ "description": "All of us" })).await.expect(200);
    assert_eq!(described["description"], "All of us");
    let cleared = api.put(&group.path("/description"), json!({ "description": "" })).await.expect(200);
    assert_eq!(cleared["description"], Value::Null);
    let closed = api.patch(&group.path("/settings"), json!({ "announce": true, "ephemeral": 86400 })).await.expect(200);
    assert_has(&closed, &json!({ "announce": true, "ephemeral": 86400, "restrict": false }));
    let told = scene.event("group.updated", "settings", |data| data["changes"]["announce"] == true).await;
    assert_eq!(told["changes"], json!({ "announce": true, "ephemeral": 86400 }));
    let kept = json!(["ephemeral_expiration"]);
    let told = scene.event("chat.updated", "ephemeral", |data| data["changed"] == kept).await;
    assert_has(&told["chat"], &json!({ "id": group.id, "ephemeral_expiration": 86400 }));
    assert_eq!(scene.simulator.api().get(&group.peers("")).await.expect(200)["announce"], true);

    let list = api.get(&scene.path("/groups?participants=false")).await.expect(200);
    assert_eq!(list["data"][0]["participants"], json!([]));
    assert_eq!(list["next_cursor"], Value::Null);

    assert_eq!(api.act(&group.path("/leave")).await.status, 204);
    api.get(&group.path("")).await.expect_error(404, "not_found");
    api.act(&group.path("/leave")).await.expect_error(409, "no_op");
    let left = scene.event("group.participant_removed", "left", |data| data["reason"] == "left").await;
    assert_eq!(left["participants"], json!([own]));
    // One event for each change.
    let told = ["group.created", "group.updated", "group.participant_removed"].map(|name| scene.told(name));
    assert_eq!(told, [1, 4, 1]);
}

#[tokio::test]
async fn members_come_and_go_with_a_result_for_each() {
    let scene = Scene::begin().await;
    let group = Group::create(&scene).await;
    let third = number();
    scene.simulator.phone(&third, json!({})).await;
    let (api, peer) = (&scene.api, address(&scene.peer));
    let act = async |action: &str, whom: &[&str]| {
        let body = json!({ "action": action, "participants": whom });
        let answer = api.post(&group.path("/participants"), body).await.expect(200);
        let results = answer["participants"].as_array().unwrap().clone();
        results.iter().map(|result| string(&result["status"])).collect::<Vec<_>>()
    };
    assert_eq!(act("add", &[&third, &scene.peer, "19999999999"]).await, ["ok", "already_member", "not_found"]);
    assert_eq!(act("promote", &[&peer]).await, ["ok"]);
    assert_eq!(act("demote", &[&peer]).await, ["ok"]);
    assert_eq!(act("remove", &[&third, &third]).await, ["ok", "not_member"]);
    assert_eq!(act("remove", &[&scene.channel.number]).await, ["not_authorized"]);
    let third = address(&third);
    let body = json!({ "action": "remove", "participants": [third] });
    let answer = api.post(&group.path("/participants"), body).await.expect(200);
    let expected = json!([{ "id": third, "status": "not_member", "message": "not a member" }]);
    assert_eq!(answer["participants"], expected);
    for (event, whom) in [
        ("group.participant_added", &third),
        ("group.admin_promoted", &peer),
        ("group.admin_demoted", &peer),
        ("group.participant_removed", &third),
    ] {
        let told = scene.event(event, whom, |data| data["group_id"] == group.id.as_str()).await;
        assert_eq!(told["participants"], json!([whom]), "{event}");
    }
}

#[tokio::test]
async fn what_others_do_to_a_group_is_seen_and_told_once_even_over_a_new_login() {
    let scene = Scene::begin().await;
    let sim = scene.simulator.api();
    scene.simulator.faults(json!({ "hold_inbound_acks": false })).await;
    let body = json!({ "subject": "Theirs", "participants": [scene.channel.number] });
    let made = sim.post(&scene.phone_path("/groups"), body).await.expect(201);
    let group = Group { scene: &scene, id: string(&made["id"]) };
    let told = scene.event("group.created", "added", |data| data["group"]["id"] == group.id.as_str()).await;
    assert_has(&told, &json!({ "origin": "added", "actor": address(&scene.peer) }));
    sim.put(&group.peers("/subject"), json!({ "subject": "Ours" })).await.expect(200);
    scene.event("group.updated", "subject", |data| data["changes"]["subject"] == "Ours").await;
    assert_eq!(group.show().await["subject"], "Ours");

    // The channel is no admin: the network refuses, and the error has its reason.
    let restrict = json!({ "restrict": true });
    let refused = scene.api.patch(&group.path("/settings"), restrict).await;
    assert_eq!(refused.expect_error(422, "other")["upstream_code"], 403);

    scene.api.act(&scene.path("/restart")).await.expect(202);
    eventually("the channel is back", tests::scene::SOON, async || {
        let channel = scene.api.get(&scene.path("")).await.expect(200);
        if channel["status"] == "connected" { Ok(()) } else { Err(channel.to_string()) }
    })
    .await;
    assert_eq!(group.show().await["subject"], "Ours");
    assert_eq!((scene.told("group.created"), scene.told("group.updated")), (1, 1));
}

#[tokio::test]
async fn an_invite_leads_into_a_group_at_once_or_past_its_admins() {
    let scene = Scene::begin().await;
    let sim = scene.simulator.api();
    let made = sim.post(&scene.phone_path("/groups"), json!({ "subject": "Open" })).await.expect(201);
    let group = Group { scene: &scene, id: string(&made["id"]) };
    let code = string(&sim.get(&group.peers("/invite")).await.expect(200)["invite_code"]);
    let api = &scene.api;
    let preview = api.get(&scene.path(&format!("/groups/invite/{code}"))).await.expect(200);
    assert_has(&preview, &json!({ "id": group.id, "subject": "Open", "size": 1 }));
    api.get(&scene.path("/groups/invite/nowhere")).await.expect_error(404, "not_found");
    let encoded = format!("https%3A%2F%2F{}%2F{code}", invite_site());
    assert_eq!(api.get(&scene.path(&format!("/groups/invite/{encoded}"))).await.expect(200), preview);

    let url = format!("https://{}/{code}", invite_site());
    let joined = api.post(&scene.path("/groups/join"), json!({ "invite_code": url })).await.expect(200);
    assert_eq!(joined, json!({ "id": group.id, "status": "joined" }));
    api.post(&scene.path("/groups/join"), json!({ "invite_code": code })).await.expect_error(409, "no_op");
    assert_eq!(group.show().await["participants"].as_array().unwrap().len(), 2);

    // The channel is an admin, and approves join requests.
    let own = Group::create(&scene).await;
    api.patch(&own.path("/settings"), json!({ "join_approval_mode": true })).await.expect(200);
    let invite = api.get(&own.path("/invite")).await.expect(200);
    let code = string(&invite["invite_code"]);
    assert_eq!(invite["invite_url"], format!("https://{}/{code}", invite_site()));
    assert_eq!(own.show().await["invite_code"], code.as_str());
    let third = number();
    scene.simulator.phone(&third, json!({})).await;
    let waiting = sim.post(&format!("/phones/{third}/groups/join"), json!({ "invite_code": code })).await.expect(200);
    assert_eq!(waiting["status"], "pending_approval");
    let requests = api.get(&own.path("/join-requests")).await.expect(200);
    assert_eq!(requests["data"][0]["id"], address(&third).as_str());
    let body = json!({ "action": "approve", "participants": [third] });
    let decided = api.post(&own.path("/join-requests"), body).await.expect(200);
    assert_eq!(decided["participants"], json!([{ "id": address(&third), "status": "ok" }]));
    let added = scene.event("group.participant_added", "approved", |data| data["reason"] == "approved").await;
    assert_eq!(added["participants"], json!([address(&third)]));
    let revoked = api.delete(&own.path("/invite")).await.expect(200);
    assert_ne!(revoked["invite_code"], code.as_str());
}

#[tokio::test]
async fn groups_are_read_in_every_status_and_known_from_before_the_pairing() {
    let scene = Scene::begin().await;
    let (tenant, sim) = (&scene.tenant, scene.simulator.api());
    let own = number();
    scene.simulator.phone(&own, json!({})).await;
    let body = json!({ "subject": "Old friends", "participants": [own] });
    let id = string(&sim.post(&scene.phone_path("/groups"), body).await.expect(201)["id"]);
    let channel = tenant.channel("Late").await;
    let path = format!("/v1/channels/{channel}/groups");
    assert_eq!(scene.api.get(&path).await.expect(200)["data"], json!([]));
    scene.api.get(&format!("{path}?refresh=true")).await.expect_error(409, "not_connected");
    pair(&scene.api, &scene.simulator, &channel, &own).await;
    eventually("the group is known", tests::scene::SOON, async || {
        let answer = scene.api.get(&format!("{path}/{id}")).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    scene.api.act(&format!("/v1/channels/{channel}/disconnect")).await.expect(202);
    let shown = scene.api.get(&format!("{path}/{id}")).await.expect(200);
    assert_eq!(shown["subject"], "Old friends");
    let refused = scene.api.act(&format!("{path}/{id}/leave")).await;
    refused.expect_error(409, "channel_unavailable");
}

#[tokio::test]
async fn bad_bodies_and_unknown_groups_are_refused_by_name() {
    let scene = Scene::begin().await;
    let (api, path) = (&scene.api, scene.path("/groups"));
    let issue = async |body: Value, path_in_body: Value, code: &str| {
        api.post(&path, body).await.expect_issue(&path_in_body, code);
    };
    issue(json!({ "participants": [scene.peer] }), json!(["subject"]), "required").await;
    issue(json!({ "subject": "x".repeat(101), "participants": [scene.peer] }), json!(["subject"]), "too_long").await;
    issue(json!({ "subject": "x", "participants": ["+1555"] }), json!(["participants", 0]), "format").await;
    let unknown = api.post(&path, json!({ "subject": "x", "participants": ["12@who.example"] })).await;
    assert_eq!(unknown.expect_error(400, "undeliverable_recipient")["reason"], "unknown_suffix");
    let stranger = format!("12@{}", group_suffix());
    let missing = api.get(&format!("{path}/{stranger}")).await.expect_error(404, "not_found");
    assert_eq!(missing, json!({ "resource": "group", "id": stranger }));
    let body = json!({ "action": "ban", "participants": [scene.peer] });
    api.post(&format!("{path}/{stranger}/participants"), body).await.expect_issue(&json!(["action"]), "enum");
    api.patch(&format!("{path}/{stranger}/settings"), json!({})).await.expect_issue(&json!([]), "empty");
}

#[tokio::test]
async fn a_group_gets_a_picture_as_bytes_or_by_its_url() {
    let scene = Scene::begin().await;
    let group = Group::create(&scene).await;
    let (api, path) = (&scene.api, group.path("/picture"));
    let put = async |kind: &str, bytes: Vec<u8>| -> Answer {
        answer(api.request(Method::PUT, &path).header(CONTENT_TYPE, kind).body(bytes)).await
    };
    api.delete(&path).await.expect_error(409, "no_op");
    let set = put("image/png", picture(300, 200)).await.expect(200);
    let url = string(&set["picture_url"]);
    let sizes = async |url: &str| {
        let sim = scene.simulator.api();
        let path = url.strip_prefix(sim.base()).unwrap();
        let full = sim.get(path).await;
        assert_eq!((full.status, full.content_type()), (200, Some("image/jpeg")));
        // The real network makes the preview itself.
        let preview = if is_whatsapp() { (96, 96) } else { jpeg_size(&sim.get(&format!("{path}/preview")).await.body) };
        [jpeg_size(&full.body), preview]
    };
    assert_eq!(sizes(&url).await, [(640, 640), (96, 96)]);

    // The picture comes from a URL of the network, then from one of the gateway's own links.
    let again = api.put(&path, json!({ "picture_url": url })).await.expect(200);
    assert_ne!(again["picture_url"], url.as_str());
    let media = upload(api, &scene.channel.id, "image/png", picture(50, 50)).await;
    let set = api.put(&path, json!({ "picture_url": media["url"] })).await.expect(200);
    assert_eq!(sizes(&string(&set["picture_url"])).await, [(640, 640), (96, 96)]);
    assert_eq!(api.delete(&path).await.status, 204);
    api.delete(&path).await.expect_error(409, "no_op");

    put("image/png", noise(500, 1)).await.expect_issue(&json!(["file"]), "format");
    put("image/gif", picture(9, 9)).await.expect_error(400, "bad_request");
    let large = put("image/jpeg", noise(5 * 1024 * 1024 + 1, 1)).await.expect_error(413, "media_too_large");
    assert_eq!(large["limit_bytes"], 5 * 1024 * 1024);
    let media = upload(api, &scene.channel.id, "text/plain", b"no picture".to_vec()).await;
    let body = json!({ "picture_url": media["url"] });
    api.put(&path, body).await.expect_issue(&json!(["picture_url"]), "format");
    api.put(&path, json!({})).await.expect_issue(&json!(["picture_url"]), "required");
    let inside = json!({ "picture_url": "http://169.254.169.254/x" });
    api.put(&path, inside).await.expect_error(400, "media_fetch_blocked");

    // In a restricted group only admins can change it; otherwise any member can.
    let body = json!({ "subject": "Theirs", "participants": [scene.channel.number] });
    let sim = scene.simulator.api();
    let theirs =
        Group { scene: &scene, id: string(&sim.post(&scene.phone_path("/groups"), body).await.expect(201)["id"]) };
    scene.event("group.created", "added", |data| data["group"]["id"] == theirs.id.as_str()).await;
    api.put(&theirs.path("/picture"), json!({ "picture_url": url_of(&scene, &theirs).await })).await.expect(200);
    sim.patch(&theirs.peers("/settings"), json!({ "restrict": true })).await.expect(200);
    let refused = api.delete(&theirs.path("/picture")).await;
    assert_eq!(refused.expect_error(422, "other")["upstream_code"], 403);
}

/// Sets a group's picture by the peer's phone, and returns its URL.
async fn url_of(scene: &Scene, group: &Group<'_>) -> Value {
    let request = scene.simulator.api().request(Method::PUT, &group.peers("/picture")).body(picture(9, 9));
    answer(request).await.expect(200)["picture_url"].clone()
}

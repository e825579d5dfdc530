//! Newsletters: the channel's own and those of others, through any node, and what readers do.

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{merged, string};
use tests::media::{jpeg_size, picture, upload};
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{number, text};
use tests::wait::eventually;

struct Newsletter<'a> {
    scene: &'a Scene,
    id: String,
}

impl Newsletter<'_> {
    /// Creates a newsletter of the channel.
    async fn create(scene: &Scene) -> Newsletter<'_> {
        let body = json!({ "name": "News", "description": "Of the week" });
        let made = scene.api.post(&scene.path("/newsletters"), body).await.expect(201);
        Newsletter { scene, id: string(&made["id"]) }
    }

    /// Creates a newsletter of the peer; `more` has fields that a search finds it by.
    async fn of_peer<'a>(scene: &'a Scene, name: &str, more: Value) -> Newsletter<'a> {
        let body = merged(json!({ "name": name }), &more);
        let made = scene.simulator.api().post(&scene.phone_path("/newsletters"), body).await.expect(201);
        Newsletter { scene, id: string(&made["id"]) }
    }

    fn path(&self, rest: &str) -> String {
        self.scene.path(&format!("/newsletters/{}{rest}", self.id))
    }

    /// Path of the newsletter at the peer's phone.
    fn peers(&self, rest: &str) -> String {
        self.scene.phone_path(&format!("/newsletters/{}{rest}", self.id))
    }

    async fn show(&self) -> Value {
        self.scene.api.get(&self.path("")).await.expect(200)
    }

    async fn messages(&self, query: &str) -> Value {
        self.scene.api.get(&self.path(&format!("/messages{query}"))).await.expect(200)
    }
}

fn server_ids(page: &Value) -> Vec<u64> {
    page["data"].as_array().unwrap().iter().map(|message| message["server_id"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_newsletter_is_made_changed_and_deleted_through_any_node() {
    let scene = Scene::begin().await;
    let (api, sim) = (&scene.api, scene.simulator.api());
    let newsletter = Newsletter::create(&scene).await;
    let shown = newsletter.show().await;
    let expected = json!({
        "name": "News", "description": "Of the week", "picture_url": null, "role": "owner", "muted": false,
        "verified": false, "subscriber_count": 1, "reactions": "all",
    });
    assert_has(&shown, &expected);
    let code = string(&shown["invite_code"]);
    assert_eq!(shown["invite_url"], format!("https://chat.n.example/{code}"));
    assert_eq!(api.get(&scene.path("/newsletters")).await.expect(200), json!({ "data": [shown] }));
    assert_eq!(api.get(&scene.path("/newsletters?role=subscriber")).await.expect(200), json!({ "data": [] }));
    assert_eq!(api.get(&scene.path(&format!("/newsletters/invite/{code}"))).await.expect(200), shown);

    let changes = json!({ "name": "Daily", "description": "", "reactions": "basic" });
    let changed = api.patch(&newsletter.path(""), changes.clone()).await.expect(200);
    assert_has(&changed, &json!({ "name": "Daily", "description": null, "reactions": "basic" }));
    api.patch(&newsletter.path(""), changes).await.expect_error(409, "no_op");

    let media = upload(api, &scene.channel.id, "image/png", picture(200, 100)).await;
    let body = json!({ "picture_url": media["url"] });
    let url = string(&api.patch(&newsletter.path(""), body).await.expect(200)["picture_url"]);
    let served = sim.request(Method::GET, url.strip_prefix(sim.base()).unwrap());
    assert_eq!(jpeg_size(&tests::http::answer(served).await.body), (640, 640));
    let cleared = api.patch(&newsletter.path(""), json!({ "clear_picture": true })).await.expect(200);
    assert_eq!(cleared["picture_url"], Value::Null);
    api.patch(&newsletter.path(""), json!({ "clear_picture": true })).await.expect_error(409, "no_op");

    assert_eq!(api.delete(&newsletter.path("")).await.status, 204);
    let missing = api.get(&newsletter.path("")).await.expect_error(404, "not_found");
    assert_eq!(missing, json!({ "resource": "newsletter", "id": newsletter.id }));
}

#[tokio::test]
async fn a_newsletter_of_others_is_found_subscribed_to_muted_and_left() {
    let scene = Scene::begin().await;
    let api = &scene.api;
    let word = format!("rivers{}", number());
    let more = json!({ "description": format!("All about {word}"), "country": "BR", "verified": true });
    let found = Newsletter::of_peer(&scene, "Water", more).await;
    let search = async |query: &str| api.get(&scene.path(&format!("/newsletters/search?q={word}{query}"))).await;
    let page = search("").await.expect(200);
    assert_eq!(page["next_cursor"], Value::Null);
    assert_has(&page["data"][0], &json!({ "id": found.id, "role": "guest", "verified": true, "subscriber_count": 1 }));
    assert_eq!(search("&country=br").await.expect(200)["data"][0]["id"], found.id.as_str());
    assert_eq!(search("&country=DE").await.expect(200)["data"], json!([]));
    assert_eq!(search("&category=sports").await.expect(200)["data"], json!([]));
    let second = Newsletter::of_peer(&scene, &word.to_uppercase(), json!({})).await;
    let first = search("&limit=1").await.expect(200);
    let next = search(&format!("&limit=1&cursor={}", string(&first["next_cursor"]))).await.expect(200);
    assert_eq!((&first["data"][0]["id"], &next["data"][0]["id"]), (&json!(found.id), &json!(second.id)));
    let recommended = api.get(&scene.path("/newsletters/recommended?country=BR&limit=100")).await.expect(200);
    assert!(recommended["data"].as_array().unwrap().iter().any(|row| row["id"] == found.id.as_str()));

    // A guest can see the newsletter, and is no subscriber.
    assert_eq!(found.show().await["role"], "guest");
    assert_eq!(api.get(&scene.path("/newsletters")).await.expect(200), json!({ "data": [] }));
    api.delete(&found.path("/subscription")).await.expect_error(409, "no_op");
    api.put(&found.path("/mute"), json!({ "muted": true })).await.expect_error(404, "not_found");
    let subscribed = api.act(&found.path("/subscription")).await.expect(200);
    assert_has(&subscribed, &json!({ "role": "subscriber", "subscriber_count": 2, "muted": false }));
    api.act(&found.path("/subscription")).await.expect_error(409, "no_op");
    assert_eq!(api.put(&found.path("/mute"), json!({ "muted": true })).await.expect(200)["muted"], true);
    api.put(&found.path("/mute"), json!({ "muted": true })).await.expect_error(409, "no_op");
    for refused in [api.patch(&found.path(""), json!({ "name": "Ours" })).await, api.delete(&found.path("")).await] {
        assert_eq!(refused.expect_error(422, "other")["upstream_code"], 403);
    }
    assert_eq!(api.delete(&found.path("/subscription")).await.status, 204);
    assert_eq!(found.show().await["role"], "guest");
    api.get(&scene.path("/newsletters/invite/nowhere")).await.expect_error(404, "not_found");
}

#[tokio::test]
async fn what_is_published_is_listed_with_its_views_and_reactions() {
    let scene = Scene::begin().await;
    let (api, sim) = (&scene.api, scene.simulator.api());
    let newsletter = Newsletter::create(&scene).await;
    sim.act(&newsletter.peers("/subscription")).await.expect(200);
    for body in ["one", "two", "three"] {
        api.post(&scene.path("/messages"), text(&newsletter.id, body)).await.expect(202);
    }
    let page = newsletter.messages("").await;
    let (ids, texts): (Vec<u64>, Vec<String>) = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| (message["server_id"].as_u64().unwrap(), string(&message["text"])))
        .unzip();
    assert_eq!(texts, ["three", "two", "one"]);
    let expected = json!({ "type": "text", "media": null, "view_count": 0, "reactions": {} });
    assert_has(&page["data"][0], &expected);
    assert_eq!(page["next_cursor"], Value::Null);
    assert_eq!(server_ids(&newsletter.messages(&format!("?before={}", ids[0])).await), ids[1..]);
    let first = newsletter.messages("?limit=2").await;
    let cursor = string(&first["next_cursor"]);
    let rest = newsletter.messages(&format!("?limit=2&cursor={cursor}")).await;
    assert_eq!([server_ids(&first), server_ids(&rest)].concat(), ids);

    sim.post(&scene.phone_path("/open-chat"), json!({ "with": newsletter.id })).await.expect(204);
    let reaction = format!("/messages/{}/reaction", ids[1]);
    sim.post(&newsletter.peers(&reaction), json!({ "emoji": "👍" })).await.expect(204);
    let reacted = api.post(&newsletter.path(&reaction), json!({ "emoji": "👍" })).await.expect(202);
    assert_eq!(reacted, json!({ "server_id": ids[1], "emoji": "👍" }));
    let seen = newsletter.messages("").await;
    assert_has(&seen["data"][1], &json!({ "view_count": 1, "reactions": { "👍": 2 } }));
    api.post(&newsletter.path(&reaction), json!({ "emoji": "" })).await.expect(202);
    assert_eq!(newsletter.messages("").await["data"][1]["reactions"], json!({ "👍": 1 }));

    api.patch(&newsletter.path(""), json!({ "reactions": "none" })).await.expect(200);
    let refused = api.post(&newsletter.path(&reaction), json!({ "emoji": "👍" })).await;
    assert_eq!(refused.expect_error(422, "other")["upstream_code"], 403);
    let missing = api.post(&newsletter.path("/messages/7/reaction"), json!({ "emoji": "" })).await;
    missing.expect_error(404, "message_not_found");

    // The id of the bytes at the author's gateway means nothing to other readers.
    let media = upload(api, &scene.channel.id, "image/png", picture(20, 10)).await;
    let body = json!({ "type": "image", "to": newsletter.id, "media_url": media["url"], "mime_type": "image/png" });
    api.post(&scene.path("/messages"), body).await.expect(202);
    let shown = newsletter.messages("?limit=1").await;
    assert_has(&shown["data"][0]["media"], &json!({ "id": null, "url": null, "state": "skipped" }));
}

#[tokio::test]
async fn somebody_who_is_asked_to_be_an_admin_publishes_until_that_ends() {
    let scene = Scene::begin().await;
    let (api, sim) = (&scene.api, scene.simulator.api());
    let newsletter = Newsletter::create(&scene).await;
    let admin = newsletter.path(&format!("/admins/{}", scene.peer));
    api.delete(&admin).await.expect_error(409, "no_op");
    let invited = api.act(&admin).await.expect(202);
    assert!(tests::http::time(&invited["invite_expires_at"]) > chrono::Utc::now());
    let write = json!({ "to": newsletter.id, "type": "text", "text": "mine" });
    sim.post(&scene.phone_path("/messages"), write.clone()).await.expect(400);
    assert_eq!(sim.act(&newsletter.peers("/admins/accept")).await.expect(200)["role"], "admin");
    sim.post(&scene.phone_path("/messages"), write.clone()).await.expect(201);
    api.act(&admin).await.expect_error(409, "no_op");
    assert_eq!(api.delete(&admin).await.status, 204);
    sim.post(&scene.phone_path("/messages"), write).await.expect(400);
    let unknown = api.act(&newsletter.path("/admins/12@n.example")).await;
    unknown.expect_error(400, "undeliverable_recipient");

    // Another admin invites the channel, its own phone accepts, and the channel publishes.
    let theirs = Newsletter::of_peer(&scene, "Theirs", json!({})).await;
    sim.act(&theirs.peers(&format!("/admins/{}", scene.channel.number))).await.expect(202);
    sim.act(&format!("/phones/{}/newsletters/{}/admins/accept", scene.channel.number, theirs.id)).await.expect(200);
    eventually("the channel is an admin", SOON, async || {
        let list = api.get(&scene.path("/newsletters?role=admin")).await.expect(200);
        if list["data"][0]["id"] == theirs.id.as_str() { Ok(()) } else { Err(list.to_string()) }
    })
    .await;
    api.post(&scene.path("/messages"), text(&theirs.id, "together")).await.expect(202);
    sim.delete(&theirs.peers(&format!("/admins/{}", scene.channel.number))).await.expect(204);
    eventually("the channel is a reader", SOON, async || {
        let shown = theirs.show().await;
        if shown["role"] == "subscriber" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn bad_bodies_and_queries_are_refused_by_name() {
    let scene = Scene::begin().await;
    let (api, path) = (&scene.api, scene.path("/newsletters"));
    let bodies = [
        (json!({}), json!(["name"]), "required"),
        (json!({ "name": "x".repeat(101) }), json!(["name"]), "too_long"),
        (json!({ "name": "x", "description": "x".repeat(2049) }), json!(["description"]), "too_long"),
        (json!({ "name": "x", "picture_url": "ftp://a.example/b" }), json!(["picture_url"]), "url_scheme"),
    ];
    for (body, place, code) in bodies {
        api.post(&path, body).await.expect_issue(&place, code);
    }
    let inside = json!({ "name": "x", "picture_url": "http://169.254.169.254/x" });
    api.post(&path, inside).await.expect_error(400, "media_fetch_blocked");
    let one = format!("{path}/12@n.example");
    let changes = [
        (json!({}), json!([]), "empty"),
        (json!({ "clear_picture": false }), json!(["clear_picture"]), "empty"),
        (json!({ "clear_picture": true, "picture_url": "https://a.example/b" }), json!(["clear_picture"]), "conflict"),
        (json!({ "reactions": "some" }), json!(["reactions"]), "enum"),
    ];
    for (body, place, code) in changes {
        api.patch(&one, body).await.expect_issue(&place, code);
    }
    api.patch(&one, json!({ "name": "x" })).await.expect_error(404, "not_found");
    api.act(&format!("{one}/subscription")).await.expect_error(404, "not_found");
    api.put(&format!("{one}/mute"), json!({ "muted": 1 })).await.expect_issue(&json!(["muted"]), "type");
    let emoji = json!({ "emoji": "x".repeat(9) });
    api.post(&format!("{one}/messages/1/reaction"), emoji).await.expect_issue(&json!(["emoji"]), "too_long");
    let queries = [
        ("/search", "q", "required"),
        ("/search?q=x", "q", "format"),
        ("/search?q=xy&country=BRA", "country", "format"),
        ("/recommended?limit=0", "limit", "format"),
        ("/12@n.example/messages?before=x", "before", "format"),
        ("?role=guest", "role", "enum"),
    ];
    for (query, place, code) in queries {
        api.get(&format!("{path}{query}")).await.expect_issue(&json!([place]), code);
    }
}

#[tokio::test]
async fn newsletters_are_read_in_every_status_and_survive_their_owner() {
    let cluster = Cluster::start(Options::default()).await;
    let scene = Scene::on(&cluster, json!({})).await;
    let newsletter = Newsletter::create(&scene).await;
    let before = newsletter.show().await;
    assert_eq!(scene.api.get(&newsletter.path("?refresh=true")).await.expect(200), before);
    cluster.kill(scene.tenant.owner(cluster.running_node(), &scene.channel.id).await.node);
    eventually("another owner", SOON, async || {
        let answer = scene.api.get(&newsletter.path("")).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    assert_eq!(newsletter.show().await, before);
    eventually("the network is asked again", SOON, async || {
        let answer = scene.api.put(&newsletter.path("/mute"), json!({ "muted": true })).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    scene.api.act(&scene.path("/disconnect")).await.expect(202);
    assert_eq!(newsletter.show().await["muted"], true);
    scene.api.get(&newsletter.path("?refresh=true")).await.expect_error(409, "channel_unavailable");
    scene.api.get(&scene.path("/newsletters/12@n.example")).await.expect_error(404, "not_found");
}

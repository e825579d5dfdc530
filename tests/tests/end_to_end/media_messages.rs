//! Media in messages: fetched from the URL of a send, uploaded to the network, downloaded from it, and shown with a
//! link. Nothing is lost or doubled when a step fails.

mod files;

use std::time::Instant;

use files::{file, sha256, wave, web};
use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{Api, answer, merged, string, uuid};
use tests::receiver::{Received, Receiver};
use tests::simulator::Simulator;
use tests::tenant::{Paired, Tenant, address, number, text};
use tests::wait::{check, eventually, seconds};

/// A tenant with a connected channel, a phone to send to, and a receiver of all message events.
struct Scene {
    tenant: Tenant,
    channel: Paired,
    phone: String,
    web: Receiver,
    hooks: Receiver,
}

impl Scene {
    async fn new(cluster: &Cluster) -> Self {
        Self::of(Tenant::new(cluster).await).await
    }

    async fn of(tenant: Tenant) -> Self {
        let channel = tenant.paired("media").await;
        let phone = number();
        tenant.simulator().phone(&phone, json!({ "name": "Ann" })).await;
        let hooks = Receiver::start().await;
        let events = ["message.received", "message.sent", "message.status"];
        tenant.endpoint(&hooks.url("/hook"), &events, json!({})).await;
        Self { tenant, channel, phone, web: web().await, hooks }
    }

    fn api(&self) -> Api {
        self.tenant.any()
    }

    fn simulator(&self) -> Simulator {
        self.tenant.simulator()
    }

    /// The body of a send of the file at `path`.
    fn media(&self, kind: &str, path: &str, mime_type: &str, more: Value) -> Value {
        let body = json!({ "type": kind, "to": self.phone, "media_url": self.web.url(path), "mime_type": mime_type });
        merged(body, &more)
    }

    /// Sends, and returns the message id. On a busy machine the session may just be new, and the send be queued.
    async fn send(&self, body: Value) -> String {
        string(&self.api().post(&self.channel.path("/messages"), body).await.expect(202)["message_id"])
    }

    /// The message that a phone received with an id.
    async fn inbox_row(&self, phone: &str, id: &str) -> Value {
        eventually(&format!("{id} in the inbox of {phone}"), seconds(15), async || {
            let rows = self.simulator().inbox(phone).await;
            rows.into_iter().find(|row| row["id"] == id).ok_or_else(|| "not there".to_owned())
        })
        .await
    }

    async fn history_row(&self, id: &str) -> Option<Value> {
        let page = self.api().get(&self.channel.path(&format!("/messages?message_id={id}"))).await.expect(200);
        page["data"].as_array().unwrap().first().cloned()
    }

    /// Waits until the media of a message has a state.
    async fn wait_media(&self, id: &str, state: &str) -> Value {
        eventually(&format!("media of {id} is {state}"), seconds(40), async || {
            let row = self.history_row(id).await.ok_or("no row")?;
            check(row["media"]["state"] == state, row["media"].to_string())?;
            Ok(row)
        })
        .await
    }

    /// Sends from a phone, and returns the message id.
    async fn phone_sends(&self, phone: &str, to: &str, body: Value) -> String {
        let mut body = body;
        body["to"] = json!(to);
        let sent = self.simulator().api().post(&format!("/phones/{phone}/messages"), body).await.expect(201);
        string(&sent["ids"][0])
    }

    /// The bytes behind a link.
    async fn read(&self, media: &Value) -> bytes::Bytes {
        let answer = answer(self.tenant.client.get(string(&media["url"]))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.body
    }

    async fn received(&self, id: &str) -> Received {
        self.hooks.wait_message("message.received", id, seconds(20)).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_type_goes_out_with_its_bytes_and_its_facts() {
    let scene = Scene::new(&Cluster::shared().await).await;
    let table = [
        ("image", "/a.png", "image/jpeg", json!({ "caption": "look", "view_once": true }), "image", "image/png"),
        ("video", "/a.mp4", "video/mp4", json!({ "caption": "see", "gif": true }), "video", "video/mp4"),
        ("audio", "/a.ogg", "audio/mpeg", json!({}), "audio", "audio/mpeg"),
        ("voice", "/a.ogg", "audio/ogg; codecs=opus", json!({}), "audio", "audio/ogg; codecs=opus"),
        ("document", "/a.pdf", "application/x-own", json!({ "filename": "b.own" }), "document", "application/x-own"),
        ("sticker", "/a.webp", "image/png", json!({}), "sticker", "image/webp"),
    ];
    for (kind, path, declared, more, shown, mime_type) in table {
        let id = scene.send(scene.media(kind, path, declared, more.clone())).await;
        let bytes = file(path.split_once('.').unwrap().1, 40_000);
        let row = scene.inbox_row(&scene.phone, &id).await;
        assert_eq!((&row["type"], &row["mime_type"]), (&json!(shown), &json!(mime_type)), "{row}");
        assert_eq!((&row["sha256"], &row["size"]), (&json!(sha256(&bytes)), &json!(40_000)), "{row}");
        assert_eq!(row["copies"], 1);
        assert_eq!(row.get("caption"), more.get("caption"), "{row}");
        assert_eq!(row["view_once"], json!(more["view_once"] == true));
        assert_eq!(row["media"]["voice"], json!(kind == "voice"));
        if kind == "document" {
            assert_eq!(row["filename"], "b.own");
        }

        let stored = scene.history_row(&id).await.unwrap();
        let media = &stored["media"];
        assert_eq!((&media["state"], &media["mime_type"]), (&json!("ready"), &json!(mime_type)), "{stored}");
        assert_eq!((&media["sha256"], &media["size_bytes"]), (&json!(sha256(&bytes)), &json!(40_000)));
        uuid(&media["id"]);
        assert_eq!(scene.read(media).await, bytes, "{media}");
        if kind == "image" {
            assert_eq!((&media["width"], &media["height"]), (&json!(7), &json!(9)));
        }
        let fresh = scene.api().get(&scene.channel.path(&format!("/messages/{id}/media"))).await.expect(200);
        assert_eq!((&fresh["id"], &fresh["state"]), (&media["id"], &json!("ready")));
    }
    let moving = scene.send(scene.media("sticker", "/a.moving", "image/webp", json!({}))).await;
    assert_eq!(scene.inbox_row(&scene.phone, &moving).await["animated"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_uploaded_is_sent_from_the_store() {
    let cluster = Cluster::shared().await;
    let scene = Scene::new(&cluster).await;
    let kinds = [("image", "png"), ("video", "mp4"), ("audio", "ogg"), ("document", "pdf"), ("sticker", "webp")];
    for (kind, format) in kinds {
        let bytes = file(format, 70_000);
        let upload = scene.api().request(Method::POST, &scene.channel.path("/media")).body(bytes.clone());
        let stored = answer(upload.header("content-type", "application/octet-stream")).await.expect(201);
        let mut body = scene.media(kind, "/unused", string(&stored["mime_type"]).as_str(), json!({}));
        body["media_url"] = stored["url"].clone();
        for node in cluster.node_ids() {
            let sent = scene.tenant.api(node).post(&scene.channel.path("/messages"), body.clone()).await.expect(202);
            let row = scene.inbox_row(&scene.phone, &string(&sent["message_id"])).await;
            assert_eq!((&row["type"], &row["sha256"]), (&json!(kind), &json!(sha256(&bytes))), "{row}");
        }
        // Sent media outlives the upload that it came from.
        let upload = scene.channel.path(&format!("/media/{}", string(&stored["id"])));
        scene.api().delete(&upload).await.expect(204);
        let page = scene.api().get(&scene.channel.path("/messages?limit=1")).await.expect(200);
        assert_eq!(scene.read(&page["data"][0]["media"]).await, bytes);
        let details = scene.api().post(&scene.channel.path("/messages"), body).await;
        let details = details.expect_error(400, "media_fetch_failed");
        assert_eq!((&details["reason"], &details["http_status"]), (&json!("http_status"), &json!(410)));
    }
    assert!(scene.web.received().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voice_note_is_made_of_other_sound_when_that_is_asked_for() {
    let scene = Scene::new(&Cluster::shared().await).await;
    let upload = scene.api().request(Method::POST, &scene.channel.path("/media")).body(wave(2_400));
    let stored = answer(upload.header("content-type", "audio/wav")).await.expect(201);
    for url in [string(&stored["url"]), scene.web.url("/spoken.wav")] {
        let mut body = scene.media("voice", "/unused", "audio/wav", json!({ "convert": true }));
        body["media_url"] = json!(url);
        let id = scene.send(body).await;
        let row = scene.inbox_row(&scene.phone, &id).await;
        assert_eq!((&row["type"], &row["mime_type"]), (&json!("audio"), &json!("audio/ogg; codecs=opus")), "{row}");
        assert_eq!(row["media"]["voice"], true);
        let stored = scene.history_row(&id).await.unwrap();
        let media = &stored["media"];
        assert_eq!((&media["mime_type"], &media["duration_seconds"]), (&row["mime_type"], &json!(2)), "{stored}");
        assert_eq!(media["voice"], true);
        let bytes = scene.read(media).await;
        assert_eq!((json!(sha256(&bytes)), json!(bytes.len())), (row["sha256"].clone(), row["size"].clone()));
        assert!(bytes.starts_with(b"OggS") && bytes[28..].starts_with(b"OpusHead"), "{media}");
        // When it is sent without conversion, Opus in Ogg contains its duration.
        let mut body = scene.media("voice", "/unused", "audio/ogg; codecs=opus", json!({}));
        body["media_url"] = media["url"].clone();
        let again = scene.history_row(&scene.send(body).await).await.unwrap();
        assert_eq!((&again["media"]["sha256"], &again["media"]["duration_seconds"]), (&media["sha256"], &json!(2)));
    }
    // A file that no decoder accepts as sound is refused.
    let body = scene.media("voice", "/a.pdf", "audio/mpeg", json!({ "convert": true }));
    let refused = scene.api().post(&scene.channel.path("/messages"), body).await;
    refused.expect_issue(&json!(["media_url"]), "format");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_fetched_or_sent_leaves_nothing_behind() {
    let scene = Scene::new(&Cluster::shared().await).await;
    let path = scene.channel.path("/messages");
    let image = |url: &str| json!({ "type": "image", "to": scene.phone, "media_url": url, "mime_type": "image/png" });
    let closed = {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        format!("http://{}/a.png", listener.local_addr().unwrap())
    };
    let secured = scene.web.url("/a.png").replace("http://", "https://");
    let failed = [
        ("http://nowhere.invalid/a.png".to_owned(), "dns"),
        (closed, "connect"),
        (secured, "tls"),
        (scene.web.url("/cut"), "connect"),
        (scene.web.url("/missing"), "http_status"),
        (scene.web.url("/often"), "http_status"),
        (scene.web.url("/hang"), "timeout"),
    ];
    let asked = failed.iter().map(|(url, reason)| {
        let (api, path, body) = (scene.api(), path.clone(), image(url));
        async move { (api.post(&path, body).await, url, reason) }
    });
    for (answer, url, reason) in futures::future::join_all(asked).await {
        let details = answer.expect_error(400, "media_fetch_failed");
        assert_eq!((&details["url"], &details["reason"]), (&json!(url), &json!(reason)));
        if url.ends_with("/missing") {
            assert_eq!(details["http_status"], 404);
        }
    }
    for url in ["http://169.254.169.254/latest".to_owned(), scene.web.url("/private")] {
        let details = scene.api().post(&path, image(&url)).await.expect_error(400, "media_fetch_blocked");
        assert_eq!(details["url"], json!(url));
    }
    let details = scene.api().post(&path, image(&scene.web.url("/large"))).await.expect_error(413, "media_too_large");
    assert_eq!(details, json!({ "limit_bytes": 26_214_400, "size_bytes": 26_214_401 }));
    scene.api().post(&path, image(&scene.web.url("/empty"))).await.expect_issue(&json!(["media_url"]), "empty");

    // A sticker has to be WebP, in both shapes of the body.
    let sticker = scene.media("sticker", "/a.png", "image/webp", json!({}));
    scene.api().post(&path, sticker.clone()).await.expect_issue(&json!(["media_url"]), "format");
    let nested = json!({ "to": scene.phone, "body": { "type": "sticker", "media_url": sticker["media_url"] } });
    scene.api().post(&path, nested).await.expect_issue(&json!(["body", "media_url"]), "format");

    // Nothing is fetched for an unreachable recipient, nor for a channel that cannot send.
    let before = scene.web.received().len();
    let mut unreachable = image(&scene.web.url("/a.png"));
    unreachable["to"] = json!("1234567890123456@s.example");
    scene.api().post(&path, unreachable).await.expect_error(400, "undeliverable_recipient");
    let unpaired = scene.tenant.channel("unpaired").await;
    let answer = scene.api().post(&format!("/v1/channels/{unpaired}/messages"), image(&scene.web.url("/a.png"))).await;
    answer.expect_error(409, "not_connected");
    assert_eq!(scene.web.received().len(), before);

    let page = scene.api().get(&path).await.expect(200);
    assert_eq!(page["data"], json!([]));
    assert_eq!(scene.simulator().inbox(&scene.phone).await.len(), 0);

    // Three redirects are followed.
    let id = scene.send(image(&scene.web.url("/thrice"))).await;
    assert_eq!(scene.inbox_row(&scene.phone, &id).await["sha256"], json!(sha256(&file("png", 40_000))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_in_is_here_before_its_event() {
    let scene = Scene::new(&Cluster::shared().await).await;
    let table = [
        ("image", "image/png", json!({ "caption": "look" })),
        ("video", "video/mp4", json!({ "caption": "see" })),
        ("audio", "audio/ogg", json!({})),
        ("voice", "audio/ogg", json!({})),
        ("document", "application/pdf", json!({ "filename": "a.pdf" })),
        ("sticker", "image/webp", json!({})),
        ("image", "image/jpeg", json!({ "view_once": true })),
    ];
    let mut kept = String::new();
    for (kind, mime_type, more) in table {
        let mut body = json!({ "type": kind, "media": { "mime_type": mime_type, "size": 300_000 } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let id = scene.phone_sends(&scene.phone, &scene.channel.number, body).await;
        let event = scene.received(&id).await.json();
        let shown = &event["data"]["body"];
        let kind_shown = if kind == "voice" { "audio" } else { kind };
        assert_eq!(shown["type"], kind_shown, "{event}");
        let media = &shown["media"];
        assert_eq!((&media["state"], &media["mime_type"]), (&json!("ready"), &json!(mime_type)), "{event}");
        assert_eq!(media["size_bytes"], 300_000);
        assert_eq!(media["voice"], json!(kind == "voice"));
        assert_eq!(media["view_once"], json!(more["view_once"] == true));
        assert_eq!(event["data"].get("is_view_once"), more.get("view_once"));
        assert_eq!(media["sha256"], json!(sha256(&scene.read(media).await)));
        if let Some(filename) = more.get("filename") {
            assert_eq!((&shown["filename"], &media["filename"]), (filename, filename));
        }
        let stored = scene.history_row(&id).await.unwrap();
        assert_eq!((&stored["media"]["id"], &stored["media"]["sha256"]), (&media["id"], &media["sha256"]));
        assert_eq!(stored["media"]["state"], "ready");
        kept = id;
    }

    // The media of a message is shown with a new link. Messages without media have none.
    let fresh = scene.api().get(&scene.channel.path(&format!("/messages/{kept}/media"))).await.expect(200);
    assert_eq!(fresh["state"], "ready");
    let no_such = scene.api().get(&scene.channel.path("/messages/3EB0FF/media")).await;
    assert_eq!(no_such.expect_error(404, "message_not_found")["message_id"], "3EB0FF");
    let words = scene.simulator().text(&scene.phone, &scene.channel.number, "words", 1).await.remove(0);
    scene.received(&words).await;
    scene.api().get(&scene.channel.path(&format!("/messages/{words}/media"))).await.expect_error(404, "not_found");

    // Media that the channel's own phone sends is fetched, too.
    let body = json!({ "type": "image", "media": { "mime_type": "image/png", "size": 1000 } });
    let own = scene.phone_sends(&scene.channel.number, &scene.phone, body).await;
    let row = scene.wait_media(&own, "ready").await;
    assert_eq!((&row["source"], &row["direction"]), (&json!("device"), &json!("outbound")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwarded_media_is_not_fetched_again() {
    let scene = Scene::new(&Cluster::shared().await).await;
    let body =
        json!({ "type": "document", "media": { "mime_type": "application/pdf", "size": 5000, "filename": "a.pdf" } });
    let first = scene.phone_sends(&scene.phone, &scene.channel.number, body).await;
    let media = scene.received(&first).await.json()["data"]["body"]["media"].clone();
    let key = |id: &str, from_me| json!({ "id": id, "from_me": from_me, "remote_jid": address(&scene.phone) });
    let other = number();
    scene.simulator().phone(&other, json!({})).await;

    let forward = json!({ "type": "forward", "to": other, "message_key": key(&first, false) });
    let id = scene.send(forward).await;
    let row = scene.inbox_row(&other, &id).await;
    assert_eq!((&row["sha256"], &row["filename"]), (&media["sha256"], &json!("a.pdf")), "{row}");
    assert_eq!((&row["forwarded"], &row["type"]), (&json!(true), &json!("document")));
    let stored = scene.history_row(&id).await.unwrap();
    assert_eq!((&stored["media"]["state"], &stored["media"]["sha256"]), (&json!("ready"), &media["sha256"]));
    assert_ne!(stored["media"]["id"], media["id"]);

    let own = scene.send(scene.media("image", "/a.png", "image/png", json!({}))).await;
    let fetched = scene.web.received().len();
    let id = scene.send(json!({ "type": "forward", "to": other, "message_key": key(&own, true) })).await;
    assert_eq!(scene.inbox_row(&other, &id).await["sha256"], json!(sha256(&file("png", 40_000))));
    assert_eq!(scene.web.received().len(), fetched);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_of_media_at_the_same_time_and_forwards_never_exceed_the_accounts_quota_together() {
    let limits = json!({ "limits": { "storage": { "media_bytes": 100_000 } } });
    let scene = Scene::of(Tenant::with(&Cluster::shared().await, limits).await).await;
    let text = scene.send(json!({ "type": "text", "to": scene.phone, "text": "hi" })).await;
    // There is room for any single one of these 40,000-byte sends.
    let path = scene.channel.path("/messages");
    let send = |_| async {
        let image = scene.media("image", "/a.png", "image/png", json!({}));
        scene.api().post(&path, image).await
    };
    let sent = futures::future::join_all((0..6).map(send)).await;
    let taken: Vec<String> = sent
        .iter()
        .filter(|answer| answer.status == 202)
        .map(|answer| string(&answer.expect(202)["message_id"]))
        .collect();
    assert_eq!(taken.len(), 2);
    for refused in sent.iter().filter(|answer| answer.status != 202) {
        assert_eq!(refused.expect_error(409, "plan_limit")["quota"], "media_bytes");
    }
    let key = |id: &str| json!({ "id": id, "from_me": true, "remote_jid": address(&scene.phone) });
    let forward = |id: &str| json!({ "type": "forward", "to": scene.phone, "message_key": key(id) });
    let full = json!({ "quota": "media_bytes", "limit": 100_000, "used": 80_000 });
    assert_eq!(scene.api().post(&path, forward(&taken[0])).await.expect_error(409, "plan_limit"), full);
    scene.send(forward(&text)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn media_that_an_account_has_no_room_for_stays_at_the_network_until_there_is_some() {
    let limits = json!({ "limits": { "storage": { "media_bytes": 4_000 } } });
    let scene = Scene::of(Tenant::with(&Cluster::shared().await, limits).await).await;
    let hear = async |channel: &Paired| {
        let body = json!({ "type": "image", "media": { "mime_type": "image/png", "size": 5000 } });
        let id = scene.phone_sends(&scene.phone, &channel.number, body).await;
        let media = scene.received(&id).await.json()["data"]["body"]["media"].clone();
        (id, media)
    };
    let (_, first) = hear(&scene.channel).await;
    assert_eq!(first["state"], "ready", "{first}");
    // The account is full now, in this channel's shard and in that of the other channel.
    let beside = scene.tenant.paired("beside").await;
    assert_eq!(hear(&beside).await.1["state"], "skipped");
    // A message of the channel's own phone is stored before its bytes arrive.
    let body = json!({ "type": "image", "media": { "mime_type": "image/png", "size": 5000 } });
    let own = scene.phone_sends(&beside.number, &scene.phone, body).await;
    let stored = beside.path(&format!("/messages?message_id={own}"));
    eventually("that is left at the network, too", seconds(20), async || {
        let page = scene.api().get(&stored).await.expect(200);
        check(page["data"][0]["media"]["state"] == "skipped", page.to_string())
    })
    .await;
    let (second, media) = hear(&scene.channel).await;
    assert_eq!(media["state"], "skipped", "{media}");
    let asked = scene.channel.path(&format!("/messages/{second}/media"));
    assert_eq!(scene.api().get(&asked).await.expect(200)["state"], "skipped", "nor by asking for it");
    let followed = Instant::now();
    let link = tests::media::path(&media);
    tests::media::fetch(&scene.api(), &link, &[]).await.expect_error(503, "worker_at_capacity");
    assert!(followed.elapsed() < seconds(10), "nobody waits for what does not come");
    scene.api().delete(&scene.channel.path(&format!("/media/{}", string(&first["id"])))).await.expect(204);
    assert_eq!(scene.api().get(&asked).await.expect(200)["state"], "ready");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_is_slow_with_media_or_refuses_it_is_lived_with() {
    let cluster = Cluster::start(Options::default()).await;
    let scene = Scene::new(&cluster).await;
    let simulator = scene.simulator();
    let path = scene.channel.path("/messages");

    // A message after a picture waits for it; another channel does not.
    let beside = scene.tenant.paired("beside").await;
    simulator.faults(json!({ "media_delay_ms": 4000 })).await;
    let image = scene.media("image", "/a.png", "image/png", json!({}));
    let (picture, (words, elsewhere)) = futures::join!(async { scene.send(image).await }, async {
        // The text has to be accepted after the picture, whose fetch comes first.
        eventually("the picture is queued", seconds(4), async || {
            let page = scene.api().get(&path).await.expect(200);
            check(page["data"].as_array().unwrap().len() == 1, page.to_string())
        })
        .await;
        let body = text(&scene.phone, "from another");
        let other = async { scene.api().post(&beside.path("/messages"), body).await.expect(202) };
        let (words, other) = futures::join!(scene.send(text(&scene.phone, "after it")), other);
        (words, string(&other["message_id"]))
    });
    for id in [&picture, &words, &elsewhere] {
        scene.inbox_row(&scene.phone, id).await;
    }
    let rows = simulator.inbox(&scene.phone).await;
    let order: Vec<&Value> = rows.iter().map(|row| &row["id"]).collect();
    assert_eq!(order, [&json!(elsewhere), &json!(picture), &json!(words)]);

    // The same bytes need no second upload.
    simulator.faults(json!({ "media_delay_ms": 60_000 })).await;
    let again = scene.send(scene.media("image", "/a.png", "image/png", json!({}))).await;
    scene.inbox_row(&scene.phone, &again).await;

    // Media that takes more than five seconds is reported as pending; later messages keep their order.
    simulator.faults(json!({ "media_delay_ms": 9000 })).await;
    let body = json!({ "type": "image", "media": { "mime_type": "image/png", "size": 2000 } });
    let late = scene.phone_sends(&scene.phone, &scene.channel.number, body).await;
    let behind = simulator.text(&scene.phone, &scene.channel.number, "behind it", 1).await.remove(0);
    let event = scene.received(&late).await;
    let media = event.json()["data"]["body"]["media"].clone();
    assert_eq!(media["state"], "pending", "{media}");
    assert!(scene.received(&behind).await.index > event.index);
    // A reader of the link waits for the bytes.
    assert_eq!(scene.read(&media).await.len(), 2000);
    assert_eq!(scene.wait_media(&late, "ready").await["media"]["id"], media["id"]);

    // The network refuses for good: the caller gets the error, and the row has it.
    simulator.faults(json!({ "media_delay_ms": 0, "media_fail": "refuse" })).await;
    let answer = scene.api().post(&path, scene.media("image", "/b.mp4", "image/png", json!({}))).await;
    let details = answer.expect_error(422, "other");
    assert_eq!(details["upstream_code"], 403);
    // The response may come before the row is stored.
    eventually("the send has failed", seconds(5), async || {
        let failed = scene.api().get(&format!("{path}?status=failed")).await.expect(200);
        check(failed["data"].as_array().unwrap().len() == 1, failed.to_string())
    })
    .await;
    let body = json!({ "type": "image", "media": { "mime_type": "image/png", "size": 3000 } });
    let refused = scene.phone_sends(&scene.phone, &scene.channel.number, body).await;
    assert_eq!(scene.received(&refused).await.json()["data"]["body"]["media"]["state"], "failed");

    // A transfer that breaks off is retried until it succeeds.
    simulator.faults(json!({ "media_fail": "break" })).await;
    let body = json!({ "type": "audio", "media": { "mime_type": "audio/ogg", "size": 200_000 } });
    let broken = scene.phone_sends(&scene.phone, &scene.channel.number, body).await;
    let event = scene.received(&broken).await.json();
    assert_eq!(event["data"]["body"]["media"]["state"], "pending");
    let sending = scene.api().post(&path, scene.media("audio", "/c.ogg", "audio/ogg", json!({}))).await.expect(202);
    assert_eq!(sending["status"], "queued");
    simulator.faults(json!({ "media_fail": false })).await;
    scene.wait_media(&broken, "ready").await;
    let sent = scene.inbox_row(&scene.phone, &string(&sending["message_id"])).await;
    assert_eq!((&sent["copies"], &sent["size"]), (&json!(1), &json!(40_000)));
    // Media that was refused once can be requested again.
    let fresh = scene.api().get(&scene.channel.path(&format!("/messages/{refused}/media"))).await.expect(200);
    assert_eq!(fresh["state"], "ready", "{fresh}");

    // Media that the network has forgotten is gone.
    simulator.faults(json!({ "media_ttl_ms": 0 })).await;
    let body = json!({ "type": "image", "media": { "mime_type": "image/png", "size": 4000 } });
    let gone = scene.phone_sends(&scene.phone, &scene.channel.number, body).await;
    assert_eq!(scene.received(&gone).await.json()["data"]["body"]["media"]["state"], "gone");
    scene.api().get(&scene.channel.path(&format!("/messages/{gone}/media"))).await.expect_error(410, "media_gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_killed_in_the_middle_of_media_loses_and_doubles_nothing() {
    let cluster = Cluster::start(Options::default()).await;
    let scene = Scene::new(&cluster).await;
    let simulator = scene.simulator();
    let path = scene.channel.path("/messages");
    let owner = scene.tenant.owner(cluster.running_node(), &scene.channel.id).await.node;
    let other = cluster.node_ids().into_iter().find(|node| *node != owner).unwrap();
    let api = scene.tenant.api(other);

    simulator.faults(json!({ "media_delay_ms": 60_000 })).await;
    let body = json!({ "type": "image", "media": { "mime_type": "image/png", "size": 500_000 } });
    let inbound = scene.phone_sends(&scene.phone, &scene.channel.number, body).await;
    scene.received(&inbound).await;
    let image = scene.media("image", "/a.png", "image/png", json!({}));
    let sending = {
        let (api, path) = (api.clone(), path.clone());
        tokio::spawn(async move { api.post(&path, image).await })
    };
    eventually("the send is committed", seconds(10), async || {
        let page = api.get(&format!("{path}?direction=outbound")).await.expect(200);
        check(page["data"].as_array().unwrap().len() == 1, page.to_string())
    })
    .await;
    cluster.kill(owner);
    simulator.faults(json!({ "media_delay_ms": 0 })).await;
    let sent = sending.await.unwrap().expect(202);
    let id = string(&sent["message_id"]);
    let row = scene.inbox_row(&scene.phone, &id).await;
    assert_eq!((&row["copies"], &row["sha256"]), (&json!(1), &json!(sha256(&file("png", 40_000)))), "{row}");
    let ledger = simulator.ledger_by_id().await;
    assert_eq!(ledger[&id].len(), 1);
    assert_eq!(simulator.inbox(&scene.phone).await.len(), 1);
    // The next owner fetches the media that was pending when the former one died.
    eventually("the pending media is ready", seconds(20), async || {
        let page = api.get(&format!("{path}?message_id={inbound}")).await.expect(200);
        check(page["data"][0]["media"]["state"] == "ready", page.to_string())
    })
    .await;
    cluster.restart(&[owner]).await;
}

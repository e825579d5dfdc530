//! Media of each kind in both directions, with faults, in constant memory of the node.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::http::{answer, string};
use tests::media::{LARGEST, noise, picture, sha256};
use tests::receiver::Receiver;
use tests::tenant::{CONNECT, Paired, Tenant, number};
use tests::wait::{check, eventually, seconds};

use crate::{assert_clean, cluster};

/// How much a node's memory may grow while media passes through it: less than the size of the largest media.
const MORE_MEMORY: u64 = 16 << 20;

struct Scene {
    cluster: Cluster,
    tenant: Tenant,
    channel: Paired,
    friend: String,
    hooks: Receiver,
}

impl Scene {
    async fn begin() -> Self {
        let cluster = cluster(1).await;
        let tenant = Tenant::new(&cluster).await;
        let hooks = Receiver::start().await;
        tenant.endpoint(&hooks.url("/"), &["message.received"], json!({})).await;
        let channel = tenant.paired("media").await;
        let friend = number();
        tenant.simulator().phone(&friend, json!({})).await;
        Self { cluster, tenant, channel, friend, hooks }
    }

    /// Uploads bytes, and returns their URL.
    async fn store(&self, mime_type: &str, bytes: Vec<u8>) -> Value {
        let request = self.tenant.any().request(Method::POST, &self.channel.path("/media")).body(bytes);
        answer(request.header("content-type", mime_type)).await.expect(201)["url"].clone()
    }

    async fn send(&self, kind: &str, url: &Value, mime_type: &str) -> String {
        let body =
            json!({ "type": kind, "to": self.friend, "media_url": url, "mime_type": mime_type, "filename": "a" });
        string(&self.tenant.any().post(&self.channel.path("/messages"), body).await.expect(202)["message_id"])
    }

    /// A message at the phone, which has opened its media.
    async fn arrived(&self, id: &str) -> Value {
        let row = eventually(&format!("{id} is read"), seconds(60), async || {
            let rows = self.tenant.simulator().inbox(&self.friend).await;
            rows.into_iter().find(|row| row["id"] == id).ok_or_else(|| "not there".to_owned())
        })
        .await;
        assert_eq!((&row["media"]["intact"], &row["copies"]), (&json!(true), &json!(1)), "{row}");
        row
    }

    /// Sends media from a phone, and waits for its event.
    async fn comes(&self, kind: &str, media: Value) -> String {
        let body = json!({ "type": kind, "to": self.channel.number, "media": media });
        let sent = self.tenant.simulator().api().post(&format!("/phones/{}/messages", self.friend), body).await;
        let id = string(&sent.expect(201)["ids"][0]);
        self.hooks.wait_message("message.received", &id, seconds(60)).await;
        id
    }

    /// Waits until a message's media has a state.
    async fn media(&self, id: &str, state: &str) -> Value {
        let path = self.channel.path(&format!("/messages?message_id={id}"));
        eventually(&format!("media of {id} is {state}"), seconds(90), async || {
            let rows = self.tenant.any().get(&path).await.expect(200);
            let media = rows["data"][0]["media"].clone();
            check(media["state"] == state, media.to_string()).map(|()| media)
        })
        .await
    }

    /// The bytes behind a link.
    async fn read(&self, media: &Value) -> Vec<u8> {
        let read = answer(self.tenant.client.get(string(&media["url"]))).await;
        assert_eq!(read.status, 200, "{}", read.text());
        read.body.to_vec()
    }

    /// A figure of the node's memory in bytes, such as its current or peak size.
    fn memory(&self, figure: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.cluster.node(1).pid)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
        let kib: u64 = line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").trim().parse().unwrap();
        kib << 10
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn media_of_each_kind_goes_up_and_comes_down_and_the_same_bytes_serve_several_kinds() {
    let scene = Scene::begin().await;
    let bytes = picture(90, 60);
    let stored = scene.store("image/png", bytes.clone()).await;
    let kinds = [
        ("image", "image/png", "image"),
        ("video", "video/mp4", "video"),
        ("audio", "audio/mpeg", "audio"),
        ("voice", "audio/ogg; codecs=opus", "audio"),
        ("document", "image/png", "document"),
        ("sticker", "image/webp", "sticker"),
    ];
    for (kind, mime_type, shown) in kinds {
        let given = if matches!(kind, "image" | "document") {
            stored.clone()
        } else {
            let head: &[u8] = if kind == "sticker" { b"RIFF\x80\x9c\0\0WEBPVP8 " } else { b"" };
            scene.store(mime_type, [head, &noise(40_000, 1)].concat()).await
        };
        let row = scene.arrived(&scene.send(kind, &given, mime_type).await).await;
        assert_eq!(row["type"], shown, "{row}");
        if matches!(kind, "image" | "document") {
            assert_eq!(row["media"]["sha256"], json!(sha256(&bytes)), "{kind}: {row}");
        }

        let id = scene.comes(kind, json!({ "base64": "bG9vayBoZXJl" })).await;
        assert_eq!(scene.read(&scene.media(&id, "ready").await).await, b"look here", "{kind}");
    }
    assert_clean(&scene.tenant.simulator(), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_media_passes_in_pieces_and_takes_no_memory() {
    let scene = Scene::begin().await;
    let up_and_down = async |seed| {
        let stored = scene.store("application/octet-stream", noise(LARGEST, seed)).await;
        let row = scene.arrived(&scene.send("document", &stored, "application/octet-stream").await).await;
        assert_eq!(row["media"]["size"], LARGEST, "{row}");
        let id = scene.comes("document", json!({ "size": LARGEST - seed as usize })).await;
        let media = scene.media(&id, "ready").await;
        assert_eq!(media["size_bytes"], LARGEST - seed as usize, "{media}");
    };
    // The first transfer allocates what a node needs only once.
    up_and_down(1).await;
    fs::write(format!("/proc/{}/clear_refs", scene.cluster.node(1).pid), "5").unwrap();
    let before = scene.memory("VmRSS");
    for seed in 2..5 {
        up_and_down(seed).await;
    }
    let most = scene.memory("VmHWM");
    println!("{} MiB before, {} MiB at most while 150 MiB passed", before >> 20, most >> 20);
    assert!(most < before + MORE_MEMORY, "{before} bytes before, {most} at most");
    assert_clean(&scene.tenant.simulator(), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn media_survives_a_lapsed_right_and_what_the_network_has_lost_comes_from_the_phone_again() {
    let scene = Scene::begin().await;
    let network = scene.tenant.simulator();
    let control = network.api();
    // The authorization for the media hosts is cached from the first transfer on.
    scene.arrived(&scene.send("document", &scene.store("text/plain", noise(9, 1)).await, "text/plain").await).await;
    control.post("/media/expire-auth", json!({})).await.expect(204);
    scene.arrived(&scene.send("document", &scene.store("text/plain", noise(9, 2)).await, "text/plain").await).await;
    control.post("/media/expire-auth", json!({})).await.expect(204);
    let id = scene.comes("image", json!({ "base64": "bG9vayBoZXJl" })).await;
    assert_eq!(scene.read(&scene.media(&id, "ready").await).await, b"look here");

    // The node was offline for so long that the network has lost the media; the channel's phone still has it.
    let lost = async |everywhere: bool| {
        scene.tenant.any().act(&scene.channel.path("/disconnect")).await.expect(202);
        tests::tenant::wait_status(&scene.tenant.any(), &scene.channel.id, "stopped_by_user", CONNECT).await;
        let body = json!({ "type": "video", "to": scene.channel.number, "media": { "size": 5_000 } });
        let sent = control.post(&format!("/phones/{}/messages", scene.friend), body).await.expect(201);
        let gone = control.delete(&format!("/media?everywhere={everywhere}")).await;
        assert_eq!(gone.status, 204, "{}", gone.text());
        scene.tenant.any().act(&scene.channel.path("/connect")).await.expect(202);
        string(&sent["ids"][0])
    };
    let id = lost(false).await;
    let media = scene.media(&id, "ready").await;
    assert_eq!(scene.read(&media).await.len(), 5_000);
    let id = lost(true).await;
    scene.media(&id, "gone").await;
    assert_clean(&network, 1).await;
}

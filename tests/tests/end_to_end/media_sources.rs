//! Media from URLs: the rules that protect webhooks apply, again for each redirect.

use bytes::Bytes;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{Answer, string};
use tests::media::{LARGEST, fetch, noise, path, png, sha256, upload};
use tests::receiver::{Receiver, Reply};
use tests::tenant::Tenant;

struct Source {
    tenant: Tenant,
    channel: String,
    server: Receiver,
}

impl Source {
    async fn begin() -> Self {
        Self::on(&Cluster::shared().await).await
    }

    async fn on(cluster: &Cluster) -> Self {
        let tenant = Tenant::new(cluster).await;
        let channel = tenant.channel("Fetched").await;
        Self { tenant, channel, server: Receiver::start().await }
    }

    async fn of_url(&self, url: &str) -> Answer {
        self.of(json!({ "url": url })).await
    }

    async fn of(&self, body: Value) -> Answer {
        self.tenant.any().post(&format!("/v1/channels/{}/media/from-url", self.channel), body).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_is_fetched_over_at_most_three_redirects() {
    let source = Source::begin().await;
    let picture = Bytes::from(png(90_000, 4));
    let served = picture.clone();
    source.server.answer(move |request| match request.path.strip_prefix("/hop/").and_then(|n| n.parse::<u32>().ok()) {
        Some(0) | None => Reply::Body(200, served.clone()),
        Some(n) => Reply::Header(302, "location", format!("/hop/{}", n - 1)),
    });
    let made = source.of_url(&source.server.url("/a/cat.png?size=1#top")).await.expect(201);
    assert_eq!((&made["mime_type"], &made["filename"]), (&json!("image/png"), &json!("cat.png")));
    assert_eq!((&made["sha256"], &made["direction"]), (&json!(sha256(&picture)), &json!("upload")));
    assert!(fetch(&source.tenant.any(), &path(&made), &[]).await.body == picture);
    source.of_url(&source.server.url("/hop/3")).await.expect(201);
    let details = source.of_url(&source.server.url("/hop/4")).await.expect_error(400, "media_fetch_failed");
    assert_eq!((&details["reason"], &details["http_status"]), (&json!("http_status"), &json!(302)));

    let named = json!({ "url": source.server.url("/x"), "filename": "mine.dat", "mime_type": "image/jpeg" });
    let made = source.of(named).await.expect(201);
    assert_eq!((&made["mime_type"], &made["filename"]), (&json!("image/png"), &json!("mine.dat")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_cannot_be_fetched_says_why() {
    let source = Source::begin().await;
    source.server.answer(|request| match request.path.as_str() {
        "/missing" => Reply::Status(404),
        "/cut" => Reply::Cut,
        "/nowhere" => Reply::Status(302),
        _ => Reply::Hang,
    });
    let server = |path: &str| source.server.url(path);
    let tls = server("/x").replace("http://", "https://");
    let table = [
        (server("/missing"), json!({ "reason": "http_status", "http_status": 404 })),
        (server("/nowhere"), json!({ "reason": "http_status", "http_status": 302 })),
        (server("/cut"), json!({ "reason": "connect" })),
        (server("/hang"), json!({ "reason": "timeout" })),
        (tls, json!({ "reason": "tls" })),
        ("http://127.0.0.1:9/x".to_owned(), json!({ "blocked": true })),
        ("http://127.0.0.1:65000/x".to_owned(), json!({ "reason": "connect" })),
        ("http://no-such-host.invalid/x".to_owned(), json!({ "reason": "dns" })),
    ];
    for (url, mut expected) in table {
        let answer = source.of_url(&url).await;
        if expected["blocked"] == true {
            assert_eq!(answer.expect_error(400, "media_fetch_blocked"), json!({ "url": url }));
            continue;
        }
        expected["url"] = json!(url);
        assert_eq!(answer.expect_error(400, "media_fetch_failed"), expected);
    }
    let large = Bytes::from(vec![1; LARGEST + 1]);
    source.server.answer(move |_| Reply::Body(200, large.clone()));
    let details = source.of_url(&server("/large")).await.expect_error(413, "media_too_large");
    assert_eq!(details["size_bytes"], LARGEST + 1);
    source.server.answer(|_| Reply::Status(200));
    source.of_url(&server("/empty")).await.expect_issue(&json!(["url"]), "empty");
    for (url, code) in [("no url", "format"), ("ftp://example.com/x", "url_scheme"), ("", "too_short|empty")] {
        source.of_url(url).await.expect_issue(&json!(["url"]), code);
    }
    source.of(json!({})).await.expect_issue(&json!(["url"]), "required");
    let listed = source.tenant.any().get(&format!("/v1/channels/{}/media", source.channel)).await.expect(200);
    assert_eq!(listed["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_url_leads_into_the_operators_network() {
    let source = Source::begin().await;
    let inside =
        ["http://10.1.2.3/x", "http://192.168.0.1/", "http://169.254.169.254/latest/meta-data", "http://[fd00::1]/"];
    for url in inside {
        let details = source.of_url(url).await.expect_error(400, "media_fetch_blocked");
        assert_eq!(details, json!({ "url": url }));
        // A redirect to such an address is refused, too.
        source.server.answer(move |_| Reply::Header(307, "location", url.to_owned()));
        let outside = source.server.url("/redirect");
        let details = source.of_url(&outside).await.expect_error(400, "media_fetch_blocked");
        assert_eq!(details, json!({ "url": outside }), "the caller's own URL is named, and not what it led to");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn production_fetches_nothing_from_its_own_machine() {
    let source = Source::on(&Cluster::start(Options::nodes(1).arg("--strict")).await).await;
    let secure = source.server.url("/x").replace("http://", "https://");
    source.of_url(&secure).await.expect_error(400, "media_fetch_blocked");
    source.of_url("https://localhost/x").await.expect_error(400, "media_fetch_blocked");
    source.of_url(&source.server.url("/x")).await.expect_issue(&json!(["url"]), "url_scheme");
    assert!(source.server.received().is_empty());
    // Links to the gateway's own media are read from the store, whatever the rules for URLs are.
    let made = upload(&source.tenant.any(), &source.channel, "text/plain", b"own".to_vec()).await;
    let again = source.of_url(&string(&made["url"])).await.expect(201);
    assert_eq!((&again["sha256"], &again["mime_type"]), (&made["sha256"], &made["mime_type"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_of_the_gateways_own_is_a_source_for_any_channel() {
    let source = Source::begin().await;
    let other = source.tenant.channel("Other").await;
    let bytes = noise(150_000, 5);
    let made = upload(&source.tenant.any(), &other, "application/x-test", bytes.clone()).await;
    let again = source.of_url(&string(&made["url"])).await.expect(201);
    assert_ne!(again["id"], made["id"]);
    assert_eq!((&again["sha256"], &again["mime_type"]), (&made["sha256"], &made["mime_type"]));
    // The two are independent of each other.
    source.tenant.any().delete(&format!("/v1/channels/{other}/media/{}", string(&made["id"]))).await;
    assert!(fetch(&source.tenant.any(), &path(&again), &[]).await.body == bytes);
    let details = source.of_url(&string(&made["url"])).await.expect_error(400, "media_fetch_failed");
    assert_eq!((&details["reason"], &details["http_status"]), (&json!("http_status"), &json!(410)));
}

//! Media: uploads, lists, reads through signed links as a whole and in ranges, deletions.

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::http::{answer, string, time, uuid};
use tests::media::{LARGEST, bare, fetch, follow, form, noise, path, png, sha256, upload};
use tests::tenant::Tenant;
use tests::wait::{check, eventually, seconds};

/// A customer with an unpaired channel: uploads need no connection.
async fn customer() -> (Tenant, String) {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let channel = tenant.channel("Pictures").await;
    (tenant, channel)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_uploaded_through_one_node_is_read_through_every_node() {
    let (tenant, channel) = customer().await;
    let bytes = png(300_000, 1);
    let made =
        answer(bare(&tenant.api(1), &channel, "image/jpeg", bytes.clone()).header("X-Filename", "Gr%C3%BC%C3%9Fe.png"));
    let made = made.await.expect(201);
    uuid(&made["id"]);
    assert_eq!(made["mime_type"], "image/png", "the bytes tell");
    assert_eq!((&made["size_bytes"], &made["sha256"]), (&json!(300_000), &json!(sha256(&bytes))));
    assert_eq!((&made["filename"], &made["direction"]), (&json!("Grüße.png"), &json!("upload")));
    assert_eq!((time(&made["expires_at"]) - time(&made["created_at"])).num_days(), 14);

    for node in tenant.cluster.node_ids() {
        let got = fetch(&tenant.api(node), &path(&made), &[]).await;
        assert_eq!((got.status, got.body.len()), (200, 300_000));
        assert!(got.body == bytes, "node {node} gave other bytes");
        assert_eq!(got.content_type(), Some("image/png"));
        assert_eq!(got.header("content-length"), Some("300000"));
        assert_eq!(got.header("etag"), Some(format!("\"{}\"", sha256(&bytes)).as_str()));
        assert_eq!(got.header("accept-ranges"), Some("bytes"));
        assert_eq!(got.header("content-disposition"), Some("inline; filename*=UTF-8''Gr%C3%BC%C3%9Fe.png"));
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(got.header("content-security-policy"), Some("default-src 'none'; sandbox"));
        assert_eq!(got.header("referrer-policy"), Some("no-referrer"));
        let cache = got.header("cache-control").unwrap();
        let age: u64 = cache.strip_prefix("private, max-age=").unwrap().parse().unwrap();
        assert!((86_000..=86_400).contains(&age), "{cache}");
        assert!(got.header("x-ratelimit-limit").is_none(), "no bucket of the account counts it");
        let shown = tenant.api(node).get(&format!("/v1/channels/{channel}/media/{}", string(&made["id"]))).await;
        assert_eq!(shown.expect(200)["sha256"], made["sha256"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_may_have_its_parts_in_any_order() {
    let (tenant, channel) = customer().await;
    let api = tenant.any();
    let text = noise(5000, 2);
    let first = [
        ("filename", None, None, &b"named.bin"[..]),
        ("other", None, None, b"ignored"),
        ("mime_type", None, None, b"application/x-test"),
        ("file", Some("own.dat"), Some("text/plain"), &text),
    ];
    let made = answer(form(&api, &channel, &first)).await.expect(201);
    assert_eq!((&made["filename"], &made["mime_type"]), (&json!("named.bin"), &json!("application/x-test")));
    assert_eq!(made["sha256"], json!(sha256(&text)));

    let last = [("file", Some("own.dat"), Some("text/plain"), &text[..]), ("mime_type", None, None, b"a/b")];
    let made = answer(form(&api, &channel, &last)).await.expect(201);
    assert_eq!((&made["filename"], &made["mime_type"]), (&json!("own.dat"), &json!("a/b")));
    let got = fetch(&api, &path(&made), &[]).await;
    assert_eq!(got.header("content-disposition"), Some("attachment; filename*=UTF-8''own.dat"));
    assert!(got.body == text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_browser_would_run_is_served_as_plain_bytes() {
    let (tenant, channel) = customer().await;
    let api = tenant.any();
    for (bytes, kind) in
        [(&b"<!DOCTYPE html><script>1</script>"[..], "text/html"), (b"<svg onload='1'/>", "image/svg+xml")]
    {
        let made = upload(&api, &channel, "image/png", bytes.to_vec()).await;
        assert_eq!(made["mime_type"], kind);
        let got = fetch(&api, &path(&made), &[]).await;
        assert_eq!(got.content_type(), Some("application/octet-stream"));
        assert_eq!(got.header("content-disposition"), Some("attachment"));
        assert!(got.body == bytes);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_serves_parts_and_knows_what_the_client_has() {
    let (tenant, channel) = customer().await;
    let bytes = noise(200_000, 3);
    let made = upload(&tenant.api(2), &channel, "video/x-test", bytes.clone()).await;
    let (api, link) = (tenant.api(3), path(&made));
    let etag = format!("\"{}\"", sha256(&bytes));
    for (range, from, to) in
        [("bytes=0-9", 0, 10), ("bytes=100000-", 100_000, 200_000), ("bytes=-70000", 130_000, 200_000)]
    {
        let got = fetch(&api, &link, &[("range", range)]).await;
        assert_eq!(got.status, 206, "{range}");
        assert_eq!(got.header("content-range"), Some(format!("bytes {from}-{}/200000", to - 1).as_str()));
        assert_eq!(got.header("content-length"), Some((to - from).to_string().as_str()));
        assert!(got.body == bytes[from..to], "{range}");
    }
    let got = fetch(&api, &link, &[("range", "bytes=200000-")]).await;
    got.expect_error(416, "bad_request");
    assert_eq!(got.header("content-range"), Some("bytes */200000"));
    let got = fetch(&api, &link, &[("range", "bytes=0-1"), ("if-range", "\"other\"")]).await;
    assert_eq!((got.status, got.body.len()), (200, 200_000));
    let got = fetch(&api, &link, &[("range", "bytes=0-1"), ("if-range", &etag)]).await;
    assert_eq!((got.status, got.body.len()), (206, 2));

    let got = fetch(&api, &link, &[("if-none-match", &format!("\"x\", {etag}"))]).await;
    assert_eq!((got.status, got.body.len()), (304, 0));
    assert_eq!(got.header("etag"), Some(etag.as_str()));
    let got = follow(&api, Method::HEAD, &link, &[]).await;
    assert_eq!((got.status, got.body.len()), (200, 0));
    assert_eq!((got.header("content-length"), got.header("etag")), (Some("200000"), Some(etag.as_str())));
    assert_eq!(got.content_type(), Some("video/x-test"));
    let got = follow(&api, Method::HEAD, &link, &[("range", "bytes=0-9")]).await;
    assert_eq!((got.status, got.header("content-range"), got.header("content-length")), (200, None, Some("200000")));
    let got = follow(&api, Method::POST, &link, &[]).await;
    got.expect_error(404, "not_found");
    assert_eq!(got.header("allow"), Some("GET, HEAD"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_serves_text_as_it_is_to_those_who_would_read_it_compressed() {
    let (tenant, channel) = customer().await;
    let (api, bytes) = (tenant.any(), b"all of it in plain words\n".repeat(1000));
    let link = path(&upload(&api, &channel, "text/plain", bytes.clone()).await);
    let (etag, length) = (format!("\"{}\"", sha256(&bytes)), bytes.len().to_string());
    let compressed = ("accept-encoding", "gzip, br");
    for method in [Method::GET, Method::HEAD] {
        let got = follow(&api, method, &link, &[compressed]).await;
        assert_eq!((got.status, got.content_type()), (200, Some("text/plain")));
        assert_eq!((got.header("content-encoding"), got.header("content-length")), (None, Some(length.as_str())));
        assert_eq!(got.header("etag"), Some(etag.as_str()));
    }
    assert!(fetch(&api, &link, &[compressed]).await.body == bytes);
    let got = fetch(&api, &link, &[compressed, ("if-none-match", &etag)]).await;
    assert_eq!((got.status, got.header("etag")), (304, Some(etag.as_str())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_was_changed_is_refused() {
    let (tenant, channel) = customer().await;
    let api = tenant.any();
    let link = path(&upload(&api, &channel, "text/plain", b"one".to_vec()).await);
    let other = path(&upload(&api, &channel, "text/plain", b"two".to_vec()).await);
    for bad in ["/v1/media/x", "/v1/media/a.b", &format!("{link}."), "/v1/media/e30.AAAA"] {
        fetch(&api, bad, &[]).await.expect_error(401, "media_token_malformed");
    }
    let (payload, _) = link.split_once('.').unwrap();
    let (_, signature) = other.split_once('.').unwrap();
    fetch(&api, &format!("{payload}.{signature}"), &[]).await.expect_error(401, "media_token_tampered");
    assert_eq!(fetch(&api, &link, &[]).await.text(), "one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_media_is_gone_for_every_link_to_it() {
    let (tenant, channel) = customer().await;
    let made = upload(&tenant.api(1), &channel, "text/plain", b"soon gone".to_vec()).await;
    let own = format!("/v1/channels/{channel}/media/{}", string(&made["id"]));
    assert_eq!(tenant.api(2).delete(&own).await.status, 204);
    for node in tenant.cluster.node_ids() {
        let details = fetch(&tenant.api(node), &path(&made), &[]).await.expect_error(410, "media_gone");
        assert_eq!(details["expired_at"], Value::Null);
        let details = tenant.api(node).get(&own).await.expect_error(404, "not_found");
        assert_eq!(details, json!({ "resource": "media", "id": made["id"] }));
        tenant.api(node).delete(&own).await.expect_error(404, "not_found");
    }
    // Of several concurrent deletes exactly one succeeds.
    let api = tenant.api(2);
    for n in 0..5 {
        let made = upload(&api, &channel, "text/plain", noise(10, n)).await;
        let own = format!("/v1/channels/{channel}/media/{}", string(&made["id"]));
        let answers = futures::future::join_all((0..4).map(|_| api.delete(&own))).await;
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 404, 404, 404]);
    }
    // Deleting a channel deletes its media.
    let made = upload(&tenant.api(1), &channel, "text/plain", b"with its channel".to_vec()).await;
    assert_eq!(tenant.api(1).delete(&format!("/v1/channels/{channel}")).await.status, 204);
    fetch(&tenant.api(3), &path(&made), &[]).await.expect_error(410, "media_gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_newest_first_and_its_pages_join() {
    let (tenant, channel) = customer().await;
    let list = format!("/v1/channels/{channel}/media");
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.insert(0, upload(&tenant.api(n % 3 + 1), &channel, "text/plain", noise(10, n)).await["id"].clone());
    }
    let ids_of =
        |page: &Value| page["data"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect::<Vec<_>>();
    let whole = tenant.api(2).get(&list).await.expect(200);
    assert_eq!((ids_of(&whole), &whole["next_cursor"]), (ids.clone(), &Value::Null));
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = tenant.api(3).get(&format!("{list}?limit=2&direction=upload{cursor}")).await.expect(200);
        seen.extend(ids_of(&page));
        // An upload meanwhile shifts no page.
        upload(&tenant.any(), &channel, "text/plain", noise(10, 99)).await;
        if page["next_cursor"].is_null() {
            break;
        }
        cursor = format!("&cursor={}", string(&page["next_cursor"]));
    }
    assert_eq!(seen, ids);
    assert_eq!(ids_of(&tenant.any().get(&format!("{list}?direction=inbound")).await.expect(200)).len(), 0);
    for (query, field) in [("limit=0", "limit"), ("cursor=abc", "cursor"), ("direction=up", "direction")] {
        tenant.any().get(&format!("{list}?{query}")).await.expect_issue(&json!([field]), "format|enum");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_customers_media_is_not_there() {
    let (tenant, channel) = customer().await;
    let (stranger, elsewhere) = customer().await;
    let made = upload(&tenant.any(), &channel, "text/plain", b"mine".to_vec()).await;
    let id = string(&made["id"]);
    for path in [format!("/v1/channels/{channel}/media"), format!("/v1/channels/{channel}/media/{id}")] {
        stranger.any().get(&path).await.expect_error(404, "channel_not_found");
    }
    stranger.any().get(&format!("/v1/channels/{elsewhere}/media/{id}")).await.expect_error(404, "not_found");
    let answer = answer(bare(&stranger.any(), &channel, "text/plain", b"x".to_vec())).await;
    answer.expect_error(404, "channel_not_found");
    tenant.any().get(&format!("/v1/channels/{channel}/media/no-uuid")).await.expect_error(404, "not_found");

    // A key of another channel of the customer, and a key that may only read.
    let other = tenant.channel("Other").await;
    let mint = async |body: Value| string(&tenant.any().post("/v1/api-keys", body).await.expect(201)["secret"]);
    let bound = mint(json!({ "name": "bound", "channel_id": other })).await;
    let denied = tenant.any().with_key(&bound).get(&format!("/v1/channels/{channel}/media")).await;
    denied.expect_error(403, "channel_access_denied");
    let reader = tenant.any().with_key(&mint(json!({ "name": "reader", "scopes": ["media.read"] })).await);
    reader.get(&format!("/v1/channels/{channel}/media/{id}")).await.expect(200);
    let details =
        reader.delete(&format!("/v1/channels/{channel}/media/{id}")).await.expect_error(403, "insufficient_scope");
    assert_eq!(details["required"], json!(["media.write"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_breaks_a_rule_is_refused_and_leaves_nothing() {
    let (tenant, channel) = customer().await;
    let api = tenant.any();
    let too_large = |details: Value| {
        assert_eq!(details["limit_bytes"], 26_214_400);
        assert!(details["size_bytes"].as_u64().unwrap() > 26_214_400, "{details}");
    };
    let large = vec![7; LARGEST + 1];
    too_large(answer(bare(&api, &channel, "a/b", large.clone())).await.expect_error(413, "media_too_large"));
    let file = answer(form(&api, &channel, &[("file", Some("a"), None, &large)])).await;
    too_large(file.expect_error(413, "media_too_large"));
    let exact = answer(form(&api, &channel, &[("file", Some("a"), None, &large[1..])])).await;
    assert_eq!(exact.expect(201)["size_bytes"], 26_214_400);
    let noise = answer(form(&api, &channel, &[("other", None, None, &vec![7; LARGEST + 70_000])])).await;
    assert_eq!(noise.expect_error(413, "payload_too_large")["limit_bytes"], 26_214_400 + 65_536);

    let issue = async |request, path: &str, code: &str| {
        let refused: tests::http::Answer = answer(request).await;
        refused.expect_issue(&json!([path]), code);
    };
    issue(form(&api, &channel, &[("filename", None, None, b"a")]), "file", "required").await;
    issue(form(&api, &channel, &[("file", Some("a"), None, b"")]), "file", "empty").await;
    issue(form(&api, &channel, &[("file", None, None, b"1"), ("file", None, None, b"2")]), "file", "too_many").await;
    issue(
        form(&api, &channel, &[("file", None, None, b"1"), ("mime_type", None, None, b"png")]),
        "mime_type",
        "format",
    )
    .await;
    let long = "x".repeat(256);
    issue(
        form(&api, &channel, &[("file", None, None, b"1"), ("filename", None, None, long.as_bytes())]),
        "filename",
        "too_long",
    )
    .await;
    issue(bare(&api, &channel, "a/b", Vec::new()), "file", "empty").await;
    issue(bare(&api, &channel, "png", b"1".to_vec()), "Content-Type", "format").await;
    issue(bare(&api, &channel, "a/b", b"1".to_vec()).header("Content-Encoding", "gzip"), "Content-Encoding", "format")
        .await;
    let torn = bare(&api, &channel, "multipart/form-data; boundary=b", b"--b\r\nContent-Dispo".to_vec());
    answer(torn).await.expect_error(400, "bad_request");
    let unbound = bare(&api, &channel, "multipart/form-data", b"x".to_vec());
    answer(unbound).await.expect_error(400, "bad_request");

    let kept = api.get(&format!("/v1/channels/{channel}/media")).await.expect(200);
    assert_eq!(kept["data"].as_array().unwrap().len(), 1, "only the one that fitted");
    for node in tenant.cluster.dev().nodes {
        // Temporary files of other tests on this cluster come and go, so each one is awaited.
        let temporary = std::fs::read_dir(node.data.join("blobs/tmp")).unwrap();
        for path in temporary.map(|entry| entry.unwrap().path()) {
            eventually("nothing stays", seconds(30), async || check(!path.exists(), path.display().to_string())).await;
        }
    }
}

//! `/docs` and compression: the page is small and renders on demand; responses are compressed on request.

use reqwest::Method;
use serde_json::Value;
use tests::cluster::Cluster;
use tests::http::{answer, client};
use tests::tenant::Tenant;
use tokio::process::Command;

/// The response to `curl`, which sends the encodings that it accepts: headers, and the decoded body.
async fn curl(url: &str, arguments: &[&str]) -> (String, Vec<u8>) {
    let arguments =
        [&["--silent", "--show-error", "--compressed", "--dump-header", "/dev/stderr", url][..], arguments].concat();
    let done = Command::new("curl").args(arguments).output().await.expect("curl is there");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    (String::from_utf8_lossy(&done.stderr).to_lowercase(), done.stdout)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_a_kibibyte_and_more_are_compressed_for_those_who_ask() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let node = &cluster.dev().nodes[0];
    let whole = client().get(format!("{}/openapi.json", node.api)).send().await.unwrap();
    assert!(whole.headers().get("content-encoding").is_none(), "nobody asked for less");
    let etag = whole.headers()["etag"].to_str().unwrap().to_owned();
    let whole = whole.bytes().await.unwrap();

    for encoding in ["br", "gzip"] {
        let accepts = format!("Accept-Encoding: {encoding}");
        for path in ["/openapi.json", "/docs/page.js", "/docs/page.css", "/v1/event-types"] {
            for port in [&node.api, &node.ops] {
                if port == &node.ops && path == "/v1/event-types" {
                    continue;
                }
                let (head, _) = curl(&format!("{port}{path}"), &["-H", &accepts]).await;
                assert!(head.contains(&format!("content-encoding: {encoding}\r\n")), "{path}: {head}");
                assert!(head.contains("vary: accept-encoding"), "{path}: {head}");
            }
        }
        let (head, body) = curl(&format!("{}/openapi.json", node.api), &["-H", &accepts]).await;
        assert_eq!(body, whole, "{encoding}");
        // The weak ETag of the compressed response works in a conditional request.
        assert!(head.contains(&format!("etag: w/{}", etag.to_lowercase())), "{head}");
        let known = format!("If-None-Match: W/{etag}");
        let (head, _) = curl(&format!("{}/openapi.json", node.api), &["-H", &accepts, "-H", &known]).await;
        assert!(head.starts_with("http/1.1 304"), "{head}");
    }

    // Brotli is preferred if both are accepted. Small bodies and binary ones are not compressed.
    let both = ["-H", "Accept-Encoding: gzip, br"];
    let (head, _) = curl(&format!("{}/openapi.json", node.api), &both).await;
    assert!(head.contains("content-encoding: br"), "{head}");
    let (head, _) = curl(&format!("{}/healthz", node.api), &both).await;
    assert!(!head.contains("content-encoding"), "{head}");

    // Responses of the API are compressed, and so is the stream, whose frames are flushed one by one.
    for n in 0..8 {
        tenant.channel(&format!("Channel {n}")).await;
    }
    let key = format!("Authorization: Bearer {}", tenant.key);
    let (head, body) = curl(&format!("{}/v1/channels", node.api), &["-H", "Accept-Encoding: br", "-H", &key]).await;
    assert!(head.contains("content-encoding: br"), "{head}");
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["data"].as_array().unwrap().len(), 8);
    let stream = tenant.any().request(Method::GET, "/v1/events").header("Accept-Encoding", "gzip, br");
    let stream = stream.send().await.unwrap();
    assert_eq!((stream.status().as_u16(), stream.headers().get("content-encoding")), (200, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_small_and_the_document_says_what_it_shows_first() {
    let cluster = Cluster::shared().await;
    let node = &cluster.dev().nodes[0];
    let http = client();
    for port in [&node.api, &node.ops] {
        let mut bytes = 0;
        for path in ["/docs", "/docs/page.js", "/docs/page.css"] {
            let got = answer(http.get(format!("{port}{path}"))).await;
            assert_eq!(got.status, 200, "{path}");
            // Otherwise an old script could render the new document after an upgrade.
            assert_eq!(got.header("cache-control"), Some("no-cache"), "{path}");
            bytes += got.text().len();
        }
        let page = answer(http.get(format!("{port}/docs"))).await.text();
        assert!(page.contains("href=\"docs/notice.txt\""), "{page}");
        let notice = answer(http.get(format!("{port}/docs/notice.txt"))).await;
        assert!(notice.status == 200 && notice.text().contains("AGPL-3.0-only"), "{}", notice.text());
        let (head, _) = curl(&format!("{port}/docs/"), &[]).await;
        assert!(head.starts_with("http/1.1 308") && head.contains("location: ../docs\r\n"), "{head}");
        // Swagger UI has fifty times as many bytes, and parses the whole document before it shows anything.
        assert!(bytes < 40 * 1024, "{bytes}");
    }
    let document = answer(http.get(format!("{}/openapi.json", node.api))).await.expect(200);
    let tags: Vec<&str> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    assert_eq!(&tags[..4], ["Channels", "Messages", "Webhooks", "Events"]);
    let body = &document["paths"]["/v1/channels/{id}/messages"]["post"]["requestBody"]["content"]["application/json"];
    assert_eq!(body["x-first-example"], "text");
    assert!(body["examples"]["text"]["value"]["text"].is_string(), "{body}");

    let operators = answer(http.get(format!("{}/openapi.json", node.ops))).await.expect(200);
    let tags = operators["tags"].as_array().unwrap();
    assert!(tags.len() > 8 && !tags.contains(&serde_json::json!({ "name": "Operators" })), "{tags:?}");
    assert_eq!(operators.get("webhooks"), None, "operators get none");
}

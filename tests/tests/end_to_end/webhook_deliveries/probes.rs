//! Tests of a receiver, by URL and as a stored endpoint.

use std::time::Duration;

use serde_json::{Value, json};
use tests::http::string;
use tests::receiver::{Receiver, Reply};
use tests::tenant::Tenant;

use super::rig::{brisk, endpoint_path};

const BY_URL: &str = "/v1/webhook-endpoints/test";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_is_tried_out_by_url_and_as_an_endpoint() {
    let tenant = Tenant::new(&brisk().await).await;
    let api = tenant.any();
    let receiver = Receiver::start().await;
    let more = json!({ "signing_secret": "an endpoints secret", "headers": { "X-Team": "blue" } });
    let endpoint = tenant.endpoint(&receiver.url("/hook"), &["message.sent"], more).await;
    let path = endpoint_path(&endpoint);
    let default = tenant.endpoint(&receiver.url("/default"), &["message.sent"], json!({})).await;
    let secret = api.get(&format!("{}/signing-secret", endpoint_path(&default))).await.expect(200);
    let default_secret = string(&secret["signing_secret"]);

    let stored = api.act(&format!("{path}/test")).await.expect(200);
    assert_eq!((&stored["ok"], &stored["status"]), (&json!(true), &json!("success")), "{stored}");
    assert_eq!((&stored["outcome"], &stored["http_status"]), (&json!("success"), &json!(200)));
    assert_eq!((&stored["signed_with"], &stored["endpoint_id"]), (&json!("endpoint"), &endpoint["id"]));
    assert_eq!(stored["error"], Value::Null);
    assert!(stored["elapsed_ms"].as_u64() >= stored["latency_ms"].as_u64(), "{stored}");
    let request = receiver.received().remove(0);
    request.verify("an endpoints secret");
    assert_eq!((request.event(), request.header("x-team")), ("webhook.test".to_owned(), "blue"));
    assert_eq!(request.json()["data"], json!({ "test": true, "endpoint_id": endpoint["id"] }));
    assert_eq!(request.json()["channel_id"], "00000000-0000-0000-0000-000000000000");
    assert!(request.headers.get("x-gateway-delivery-id").is_none());
    let unsigned = api.act(&format!("{}/test", endpoint_path(&default))).await.expect(200);
    assert_eq!(unsigned["signed_with"], "gateway_default");

    receiver.answer(|_| Reply::Status(401));
    let by_url = api.post(BY_URL, json!({ "url": receiver.url("/hook") })).await.expect(200);
    assert_eq!((&by_url["ok"], &by_url["outcome"]), (&json!(false), &json!("failure")), "{by_url}");
    assert_eq!((&by_url["status"], &by_url["http_status"]), (&json!(401), &json!(401)));
    assert_eq!((&by_url["endpoint_id"], &by_url["error"]["code"]), (&endpoint["id"], &json!("http")));
    receiver.received().last().unwrap().verify(&default_secret);
    let stored = api.act(&format!("{path}/test")).await.expect(200);
    assert_eq!(stored["status"], "failure");

    receiver.answer(|_| Reply::Header(302, "location", "/else".into()));
    let redirected = api.post(BY_URL, json!({ "url": receiver.url("/unknown") })).await.expect(200);
    assert_eq!((&redirected["error"]["code"], &redirected["endpoint_id"]), (&json!("redirect"), &Value::Null));
    let nobody = api.post(BY_URL, json!({ "url": "http://127.0.0.1:9/" })).await;
    assert!(matches!(nobody.status, 200 | 400), "{}", nobody.text());
    let dead = api.post(BY_URL, json!({ "url": "http://127.0.0.1:65533/" })).await.expect(200);
    assert_eq!((&dead["status"], &dead["http_status"]), (&json!(0), &json!(0)));
    assert_eq!((&dead["latency_ms"], &dead["error"]["code"]), (&json!(0), &json!("connect")));

    // A URL that fails the safety check is not requested, and does not count against the limit of ten a minute.
    for _ in 0..12 {
        api.post(BY_URL, json!({ "url": "http://169.254.169.254/" }))
            .await
            .expect_issue(&json!(["url"]), "url_blocked");
    }
    api.post(BY_URL, json!({})).await.expect_issue(&json!(["url"]), "required");
    let missing = format!("/v1/webhook-endpoints/{}/test", uuid::Uuid::new_v4());
    api.act(&missing).await.expect_error(404, "webhook_endpoint_not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_tests_a_minute_are_made_over_the_whole_cluster_and_bound_keys_test_their_own() {
    let tenant = Tenant::new(&brisk().await).await;
    let receiver = Receiver::start().await;
    let channel = tenant.channel("Bound").await;
    let wide = tenant.endpoint(&receiver.url("/wide"), &["message.sent"], json!({})).await;
    let own = tenant.endpoint(&receiver.url("/own"), &["message.sent"], json!({ "channel_id": channel })).await;
    let body = json!({ "name": "bound", "channel_id": channel });
    let key = string(&tenant.any().post("/v1/api-keys", body).await.expect(201)["secret"]);
    let bound = tenant.any().with_key(&key);
    bound.post(BY_URL, json!({ "url": receiver.url("/") })).await.expect_error(403, "channel_scoped_key");
    bound.act(&format!("{}/test", endpoint_path(&wide))).await.expect_error(404, "webhook_endpoint_not_found");
    bound.act(&format!("{}/test", endpoint_path(&own))).await.expect(200);
    assert_eq!(receiver.received()[0].json()["channel_id"], json!(channel));

    let nodes = tenant.cluster.node_ids();
    let url = json!({ "url": receiver.url("/") });
    let calls = (0..15).map(|n| {
        let (api, url) = (tenant.api(nodes[n % nodes.len()]), url.clone());
        async move { api.post(BY_URL, url).await }
    });
    let answers = futures::future::join_all(calls).await;
    let passed = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(passed, 9, "with the one before, ten");
    for refused in answers.iter().filter(|answer| answer.status != 200) {
        let details = refused.expect_error(429, "rate_limited");
        assert_eq!(details, json!({ "scope": "customer", "limit": 10 }));
        let wait = Duration::from_secs(refused.retry_after());
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(60));
    }
    assert_eq!(receiver.received().len(), 10);
}

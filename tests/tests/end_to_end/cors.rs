//! Only scripts of the configured origins can read responses.

use reqwest::Method;
use serde_json::json;
use tests::cluster::{Cluster, Options};
use tests::http::{Answer, Api, answer, client};
use tests::tenant::Tenant;

const OURS: &str = "https://app.example.com";
const THEIRS: &str = "https://evil.example.com";

async fn from(api: &Api, origin: &str, method: Method, path: &str) -> Answer {
    answer(api.request(method, path).header("Origin", origin)).await
}

async fn preflight(api: &Api, origin: &str, path: &str) -> Answer {
    let request = api.request(Method::OPTIONS, path).header("Origin", origin);
    answer(request.header("Access-Control-Request-Method", "POST")).await
}

fn allows(answer: &Answer) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_that_is_configured_may_ask_and_read_and_another_may_not() {
    let origins = format!("--set=api.cors_origins=[\"https://other.example.com\", \"{OURS}\"]");
    let cluster = Cluster::start(Options::nodes(1).arg(&origins)).await;
    let tenant = Tenant::new(&cluster).await;
    let (api, public) = (tenant.any(), tenant.any().without_key());

    // A preflight request carries no credentials, and is not answered by the route.
    for path in ["/v1/channels", "/v1/account", "/healthz"] {
        let asked = preflight(&public, OURS, path).await;
        assert_eq!((asked.status, allows(&asked)), (204, Some(OURS)), "{path}: {}", asked.text());
        assert!(asked.header("access-control-allow-methods").unwrap().contains("GET"), "{path}");
        for header in ["Authorization", "Content-Type", "Last-Event-ID", "If-Match", "X-Filename"] {
            assert!(asked.header("access-control-allow-headers").unwrap().contains(header), "{header}");
        }
        assert!(asked.header("x-request-id").is_some() && asked.header("x-ratelimit-scope").is_none());
        let refused = preflight(&public, THEIRS, path).await;
        assert_eq!((refused.status, allows(&refused)), (404, None), "{path}");
    }

    // Any response can be read: successes, refusals, errors.
    let table = [
        (from(&api, OURS, Method::GET, "/v1/channels").await, 200),
        (from(&public, OURS, Method::GET, "/v1/channels").await, 401),
        (from(&api, OURS, Method::GET, "/v1/nowhere").await, 404),
        (from(&api, OURS, Method::POST, "/v1/channels").await, 400),
    ];
    for (read, status) in table {
        assert_eq!((read.status, allows(&read), read.header("vary")), (status, Some(OURS), Some("Origin")));
        for header in ["X-Request-Id", "X-RateLimit-Remaining", "Retry-After", "ETag", "X-Gateway-Restart-Required"] {
            assert!(read.header("access-control-expose-headers").unwrap().contains(header), "{header}");
        }
        assert!(read.header("access-control-allow-credentials").is_none());
    }
    let other = from(&api, THEIRS, Method::GET, "/v1/channels").await;
    assert_eq!((other.status, allows(&other), other.header("vary")), (200, None, Some("Origin")));

    // So can the event stream.
    let request = api.request(Method::GET, "/v1/events").header("Origin", OURS);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["access-control-allow-origin"], OURS);

    // The operator port has no CORS headers.
    let operator = cluster.operator(cluster.node_ids()[0], &client());
    assert_eq!(allows(&from(&operator, OURS, Method::GET, "/v1/admin/nodes").await), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_costs_its_address_a_token_and_without_origins_there_is_none() {
    let limits = Options::nodes(1).default_limits().arg("--ip-burst=20").arg("--ip-refill=1");
    let cluster = Cluster::start(limits.arg("--set=api.cors_origins=[\"*\"]")).await;
    let api = cluster.api(cluster.node_ids()[0], &client());
    let mut answers = Vec::new();
    for _ in 0..40 {
        answers.push(preflight(&api, THEIRS, "/v1/channels").await);
    }
    let passed = answers.iter().filter(|answer| answer.status == 204).count();
    assert!((15..=35).contains(&passed), "{passed} of 40 passed");
    assert!(answers.iter().all(|answer| allows(answer) == Some("*") && answer.header("vary").is_none()));
    let refused = answers.iter().find(|answer| answer.status != 204).unwrap();
    assert_eq!(refused.expect_error(429, "rate_limited")["scope"], json!("ip"));

    let plain = Cluster::shared().await;
    let asked = preflight(&plain.api(plain.node_ids()[0], &client()), OURS, "/v1/channels").await;
    asked.expect_error(404, "not_found");
    assert_eq!((allows(&asked), asked.header("vary")), (None, None));
}

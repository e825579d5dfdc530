//! Token buckets for each address, customer and channel: exact over the cluster, and refusals cost no tokens.

use std::time::Instant;

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{Answer, Api, answer, client};
use tests::tenant::Tenant;
use tests::wait::{check, eventually, seconds};

fn figure(answer: &Answer, header: &str) -> i64 {
    let text = answer.header(header).unwrap_or_else(|| panic!("no {header}: {}", answer.text()));
    text.parse().unwrap_or_else(|_| panic!("{header} is {text:?}"))
}

#[track_caller]
fn expect_limited(answer: &Answer, scope: &str, limit: i64) {
    let details = answer.expect_error(429, "rate_limited");
    assert_eq!((&details["scope"], &details["limit"]), (&json!(scope), &json!(limit)));
    assert_eq!(answer.header("x-ratelimit-scope"), Some(scope));
    assert_eq!((figure(answer, "x-ratelimit-limit"), figure(answer, "x-ratelimit-remaining")), (limit, 0));
    assert!((1..=120).contains(&answer.retry_after()), "{}", answer.retry_after());
    assert_eq!(answer.header("x-ratelimit-reset"), None);
}

/// Limits of a customer, from `(burst, refill per second)` of each bucket.
fn limits(customer: (u32, u32), channel: (u32, u32)) -> Value {
    let bucket = |(burst, refill): (u32, u32)| json!({ "burst": burst, "refill_per_second": refill });
    json!({ "limits": { "customer": bucket(customer), "channel": bucket(channel) } })
}

/// A bucket that is never empty during a test.
const AMPLE: (u32, u32) = (1_000_000, 1_000_000);

/// Sends requests until a bucket refuses; returns how many passed, and the refusal.
async fn exhaust(apis: &[Api], path: &str, passing: u16) -> (u32, Answer) {
    let mut passed = 0;
    for api in apis.iter().cycle() {
        let answer = api.get(path).await;
        if answer.status == 429 {
            return (passed, answer);
        }
        assert_eq!(answer.status, passing, "{}", answer.text());
        passed += 1;
        assert!(passed < 1_000, "requests pass without end");
    }
    unreachable!("there is a caller to ask through")
}

/// The most tokens that a bucket can have given since a time: its burst, and one for each started second.
fn given_since(start: Instant, burst: u32) -> u32 {
    burst + start.elapsed().as_secs() as u32 + 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_has_its_burst_over_all_nodes_together_and_is_told_what_is_left() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::with(&cluster, limits((12, 1), AMPLE)).await;
    let apis: Vec<_> = cluster.node_ids().into_iter().map(|node| tenant.api(node)).collect();
    let start = Instant::now();
    for n in 0..6 {
        let answer = apis[n % apis.len()].get("/v1/channels").await;
        answer.expect(200);
        assert_eq!(figure(&answer, "x-ratelimit-limit"), 12);
        let (left, at_least) = (figure(&answer, "x-ratelimit-remaining"), 11 - n as i64);
        assert!((at_least..=11).contains(&left), "counted after request {n}: {left}");
        let back = start.elapsed().as_secs() as i64 + 1;
        assert!(left <= at_least + back, "request {n} through another node: {left}");
        assert_eq!(answer.header("x-ratelimit-scope"), Some("customer"));
    }
    let (passed, refused) = exhaust(&apis, "/v1/channels", 200).await;
    expect_limited(&refused, "customer", 12);
    assert!((6..=given_since(start, 6)).contains(&passed), "{passed} more passed");
    for api in &apis {
        let (_, refused) = exhaust(std::slice::from_ref(api), "/v1/channels", 200).await;
        expect_limited(&refused, "customer", 12);
    }
    // Another customer has its own bucket.
    Tenant::new(&cluster).await.any().get("/v1/channels").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_than_rate_and_burst_pass_a_storm_through_all_nodes() {
    let cluster = Cluster::shared().await;
    let (burst, rate) = (40, 10);
    let tenant = Tenant::with(&cluster, limits((burst, rate), AMPLE)).await;
    let nodes = cluster.node_ids();
    let start = Instant::now();
    let callers = (0..12).map(|n| {
        let api = tenant.api(nodes[n % nodes.len()]);
        async move {
            let mut admitted = 0;
            while start.elapsed() < seconds(3) {
                match api.get("/v1/channels").await.status {
                    200 => admitted += 1,
                    429 => {}
                    other => panic!("{other}"),
                }
            }
            admitted
        }
    });
    let admitted: u32 = futures::future::join_all(callers).await.into_iter().sum();
    let allowed = f64::from(burst) + f64::from(rate) * start.elapsed().as_secs_f64();
    assert!(f64::from(admitted) <= allowed, "{admitted} passed, {allowed:.1} were allowed");
    let owed = burst + rate * 3 - 5;
    assert!(admitted >= owed, "{admitted} passed, at least {owed} were owed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_emptier_of_two_buckets_decides_and_a_refusal_costs_nothing() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::with(&cluster, limits((100, 1), (3, 1))).await;
    let api = tenant.any();
    let channel = format!("/v1/channels/{}", tenant.channel("One").await);
    let answer = api.get(&channel).await;
    answer.expect(200);
    assert_eq!(answer.header("x-ratelimit-scope"), Some("channel"), "2 are fewer than 98");
    assert_eq!((figure(&answer, "x-ratelimit-limit"), figure(&answer, "x-ratelimit-remaining")), (3, 2));

    // Requests that the channel's bucket refuses do not count in the customer's.
    let before = figure(&api.get("/v1/channels").await, "x-ratelimit-remaining");
    let mut passed = 0;
    for _ in 0..40 {
        let (more, refused) = exhaust(std::slice::from_ref(&api), &channel, 200).await;
        expect_limited(&refused, "channel", 3);
        passed += i64::from(more);
    }
    let after = figure(&api.get("/v1/channels").await, "x-ratelimit-remaining");
    assert!(after >= before - passed - 1, "{before} before, {passed} passed, 40 refused, {after} after");

    // Here the customer's bucket is empty first, and the channel's keeps its tokens.
    let tenant = Tenant::with(&cluster, limits((3, 1), (100, 1))).await;
    let api = tenant.any();
    let channel = format!("/v1/channels/{}", tenant.channel("Two").await);
    let mut passed = 0;
    for _ in 0..40 {
        let (more, refused) = exhaust(std::slice::from_ref(&api), &channel, 200).await;
        expect_limited(&refused, "customer", 3);
        passed += i64::from(more);
    }
    let operator = cluster.operator(cluster.node_ids()[0], &tenant.client);
    let more = limits(AMPLE, (100, 1));
    operator.patch(&format!("/v1/admin/customers/{}", tenant.customer_id), more).await.expect(200);
    eventually("the raised limit is in force", seconds(10), async || {
        let answer = api.get("/v1/channels").await;
        check(answer.status == 200 && figure(&answer, "x-ratelimit-limit") == 1_000_000, answer.text())
    })
    .await;
    let left = loop {
        // The raised bucket starts with the tokens of the small one, and refills at its own rate.
        let answer = api.get(&channel).await;
        if answer.status == 200 && answer.header("x-ratelimit-scope") == Some("channel") {
            break figure(&answer, "x-ratelimit-remaining");
        }
        passed += i64::from(answer.status == 200);
    };
    assert!(left >= 99 - passed, "{passed} passed, 40 refused, {left} left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_share_one_budget_and_a_bucket_fills_again() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::with(&cluster, limits((6, 1), AMPLE)).await;
    let api = tenant.any();
    let start = Instant::now();
    let key = api.post("/v1/api-keys", json!({ "name": "second" })).await.expect(201);
    let second = api.with_key(key["secret"].as_str().unwrap());
    let (passed, refused) = exhaust(&[api, second.clone()], "/v1/channels", 200).await;
    assert!((5..=given_since(start, 5)).contains(&passed), "{passed} passed with both keys");
    assert_eq!(refused.retry_after(), 1, "part of a second, in whole seconds");
    eventually("a token came back", seconds(10), async || {
        let answer = second.get("/v1/channels").await;
        check(answer.status == 200, answer.text())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_channel_costs_as_much_as_a_real_one() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::with(&cluster, limits(AMPLE, (2, 1))).await;
    let path = format!("/v1/channels/{}", uuid::Uuid::new_v4());
    let api = tenant.any();
    let start = Instant::now();
    let (passed, refused) = exhaust(std::slice::from_ref(&api), &path, 404).await;
    expect_limited(&refused, "channel", 2);
    assert!((2..=given_since(start, 2)).contains(&passed), "{passed} passed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_has_its_own_bucket_before_any_key_is_read() {
    let cluster = Cluster::start(Options::nodes(1).default_limits()).await;
    let node = cluster.node_ids()[0];
    let client = client();
    let api = cluster.api(node, &client);
    eventually("the bucket is full", seconds(5), async || {
        let answer = api.get("/healthz").await;
        check(answer.status == 200, answer.text())
    })
    .await;
    // A burst of requests without a key: 30 pass at once, and 30 a second.
    let start = Instant::now();
    let answers = futures::future::join_all((0..150).map(|_| api.get("/v1/channels"))).await;
    let took = start.elapsed().as_secs_f64();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    let passed = answers.iter().filter(|answer| answer.status == 401).count();
    assert_eq!(refused.len() + passed, 150);
    assert!(passed as f64 <= 30.0 + 30.0 * took + 1.0, "{passed} passed in {took:.2} s");
    expect_limited(refused[0], "ip", 30);
    // Public routes count in the address bucket, and in no other.
    let answers = futures::future::join_all((0..100).map(|_| api.get("/healthz"))).await;
    assert!(answers.iter().any(|answer| answer.status == 429), "/healthz is behind the gate");
    // The operator port does not, since operators need it during a storm.
    let operator = cluster.operator(node, &client);
    let answers = futures::future::join_all((0..100).map(|_| operator.get("/healthz"))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_ran_out_stops_sends_and_new_channels_but_no_reads() {
    let cluster = Cluster::shared().await;
    let past = "2026-01-01T00:00:00.000Z";
    let cases = [
        (json!({ "trial_ends_at": past }), "trial_expired", "trial_ends_at"),
        (json!({ "overdue_since": past }), "payment_overdue", "overdue_since"),
    ];
    for (plan, code, detail) in cases {
        let tenant = Tenant::new(&cluster).await;
        let channel = tenant.channel("Before").await;
        let operator = cluster.operator(cluster.node_ids()[0], &tenant.client);
        let customer = format!("/v1/admin/customers/{}", tenant.customer_id);
        let changed = operator.patch(&customer, json!({ "plan": plan })).await.expect(200);
        assert_eq!(changed["plan"][detail], past, "{changed}");
        for node in cluster.node_ids() {
            let api = tenant.api(node);
            let blocked = eventually("the plan is known", seconds(5), async || {
                let answer = api.post("/v1/channels", json!({ "name": "x" })).await;
                check(answer.status == 402, answer.text()).map(|()| answer)
            })
            .await;
            assert_eq!(blocked.expect_error(402, code)[detail], past);
            // The plan is checked before the body and the status.
            let send = api.post(&format!("/v1/channels/{channel}/messages"), json!({})).await;
            send.expect_error(402, code);
            api.get("/v1/channels").await.expect(200);
            api.get("/v1/messages").await.expect(200);
        }
        operator.patch(&customer, json!({ "plan": { detail: Value::Null } })).await.expect(200);
        tenant.channel("After").await;
    }

    plan_caps_channels(&cluster).await;
}

/// Every kind of route, and whether an expired plan blocks it. `{channel}` stands for a channel. Routes that are not
/// blocked may fail for another reason.
const BY_PLAN: &[(&str, &str, bool)] = &[
    ("POST", "/v1/channels", true),
    ("POST", "/v1/channels/{channel}/messages", true),
    ("GET", "/v1/channels", false),
    ("GET", "/v1/channels/{channel}", false),
    ("PATCH", "/v1/channels/{channel}", false),
    ("GET", "/v1/channels/{channel}/qr", false),
    ("POST", "/v1/channels/{channel}/pair-code", false),
    ("POST", "/v1/channels/{channel}/connect", false),
    ("POST", "/v1/channels/{channel}/disconnect", false),
    ("POST", "/v1/channels/{channel}/restart", false),
    ("POST", "/v1/channels/{channel}/logout", false),
    ("POST", "/v1/channels/{channel}/disable", false),
    ("POST", "/v1/channels/{channel}/enable", false),
    ("GET", "/v1/channels/{channel}/status-history", false),
    ("GET", "/v1/channels/{channel}/messages", false),
    ("GET", "/v1/channels/{channel}/stories", false),
    ("GET", "/v1/channels/{channel}/media", false),
    ("POST", "/v1/channels/{channel}/media/from-url", false),
    ("GET", "/v1/messages", false),
    ("GET", "/v1/webhook-endpoints", false),
    ("POST", "/v1/webhook-endpoints", false),
    ("GET", "/v1/webhook-deliveries", false),
    ("GET", "/v1/api-keys", false),
    ("POST", "/v1/api-keys", false),
    ("GET", "/v1/limits", false),
    ("GET", "/v1/metrics", false),
    ("GET", "/v1/account", false),
    ("PATCH", "/v1/account", false),
    ("GET", "/v1/account/usage", false),
    ("GET", "/v1/account/audit-log", false),
    ("POST", "/v1/events/tickets", false),
    ("DELETE", "/v1/channels/{channel}", false),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_ran_out_blocks_what_the_interface_names_and_nothing_else() {
    let cluster = Cluster::shared().await;
    let past = "2026-01-01T00:00:00.000Z";
    let cases = [
        (json!({ "trial_ends_at": past }), "trial_expired", "trial"),
        (json!({ "overdue_since": past }), "payment_overdue", "past_due"),
    ];
    for (plan, code, status) in cases {
        let tenant = Tenant::new(&cluster).await;
        let channel = tenant.channel("Before").await;
        let operator = cluster.operator(cluster.node_ids()[0], &tenant.client);
        let customer = format!("/v1/admin/customers/{}", tenant.customer_id);
        operator.patch(&customer, json!({ "plan": plan })).await.expect(200);
        let api = tenant.api(cluster.node_ids()[1]);
        assert_eq!(api.get("/v1/account").await.expect(200)["plan"]["status"], status);
        for (method, path, is_blocked) in BY_PLAN {
            let path = path.replace("{channel}", &channel);
            let request = api.request(method.parse().unwrap(), &path);
            let request = if *method == "GET" { request } else { request.json(&json!({})) };
            let said = answer(request).await;
            if *is_blocked {
                said.expect_error(402, code);
            } else {
                assert!(!matches!(said.status, 402 | 404), "{method} {path}: {} {}", said.status, said.text());
            }
        }
    }
}

async fn plan_caps_channels(cluster: &Cluster) {
    let tenant = Tenant::with(cluster, json!({ "plan": { "channel_limit": 2 } })).await;
    let (first, _) = (tenant.channel("One").await, tenant.channel("Two").await);
    for node in cluster.node_ids() {
        let answer = tenant.api(node).post("/v1/channels", json!({ "name": "Three" })).await;
        assert_eq!(answer.expect_error(403, "plan_channel_limit"), json!({ "limit": 2, "current": 2 }));
    }
    tenant.any().delete(&format!("/v1/channels/{first}")).await.expect(204);
    tenant.channel("Three").await;
    // Nine concurrent requests for one place: the limit holds over all nodes.
    let tenant = Tenant::with(cluster, json!({ "plan": { "channel_limit": 1 } })).await;
    let calls = (0..9).map(|n| {
        let api = tenant.api(cluster.node_ids()[n % cluster.node_ids().len()]);
        async move { api.post("/v1/channels", json!({ "name": "Race" })).await.status }
    });
    let statuses = futures::future::join_all(calls).await;
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 201 | 403)), "{statuses:?}");
}

/// With the API's default limits: of 300 concurrent requests 60 pass, plus those that the refill allows meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_hundred_calls_at_once_through_three_nodes_sixty_pass() {
    let cluster = Cluster::shared().await;
    let nodes = cluster.node_ids();
    for (customer, channel, scope) in [((60, 1), AMPLE, "customer"), (AMPLE, (60, 1), "channel")] {
        let tenant = Tenant::with(&cluster, limits(AMPLE, AMPLE)).await;
        let path = format!("/v1/channels/{}", tenant.channel("Crowded").await);
        let operator = cluster.operator(nodes[0], &tenant.client);
        operator
            .patch(&format!("/v1/admin/customers/{}", tenant.customer_id), limits(customer, channel))
            .await
            .expect(200);
        let start = Instant::now();
        let calls = (0..300).map(|n| {
            let api = tenant.api(nodes[n % nodes.len()]);
            let path = path.clone();
            async move { api.get(&path).await }
        });
        let answers = futures::future::join_all(calls).await;
        let passed = answers.iter().filter(|answer| answer.status == 200).count() as u64;
        let allowed = 60 + start.elapsed().as_secs();
        assert!((60..=allowed).contains(&passed), "{scope}: {passed} passed, {allowed} were allowed");
        for refused in answers.iter().filter(|answer| answer.status != 200) {
            expect_limited(refused, scope, 60);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_authenticated_answer_says_what_is_left_and_a_refusal_of_the_key_says_nothing() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::with(&cluster, limits((1000, 1), (900, 1))).await;
    let api = tenant.any();
    let channel = format!("/v1/channels/{}", tenant.channel("Counted").await);
    let key = api.post("/v1/api-keys", json!({ "name": "narrow", "scopes": ["messages.read"] })).await.expect(201);
    let narrow = api.with_key(key["secret"].as_str().unwrap());
    let nowhere = format!("/v1/channels/{}", uuid::Uuid::new_v4());
    let answers = [
        (api.get("/v1/channels").await, 200, "customer"),
        (api.post("/v1/channels", json!({})).await, 400, "customer"),
        (api.get("/v1/api-keys/none").await, 404, "customer"),
        (narrow.get("/v1/channels").await, 403, "customer"),
        (api.get("/v1/channels/no-uuid").await, 404, "customer"),
        (api.get(&channel).await, 200, "channel"),
        (narrow.get(&channel).await, 403, "channel"),
        (api.get(&nowhere).await, 404, "channel"),
        (api.patch(&channel, json!({})).await, 400, "channel"),
        (api.post(&format!("{channel}/messages"), json!({ "type": "none" })).await, 400, "channel"),
    ];
    for (answer, status, scope) in &answers {
        assert_eq!((answer.status, answer.header("x-ratelimit-scope")), (*status, Some(*scope)), "{}", answer.text());
        let limit = if *scope == "customer" { 1000 } else { 900 };
        assert_eq!(figure(answer, "x-ratelimit-limit"), limit);
        assert!((limit - 50..limit).contains(&figure(answer, "x-ratelimit-remaining")), "counted");
        assert_eq!(answer.header("x-ratelimit-reset"), None);
    }
    let unknown = api.with_key(&format!("zpk_{}", "A".repeat(24))).get("/v1/channels").await;
    unknown.expect_error(401, "auth_invalid");
    assert_eq!(unknown.header("x-ratelimit-limit"), None, "there is no account whose tokens could be told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limits_resource_tells_both_buckets_and_costs_a_token_of_the_account_alone() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::with(&cluster, limits((100, 1), (50, 1))).await;
    let api = tenant.any();
    let channel = tenant.channel("Asked for").await;
    let asked = chrono::Utc::now();
    let without = api.get("/v1/limits").await;
    let body = without.expect(200);
    assert_eq!(
        (&body["per_channel"], &body["channel_id"], &body["per_key"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(body["per_customer"]["limit"], 100);
    assert_eq!(body["per_customer"]["remaining"], figure(&without, "x-ratelimit-remaining"));
    let missing = 100 - body["per_customer"]["remaining"].as_i64().unwrap();
    let full_in = (tests::http::time(&body["per_customer"]["reset_at"]) - asked).num_seconds();
    let waited = (chrono::Utc::now() - asked).num_seconds();
    assert!(
        (missing - 2..=missing + waited + 1).contains(&full_in),
        "{missing} tokens in {full_in} s, one comes a second"
    );
    for node in cluster.node_ids() {
        let body = tenant.api(node).get(&format!("/v1/limits?channel_id={channel}")).await.expect(200);
        assert_eq!(body["channel_id"], json!(channel));
        assert_eq!((&body["per_channel"]["limit"], &body["per_channel"]["remaining"]), (&json!(50), &json!(50)));
        assert!(body["per_customer"]["remaining"].as_u64().unwrap() < 100);
    }
    // A key that is bound to a channel need not name it.
    let bound = api.post("/v1/api-keys", json!({ "name": "bound", "channel_id": channel })).await.expect(201);
    let bound = api.with_key(bound["secret"].as_str().unwrap());
    assert_eq!(bound.get("/v1/limits").await.expect(200)["channel_id"], json!(channel));
    let other = tenant.channel("Another").await;
    bound.get(&format!("/v1/limits?channel_id={other}")).await.expect_error(403, "channel_access_denied");
    api.get("/v1/limits?channel_id=7").await.expect_issue(&json!(["channel_id"]), "format");
    let unknown = format!("/v1/limits?channel_id={}", uuid::Uuid::new_v4());
    api.get(&unknown).await.expect_error(404, "channel_not_found");
}

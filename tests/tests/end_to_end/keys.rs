//! API keys: authentication, scopes, and revocation, which takes effect on all nodes at once.

use std::time::Duration;

use model::time::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{Answer, Api, answer, string, time, try_answer, uuid};
use tests::member::Member;
use tests::tenant::{Tenant, text};
use tests::wait::{check, eventually, seconds};

/// Mints a key, and returns its record and secret.
async fn mint(api: &Api, body: Value) -> (Value, String) {
    let made = api.post("/v1/api-keys", body).await.expect(201);
    let secret = string(&made["secret"]);
    (made, secret)
}

async fn with_authorization(api: &Api, value: &str) -> Answer {
    let request = api.without_key().request(Method::GET, "/v1/channels");
    answer(request.header("authorization", value)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_fail_authentication_has_its_code() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();

    let missing = api.without_key().get("/v1/channels").await;
    missing.expect_error(401, "auth_missing");
    assert_eq!(missing.header("www-authenticate"), Some("Bearer"));

    let key = &tenant.key;
    let malformed = [
        "Basic dXNlcjpwYXNz".to_owned(),
        "Bearer".to_owned(),
        "Bearer not-a-key".to_owned(),
        key.clone(),
        format!("Bearer {}", &key[..27]),
        format!("Bearer {key}x"),
        format!("Bearer zpk_{}", "+".repeat(24)),
        format!("Bearer sk_{}", "a".repeat(25)),
    ];
    for value in &malformed {
        with_authorization(&api, value).await.expect_error(401, "auth_malformed");
    }

    for node in tenant.cluster.node_ids() {
        let unknown = format!("Bearer zpk_{}", "A".repeat(24));
        with_authorization(&tenant.api(node), &unknown).await.expect_error(401, "auth_invalid");
        // A correct prefix with a wrong rest is refused in the same way.
        let near = format!("Bearer {}{}", &key[..12], "A".repeat(16));
        with_authorization(&tenant.api(node), &near).await.expect_error(401, "auth_invalid");
    }

    let soon = chrono::Utc::now() + chrono::Duration::seconds(2);
    let (record, secret) = mint(&api, json!({ "name": "short", "expires_at": soon.to_rfc3339() })).await;
    assert_eq!(time(&record["expires_at"]).timestamp(), soon.timestamp());
    let short = api.with_key(&secret);
    short.get("/v1/channels").await.expect(200);
    let expired = eventually("the key expires", seconds(10), async || {
        let answer = short.get("/v1/channels").await;
        check(answer.status == 401, answer.text()).map(|()| answer)
    })
    .await;
    assert_eq!(expired.expect_error(401, "auth_expired")["expired_at"], record["expires_at"]);

    let (record, secret) = mint(&api, json!({ "name": "revoked" })).await;
    api.delete(&format!("/v1/api-keys/{}", string(&record["id"]))).await.expect(204);
    let revoked = api.with_key(&secret).get("/v1/channels").await.expect_error(401, "auth_revoked");
    time(&revoked["revoked_at"]);

    // A key in the query string is ignored.
    api.without_key().get(&format!("/v1/channels?api_key={key}")).await.expect_error(401, "auth_missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_works_on_every_node_at_once_and_its_revocation_too() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let nodes = tenant.cluster.node_ids();
    for round in 0..10 {
        let through = |n: usize| tenant.api(nodes[(round + n) % nodes.len()]);
        let (record, secret) = mint(&through(0), json!({ "name": format!("round {round}") })).await;
        for node in &nodes {
            tenant.api(*node).with_key(&secret).get("/v1/channels").await.expect(200);
        }
        let id = string(&record["id"]);
        through(1).delete(&format!("/v1/api-keys/{id}")).await.expect(204);
        for node in &nodes {
            let api = tenant.api(*node);
            api.with_key(&secret).get("/v1/channels").await.expect_error(401, "auth_revoked");
            assert_eq!(api.get(&format!("/v1/api-keys/{id}")).await.expect(200)["status"], "revoked", "node {node}");
        }
        through(2).delete(&format!("/v1/api-keys/{id}")).await.expect_error(409, "no_op");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_recorded_whole_and_its_secret_shown_once() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let (made, secret) = mint(&api, json!({ "name": "Deploy", "scopes": ["channels.read", "messages.*"] })).await;
    assert!(secret.starts_with("zpk_") && secret.len() == 28, "{secret}");
    uuid(&made["id"]);
    assert_eq!(made["customer_id"], json!(tenant.customer_id));
    assert_eq!((&made["name"], &made["prefix"]), (&json!("Deploy"), &json!(secret[..12])));
    assert_eq!(made["scopes"], json!(["channels.read", "messages.*"]));
    assert_eq!((&made["status"], &made["created_by"]), (&json!("active"), &json!("api_key")));
    for field in ["channel_id", "expires_at", "last_used_at", "revoked_at"] {
        assert_eq!(made[field], Value::Null, "{field}");
    }
    uuid(&made["created_by_key_id"]);

    let id = string(&made["id"]);
    let mut without_secret = made.clone();
    without_secret.as_object_mut().unwrap().remove("secret");
    assert_eq!(api.get(&format!("/v1/api-keys/{id}")).await.expect(200), without_secret);
    let list = api.get("/v1/api-keys").await;
    assert!(!list.text().contains(&secret[12..]), "a list shows no secret");
    let list = list.expect(200);
    assert_eq!(list["data"][0]["id"], made["id"], "newest first");

    api.delete(&format!("/v1/api-keys/{id}")).await.expect(204);
    let shown = |list: &Value| list["data"].as_array().unwrap().iter().any(|key| key["id"] == json!(id));
    assert!(!shown(&api.get("/v1/api-keys").await.expect(200)));
    assert!(shown(&api.get("/v1/api-keys?include_revoked=true").await.expect(200)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_does_what_its_scopes_say_and_no_more() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let channel = tenant.channel("Scoped").await;
    let at = |rest: &str| format!("/v1/channels/{channel}{rest}");
    // Route, body, and the scope that the route requires.
    let routes = [
        (Method::GET, "/v1/channels".to_owned(), Value::Null, "channels.read"),
        (Method::POST, "/v1/channels".to_owned(), json!({ "name": "x" }), "channels.write"),
        (Method::GET, at(""), Value::Null, "channels.read"),
        (Method::PATCH, at(""), json!({ "name": "x" }), "channels.write"),
        (Method::GET, at("/qr?format=raw"), Value::Null, "channels.read"),
        (Method::POST, at("/restart"), Value::Null, "channels.write"),
        (Method::POST, at("/messages"), text("15551234567", "hi"), "messages.write"),
        (Method::GET, at("/messages"), Value::Null, "messages.read"),
        (Method::GET, "/v1/messages".to_owned(), Value::Null, "messages.read"),
        (Method::GET, "/v1/webhook-endpoints".to_owned(), Value::Null, "webhooks.read"),
        (Method::POST, "/v1/webhook-endpoints".to_owned(), json!({}), "webhooks.write"),
        (Method::GET, "/v1/api-keys".to_owned(), Value::Null, "keys.read"),
        (Method::POST, "/v1/api-keys".to_owned(), json!({}), "keys.write"),
    ];
    let grants = [
        "channels.read",
        "channels.write",
        "channels.*",
        "messages.read",
        "messages.write",
        "webhooks.*",
        "keys.read",
        "keys.write",
        "*",
    ];
    for grant in grants {
        let (_, secret) = mint(&api, json!({ "name": grant, "scopes": [grant] })).await;
        let key = api.with_key(&secret);
        for (method, path, body, scope) in &routes {
            let request = key.request(method.clone(), path);
            let answer = answer(if body.is_null() { request } else { request.json(body) }).await;
            let resource = scope.split('.').next().unwrap();
            if grant == "*" || grant == *scope || grant == format!("{resource}.*") {
                let code = if answer.status < 400 { Value::Null } else { answer.json()["error"]["code"].clone() };
                assert_ne!(code, "insufficient_scope", "{method} {path} with {grant}");
            } else {
                let details = answer.expect_error(403, "insufficient_scope");
                assert_eq!(details["required"], json!([scope]), "{method} {path} with {grant}");
                assert_eq!(details["granted"], json!([grant]), "{method} {path}");
            }
        }
    }

    // The account's own routes require an unrestricted key.
    let (_, secret) = mint(&api, json!({ "name": "almost", "scopes": ["channels.*", "keys.*"] })).await;
    let details = api.with_key(&secret).get("/v1/account/audit-log").await.expect_error(403, "insufficient_scope");
    assert!(details["required"] == json!(["*"]) || details["required"] == json!("*"), "{details}");
    let (_, secret) = mint(&api, json!({ "name": "star", "scopes": ["*"] })).await;
    api.with_key(&secret).get("/v1/account/audit-log").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_mints_another_that_may_more_than_itself() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let (_, secret) = mint(&api, json!({ "name": "minter", "scopes": ["keys.write", "channels.*"] })).await;
    let minter = api.with_key(&secret);

    let refused = |scopes: Value, missing: Value| {
        let minter = minter.clone();
        async move {
            let answer = minter.post("/v1/api-keys", json!({ "name": "more", "scopes": scopes })).await;
            assert_eq!(answer.expect_error(403, "insufficient_scope")["required"], missing);
        }
    };
    refused(json!(["messages.read"]), json!(["messages.read"])).await;
    refused(json!(["channels.read", "messages.write"]), json!(["messages.write"])).await;
    refused(json!(["keys.*"]), json!(["keys.*"])).await;
    refused(json!(["*"]), json!(["*"])).await;
    // An empty list of scopes means all of them, so it cannot be granted either.
    let everything = minter.post("/v1/api-keys", json!({ "name": "all" })).await;
    everything.expect_error(403, "insufficient_scope");

    for scopes in [json!(["channels.read"]), json!(["channels.*"]), json!(["keys.write", "channels.write"])] {
        mint(&minter, json!({ "name": "less", "scopes": scopes })).await;
    }
    // The key of a new channel inherits the caller's scopes.
    let made = minter.post("/v1/channels", json!({ "name": "x", "issue_scoped_key": true })).await.expect(201);
    assert_eq!(made["scoped_key"]["scopes"], json!(["keys.write", "channels.*"]));
    let bound = api.with_key(&string(&made["scoped_key"]["secret"]));
    let path = format!("/v1/channels/{}/messages", string(&made["id"]));
    bound.get(&path).await.expect_error(403, "insufficient_scope");

    // A key cannot mint a key that outlives it.
    let end = json!(in_an_hour(0));
    let (short, secret) = mint(&api, json!({ "name": "short", "expires_at": end })).await;
    let short_lived = api.with_key(&secret);
    let (child, _) = mint(&short_lived, json!({ "name": "child" })).await;
    assert_eq!(child["expires_at"], short["expires_at"]);
    let longer = json!({ "name": "longer", "expires_at": in_an_hour(1) });
    short_lived.post("/v1/api-keys", longer).await.expect_issue(&json!(["expires_at"]), "too_big");

    // Creating a channel returns no key to a caller who may not mint one, be it a key or a member.
    let (_, secret) = mint(&api, json!({ "name": "channels", "scopes": ["channels.*"] })).await;
    let member = Member::new(&tenant, "member").await.session(&api).await;
    for caller in [api.with_key(&secret), member] {
        let answer = caller.post("/v1/channels", json!({ "name": "x", "issue_scoped_key": true })).await;
        assert_eq!(answer.expect_error(403, "insufficient_scope")["required"], json!(["keys.write"]));
        caller.post("/v1/channels", json!({ "name": "x" })).await.expect(201);
    }
}

/// The time in an hour plus `seconds`, as bodies have it.
fn in_an_hour(seconds: u64) -> String {
    Timestamp::now().plus(Duration::from_secs(3600 + seconds)).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_one_channel_stays_in_it() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let (own, other) = (tenant.channel("Own").await, tenant.channel("Other").await);
    let foreign = Tenant::new(&tenant.cluster).await.channel("Foreign").await;
    let (record, secret) = mint(&api, json!({ "name": "bound", "channel_id": own })).await;
    assert_eq!(record["channel_id"], json!(own));
    let bound = api.with_key(&secret);

    bound.get(&format!("/v1/channels/{own}")).await.expect(200);
    bound.get(&format!("/v1/channels/{own}/messages")).await.expect(200);
    bound.get(&format!("/v1/messages?channel_id={own}")).await.expect(200);
    let denied = bound.get(&format!("/v1/channels/{other}")).await.expect_error(403, "channel_access_denied");
    assert_eq!(denied["key_channel_id"], json!(own));
    let denied = bound.post(&format!("/v1/channels/{other}/messages"), text("15551234567", "x")).await;
    denied.expect_error(403, "channel_access_denied");
    // A channel of another customer is reported as missing, not as denied.
    bound.get(&format!("/v1/channels/{foreign}")).await.expect_error(404, "channel_not_found");

    let many = [
        bound.get("/v1/channels").await,
        bound.post("/v1/channels", json!({ "name": "x" })).await,
        bound.get("/v1/messages").await,
        bound
            .post("/v1/webhook-endpoints", json!({ "url": "http://127.0.0.1:65535/x", "events": ["message.sent"] }))
            .await,
        bound.post("/v1/api-keys", json!({ "name": "free" })).await,
        bound.get("/v1/account/audit-log").await,
    ];
    for answer in many {
        assert_eq!(answer.expect_error(403, "channel_scoped_key")["key_channel_id"], json!(own));
    }
    for action in ["disable", "enable"] {
        bound.act(&format!("/v1/channels/{own}/{action}")).await.expect_error(403, "insufficient_scope");
    }

    let (child, _) = mint(&bound, json!({ "name": "child", "channel_id": own })).await;
    let answer = bound.post("/v1/api-keys", json!({ "name": "x", "channel_id": other })).await;
    answer.expect_error(403, "channel_access_denied");
    let answer = bound.post("/v1/api-keys", json!({ "name": "x", "channel_id": foreign })).await;
    answer.expect_error(404, "channel_not_found");
    let list = bound.get("/v1/api-keys").await.expect(200);
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|key| key["id"].clone()).collect();
    assert_eq!(ids, [child["id"].clone(), record["id"].clone()], "only the channel's keys");

    // Endpoints of the key's channel are visible, and no others.
    let body = json!({ "url": "http://127.0.0.1:65535/x", "events": ["message.sent"], "channel_id": own });
    let endpoint = bound.post("/v1/webhook-endpoints", body).await.expect(201);
    let wide = tenant.endpoint("http://127.0.0.1:65535/wide", &["message.sent"], json!({})).await;
    let list = bound.get("/v1/webhook-endpoints").await.expect(200);
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
    bound.get(&format!("/v1/webhook-endpoints/{}", string(&endpoint["id"]))).await.expect(200);
    let answer = bound.get(&format!("/v1/webhook-endpoints/{}", string(&wide["id"]))).await;
    answer.expect_error(404, "webhook_endpoint_not_found");

    // The account's default secret signs for all channels, so it stays hidden; the endpoint's own is the channel's.
    let secret = format!("/v1/webhook-endpoints/{}/signing-secret", string(&endpoint["id"]));
    bound.get(&secret).await.expect_error(403, "channel_scoped_key");
    assert_eq!(api.get(&secret).await.expect(200)["is_default"], true);
    let own = json!({ "signing_secret": "whsec_of-this-endpoint" });
    bound.patch(secret.trim_end_matches("/signing-secret"), own).await.expect(200);
    assert_eq!(bound.get(&secret).await.expect(200)["is_default"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_customer_owns_is_not_there() {
    let cluster = Cluster::shared().await;
    let (own, other) = (Tenant::new(&cluster).await, Tenant::new(&cluster).await);
    let channel = own.channel("Mine").await;
    let endpoint = own.endpoint("http://127.0.0.1:65535/x", &["message.sent"], json!({})).await;
    let (key, _) = mint(&own.any(), json!({ "name": "mine" })).await;
    let (endpoint, key) = (string(&endpoint["id"]), string(&key["id"]));
    let at = |rest: &str| format!("/v1/channels/{channel}{rest}");
    let hook = |rest: &str| format!("/v1/webhook-endpoints/{endpoint}{rest}");
    let key = format!("/v1/api-keys/{key}");

    let routes = [
        (Method::GET, at(""), Value::Null, "channel_not_found"),
        (Method::PATCH, at(""), json!({ "name": "x" }), "channel_not_found"),
        (Method::DELETE, at(""), Value::Null, "channel_not_found"),
        (Method::GET, at("/qr"), Value::Null, "channel_not_found"),
        (Method::POST, at("/pair-code"), json!({ "phone_number": "15551234567" }), "channel_not_found"),
        (Method::POST, at("/connect"), Value::Null, "channel_not_found"),
        (Method::POST, at("/disable"), Value::Null, "channel_not_found"),
        (Method::GET, at("/messages"), Value::Null, "channel_not_found"),
        (Method::POST, at("/messages"), text("15551234567", "x"), "channel_not_found"),
        // An invalid body reveals nothing either.
        (Method::POST, at("/messages"), json!({ "type": "nonsense" }), "channel_not_found"),
        (Method::GET, hook(""), Value::Null, "webhook_endpoint_not_found"),
        (Method::PATCH, hook(""), json!({ "enabled": false }), "webhook_endpoint_not_found"),
        (Method::DELETE, hook(""), Value::Null, "webhook_endpoint_not_found"),
        (Method::GET, hook("/signing-secret"), Value::Null, "webhook_endpoint_not_found"),
        (Method::GET, key.clone(), Value::Null, "not_found"),
        (Method::DELETE, key, Value::Null, "not_found"),
    ];
    for node in cluster.node_ids() {
        let api = other.api(node);
        for (method, path, body, code) in &routes {
            let request = api.request(method.clone(), path);
            let answer = answer(if body.is_null() { request } else { request.json(body) }).await;
            answer.expect_error(404, code);
        }
    }
    let api = other.any();
    for list in ["/v1/channels", "/v1/webhook-endpoints", "/v1/messages"] {
        assert_eq!(api.get(list).await.expect(200)["data"], json!([]), "{list}");
    }
    let answer = api.post("/v1/api-keys", json!({ "name": "x", "channel_id": channel })).await;
    answer.expect_error(404, "channel_not_found");
    let body = json!({ "url": "http://127.0.0.1:65535/x", "events": ["message.sent"], "channel_id": channel });
    api.post("/v1/webhook-endpoints", body).await.expect_error(404, "channel_not_found");
    own.any().get(&at("")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issues_revocations_and_failures_are_in_the_audit_log() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let channel = tenant.channel("Audited").await;
    let (key, secret) = mint(&api, json!({ "name": "Audited key" })).await;
    let id = string(&key["id"]);
    api.delete(&format!("/v1/api-keys/{id}")).await.expect(204);
    for _ in 0..5 {
        api.with_key(&secret).get("/v1/channels").await.expect_error(401, "auth_revoked");
    }
    let endpoint = tenant.endpoint("http://127.0.0.1:65535/x", &["message.sent"], json!({})).await;
    let endpoint = format!("/v1/webhook-endpoints/{}", string(&endpoint["id"]));
    api.get(&format!("{endpoint}/signing-secret")).await.expect(200);
    api.patch(&endpoint, json!({ "signing_secret": "a new secret of 20+" })).await.expect(200);
    api.delete(&endpoint).await.expect(204);
    api.delete(&format!("/v1/channels/{channel}")).await.expect(204);

    for node in tenant.cluster.node_ids() {
        let api = tenant.api(node);
        let entries = eventually("the failure is written", seconds(10), async || {
            let log = api.get("/v1/account/audit-log?limit=100").await.expect(200);
            let entries = log["data"].as_array().unwrap().clone();
            check(entries.iter().any(|entry| entry["action"] == "auth.failed"), log.to_string()).map(|()| entries)
        })
        .await;
        let of = |action: &str, target: &str| -> Vec<Value> {
            let fits = |entry: &&Value| entry["action"] == action && entry["target"]["id"] == target;
            entries.iter().filter(fits).cloned().collect()
        };
        let issued = of("key.issued", &id);
        assert_eq!(issued.len(), 1, "{entries:?}");
        assert_eq!(issued[0]["target"]["label"], "Audited key", "the label outlives the key");
        assert_eq!(issued[0]["outcome"], "success");
        assert_eq!(issued[0]["actor"]["prefix"], json!(tenant.key[..12]));
        assert!(issued[0]["request_id"].is_string() && issued[0]["ip"].is_string(), "{}", issued[0]);
        time(&issued[0]["created_at"]);
        assert_eq!(of("key.revoked", &id).len(), 1);
        assert_eq!(of("channel.created", &channel).len(), 1);
        assert_eq!(of("channel.deleted", &channel).len(), 1);
        for action in ["webhook.created", "webhook.secret_read", "webhook.secret_changed", "webhook.deleted"] {
            assert_eq!(entries.iter().filter(|entry| entry["action"] == action).count(), 1, "{action}");
        }
        let failed: Vec<_> = entries.iter().filter(|entry| entry["action"] == "auth.failed").collect();
        assert!(failed.len() <= 2, "folded by minute: {failed:?}");
        assert_eq!(failed[0]["outcome"], "failure");
        let (made, first) = (time(&issued[0]["created_at"]), time(&failed[failed.len() - 1]["created_at"]));
        assert!(first >= made, "a failure bears its own time, not that of its minute: {failed:?}");
    }

    // An audit log cursor belongs to its customer.
    let page = api.get("/v1/account/audit-log?limit=1").await.expect(200);
    let of_another = format!("/v1/account/audit-log?cursor={}", string(&page["next_cursor"]));
    let stranger = Tenant::new(&tenant.cluster).await;
    stranger.any().get(&of_another).await.expect_issue(&json!(["cursor"]), "format");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_guesses_at_a_key_is_seen_by_its_owner() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let end = if tenant.key.ends_with("AA") { "BB" } else { "AA" };
    let near = format!("{}{end}", &tenant.key[..tenant.key.len() - 2]);
    for node in tenant.cluster.node_ids() {
        tenant.api(node).with_key(&near).get("/v1/channels").await.expect_error(401, "auth_invalid");
    }
    let log = format!("/v1/account/audit-log?action=auth.failed&actor={}", &tenant.key[..12]);
    let failed = eventually("the guess is written", seconds(10), async || {
        let log = tenant.any().get(&log).await.expect(200);
        check(log["data"][0].is_object(), log.to_string()).map(|()| log["data"].clone())
    })
    .await;
    assert_eq!(failed[0]["details"]["code"], "auth_invalid");
    assert!(failed.as_array().unwrap().len() <= 2, "one entry a minute, through whatever nodes: {failed}");
    assert!(!failed.to_string().contains(&near), "the guess is not kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_may_have_missed_a_revocation_refuses_by_itself() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let nodes = cluster.node_ids();
    let api = tenant.api(nodes[0]);
    api.get("/v1/channels").await.expect(200);
    cluster.pause(nodes[1]);
    cluster.pause(nodes[2]);
    let answer = eventually("the node knows that its copy is old", seconds(15), async || {
        match try_answer(api.request(Method::GET, "/v1/channels")).await {
            // Until the node notices, its forwarded requests find no owner: 503 `worker_at_capacity`.
            Ok(answer) if answer.status == 503 && answer.json()["error"]["code"] == "auth_backend_unavailable" => {
                Ok(answer)
            }
            Ok(answer) => Err(answer.text()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
    answer.expect_error(503, "auth_backend_unavailable");
    assert_eq!(answer.retry_after(), 2);
    cluster.resume(nodes[1]);
    cluster.resume(nodes[2]);
    eventually("the node answers again", seconds(20), async || {
        let answer = api.get("/v1/channels").await;
        check(answer.status == 200, answer.text())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_stopped_during_a_revocation_acts_for_nobody_when_it_goes_on() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let nodes = cluster.node_ids();
    let users = format!("/v1/admin/customers/{}/users", tenant.customer_id);
    let credentials = json!({ "email": "owner@example.com", "password": "correct horse battery" });
    cluster.operator(nodes[0], &tenant.client).post(&users, credentials.clone()).await.expect(201);
    // In one of the rounds, the stopped node leads the directory.
    for stopped in &nodes {
        let others: Vec<u64> = nodes.iter().copied().filter(|node| node != stopped).collect();
        let api = tenant.api(others[0]);
        let (record, secret) = mint(&api, json!({ "name": "to be revoked" })).await;
        let session = string(&api.post("/v1/auth/login", credentials.clone()).await.expect(200)["access_token"]);
        let there = cluster.api(*stopped, &tenant.client);
        for token in [&secret, &session] {
            there.with_key(token).get("/v1/channels").await.expect(200);
        }

        cluster.pause(*stopped);
        eventually("the key is revoked", seconds(30), async || {
            let answer = tenant.api(others[1]).delete(&format!("/v1/api-keys/{}", string(&record["id"]))).await;
            // A response may say that the outcome is unknown; a retry finds it out.
            check(answer.status == 204 || answer.status == 409, answer.text())
        })
        .await;
        let ending = eventually("the session is ended", seconds(30), async || {
            let answer = api.with_key(&session).act("/v1/auth/logout").await;
            check(answer.status == 204 || answer.status == 401, answer.text()).map(|()| answer)
        })
        .await;
        assert!(ending.status == 204 || ending.json()["error"]["code"] == "auth_revoked", "{}", ending.text());

        // Requests that reached the node while it was stopped are answered when it resumes.
        let early = [&secret, &session].into_iter().cycle().take(20).map(|token| {
            let request = there.with_key(token).request(Method::GET, "/v1/channels");
            tokio::spawn(try_answer(request))
        });
        let early: Vec<_> = early.collect();
        cluster.resume(*stopped);
        for request in early {
            if let Ok(answer) = request.await.unwrap() {
                assert!(matches!(answer.status, 401 | 503), "{}", answer.text());
            }
        }
        for token in [&secret, &session] {
            eventually("the node knows", seconds(20), async || {
                let answer = there.with_key(token).get("/v1/channels").await;
                assert!(matches!(answer.status, 401 | 503), "it acts for who was refused: {}", answer.text());
                check(answer.status == 401 && answer.json()["error"]["code"] == "auth_revoked", answer.text())
            })
            .await;
        }
        cluster.wait_ready(*stopped, &tenant.client).await;
    }
}

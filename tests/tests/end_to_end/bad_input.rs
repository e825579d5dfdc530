//! Tests every rule of every field of bodies and queries, one row each, and requests that are malformed as a whole.

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::http::{Api, answer, string};
use tests::tenant::{Tenant, text};

/// The body, the path of the issue, and its code (`a|b` where the API allows either).
type Row = (Value, Value, &'static str);

fn letters(n: usize) -> String {
    "x".repeat(n)
}

/// Letters of four bytes each, since lengths count characters.
fn wide(n: usize) -> String {
    "𝒳".repeat(n)
}

async fn expect_issues(api: &Api, method: Method, path: &str, rows: Vec<Row>) {
    for (body, at, codes) in rows {
        println!("{method} {path}: {} wants {at} {codes}", short(&body));
        answer(api.request(method.clone(), path).json(&body)).await.expect_issue(&at, codes);
    }
}

fn short(body: &Value) -> String {
    body.to_string().chars().take(120).collect()
}

/// The body with one field replaced.
fn with(base: &Value, field: &str, value: Value) -> Value {
    let mut body = base.clone();
    body[field] = value;
    body
}

/// The body without one field.
fn without(base: &Value, field: &str) -> Value {
    let mut body = base.clone();
    body.as_object_mut().unwrap().remove(field);
    body
}

fn metadata_rows(base: &Value) -> Vec<Row> {
    let many: serde_json::Map<_, _> = (0..51).map(|n| (format!("k{n}"), json!(1))).collect();
    vec![
        (with(base, "metadata", json!([])), json!(["metadata"]), "type"),
        (with(base, "metadata", json!("x")), json!(["metadata"]), "type"),
        (with(base, "metadata", json!({ "k": letters(4 * 1024) })), json!(["metadata"]), "too_big"),
        (with(base, "metadata", json!({ "n": 1e30 })), json!(["metadata"]), "too_big"),
        (with(base, "metadata", Value::Object(many)), json!(["metadata"]), "too_big"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_of_a_channels_body_is_named() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let good = json!({ "name": "Sales" });
    let mut rows = vec![
        (json!({}), json!(["name"]), "required"),
        (with(&good, "name", json!(null)), json!(["name"]), "type|required"),
        (with(&good, "name", json!(5)), json!(["name"]), "type"),
        (with(&good, "name", json!("")), json!(["name"]), "too_short"),
        (with(&good, "name", json!(letters(121))), json!(["name"]), "too_long"),
        (with(&good, "name", json!(wide(121))), json!(["name"]), "too_long"),
        (with(&good, "issue_scoped_key", json!("yes")), json!(["issue_scoped_key"]), "type"),
        (json!([]), json!([]), "type"),
        (json!("x"), json!([]), "type"),
    ];
    rows.extend(metadata_rows(&good));
    expect_issues(&api, Method::POST, "/v1/channels", rows).await;
    assert_eq!(api.get("/v1/channels").await.expect(200)["data"], json!([]), "none was made");

    // Two wrong fields are reported at once.
    let both = api.post("/v1/channels", json!({ "name": "", "metadata": 1 })).await;
    both.expect_issue(&json!(["name"]), "too_short");
    both.expect_issue(&json!(["metadata"]), "type");
    // A metadata key that is too long.
    let long = api.post("/v1/channels", json!({ "name": "x", "metadata": { letters(65): 1 } })).await;
    let details = long.expect_error(400, "invalid_request");
    assert_eq!((&details[0]["path"][0], &details[0]["code"]), (&json!("metadata"), &json!("too_big")));

    // Values at their bounds, and unknown fields, are accepted.
    let longest = json!({ "name": wide(120), "metadata": { letters(64): letters(4_000) }, "unknown": 1 });
    let made = api.post("/v1/channels", longest).await.expect(201);
    assert_eq!(made["name"], json!(wide(120)));

    let path = format!("/v1/channels/{}", string(&made["id"]));
    let mut rows = vec![
        (json!({}), json!([]), "empty"),
        (json!({ "name": "" }), json!(["name"]), "too_short"),
        (json!({ "name": letters(121) }), json!(["name"]), "too_long"),
        (json!({ "name": false }), json!(["name"]), "type"),
        (json!({ "metadata": null }), json!(["metadata"]), "type"),
    ];
    rows.extend(metadata_rows(&json!({})));
    expect_issues(&api, Method::PATCH, &path, rows).await;
    assert_eq!(api.get(&path).await.expect(200)["name"], json!(wide(120)), "none was changed");
    assert_eq!(api.patch(&path, json!({ "no_such_field": 1 })).await.expect(200)["name"], json!(wide(120)));

    for (query, at) in [("status=nope", "status"), ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit")] {
        let answer = api.get(&format!("/v1/channels?{query}")).await;
        answer.expect_issue(&json!([at]), "enum|too_small|too_big|format|type");
    }
    let reason = json!({ "reason": letters(256) });
    api.post(&format!("{path}/disable"), reason).await.expect_issue(&json!(["reason"]), "too_long");
    for query in ["format=gif", "size=127", "size=1025"] {
        let field = query.split('=').next().unwrap();
        let answer = api.get(&format!("{path}/qr?{query}")).await;
        answer.expect_issue(&json!([field]), "enum|too_small|too_big|format");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_of_a_send_is_named_in_both_shapes() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let channel = tenant.channel("Never paired").await;
    let path = format!("/v1/channels/{channel}/messages");

    let flat = json!({ "type": "text", "to": "15551234567", "text": "hi" });
    let rows = vec![
        (json!({}), json!(["type"]), "required"),
        (json!([]), json!([]), "type"),
        (without(&flat, "type"), json!(["type"]), "required"),
        (with(&flat, "type", json!("carrier-pigeon")), json!(["type"]), "enum"),
        (with(&flat, "type", json!(7)), json!(["type"]), "type|enum"),
        (without(&flat, "to"), json!(["to"]), "required"),
        (with(&flat, "to", json!(15551234567_u64)), json!(["to"]), "type"),
        (with(&flat, "to", json!("12")), json!(["to"]), "too_short"),
        (with(&flat, "to", json!("+15551234567")), json!(["to"]), "format"),
        (with(&flat, "to", json!("anna")), json!(["to"]), "format"),
        (with(&flat, "to", json!("@s.example")), json!(["to"]), "format"),
        (with(&flat, "to", json!("1555 1234567@s.example")), json!(["to"]), "format"),
        (with(&flat, "to", json!("15551234567@s.exämple")), json!(["to"]), "format"),
        (without(&flat, "text"), json!(["text"]), "required"),
        (with(&flat, "text", json!("")), json!(["text"]), "too_short"),
        (with(&flat, "text", json!(letters(4097))), json!(["text"]), "too_long"),
        (with(&flat, "text", json!(wide(4097))), json!(["text"]), "too_long"),
        (with(&flat, "text", json!({ "body": "hi" })), json!(["text"]), "type"),
        (with(&flat, "client_ref", json!(letters(129))), json!(["client_ref"]), "too_long"),
        (with(&flat, "client_ref", json!(17)), json!(["client_ref"]), "type"),
    ];
    expect_issues(&api, Method::POST, &path, rows).await;

    let nested = |body: Value| json!({ "to": "15551234567", "body": body });
    let inner = json!({ "type": "text", "text": "hi" });
    let rows = vec![
        (nested(with(&inner, "type", json!("carrier-pigeon"))), json!(["body", "type"]), "enum"),
        (nested(without(&inner, "text")), json!(["body", "text"]), "required"),
        (nested(with(&inner, "text", json!(""))), json!(["body", "text"]), "too_short"),
        (nested(with(&inner, "text", json!(letters(4097)))), json!(["body", "text"]), "too_long"),
        (nested(with(&inner, "text", json!(4))), json!(["body", "text"]), "type"),
        (nested(with(&inner, "client_ref", json!(letters(129)))), json!(["body", "client_ref"]), "too_long"),
        (json!({ "body": with(&inner, "to", json!("15551234567")) }), json!(["to"]), "required"),
        (with(&nested(inner.clone()), "to", json!("anna")), json!(["to"]), "format"),
    ];
    expect_issues(&api, Method::POST, &path, rows).await;

    // A field that both levels of the body have.
    let twice = [
        (with(&nested(inner.clone()), "type", json!("text")), "type"),
        (with(&nested(with(&inner, "client_ref", json!("a"))), "client_ref", json!("b")), "client_ref"),
    ];
    for (body, field) in twice {
        let details = api.post(&path, body).await.expect_error(400, "invalid_request");
        let issue = &details[0];
        assert_eq!(issue["code"], "conflict", "{details}");
        assert_eq!(issue["path"].as_array().and_then(|path| path.last()), Some(&json!(field)), "{details}");
    }

    // A body that passes every rule is checked against the status next: the longest text, references, unknown fields.
    let good = [
        with(&flat, "text", json!(wide(4096))),
        with(&flat, "client_ref", json!(letters(128))),
        with(&flat, "nobody_knows", json!(1)),
        with(&flat, "to", json!("15551234567@s.example")),
        with(&flat, "to", json!("120363025246125486@g.example")),
        nested(with(&inner, "text", json!(wide(4096)))),
        nested(with(&inner, "client_ref", json!(letters(128)))),
    ];
    for body in good {
        api.post(&path, body).await.expect_error(409, "not_connected");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_of_the_other_types_of_send_is_named() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let channel = tenant.channel("Never paired").await;
    let path = format!("/v1/channels/{channel}/messages");

    let to = |body: Value| with(&body, "to", json!("15551234567"));
    let media =
        |kind: &str| to(json!({ "type": kind, "media_url": "https://example.com/a", "mime_type": "image/png" }));
    let key = json!({ "id": "3EB0A1", "from_me": true, "remote_jid": "15551234567@s.example" });
    let aimed = |kind: &str| json!({ "type": kind, "message_key": key, "emoji": "👍", "text": "x" });
    let theirs = with(&key, "from_me", json!(false));
    let place = to(json!({ "type": "location", "latitude": 1, "longitude": 2 }));
    let card = |card: Value| to(json!({ "type": "contact", "contacts": [card] }));
    let poll = to(json!({ "type": "poll", "name": "q", "options": ["a", "b"] }));
    let text = to(json!({ "type": "text", "text": "x" }));
    let rows = vec![
        (without(&media("image"), "media_url"), json!(["media_url"]), "required"),
        (without(&media("audio"), "mime_type"), json!(["mime_type"]), "required"),
        (with(&media("image"), "media_url", json!("a.png")), json!(["media_url"]), "format"),
        (with(&media("sticker"), "media_url", json!("file:///etc/passwd")), json!(["media_url"]), "url_scheme"),
        (with(&media("video"), "caption", json!(wide(1025))), json!(["caption"]), "too_long"),
        (with(&media("document"), "filename", json!("")), json!(["filename"]), "too_short"),
        (with(&media("image"), "view_once", json!("yes")), json!(["view_once"]), "type"),
        (without(&aimed("reaction"), "message_key"), json!(["message_key"]), "required"),
        (without(&aimed("reaction"), "emoji"), json!(["emoji"]), "required"),
        (with(&aimed("reaction"), "emoji", json!(wide(9))), json!(["emoji"]), "too_long"),
        (with(&aimed("star"), "message_key", without(&key, "id")), json!(["message_key", "id"]), "required"),
        (with(&aimed("edit"), "message_key", theirs.clone()), json!(["message_key", "from_me"]), "conflict"),
        (with(&aimed("delete"), "message_key", theirs), json!(["message_key", "from_me"]), "conflict"),
        (with(&aimed("edit"), "text", json!(letters(4097))), json!(["text"]), "too_long"),
        (with(&aimed("pin"), "duration", json!(60)), json!(["duration"]), "enum"),
        (with(&place, "latitude", json!(90.01)), json!(["latitude"]), "too_big"),
        (with(&place, "longitude", json!(-180.5)), json!(["longitude"]), "too_small"),
        (card(json!({ "name": "Ann" })), json!(["contacts", 0, "phones"]), "required"),
        (card(json!({ "name": "Ann", "phones": ["+1555"] })), json!(["contacts", 0, "phones", 0]), "format"),
        (with(&poll, "options", json!(["a"])), json!(["options"]), "too_short"),
        (with(&poll, "selectable_count", json!(3)), json!(["selectable_count"]), "too_big"),
        (with(&text, "mentions", json!(["15551234567"])), json!(["mentions"]), "conflict"),
        (with(&text, "quoted", json!("3EB0A1")), json!(["quoted"]), "type"),
        (with(&text, "link_preview", json!({ "title": "T" })), json!(["link_preview"]), "conflict"),
        (with(&text, "ephemeral_expiration", json!(-1)), json!(["ephemeral_expiration"]), "too_small"),
    ];
    expect_issues(&api, Method::POST, &path, rows).await;

    // A body that passes every rule is checked against the status next.
    let good = [aimed("reaction"), with(&aimed("reaction"), "emoji", json!("")), aimed("edit"), aimed("unpin")];
    for body in good.into_iter().chain([place, poll, card(json!({ "name": "Ann", "phones": ["15551234567"] }))]) {
        api.post(&path, body).await.expect_error(409, "not_connected");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_of_a_pair_code_is_named() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let channel = tenant.channel("Never paired").await;
    let path = format!("/v1/channels/{channel}/pair-code");
    let good = json!({ "phone_number": "15551234567" });
    let rows = vec![
        (json!({}), json!(["phone_number"]), "required"),
        (json!({ "phone_number": 15551234567_u64 }), json!(["phone_number"]), "type"),
        (json!({ "phone_number": "123456" }), json!(["phone_number"]), "too_short"),
        (json!({ "phone_number": "1234567890123456" }), json!(["phone_number"]), "too_long"),
        (json!({ "phone_number": "+15551234567" }), json!(["phone_number"]), "format"),
        (json!({ "phone_number": "call me maybe" }), json!(["phone_number"]), "format"),
        (with(&good, "display_name", json!(1)), json!(["display_name"]), "type"),
    ];
    expect_issues(&tenant.any(), Method::POST, &path, rows).await;
    let shown = tenant.any().get(&format!("/v1/channels/{channel}")).await.expect(200);
    assert_eq!(shown["status"], "pending", "nothing was started");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_of_a_keys_body_is_named() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let good = json!({ "name": "Deploy" });
    let years = |n: i64| (chrono::Utc::now() + chrono::Duration::days(366 * n)).to_rfc3339();
    let rows = vec![
        (json!({}), json!(["name"]), "required"),
        (json!([]), json!([]), "type"),
        (with(&good, "name", json!(1)), json!(["name"]), "type"),
        (with(&good, "name", json!("")), json!(["name"]), "too_short"),
        (with(&good, "name", json!(letters(121))), json!(["name"]), "too_long"),
        (with(&good, "channel_id", json!("not-a-uuid")), json!(["channel_id"]), "format"),
        (with(&good, "channel_id", json!(4)), json!(["channel_id"]), "type"),
        (with(&good, "scopes", json!("channels.read")), json!(["scopes"]), "type"),
        (with(&good, "scopes", json!(["channels.read", 4])), json!(["scopes", 1]), "type"),
        (with(&good, "scopes", json!(["channels.delete"])), json!(["scopes", 0]), "enum"),
        (with(&good, "scopes", json!(["*", "pigeons.read"])), json!(["scopes", 1]), "enum"),
        (with(&good, "scopes", json!(["channels"])), json!(["scopes", 0]), "enum"),
        (with(&good, "scopes", json!(["*.read"])), json!(["scopes", 0]), "enum"),
        (with(&good, "expires_at", json!(5)), json!(["expires_at"]), "type"),
        (with(&good, "expires_at", json!("tomorrow")), json!(["expires_at"]), "format"),
        (with(&good, "expires_at", json!("2020-01-01T00:00:00.000Z")), json!(["expires_at"]), "too_small"),
        (with(&good, "expires_at", json!(years(6))), json!(["expires_at"]), "too_big"),
    ];
    let api = tenant.any();
    expect_issues(&api, Method::POST, "/v1/api-keys", rows).await;
    let unknown = with(&good, "channel_id", json!(uuid::Uuid::new_v4()));
    api.post("/v1/api-keys", unknown).await.expect_error(404, "channel_not_found");
    assert_eq!(api.get("/v1/api-keys").await.expect(200)["data"].as_array().unwrap().len(), 1, "none was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_of_an_endpoints_body_is_named() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let good = json!({ "url": "http://127.0.0.1:65535/x", "events": ["message.sent"] });
    let url = |text: &str| with(&good, "url", json!(text));
    let changes = vec![
        (url(""), json!(["url"]), "format|too_short"),
        (url("not a url"), json!(["url"]), "format|url_blocked"),
        (url("/relative"), json!(["url"]), "format|url_blocked"),
        (url("ftp://example.com/"), json!(["url"]), "url_scheme"),
        (url("http://user:pass@127.0.0.1:65535/"), json!(["url"]), "format|url_blocked"),
        (url("http://127.0.0.1:65535/#part"), json!(["url"]), "format|url_blocked"),
        (url("http://10.0.0.1/"), json!(["url"]), "url_blocked"),
        (url("http://169.254.169.254/latest/meta-data/"), json!(["url"]), "url_blocked"),
        (url(&format!("http://127.0.0.1:65535/{}", letters(2048))), json!(["url"]), "too_long"),
        (with(&good, "url", json!(4)), json!(["url"]), "type"),
        (with(&good, "events", json!([])), json!(["events"]), "empty"),
        (with(&good, "events", json!("message.sent")), json!(["events"]), "type"),
        (with(&good, "events", json!(["message.sent", "message.lost"])), json!(["events", 1]), "enum"),
        (with(&good, "events", json!(["webhook.test"])), json!(["events", 0]), "enum"),
        (with(&good, "events", json!([1])), json!(["events", 0]), "type"),
        (with(&good, "signing_secret", json!(letters(15))), json!(["signing_secret"]), "too_short"),
        (with(&good, "signing_secret", json!(letters(256))), json!(["signing_secret"]), "too_long"),
        (with(&good, "signing_secret", json!(1)), json!(["signing_secret"]), "type"),
        (with(&good, "enabled", json!("yes")), json!(["enabled"]), "type"),
        (with(&good, "chat_type_filter", json!("channels_only")), json!(["chat_type_filter"]), "enum"),
        (with(&good, "chat_type_filter", json!(1)), json!(["chat_type_filter"]), "type|enum"),
    ];
    let mut rows = changes.clone();
    rows.extend([
        (json!({}), json!(["url"]), "required"),
        (json!([]), json!([]), "type"),
        (without(&good, "events"), json!(["events"]), "required"),
        (with(&good, "channel_id", json!("not-a-uuid")), json!(["channel_id"]), "format"),
        (with(&good, "channel_id", json!(1)), json!(["channel_id"]), "type"),
    ]);
    expect_issues(&api, Method::POST, "/v1/webhook-endpoints", rows).await;
    assert_eq!(api.get("/v1/webhook-endpoints").await.expect(200)["data"], json!([]), "none was made");
    let unknown = with(&good, "channel_id", json!(uuid::Uuid::new_v4()));
    api.post("/v1/webhook-endpoints", unknown).await.expect_error(404, "channel_not_found");

    let made = tenant.endpoint("http://127.0.0.1:65535/x", &["message.sent"], json!({})).await;
    let path = format!("/v1/webhook-endpoints/{}", string(&made["id"]));
    let mut rows = changes;
    rows.push((json!({}), json!([]), "empty"));
    expect_issues(&api, Method::PATCH, &path, rows).await;
    assert_eq!(api.get(&path).await.expect(200)["updated_at"], made["updated_at"], "none was changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_of_the_history_query_is_named() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let channel = tenant.channel("Read").await;
    let ids = |n: usize| (0..n).map(|n| format!("message_id=3EB0{n}")).collect::<Vec<_>>().join("&");
    let channels = (0..21).map(|_| format!("channel_id={}", uuid::Uuid::new_v4())).collect::<Vec<_>>().join("&");
    let rows = [
        ("limit=0".to_owned(), "limit", "format"),
        ("limit=101".to_owned(), "limit", "format"),
        ("limit=ten".to_owned(), "limit", "format"),
        ("limit=-1".to_owned(), "limit", "format"),
        ("cursor=nonsense".to_owned(), "cursor", "format"),
        (format!("cursor={}", letters(257)), "cursor", "format|too_long"),
        ("order=random".to_owned(), "order", "enum|format"),
        ("direction=sideways".to_owned(), "direction", "enum|format"),
        ("chat_id=no-address".to_owned(), "chat_id", "format"),
        ("from=%2B15551234567".to_owned(), "from", "format"),
        ("type=text,carrier-pigeon".to_owned(), "type", "enum"),
        ("status=sent,lost".to_owned(), "status", "enum"),
        (ids(51), "message_id", "too_many"),
        ("since=yesterday".to_owned(), "since", "format"),
        ("until=tomorrow".to_owned(), "until", "format"),
        ("has_media=perhaps".to_owned(), "has_media", "format|type|enum"),
        ("deliveries=some".to_owned(), "deliveries", "enum|format"),
    ];
    for route in ["/v1/messages".to_owned(), format!("/v1/channels/{channel}/messages")] {
        for (query, field, codes) in &rows {
            println!("{route}?{query}");
            api.get(&format!("{route}?{query}")).await.expect_issue(&json!([field]), codes);
        }
        let good = "limit=100&order=asc&direction=inbound&type=text,image&status=sent,read&deliveries=none&\
            since=2026-01-01T00:00:00Z&until=2027-01-01T00:00:00Z&has_media=false&client_ref=x&from=15551234567&\
            to=15551234567@s.example&chat_id=15551234567@s.example";
        let page = api.get(&format!("{route}?{good}&{}", ids(50))).await.expect(200);
        assert_eq!((&page["data"], &page["next_cursor"]), (&json!([]), &Value::Null));
    }
    api.get(&format!("/v1/messages?{channels}")).await.expect_issue(&json!(["channel_id"]), "too_many");
    api.get("/v1/messages?channel_id=x").await.expect_issue(&json!(["channel_id"]), "format");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_of_the_operators_customer_is_named() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let operator = cluster.operator(cluster.node_ids()[0], &tenant.client);
    let good = json!({ "name": "Tenant" });
    let plan = |field: &str, value: Value| with(&good, "plan", json!({ field: value }));
    let bucket = |value: Value| with(&good, "limits", json!({ "customer": value }));
    let at = |path: &[&str]| json!(path);
    let changes = vec![
        (with(&good, "name", json!("")), at(&["name"]), "too_short"),
        (with(&good, "name", json!(letters(121))), at(&["name"]), "too_long"),
        (with(&good, "name", json!(1)), at(&["name"]), "type"),
        (with(&good, "email", json!(1)), at(&["email"]), "type"),
        (with(&good, "plan", json!("gold")), at(&["plan"]), "type"),
        (plan("channel_limit", json!("many")), at(&["plan", "channel_limit"]), "type"),
        (plan("channel_limit", json!(-1)), at(&["plan", "channel_limit"]), "too_small|type"),
        (plan("trial_ends_at", json!("soon")), at(&["plan", "trial_ends_at"]), "format"),
        (plan("overdue_since", json!(5)), at(&["plan", "overdue_since"]), "type"),
        (with(&good, "limits", json!([])), at(&["limits"]), "type"),
        (bucket(json!(5)), at(&["limits", "customer"]), "type"),
        (bucket(json!({ "burst": 5 })), at(&["limits", "customer", "refill_per_second"]), "required"),
        (bucket(json!({ "refill_per_second": 5 })), at(&["limits", "customer", "burst"]), "required"),
        (bucket(json!({ "burst": "x", "refill_per_second": 1 })), at(&["limits", "customer", "burst"]), "type"),
        (bucket(json!({ "burst": 0, "refill_per_second": 1 })), at(&["limits", "customer", "burst"]), "too_small"),
        (
            bucket(json!({ "burst": 1, "refill_per_second": -1 })),
            at(&["limits", "customer", "refill_per_second"]),
            "too_small",
        ),
    ];
    let mut rows = changes.clone();
    rows.push((json!({}), at(&["name"]), "required"));
    expect_issues(&operator, Method::POST, "/v1/admin/customers", rows).await;
    let path = format!("/v1/admin/customers/{}", tenant.customer_id);
    let mut rows = changes;
    rows.push((json!({}), json!([]), "empty"));
    expect_issues(&operator, Method::PATCH, &path, rows).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_wrong_as_a_whole_is_told_so() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let channel = tenant.channel("Whole").await;
    let messages = format!("/v1/channels/{channel}/messages");

    for path in ["/v1/channels", &messages, "/v1/api-keys", "/v1/webhook-endpoints"] {
        let raw =
            |body: &str, kind: &str| api.request(Method::POST, path).header("content-type", kind).body(body.to_owned());
        for broken in ["{", "{\"name\": }", "name=x", "", "{\"name\": \"x\"} trailing", "\u{feff}{}"] {
            answer(raw(broken, "application/json")).await.expect_error(400, "bad_request");
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/xml"] {
            answer(raw("{\"name\":\"x\"}", kind)).await.expect_error(400, "bad_request");
        }
        let not_utf8 = api.request(Method::POST, path).header("content-type", "application/json");
        answer(not_utf8.body(vec![b'"', 0xff, b'"'])).await.expect_error(400, "bad_request");
        // A charset after the type is accepted.
        let answer = answer(raw("[]", "application/json; charset=utf-8")).await;
        answer.expect_error(400, "invalid_request");
    }

    // Two mebibytes, with a content length and streamed.
    let mut big = text("15551234567", "");
    big["text"] = json!(letters(2 * 1024 * 1024));
    let body = big.to_string();
    let announced = api.request(Method::POST, &messages).header("content-type", "application/json").body(body.clone());
    let details = answer(announced).await.expect_error(413, "payload_too_large");
    assert_eq!(details["limit_bytes"], 262_144);
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
        body.as_bytes().chunks(64 * 1024).map(|c| Ok(c.to_vec())).collect();
    let streamed = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
    let request = api.request(Method::POST, &messages).header("content-type", "application/json").body(streamed);
    answer(request).await.expect_error(413, "payload_too_large");
    // Just below the limit of the body, the rule of the field applies.
    big["text"] = json!(letters(256 * 1024 - 200));
    api.post(&messages, big).await.expect_issue(&json!(["text"]), "too_long");
    // The bodies of other routes may be larger.
    let large = json!({ "name": "x", "more": letters(1024 * 1024) });
    let details = api.post("/v1/channels", large).await.expect_error(413, "payload_too_large");
    assert_eq!(details["limit_bytes"], 1_048_576);

    // Deep nesting is refused without recursion.
    let deep = format!("{{\"name\":\"x\",\"metadata\":{}{}}}", "{\"a\":".repeat(5_000), "}".repeat(5_000));
    let request = api.request(Method::POST, "/v1/channels").header("content-type", "application/json").body(deep);
    assert_eq!(answer(request).await.status, 400);

    // Very many values or parameters are refused, too, since each takes more memory than its bytes.
    let many = json!({ "name": "x", "more": vec![0; 10_000] });
    api.post("/v1/channels", many).await.expect_issue(&json!([]), "too_many");
    let parameters = vec!["a"; 1_001].join("&");
    api.get(&format!("/v1/channels?{parameters}")).await.expect_issue(&json!(["query"]), "too_many");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_is_not_found() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let channel = tenant.channel("Found").await;
    for path in ["/v1/nothing", "/nothing", "/", "/v2/channels", &format!("/v1/channels/{channel}/x")] {
        api.get(path).await.expect_error(404, "not_found");
    }
    let wrong = [
        (Method::PUT, "/v1/channels".to_owned(), "GET, POST"),
        (Method::DELETE, "/v1/messages".to_owned(), "GET"),
        (Method::POST, format!("/v1/channels/{channel}"), "DELETE, GET, PATCH"),
        (Method::GET, format!("/v1/channels/{channel}/connect"), "POST"),
    ];
    for (method, path, allowed) in wrong {
        let answer = answer(api.request(method, &path)).await;
        answer.expect_error(404, "not_found");
        let mut allow: Vec<_> = answer.header("allow").unwrap_or_default().split(',').map(str::trim).collect();
        allow.retain(|method| !matches!(*method, "HEAD" | "OPTIONS"));
        allow.sort_unstable();
        assert_eq!(allow.join(", "), allowed, "{path}");
    }
    for id in ["x", "123", "00000000-0000-0000-0000-00000000000g", &uuid::Uuid::new_v4().to_string()] {
        api.get(&format!("/v1/channels/{id}")).await.expect_error(404, "channel_not_found");
        let send = api.post(&format!("/v1/channels/{id}/messages"), text("15551234567", "x")).await;
        send.expect_error(404, "channel_not_found");
        let answer = api.get(&format!("/v1/webhook-endpoints/{id}")).await;
        answer.expect_error(404, "webhook_endpoint_not_found");
        let details = api.get(&format!("/v1/api-keys/{id}")).await.expect_error(404, "not_found");
        assert_eq!(details["id"], id, "{details}");
    }
    // Routes that are declared but not implemented.
    for path in ["stories", "calls"] {
        api.get(&format!("/v1/channels/{channel}/{path}")).await.expect_error(501, "not_implemented");
    }
    let accepted = api.post(&format!("/v1/channels/{channel}/calls/call-1/accept"), json!({})).await;
    assert_eq!(accepted.expect_error(501, "not_implemented")["feature"], "calls.accept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_id_is_kept_when_it_is_well_formed_and_minted_when_not() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let ask = |id: String| {
        let request = api.request(Method::GET, "/v1/channels").header("x-request-id", id);
        async move { answer(request).await.header("x-request-id").unwrap().to_owned() }
    };
    for kept in ["12345678".to_owned(), "A-b_".repeat(16)] {
        assert_eq!(ask(kept.clone()).await, kept);
    }
    for refused in ["short".to_owned(), letters(65), "has space in it".to_owned(), "semi;colon".to_owned()] {
        let minted = ask(refused.clone()).await;
        assert_ne!(minted, refused);
        assert!((8..=64).contains(&minted.len()), "{minted}");
    }
    let (one, two) = (api.get("/v1/channels").await, api.get("/v1/channels").await);
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
    // Responses of public routes and errors have an id, too.
    for answer in [api.without_key().get("/healthz").await, api.without_key().get("/v1/channels").await] {
        assert!(answer.header("x-request-id").is_some());
    }
}

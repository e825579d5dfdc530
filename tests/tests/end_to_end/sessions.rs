//! Members: login and logout, the permissions of roles, and that the end of a session takes effect on every node.

mod tokens_of_an_issuer;

use std::net::Ipv4Addr;

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{answer, client, client_from, string, time, uuid};
use tests::member::{self, Member, PASSWORD, email, login};
use tests::tenant::Tenant;
use tests::wait::{check, eventually, seconds};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_works_on_every_node_and_its_end_too() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let nodes = tenant.cluster.node_ids();
    let member = Member::new(&tenant, "owner").await;
    for round in 0..3 {
        let through = |n: usize| tenant.cluster.api(nodes[(round + n) % nodes.len()], &tenant.client);
        let tokens = login(&through(0), &member.email, PASSWORD).await;
        assert_eq!(tokens["expires_in"], 900);
        let access = string(&tokens["access_token"]);
        for node in &nodes {
            let answer = tenant.api(*node).with_key(&access).get("/v1/channels").await;
            answer.expect(200);
            assert_eq!(answer.header("x-ratelimit-scope"), Some("customer"), "a session costs what a key costs");
        }
        let refreshed = through(1).post("/v1/auth/refresh", json!({ "refresh_token": tokens["refresh_token"] })).await;
        let newer = string(&refreshed.expect(200)["access_token"]);
        through(2).with_key(&newer).act("/v1/auth/logout").await.expect(204);
        for node in &nodes {
            for token in [&access, &newer] {
                let answer = tenant.api(*node).with_key(token).get("/v1/channels").await;
                time(&answer.expect_error(401, "auth_revoked")["revoked_at"]);
            }
        }
        let body = json!({ "refresh_token": refreshed.json()["refresh_token"] });
        through(0).post("/v1/auth/refresh", body).await.expect_error(401, "auth_revoked");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_token_that_comes_twice_ends_its_session() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let nodes = tenant.cluster.node_ids();
    let at = |node: usize| tenant.cluster.api(nodes[node % nodes.len()], &tenant.client);
    let member = Member::new(&tenant, "admin").await;
    let first = login(&at(0), &member.email, PASSWORD).await;
    let other = login(&at(1), &member.email, PASSWORD).await;
    let second = at(1).post("/v1/auth/refresh", json!({ "refresh_token": first["refresh_token"] })).await.expect(200);
    assert_ne!(second["refresh_token"], first["refresh_token"]);
    at(2).with_key(&string(&second["access_token"])).get("/v1/channels").await.expect(200);

    let reused = at(2).post("/v1/auth/refresh", json!({ "refresh_token": first["refresh_token"] })).await;
    let ended = reused.expect_error(401, "auth_revoked");
    for (node, tokens) in [&first, &second].into_iter().enumerate() {
        let api = at(node);
        api.with_key(&string(&tokens["access_token"])).get("/v1/channels").await.expect_error(401, "auth_revoked");
        let again = api.post("/v1/auth/refresh", json!({ "refresh_token": tokens["refresh_token"] })).await;
        assert_eq!(again.expect_error(401, "auth_revoked"), ended);
    }
    // Another session of the member is unaffected.
    at(0).with_key(&string(&other["access_token"])).get("/v1/channels").await.expect(200);

    for token in ["zrt_nonsense", "x", &string(&first["access_token"])] {
        at(0).post("/v1/auth/refresh", json!({ "refresh_token": token })).await.expect_error(401, "auth_invalid");
    }
    at(0).post("/v1/auth/refresh", json!({})).await.expect_issue(&json!(["refresh_token"]), "required");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_says_what_a_session_may_do_and_another_role_acts_at_once() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let nodes = tenant.cluster.node_ids();
    let member = Member::new(&tenant, "viewer").await;
    let operator = tenant.cluster.operator(nodes[0], &tenant.client);
    let session = tenant.any().with_key(&string(&login(&tenant.any(), &member.email, PASSWORD).await["access_token"]));
    // Method, path, body, and which roles have access: viewer, member, admin, owner.
    let routes = [
        (Method::GET, "/v1/channels", Value::Null, [true; 4]),
        (Method::GET, "/v1/api-keys", Value::Null, [true; 4]),
        (Method::GET, "/v1/account", Value::Null, [true; 4]),
        (Method::GET, "/v1/account/members", Value::Null, [true; 4]),
        (Method::GET, "/v1/account/audit-log", Value::Null, [true; 4]),
        (Method::POST, "/v1/support/tickets", json!({}), [true; 4]),
        (Method::POST, "/v1/channels", json!({ "name": "x" }), [false, true, true, true]),
        (Method::POST, "/v1/webhook-endpoints", json!({}), [false, true, true, true]),
        (Method::POST, "/v1/api-keys", json!({ "name": "x" }), [false, false, true, true]),
        (Method::PATCH, "/v1/account", json!({ "timezone": "Europe/Berlin" }), [false, false, true, true]),
        (Method::DELETE, "/v1/account", json!({ "confirm": "not the name" }), [false, false, false, true]),
    ];
    for (index, role) in ["viewer", "member", "admin", "owner"].into_iter().enumerate() {
        operator.patch(&member.path, json!({ "role": role })).await.expect(200);
        for node in &nodes {
            // The token is older than the change: the role is read from the directory.
            let session = tenant.api(*node).with_key(session.bearer().unwrap());
            for (method, path, body, reached) in &routes {
                let request = session.request(method.clone(), path);
                let answer = answer(if body.is_null() { request } else { request.json(body) }).await;
                if reached[index] {
                    assert_ne!(answer.status, 403, "{role} {method} {path}: {}", answer.text());
                } else {
                    assert!(answer.expect_error(403, "insufficient_scope")["required"].is_array(), "{role} {path}");
                }
            }
        }
    }
    let key = session.post("/v1/api-keys", json!({ "name": "By a member" })).await.expect(201);
    assert_eq!((&key["created_by"], &key["created_by_key_id"]), (&json!("dashboard"), &Value::Null));
    let log = session.get(&format!("/v1/account/audit-log?action=key.issued&actor={}", member.email)).await.expect(200);
    let entry = &log["data"][0];
    assert_eq!((&entry["actor"]["type"], &entry["actor"]["email"]), (&json!("session"), &json!(member.email)));
    assert_eq!(entry["target"]["label"], "By a member");

    // A new password ends all sessions; a removal ends all access.
    operator.patch(&member.path, json!({ "password": "another fine password" })).await.expect(200);
    session.get("/v1/account").await.expect_error(401, "auth_revoked");
    let body = json!({ "email": member.email, "password": PASSWORD });
    tenant.any().post("/v1/auth/login", body).await.expect_error(401, "auth_invalid");
    let tokens = login(&tenant.any(), &member.email, "another fine password").await;
    operator.delete(&member.path).await.expect(204);
    for node in &nodes {
        let removed = tenant.api(*node).with_key(&string(&tokens["access_token"]));
        removed.get("/v1/account").await.expect_error(401, "auth_revoked");
    }
    operator.delete(&member.path).await.expect_error(404, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn some_routes_are_for_sessions_and_no_key_reaches_them() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let delete = answer(api.request(Method::DELETE, "/v1/account").json(&json!({ "confirm": "x" }))).await;
    for refused in [api.get("/v1/account/members").await, delete, api.act("/v1/auth/logout").await] {
        assert_eq!(refused.expect_error(403, "insufficient_scope")["required"], json!(["dashboard_session"]));
    }
    let account = api.patch("/v1/account", json!({ "name": "Renamed", "timezone": "Asia/Tokyo" })).await.expect(200);
    assert_eq!((&account["name"], &account["timezone"]), (&json!("Renamed"), &json!("Asia/Tokyo")));
    for node in tenant.cluster.node_ids() {
        assert_eq!(tenant.api(node).get("/v1/account").await.expect(200), account);
    }
    api.patch("/v1/account", json!({})).await.expect_issue(&json!([]), "empty");
    api.patch("/v1/account", json!({ "timezone": "Nowhere" })).await.expect_issue(&json!(["timezone"]), "format");

    // An owner who gives the right name deletes the account, as the operator's route does.
    let owner = Member::new(&tenant, "owner").await;
    let session = api.with_key(&string(&login(&api, &owner.email, PASSWORD).await["access_token"]));
    let members = session.get("/v1/account/members").await.expect(200);
    assert_eq!(members["data"][0]["email"], json!(owner.email));
    assert_eq!(members["data"][0]["role"], "owner");
    time(&members["data"][0]["last_login_at"]);
    uuid(&members["data"][0]["id"]);
    let end = async |name: &str| {
        answer(session.request(Method::DELETE, "/v1/account").json(&json!({ "confirm": name }))).await
    };
    end("Another").await.expect_issue(&json!(["confirm"]), "conflict");
    assert_eq!(end("Renamed").await.expect(202)["plan"]["status"], "cancelled");
    for node in tenant.cluster.node_ids() {
        let ended = tenant.api(node);
        ended.get("/v1/account").await.expect_error(401, "auth_revoked");
        ended.with_key(session.bearer().unwrap()).get("/v1/account").await.expect_error(401, "auth_revoked");
        let body = json!({ "email": owner.email, "password": PASSWORD });
        ended.post("/v1/auth/login", body).await.expect_error(401, "auth_invalid");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guessing_passwords_is_slow_through_all_nodes_together() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let nodes = tenant.cluster.node_ids();
    let member = Member::new(&tenant, "viewer").await;
    // A successful login does not count as a wrong guess.
    for _ in 0..3 {
        login(&tenant.any(), &member.email, PASSWORD).await;
    }
    let mut wrong = 0;
    let refused = loop {
        let api = tenant.cluster.api(nodes[wrong % nodes.len()], &tenant.client);
        let body = json!({ "email": member.email.to_uppercase(), "password": format!("wrong password {wrong}") });
        let answer = api.post("/v1/auth/login", body).await;
        if answer.status == 429 {
            break answer;
        }
        answer.expect_error(401, "auth_invalid");
        wrong += 1;
        assert!(wrong < 30, "guesses pass without end");
    };
    assert!((10..=12).contains(&wrong), "{wrong} wrong guesses passed");
    let limit = refused.expect_error(429, "rate_limited");
    assert_eq!(refused.header("x-ratelimit-scope"), limit["scope"].as_str());
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    assert!((1..=60).contains(&refused.retry_after()), "{}", refused.retry_after());
    // After that even the right password has to wait, on every node. Other addresses and other members do not.
    for node in &nodes {
        let body = json!({ "email": member.email, "password": PASSWORD });
        tenant.cluster.api(*node, &tenant.client).post("/v1/auth/login", body).await.expect_error(429, "rate_limited");
    }
    let elsewhere = client_from(Ipv4Addr::new(127, 0, 0, 77));
    let mut right = 0;
    let refused = loop {
        let api = tenant.cluster.api(nodes[right % nodes.len()], &elsewhere);
        let answer = api.post("/v1/auth/login", json!({ "email": member.email, "password": PASSWORD })).await;
        if answer.status == 429 {
            break answer;
        }
        answer.expect(200);
        right += 1;
        assert!(right < 60, "right passwords are hashed without end");
    };
    assert!(right >= 5, "{right} right passwords were let in");
    refused.expect_error(429, "rate_limited");
    let unknown = json!({ "email": email(), "password": PASSWORD });
    let unknown = tenant.any().without_key().post("/v1/auth/login", unknown).await;
    unknown.expect_error(401, "auth_invalid");

    let failed = eventually("the failures are written", seconds(10), async || {
        let log = tenant.any().get(&format!("/v1/account/audit-log?action=auth.failed&actor={}", member.email)).await;
        let data = log.expect(200)["data"].clone();
        if data.as_array().unwrap().is_empty() { Err(log.text()) } else { Ok(data) }
    })
    .await;
    assert!(failed.as_array().unwrap().len() <= 2, "folded by minute: {failed}");
    assert_eq!(failed[0]["outcome"], "failure");
    assert!(!failed.to_string().contains("wrong password"), "no password is kept");

    for (body, path, code) in [
        (json!({ "password": "x" }), "email", "required"),
        (json!({ "email": "nobody", "password": "x" }), "email", "format"),
        (json!({ "email": "a@b.c" }), "password", "required"),
        (json!({ "email": "a@b.c", "password": "" }), "password", "too_short"),
    ] {
        tenant.any().post("/v1/auth/login", body).await.expect_issue(&json!([path]), code);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_signs_up_has_a_key_at_once_and_a_session_when_the_address_is_confirmed() {
    let cluster = Cluster::shared().await;
    let client = client();
    let at = |node: usize| cluster.api(cluster.node_ids()[node], &client);
    let email = email();
    let body = json!({ "email": email, "password": PASSWORD, "name": "Newcomer" });
    let made = at(0).post("/v1/auth/signup", body.clone()).await.expect(201);
    assert_eq!((&made["account"]["name"], &made["account"]["email"]), (&json!("Newcomer"), &json!(email)));
    assert_eq!((&made["expires_in"], &made["api_key"]["created_by"]), (&json!(900), &json!("signup")));
    at(1).with_key(&string(&made["api_key"]["secret"])).get("/v1/channels").await.expect(200);
    at(1).post("/v1/auth/signup", body).await.expect_issue(&json!(["email"]), "conflict");

    let session = at(2).with_key(&string(&made["access_token"]));
    session.get("/v1/channels").await.expect_error(403, "auth_no_email");
    // Without a mail server, messages are in the nodes' logs.
    let token = member::token_in_logs(&cluster, &email, 1).await;
    session.act("/v1/auth/verify-email/resend").await.expect(202);
    let newer = member::token_in_logs(&cluster, &email, 2).await;
    assert_ne!(token, newer);
    at(0).post("/v1/auth/verify-email", json!({ "token": token })).await.expect_error(401, "auth_invalid");
    at(0).post("/v1/auth/verify-email", json!({ "token": "zev_x" })).await.expect_error(401, "auth_invalid");
    at(1).post("/v1/auth/verify-email", json!({ "token": newer })).await.expect(204);
    at(1).post("/v1/auth/verify-email", json!({ "token": newer })).await.expect_error(401, "auth_invalid");
    for node in 0..3 {
        at(node).with_key(session.bearer().unwrap()).get("/v1/channels").await.expect(200);
    }
    session.act("/v1/auth/verify-email/resend").await.expect_error(409, "no_op");
    // The response is the same for any address.
    for email in [&email, &member::email()] {
        at(0).post("/v1/auth/verify-email/resend", json!({ "email": email })).await.expect(202);
    }
    for (wrong, path, code) in [
        (json!({ "password": PASSWORD, "name": "x" }), "email", "required"),
        (json!({ "email": member::email(), "password": "eleven char", "name": "x" }), "password", "too_short"),
        (json!({ "email": member::email(), "password": PASSWORD }), "name", "required"),
    ] {
        at(0).post("/v1/auth/signup", wrong).await.expect_issue(&json!([path]), code);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_comes_to_be_with_its_confirmed_address_and_nobody_is_told_who_is_a_member() {
    let cluster = Cluster::start(Options::nodes(1).arg("--set=auth.verify_first=true")).await;
    let tenant = Tenant::new(&cluster).await;
    let api = tenant.any().without_key();
    let member = Member::new(&tenant, "owner").await;
    let stranger = email();
    let sign_up = |email: &str| json!({ "email": email, "password": PASSWORD, "name": "Newcomer" });
    let mut answers = Vec::new();
    for email in [&stranger, &member.email] {
        let answer = api.post("/v1/auth/signup", sign_up(email)).await;
        assert_eq!(answer.expect(202), json!({}));
        let names: Vec<String> = answer.headers.keys().map(ToString::to_string).collect();
        answers.push((answer.body, names));
    }
    assert_eq!(answers[0], answers[1]);
    let log = || std::fs::read_to_string(&cluster.node(1).log).unwrap();
    let told = |email: &str| log().lines().any(|line| line.contains(email) && line.contains("an account already"));
    eventually("the member is told", seconds(10), async || check(told(&member.email) && !told(&stranger), log())).await;

    // Nothing exists before the confirmation, and an unconfirmed sign-up leaves nothing.
    let login = json!({ "email": stranger, "password": PASSWORD });
    api.post("/v1/auth/login", login.clone()).await.expect_error(401, "auth_invalid");
    let token = member::token_in_logs(&cluster, &stranger, 1).await;
    let wrong = format!("{}x", &token[..token.len() - 2]);
    api.post("/v1/auth/verify-email", json!({ "token": wrong })).await.expect_error(401, "auth_invalid");
    let confirmed = api.post("/v1/auth/verify-email", json!({ "token": token })).await;
    let made = confirmed.expect(200);
    assert_eq!(confirmed.header("cache-control"), Some("no-store"));
    assert_eq!((&made["account"]["name"], &made["account"]["email"]), (&json!("Newcomer"), &json!(stranger)));
    assert_eq!((&made["expires_in"], &made["api_key"]["created_by"]), (&json!(900), &json!("signup")));
    for credential in [&made["api_key"]["secret"], &made["access_token"]] {
        api.with_key(&string(credential)).get("/v1/channels").await.expect(200);
    }
    api.post("/v1/auth/login", login).await.expect(200);
    api.post("/v1/auth/verify-email", json!({ "token": token })).await.expect_error(401, "auth_invalid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stranger_signs_up_where_it_is_off_and_messages_go_through_the_mail_server() {
    let mailbox = tests::mailbox::Mailbox::start().await;
    let port = format!("--set=auth.mail.port={}", mailbox.address.port());
    let options = Options::nodes(1).arg("--set=auth.signup=false").arg("--set=auth.mail.host=127.0.0.1").arg(&port);
    let options =
        options.arg("--set=auth.mail.security=none").arg("--set=auth.mail.from=Gateway <gateway@example.com>");
    let cluster = Cluster::start(options).await;
    let tenant = Tenant::new(&cluster).await;
    let api = tenant.any().without_key();
    let body = json!({ "email": email(), "password": PASSWORD, "name": "x" });
    api.post("/v1/auth/signup", body).await.expect_error(404, "not_found");

    let member = Member::unconfirmed(&tenant, "owner").await;
    let session = api.with_key(&string(&login(&api, &member.email, PASSWORD).await["access_token"]));
    session.get("/v1/account").await.expect_error(403, "auth_no_email");
    api.post("/v1/auth/verify-email/resend", json!({ "email": member.email })).await.expect(202);
    let message = mailbox.message_with("zev_").await;
    assert!(message.contains(&format!("To: {}", member.email)), "{message}");
    assert!(message.contains("<gateway@example.com>"), "{message}");
    let token = member::token_of(&message).unwrap();
    api.post("/v1/auth/verify-email", json!({ "token": token })).await.expect(204);
    session.get("/v1/account").await.expect(200);
}

//! Members manage members: invitations by link and e-mail, roles, removals. Each manages its own password and logins.

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{Api, answer, string, time};
use tests::mailbox::Mailbox;
use tests::member::{Member, PASSWORD, email, login};
use tests::tenant::Tenant;
use tests::wait::{eventually, seconds};

const MEMBERS: &str = "/v1/account/members";
const SESSIONS: &str = "/v1/account/sessions";
const RESET: &str = "/v1/auth/password/reset";
const OTHER_PASSWORD: &str = "staple battery horse";

async fn set_password(api: &Api, token: &str, password: &str) -> tests::http::Answer {
    api.without_key().put(RESET, json!({ "token": token, "password": password })).await
}

/// The row of a member in an account's list.
async fn listed(session: &Api, email: &str) -> Option<Value> {
    let list = session.get(MEMBERS).await.expect(200);
    list["data"].as_array().unwrap().iter().find(|row| row["email"] == email).cloned()
}

/// The token in an e-mail message.
fn token_of(message: &str) -> String {
    let start = message.find("zpw_").unwrap();
    let url_safe = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
    message[start..].chars().take_while(url_safe).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_invited_by_a_link_chooses_a_password_once_and_is_a_member_on_every_node() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let nodes = tenant.cluster.node_ids();
    let at = |n: usize| tenant.api(nodes[n % nodes.len()]);
    let owner = Member::new(&tenant, "owner").await.session(&at(0)).await;
    let address = email();
    let asked = json!({ "email": address.to_uppercase(), "role": "member" });
    let answered = owner.post(MEMBERS, asked.clone()).await;
    let invited = answered.expect(201);
    assert_eq!(answered.header("cache-control"), Some("no-store"));
    assert_eq!(
        (&invited["email"], &invited["role"], &invited["status"]),
        (&json!(address), &json!("member"), &json!("invited"))
    );
    let invitation = &invited["invitation"];
    assert_eq!(invitation["mailed"], false);
    let token = string(&invitation["token"]);
    let url = string(&invitation["url"]);
    assert!(url.ends_with(&format!("/console#set-password={token}")), "{url}");
    let days = (time(&invitation["expires_at"]) - time(&invited["created_at"])).num_days();
    assert_eq!(days, 7);
    assert_eq!(listed(&owner, &address).await.unwrap()["status"], "invited");
    owner.post(MEMBERS, asked).await.expect_issue(&json!(["email"]), "conflict");

    // Nobody can log in before a password is set, and the token is good for nothing else.
    let body = json!({ "email": address, "password": PASSWORD });
    at(1).without_key().post("/v1/auth/login", body).await.expect_error(401, "auth_invalid");
    let verify = json!({ "token": token });
    at(1).without_key().post("/v1/auth/verify-email", verify).await.expect_error(401, "auth_invalid");
    set_password(&at(1), &token, "short").await.expect_issue(&json!(["password"]), "too_short");
    for wrong in ["zpw_x", &token[..token.len() - 1], "zev_x"] {
        set_password(&at(1), wrong, PASSWORD).await.expect_error(401, "auth_invalid");
    }

    // A new invitation invalidates the first one.
    let again = format!("{MEMBERS}/{}/invitation", string(&invited["id"]));
    let newer = string(&owner.act(&again).await.expect(200)["invitation"]["token"]);
    set_password(&at(2), &token, PASSWORD).await.expect_error(401, "auth_invalid");
    set_password(&at(2), &newer, PASSWORD).await.expect(204);
    set_password(&at(0), &newer, OTHER_PASSWORD).await.expect_error(401, "auth_invalid");
    owner.act(&again).await.expect_error(409, "no_op");

    let member = string(&login(&at(1), &address, PASSWORD).await["access_token"]);
    for node in &nodes {
        let session = tenant.api(*node).with_key(&member);
        session.get("/v1/channels").await.expect(200);
        assert_eq!(listed(&session, &address).await.unwrap()["status"], "active");
    }
    for action in ["member.invited", "member.joined"] {
        let log = owner.get(&format!("/v1/account/audit-log?action={action}")).await.expect(200);
        assert_eq!(log["data"][0]["target"]["label"], json!(address), "{action}: {log}");
    }
    let operator = tenant.cluster.operator(nodes[0], &tenant.client);
    let users = operator.get(&format!("/v1/admin/customers/{}/users", tenant.customer_id)).await.expect(200);
    let user = users["data"].as_array().unwrap().iter().find(|user| user["email"] == json!(address)).unwrap();
    assert_eq!(user["email_verified"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admins_look_after_members_owners_after_owners_and_an_account_keeps_one() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let api = tenant.any();
    let mut sessions = Vec::new();
    let mut paths = Vec::new();
    for role in ["owner", "admin", "member", "viewer"] {
        let member = Member::new(&tenant, role).await;
        paths.push(format!("{MEMBERS}/{}", member.path.rsplit('/').next().unwrap()));
        sessions.push(member.session(&api).await);
    }
    let [owner, admin, member, viewer] = sessions.try_into().unwrap_or_else(|_| panic!("four"));
    let [owner_path, admin_path, member_path, viewer_path] =
        paths.try_into().unwrap_or_else(|_: Vec<String>| panic!("four"));

    // Who may invite whom.
    for (session, role, allowed) in [
        (&owner, "owner", true),
        (&owner, "viewer", true),
        (&admin, "owner", false),
        (&admin, "admin", true),
        (&member, "viewer", false),
        (&viewer, "viewer", false),
    ] {
        let answer = session.post(MEMBERS, json!({ "email": email(), "role": role })).await;
        if allowed {
            answer.expect(201);
        } else {
            answer.expect_error(403, "insufficient_scope");
        }
    }
    for (body, path, code) in [
        (json!({ "role": "viewer" }), "email", "required"),
        (json!({ "email": email() }), "role", "required"),
        (json!({ "email": "nobody", "role": "viewer" }), "email", "format"),
        (json!({ "email": email(), "role": "king" }), "role", "enum"),
    ] {
        owner.post(MEMBERS, body).await.expect_issue(&json!([path]), code);
    }

    // Who may change whom.
    let to = |role: &str| json!({ "role": role });
    member.patch(&viewer_path, to("member")).await.expect_error(403, "insufficient_scope");
    admin.patch(&owner_path, to("viewer")).await.expect_error(403, "insufficient_scope");
    admin.patch(&viewer_path, to("owner")).await.expect_error(403, "insufficient_scope");
    admin.patch(&admin_path, to("viewer")).await.expect_error(400, "bad_request");
    owner.patch(&owner_path, to("viewer")).await.expect_error(400, "bad_request");
    assert_eq!(admin.patch(&viewer_path, to("member")).await.expect(200)["role"], "member");
    viewer.post("/v1/channels", json!({ "name": "By one who was a viewer" })).await.expect(201);

    // Neither an API key nor another account can do any of this.
    api.post(MEMBERS, json!({ "email": email(), "role": "viewer" })).await.expect_error(403, "insufficient_scope");
    let stranger = Tenant::new(&tenant.cluster).await;
    let foreign = Member::new(&stranger, "owner").await.session(&stranger.any()).await;
    foreign.patch(&viewer_path, to("viewer")).await.expect_error(404, "not_found");
    foreign.delete(&viewer_path).await.expect_error(404, "not_found");
    foreign.act(&format!("{viewer_path}/invitation")).await.expect_error(404, "not_found");
    // An e-mail address belongs to a member of one account only.
    let taken = login_address(&owner).await;
    foreign
        .post(MEMBERS, json!({ "email": taken, "role": "viewer" }))
        .await
        .expect_issue(&json!(["email"]), "conflict");

    // The last owner cannot be removed or demoted; with a second owner it can.
    owner.delete(&owner_path).await.expect_error(400, "bad_request");
    assert_eq!(owner.patch(&admin_path, to("owner")).await.expect(200)["role"], "owner");
    admin.patch(&owner_path, to("admin")).await.expect(200);
    owner.patch(&admin_path, to("viewer")).await.expect_error(403, "insufficient_scope");
    admin.delete(&admin_path).await.expect_error(400, "bad_request");

    // A removal ends the member's sessions. Any member may leave.
    member.delete(&viewer_path).await.expect_error(403, "insufficient_scope");
    admin.delete(&viewer_path).await.expect(204);
    viewer.get("/v1/account").await.expect_error(401, "auth_revoked");
    member.delete(&member_path).await.expect(204);
    member.get("/v1/account").await.expect_error(401, "auth_revoked");
    admin.delete(&member_path).await.expect_error(404, "not_found");
}

/// The e-mail address of a session's member.
async fn login_address(session: &Api) -> String {
    let list = session.get(MEMBERS).await.expect(200);
    string(&list["data"][0]["email"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invitations_of_an_account_are_counted() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let owner = Member::new(&tenant, "owner").await.session(&tenant.any()).await;
    let mut made = 0;
    let refused = loop {
        let answer = owner.post(MEMBERS, json!({ "email": email(), "role": "viewer" })).await;
        if answer.status == 429 {
            break answer;
        }
        answer.expect(201);
        made += 1;
        assert!(made < 40, "invitations pass without end");
    };
    assert!((20..=22).contains(&made), "{made}");
    refused.expect_error(429, "rate_limited");
    assert!((1..=60).contains(&refused.retry_after()), "{}", refused.retry_after());
    // An invitation that probes for members costs the same.
    let known = login_address(&owner).await;
    owner.post(MEMBERS, json!({ "email": known, "role": "viewer" })).await.expect_error(429, "rate_limited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_changes_the_password_and_sees_and_ends_its_logins() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let nodes = tenant.cluster.node_ids();
    let at = |n: usize| tenant.api(nodes[n % nodes.len()]);
    let member = Member::new(&tenant, "viewer").await;
    let (first, second, third) =
        (member.session(&at(0)).await, member.session(&at(1)).await, member.session(&at(2)).await);
    let sessions = |list: Value| list["data"].as_array().unwrap().clone();
    let seen = sessions(first.get(SESSIONS).await.expect(200));
    assert_eq!(seen.len(), 3);
    assert_eq!(
        seen.iter().map(|row| &row["current"]).collect::<Vec<_>>(),
        [&json!(false), &json!(false), &json!(true)]
    );
    // The list begins with the newest session.
    first.delete(&format!("{SESSIONS}/{}", string(&seen[0]["id"]))).await.expect(204);
    for node in &nodes {
        tenant.api(*node).with_key(third.bearer().unwrap()).get("/v1/account").await.expect_error(401, "auth_revoked");
    }
    second.get("/v1/account").await.expect(200);
    let gone = format!("{SESSIONS}/{}", string(&seen[0]["id"]));
    first.delete(&gone).await.expect_error(404, "not_found");
    let other = Member::new(&tenant, "owner").await.session(&at(0)).await;
    other.delete(&format!("{SESSIONS}/{}", string(&seen[1]["id"]))).await.expect_error(404, "not_found");
    tenant.any().get(SESSIONS).await.expect_error(403, "insufficient_scope");

    let change = |current: &str, new: &str| json!({ "current_password": current, "new_password": new });
    let path = "/v1/auth/password";
    first
        .post(path, change("not the password", OTHER_PASSWORD))
        .await
        .expect_issue(&json!(["current_password"]), "conflict");
    first.post(path, change(PASSWORD, "short")).await.expect_issue(&json!(["new_password"]), "too_short");
    tenant.any().post(path, change(PASSWORD, OTHER_PASSWORD)).await.expect_error(403, "insufficient_scope");
    first.get("/v1/account").await.expect(200);
    first.post(path, change(PASSWORD, OTHER_PASSWORD)).await.expect(204);
    for session in [&first, &second] {
        session.get("/v1/account").await.expect_error(401, "auth_revoked");
    }
    let body = json!({ "email": member.email, "password": PASSWORD });
    at(1).without_key().post("/v1/auth/login", body).await.expect_error(401, "auth_invalid");
    let mut newer = Vec::new();
    for n in 0..3 {
        newer.push(at(n).with_key(&string(&login(&at(n), &member.email, OTHER_PASSWORD).await["access_token"])));
    }
    assert_eq!(sessions(newer[1].get(SESSIONS).await.expect(200)).len(), 3);
    newer[1].delete(SESSIONS).await.expect(204);
    for session in &newer {
        session.get("/v1/account").await.expect_error(401, "auth_revoked");
    }

    // Wrong guesses of the current password count as wrong logins.
    let session = at(0).with_key(&string(&login(&at(0), &member.email, OTHER_PASSWORD).await["access_token"]));
    let mut wrong = 0;
    let refused = loop {
        let answer = session.post(path, change(&format!("wrong password {wrong}"), PASSWORD)).await;
        if answer.status == 429 {
            break answer;
        }
        answer.expect_issue(&json!(["current_password"]), "conflict");
        wrong += 1;
        assert!(wrong < 30, "guesses pass without end");
    };
    assert!((5..=12).contains(&wrong), "{wrong} wrong guesses passed");
    refused.expect_error(429, "rate_limited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invitations_and_forgotten_passwords_go_by_mail_where_there_is_a_server_and_nobody_learns_who_is_a_member() {
    let mailbox = Mailbox::start().await;
    let options = Options::nodes(1)
        .arg("--set=auth.mail.host=127.0.0.1")
        .arg(&format!("--set=auth.mail.port={}", mailbox.address.port()))
        .arg("--set=auth.mail.security=none")
        .arg("--set=auth.mail.from=Gateway <gateway@example.com>")
        .arg("--set=auth.password_url=https://app.example.com/password#{token}");
    let cluster = Cluster::start(options).await;
    let tenant = Tenant::new(&cluster).await;
    let api = tenant.any().without_key();
    let inviter = Member::new(&tenant, "owner").await;
    let owner = inviter.session(&api).await;
    let address = email();
    let invited = owner.post(MEMBERS, json!({ "email": address, "role": "viewer" })).await.expect(201);
    assert_eq!(invited["invitation"]["mailed"], true);
    assert_eq!((&invited["invitation"]["token"], &invited["invitation"]["url"]), (&Value::Null, &Value::Null));
    let message = mailbox.message_with("zpw_").await;
    assert!(message.contains(&format!("To: {address}")) && message.contains(&inviter.email), "{message}");
    assert!(message.contains("https://app.example.com/password#zpw_"), "{message}");
    set_password(&api, &token_of(&message), PASSWORD).await.expect(204);
    let session = api.with_key(&string(&login(&api, &address, PASSWORD).await["access_token"]));

    // A forgotten password: the response is the same for a stranger, who gets no message.
    let stranger = email();
    let mut answers = Vec::new();
    for email in [&stranger, &address] {
        let answer = api.post(RESET, json!({ "email": email })).await;
        assert_eq!(answer.expect(202), json!({}));
        answers.push((answer.body.clone(), answer.headers.keys().map(ToString::to_string).collect::<Vec<_>>()));
    }
    assert_eq!(answers[0], answers[1]);
    let message = mailbox.message_with("Another password").await;
    assert!(message.contains(&format!("To: {address}")), "{message}");
    let token = token_of(&message);
    set_password(&api, &token, OTHER_PASSWORD).await.expect(204);
    session.get("/v1/account").await.expect_error(401, "auth_revoked");
    login(&api, &address, OTHER_PASSWORD).await;
    set_password(&api, &token, PASSWORD).await.expect_error(401, "auth_invalid");
    let log = owner.get("/v1/account/audit-log?action=member.password_reset").await.expect(200);
    assert_eq!(log["data"][0]["target"]["label"], json!(address));

    // Messages to an address are limited, whoever requests them.
    eventually("messages to one address end", seconds(10), async || {
        let answer = api.post(RESET, json!({ "email": stranger })).await;
        if answer.status == 429 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    answer(api.request(Method::POST, RESET).json(&json!({ "email": "x" })))
        .await
        .expect_issue(&json!(["email"]), "format");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_sends_mail_nobody_asks_for_a_message() {
    let cluster =
        Cluster::start(Options::nodes(1).arg("--set=auth.signup=false").arg("--set=auth.mail.to_log=false")).await;
    let tenant = Tenant::new(&cluster).await;
    let owner = Member::new(&tenant, "owner").await;
    tenant.any().without_key().post(RESET, json!({ "email": owner.email })).await.expect_error(404, "not_found");
    let session = owner.session(&tenant.any()).await;
    let invited = session.post(MEMBERS, json!({ "email": email(), "role": "viewer" })).await.expect(201);
    assert_eq!(invited["invitation"]["mailed"], false);
}

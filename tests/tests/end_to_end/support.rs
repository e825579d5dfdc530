//! Support tickets: opened by members, answered by the operator, forwarded to a helpdesk, whichever node dies.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{Api, string, time, uuid};
use tests::mailbox::Mailbox;
use tests::member::Member;
use tests::receiver::{Receiver, Reply};
use tests::tenant::Tenant;
use tests::wait::{check, eventually, seconds};

const TICKETS: &str = "/v1/support/tickets";

fn help(subject: &str) -> Value {
    json!({ "subject": subject, "message": "It does not work" })
}

async fn member_of(tenant: &Tenant) -> (Member, Api) {
    let member = Member::new(tenant, "member").await;
    let session = member.session(&tenant.any()).await;
    (member, session)
}

fn ids(list: &Value) -> Vec<String> {
    list["data"].as_array().unwrap().iter().map(|row| string(&row["id"])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_is_opened_by_a_member_answered_by_the_operator_and_closed() {
    let cluster = Cluster::shared().await;
    let tenant = Tenant::new(&cluster).await;
    let (member, session) = member_of(&tenant).await;
    let at = |n: usize| {
        let nodes = cluster.node_ids();
        tenant.api(nodes[n % nodes.len()]).with_key(session.bearer().unwrap())
    };
    let operator = cluster.operator(cluster.node_ids()[1], &tenant.client);
    let channel = tenant.channel("Troubled").await;
    let mut body = help("No messages");
    body["channel_id"] = json!(channel);
    body["category"] = json!("connection");
    body["request_id"] = json!("req_of_a_call");
    let ticket = at(0).post(TICKETS, body).await.expect(201);
    let expected = json!({
        "number": 1, "subject": "No messages", "category": "connection", "priority": "normal", "status": "open",
        "channel_id": channel, "created_by": member.email,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&ticket[field], value, "{field} of {ticket}");
    }
    uuid(&ticket["id"]);
    assert_eq!(time(&ticket["created_at"]), time(&ticket["updated_at"]));

    // The operator sees the customer and answers, then the member answers.
    let (own, admin) = (format!("{TICKETS}/{}", string(&ticket["id"])), "/v1/admin/support/tickets");
    let path = format!("{admin}/{}", string(&ticket["id"]));
    let seen = operator.get(&path).await.expect(200);
    assert_eq!(seen["customer"]["id"], json!(tenant.customer_id));
    assert_eq!(seen["request_id"], "req_of_a_call");
    let answer = operator.post(&format!("{path}/messages"), json!({ "message": "Try again" })).await.expect(201);
    assert_eq!((&answer["author"], &answer["message"]), (&json!("support"), &json!("Try again")));
    assert_eq!(at(1).get(&own).await.expect(200)["status"], "waiting");
    let said = at(2).post(&format!("{own}/messages"), json!({ "message": "It helped" })).await.expect(201);
    assert_eq!(said["author"], "customer");
    let whole = at(0).get(&own).await.expect(200);
    let words: Vec<&str> = whole["messages"].as_array().unwrap().iter().filter_map(|m| m["message"].as_str()).collect();
    assert_eq!((&whole["status"], words), (&json!("open"), vec!["It does not work", "Try again", "It helped"]));

    let closed = operator.patch(&path, json!({ "status": "closed" })).await.expect(200);
    assert_eq!(closed["status"], "closed");
    operator.patch(&path, json!({ "status": "closed" })).await.expect_error(409, "no_op");
    operator.patch(&path, json!({ "status": "shut" })).await.expect_issue(&json!(["status"]), "enum");
    operator.patch(&path, json!({})).await.expect_issue(&json!([]), "empty");
    for node in 0..3 {
        let late = at(node).post(&format!("{own}/messages"), json!({ "message": "One more" })).await;
        late.expect_error(400, "bad_request");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_opens_ten_tickets_a_day_and_sees_its_own_alone() {
    let cluster = Cluster::shared().await;
    let (tenant, other) = (Tenant::new(&cluster).await, Tenant::new(&cluster).await);
    let ((_, session), (_, stranger)) = (member_of(&tenant).await, member_of(&other).await);
    let mut opened = Vec::new();
    for n in 1..=10 {
        let ticket = session.post(TICKETS, help(&format!("Ticket {n}"))).await.expect(201);
        assert_eq!(ticket["number"], n);
        opened.push(string(&ticket["id"]));
    }
    let refused = session.post(TICKETS, help("One too many")).await;
    assert_eq!(refused.expect_error(429, "rate_limited")["limit"], 10);
    assert!((1..=86_400).contains(&refused.retry_after()));
    assert_eq!(stranger.post(TICKETS, help("Mine")).await.expect(201)["number"], 1);

    // The newest first, in pages.
    let (first, mut newest_first) = (session.get(&format!("{TICKETS}?limit=7")).await.expect(200), opened.clone());
    newest_first.reverse();
    let second = format!("{TICKETS}?limit=7&cursor={}", string(&first["next_cursor"]));
    let rest = session.get(&second).await.expect(200);
    assert_eq!([ids(&first), ids(&rest)].concat(), newest_first);
    assert!(rest["next_cursor"].is_null());
    stranger.get(&second).await.expect_issue(&json!(["cursor"]), "format");
    let operator = cluster.operator(cluster.node_ids()[0], &tenant.client);
    let solved = format!("/v1/admin/support/tickets/{}", opened[4]);
    operator.patch(&solved, json!({ "status": "solved" })).await.expect(200);
    assert_eq!(ids(&session.get(&format!("{TICKETS}?status=solved")).await.expect(200)), opened[4..5]);
    let of_tenant = format!("/v1/admin/support/tickets?status=open&customer_id={}", tenant.customer_id);
    assert_eq!(ids(&operator.get(&of_tenant).await.expect(200)).len(), 9);
    assert!(ids(&operator.get("/v1/admin/support/tickets").await.expect(200)).len() >= 11);

    // A ticket of another account is not found, and API keys have no access to tickets.
    let (foreign, message) = (format!("{TICKETS}/{}", opened[0]), json!({ "message": "hello" }));
    assert_eq!(stranger.get(&foreign).await.expect_error(404, "not_found")["resource"], "ticket");
    stranger.post(&format!("{foreign}/messages"), message.clone()).await.expect_error(404, "not_found");
    stranger.get(&format!("{TICKETS}/7")).await.expect_error(404, "not_found");
    let key = tenant.any();
    for answer in [
        key.get(TICKETS).await,
        key.post(TICKETS, help("By key")).await,
        key.get(&foreign).await,
        key.post(&format!("{foreign}/messages"), message).await,
    ] {
        assert_eq!(answer.expect_error(403, "insufficient_scope")["required"], json!(["dashboard_session"]));
    }
    let mut body = help("Whose channel?");
    body["channel_id"] = json!(other.channel("Foreign").await);
    session.post(TICKETS, body).await.expect_error(404, "channel_not_found");
    session.post(TICKETS, json!({ "subject": "s" })).await.expect_issue(&json!(["message"]), "required");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_helpdesk_hears_of_each_message_though_it_was_away_and_a_node_dies() {
    let helpdesk = Receiver::start().await;
    helpdesk.answer(|_| Reply::Status(503));
    let url = format!("--set=support.forward_url={}", helpdesk.url("/tickets"));
    let cluster = Cluster::start(Options::default().arg(&url)).await;
    let tenant = Tenant::new(&cluster).await;
    let (_, session) = member_of(&tenant).await;
    let ticket = session.post(TICKETS, help("Forwarded")).await.expect(201);
    helpdesk.wait_for("a first try", seconds(20), |_| true).await;
    let victim = cluster.node_ids()[0];
    cluster.kill(victim);
    helpdesk.answer(|_| Reply::Status(204));
    let session = tenant.any().with_key(session.bearer().unwrap());
    let messages = format!("{TICKETS}/{}/messages", string(&ticket["id"]));
    let said = session.post(&messages, json!({ "message": "And more" })).await.expect(201);
    let heard = helpdesk.wait_for("the second message", seconds(60), |received| {
        received.answered == Some(204) && received.json()["message"]["id"] == said["id"]
    });
    let heard = heard.await.json();
    assert_eq!((&heard["ticket"]["id"], &heard["message"]["message"]), (&ticket["id"], &json!("And more")));
    assert_eq!(heard["customer"]["id"], json!(tenant.customer_id));
    let first = |received: &tests::receiver::Received| {
        received.answered == Some(204) && received.json()["message"]["message"] == "It does not work"
    };
    helpdesk.wait_for("the first message", seconds(60), first).await;
    // Messages that the helpdesk has accepted do not come again.
    let taken = helpdesk.received().len();
    let last = session.post(&messages, json!({ "message": "The last" })).await.expect(201);
    helpdesk.wait_for("the last message", seconds(60), |received| received.json()["message"]["id"] == last["id"]).await;
    assert_eq!(helpdesk.received().len(), taken + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_go_out_by_mail_and_a_deleted_account_is_gone_after_its_grace() {
    let mailbox = Mailbox::start().await;
    let port = format!("--set=auth.mail.port={}", mailbox.address.port());
    let options =
        Options::nodes(1).arg("--set=auth.mail.host=127.0.0.1").arg(&port).arg("--set=auth.mail.security=none");
    let options = options.arg("--set=auth.mail.from=Gateway <gateway@example.com>");
    let options = options.arg("--set=support.email=help@example.com").arg("--set=account.deletion_grace=2s");
    let cluster = Cluster::start(options).await;
    let tenant = Tenant::new(&cluster).await;
    let owner = Member::new(&tenant, "owner").await;
    let session = owner.session(&tenant.any()).await;
    session.post(TICKETS, help("By mail")).await.expect(201);
    let message = mailbox.message_with("It does not work").await;
    assert!(message.contains("To: help@example.com") && message.contains("Subject: [#1] By mail"), "{message}");
    assert!(message.contains(&owner.email), "{message}");

    let name = session.get("/v1/account").await.expect(200)["name"].clone();
    let delete = session.request(reqwest::Method::DELETE, "/v1/account").json(&json!({ "confirm": name }));
    tests::http::answer(delete).await.expect(202);
    let operator = cluster.operator(cluster.node_ids()[0], &tenant.client);
    eventually("nothing is left of the account", seconds(30), async || {
        let tickets = operator.get("/v1/admin/support/tickets").await.expect(200);
        check(tickets["data"] == json!([]), tickets.to_string())
    })
    .await;
    // An e-mail address is free again once no member has it.
    let again = json!({ "email": owner.email, "password": "another password", "name": "Again" });
    let made = tenant.any().without_key().post("/v1/auth/signup", again).await.expect(201);
    assert_ne!(made["account"]["id"], json!(tenant.customer_id));
    tenant.any().get("/v1/account").await.expect_error(401, "auth_invalid");
}

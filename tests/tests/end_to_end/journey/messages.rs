//! Messages in both directions: both shapes of a send, receipts, hidden numbers, history, unreachable recipients.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::http::{answer, string, time, uuid};
use tests::tenant::{Tenant, address, number, text};
use tests::wait::{check, eventually, seconds};

use super::Journey;

/// The sent messages, for later steps.
pub struct Sent {
    recipient: String,
    flat: String,
    nested: String,
}

/// `3EB0` and 36 upper-case hex characters.
#[track_caller]
fn message_id(value: &Value) -> String {
    let id = string(value);
    let hex = |b: u8| b.is_ascii_digit() || (b'A'..=b'F').contains(&b);
    assert!(id.len() == 40 && id.starts_with("3EB0") && id.bytes().all(hex), "{id}");
    id
}

impl Journey {
    pub async fn send_both_shapes(&self) -> Sent {
        let recipient = number();
        self.simulator.phone(&recipient, json!({ "online": false })).await;
        let flat = json!({ "type": "text", "to": recipient, "text": "hello flat", "client_ref": "order-17" });
        let nested = json!({ "to": address(&recipient), "body": { "type": "text", "text": "hello nested" } });

        let request_id = format!("test-{}", number());
        let request = self.api.request(Method::POST, &self.path("/messages"));
        let first = answer(request.header("x-request-id", &request_id).json(&flat)).await;
        assert_eq!(first.header("x-request-id"), Some(request_id.as_str()));
        let first = first.expect(202);
        assert_eq!((&first["status"], &first["client_ref"]), (&json!("sent"), &json!("order-17")));
        let second = self.api.post(&self.path("/messages"), nested).await.expect(202);
        assert_eq!((&second["status"], &second["client_ref"]), (&json!("sent"), &Value::Null));
        let sent =
            Sent { recipient, flat: message_id(&first["message_id"]), nested: message_id(&second["message_id"]) };
        assert_ne!(sent.flat, sent.nested);

        let ledger = self.simulator.ledger_by_id().await;
        let owner = self.tenant.owner(self.tenant.cluster.node_ids()[0], &self.channel).await;
        for id in [&sent.flat, &sent.nested] {
            let rows = &ledger[id];
            assert_eq!(rows.len(), 1, "{rows:?}");
            assert_eq!(rows[0]["from"], json!(address(&self.number)));
            assert_eq!(rows[0]["to"], json!(address(&sent.recipient)));
            assert_eq!((rows[0]["node"].as_u64(), rows[0]["epoch"].as_u64()), (Some(owner.node), Some(owner.epoch)));
        }
        for (path, secret) in [("/custom", &self.custom_secret), ("/default", &self.default_secret)] {
            let what = format!("message.sent at {path}");
            let wanted = |id: &str| {
                let id = id.to_owned();
                move |r: &tests::receiver::Received| {
                    r.path == path && r.event() == "message.sent" && r.json()["data"]["message_id"] == json!(id)
                }
            };
            let event = self.receiver.wait_for(&what, seconds(10), wanted(&sent.flat)).await;
            event.verify(secret);
            assert_eq!(event.header("x-gateway-correlation-id"), request_id);
            let data = &event.json()["data"];
            assert_eq!((&data["client_ref"], &data["type"]), (&json!("order-17"), &json!("text")));
            assert_eq!((&data["to"], &data["source"]), (&json!(address(&sent.recipient)), &json!("api")));
            assert_eq!((&data["chat_id"], &data["is_group"]), (&data["to"], &json!(false)));
            time(&data["sent_at"]);
            let event = self.receiver.wait_for(&what, seconds(10), wanted(&sent.nested)).await;
            event.verify(secret);
            assert_eq!(event.json()["data"]["client_ref"], Value::Null);
        }
        sent
    }

    pub async fn follow_receipts(&self, sent: &Sent) {
        self.wait_status_event(&sent.flat, "sent").await;
        self.simulator.phone(&sent.recipient, json!({ "online": true })).await;
        self.wait_status_event(&sent.flat, "delivered").await;
        self.wait_status_event(&sent.nested, "delivered").await;
        let path = format!("/phones/{}/open-chat", sent.recipient);
        self.simulator.api().post(&path, json!({ "with": self.number })).await.expect(204);
        self.wait_status_event(&sent.flat, "read").await;
        self.wait_status_event(&sent.nested, "read").await;

        // A recipient who has turned off read receipts is never reported as having read.
        let silent = number();
        self.simulator.phone(&silent, json!({ "read_receipts": false })).await;
        let answer = self.api.post(&self.path("/messages"), text(&silent, "psst")).await.expect(202);
        let id = message_id(&answer["message_id"]);
        self.wait_status_event(&id, "delivered").await;
        let path = format!("/phones/{silent}/open-chat");
        self.simulator.api().post(&path, json!({ "with": self.number })).await.expect(204);
        // Events of a channel are in order: a `read` would have come before the delivery of a later message.
        let later = self.api.post(&self.path("/messages"), text(&silent, "later")).await.expect(202);
        self.wait_status_event(&string(&later["message_id"]), "delivered").await;
        let events = self.receiver.of("/custom", "message.status");
        let read = |r: &tests::receiver::Received| {
            r.json()["data"]["message_id"] == json!(id) && r.json()["data"]["status"] == "read"
        };
        assert!(!events.iter().any(read));
    }

    async fn wait_status_event(&self, id: &str, status: &str) {
        let what = format!("{status} of {id}");
        let wanted = |r: &tests::receiver::Received| {
            let data = &r.json()["data"];
            r.path == "/custom" && r.event() == "message.status" && data["message_id"] == id && data["status"] == status
        };
        let event = self.receiver.wait_for(&what, seconds(10), wanted).await;
        event.verify(&self.custom_secret);
        let data = &event.json()["data"];
        assert_eq!(data["is_group"], false);
        assert!(data["timestamp"].as_u64().is_some_and(|t| t > 1_600_000_000), "{data}");
        assert_eq!(data.get("participant"), None, "omitted in direct chats: {data}");
        assert!(data["to"].as_str().is_some_and(|to| to.ends_with("@s.example")), "{data}");
    }

    pub async fn receive(&self) {
        let sender = number();
        self.simulator.phone(&sender, json!({ "name": "Ben" })).await;
        let ids = self.simulator.text(&sender, &self.number, "hello gateway", 1).await;
        for (path, secret) in [("/custom", &self.custom_secret), ("/default", &self.default_secret)] {
            let wanted = |r: &tests::receiver::Received| {
                r.path == path && r.event() == "message.received" && r.json()["data"]["message_id"] == json!(ids[0])
            };
            let event = self.receiver.wait_for("message.received", seconds(10), wanted).await;
            event.verify(secret);
            assert!(!event.header("x-gateway-correlation-id").is_empty());
            let data = event.json()["data"].clone();
            assert_eq!((&data["from"], &data["from_resolved"]), (&json!(address(&sender)), &json!(true)));
            assert_eq!(data["from_phone"], data["from"]);
            assert_eq!((&data["to"], &data["is_group"]), (&json!(address(&self.number)), &json!(false)));
            assert_eq!(data["chat_id"], json!(address(&sender)));
            assert_eq!(data["push_name"], "Ben");
            assert_eq!((&data["body"]["type"], &data["body"]["text"]), (&json!("text"), &json!("hello gateway")));
            time(&data["received_at"]);
            assert!(data["timestamp"].is_u64(), "{data}");
        }
    }

    pub async fn receive_from_a_hidden_number(&self) {
        let sender = number();
        let phone = self.simulator.phone(&sender, json!({ "hide_number": true })).await;
        let lid = string(&phone["lid"]);
        assert!(lid.ends_with("@lid"), "{phone}");
        let unknown = self.api.post(&self.path("/messages"), text(&lid, "who are you")).await;
        let details = unknown.expect_error(400, "undeliverable_recipient");
        assert_eq!((&details["to"], &details["reason"]), (&json!(lid), &json!("unknown_lid")));

        let ids = self.simulator.text(&sender, &self.number, "guess who", 1).await;
        let event = self.receiver.wait_message("message.received", &ids[0], seconds(10)).await;
        let data = event.json()["data"].clone();
        assert_eq!((&data["from"], &data["from_resolved"]), (&json!(lid), &json!(false)));
        assert_eq!(data["from_lid"], json!(lid));
        assert_eq!(data.get("from_phone"), None, "{data}");

        let path = format!("/phones/{sender}/disclose");
        self.simulator.api().post(&path, json!({ "to": self.number })).await.expect(204);
        let wanted = |r: &tests::receiver::Received| {
            r.event() == "contact.resolved" && r.path == "/custom" && r.json()["data"]["lid"] == json!(lid)
        };
        let event = self.receiver.wait_for("contact.resolved", seconds(10), wanted).await;
        let data = event.json()["data"].clone();
        assert_eq!((&data["channel_id"], &data["phone_jid"]), (&json!(self.channel), &json!(address(&sender))));
        time(&data["first_seen_at"]);

        let ids = self.simulator.text(&sender, &self.number, "it is me", 1).await;
        let event = self.receiver.wait_message("message.received", &ids[0], seconds(10)).await;
        let data = event.json()["data"].clone();
        assert_eq!((&data["from"], &data["from_resolved"]), (&json!(address(&sender)), &json!(true)));
        assert_eq!((&data["from_lid"], &data["from_phone"]), (&json!(lid), &data["from"]));
        let resolved = self.receiver.of("/custom", "contact.resolved");
        assert_eq!(resolved.len(), 1, "it is said the first time only");

        let answer = self.api.post(&self.path("/messages"), text(&lid, "now I know")).await.expect(202);
        let id = message_id(&answer["message_id"]);
        eventually("the text reached the phone behind the LID", seconds(10), async || {
            let inbox = self.simulator.inbox(&sender).await;
            check(inbox.iter().any(|row| row["id"] == json!(id)), format!("{inbox:?}"))
        })
        .await;
    }

    pub async fn read_history(&self, sent: &Sent) {
        let path = self.path(&format!("/messages?message_id={}", sent.flat));
        let row = eventually("the history shows the deliveries", seconds(10), async || {
            let page = self.api.get(&path).await.expect(200);
            let row = page["data"][0].clone();
            let deliveries = row["webhook_deliveries"].as_array().map_or(&[][..], Vec::as_slice);
            let delivered = deliveries.iter().filter(|d| d["state"] == "delivered").count();
            // `message.sent`, and `message.status` of sent, delivered and read, each to two endpoints.
            check(delivered == 8 && row["status"] == "read", page.to_string()).map(|()| row)
        })
        .await;
        uuid(&row["id"]);
        assert_eq!((&row["direction"], &row["source"]), (&json!("outbound"), &json!("api")));
        assert_eq!((&row["type"], &row["text"]), (&json!("text"), &json!("hello flat")));
        assert_eq!((&row["client_ref"], &row["channel_id"]), (&json!("order-17"), &json!(self.channel)));
        assert_eq!((&row["to"], &row["chat_id"]), (&json!(address(&sent.recipient)), &json!(address(&sent.recipient))));
        assert_eq!(row["request_id"], row["correlation_id"]);
        for field in ["from_lid", "participant", "media", "message_key", "emoji", "error", "content", "push_name"] {
            assert!(row.get(field).is_some(), "all fields are always there: {field}: {row}");
        }
        time(&row["occurred_at"]);
        time(&row["status_at"]);
        let delivery = &row["webhook_deliveries"][0];
        uuid(&delivery["id"]);
        uuid(&delivery["endpoint_id"]);
        assert_eq!((&delivery["attempt_count"], &delivery["last_http_status"]), (&json!(1), &json!(200)));

        // Rows of both directions, the newest first, page by page, through both routes and every node.
        let page = self.api.get(&self.path("/messages?limit=100")).await.expect(200);
        let whole: Vec<_> = page["data"].as_array().unwrap().iter().map(|row| string(&row["id"])).collect();
        let kinds: BTreeSet<_> = page["data"].as_array().unwrap().iter().map(|row| string(&row["direction"])).collect();
        assert_eq!(kinds, ["inbound", "outbound"].map(str::to_owned).into());
        for node in self.tenant.cluster.node_ids() {
            let api = self.tenant.api(node);
            for route in [self.path("/messages?limit=2"), "/v1/messages?limit=2".to_owned()] {
                let (mut paged, mut cursor) = (Vec::new(), String::new());
                loop {
                    let page = api.get(&format!("{route}{cursor}")).await.expect(200);
                    paged.extend(page["data"].as_array().unwrap().iter().map(|row| string(&row["id"])));
                    let Some(next) = page["next_cursor"].as_str() else { break };
                    cursor = format!("&cursor={next}");
                }
                assert_eq!(paged, whole, "{route} through node {node}");
            }
            let mut ascending = api.get(&self.path("/messages?limit=100&order=asc")).await.expect(200);
            let rows = ascending["data"].as_array_mut().unwrap();
            rows.reverse();
            assert_eq!(rows.iter().map(|row| string(&row["id"])).collect::<Vec<_>>(), whole);
        }
        let inbound = self.api.get("/v1/messages?direction=inbound&deliveries=none").await.expect(200);
        assert!(inbound["data"].as_array().unwrap().iter().all(|row| row["status"] == "received"), "{inbound}");
        let by_ref = self.api.get("/v1/messages?client_ref=order-17").await.expect(200);
        assert_eq!(by_ref["data"].as_array().unwrap().len(), 1);
        assert_eq!(by_ref["data"][0]["message_id"], json!(sent.flat));
    }
}

/// Every reason why a recipient is unreachable.
pub async fn undeliverable(cluster: &Cluster) {
    let tenant = Tenant::new(cluster).await;
    let channel = tenant.paired("Sales").await;
    let api = tenant.any();
    let unregistered = number();
    let cases = [
        ("999000111222333@lid".to_owned(), "unknown_lid"),
        ("1234567890123456".to_owned(), "too_long"),
        ("1234567890123456@s.example".to_owned(), "too_long"),
        ("anna@s.example".to_owned(), "not_numeric"),
        ("15551234567@c.us".to_owned(), "unknown_suffix"),
        (unregistered.clone(), "not_registered"),
        (address(&unregistered), "not_registered"),
    ];
    for (to, reason) in cases {
        let answer = api.post(&channel.path("/messages"), text(&to, "hello?")).await;
        let details = answer.expect_error(400, "undeliverable_recipient");
        assert_eq!(details["reason"], reason, "{to}");
        assert!(details["to"].as_str().is_some_and(|shown| shown.starts_with(&to)), "{to}: {details}");
    }
    let ledger = tenant.simulator().ledger().await;
    assert!(!ledger.iter().any(|row| row["from"] == json!(channel.address())), "nothing was sent");
}

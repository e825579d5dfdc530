//! Sends without media, and their context.

use serde_json::{Value, json};
use tests::tenant::{address, number};

use super::{Conversation, assert_has};

/// The nested shape of a flat body.
fn nested(mut body: Value) -> Value {
    let to = body.as_object_mut().unwrap().remove("to").unwrap();
    json!({ "to": to, "body": body })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_without_bytes_arrives_in_both_shapes() {
    let talk = Conversation::begin().await;
    let card = json!({ "name": "Ben", "phones": ["15551230001"] });
    // The body, the message that the phone receives, and `content` of the row.
    let table = [
        (json!({ "type": "text", "text": "hello" }), json!({ "text": "hello" }), Value::Null),
        (
            json!({ "type": "location", "latitude": 52.5, "longitude": -13.25, "name": "Here" }),
            json!({ "latitude": 52.5, "longitude": -13.25, "name": "Here", "live": false }),
            json!({ "latitude": 52.5, "longitude": -13.25, "name": "Here", "address": null, "live": false }),
        ),
        (json!({ "type": "contact", "contacts": [card] }), json!({}), json!({})),
        (
            json!({ "type": "poll", "name": "Which?", "options": ["a", "b"] }),
            json!({ "name": "Which?", "options": ["a", "b"], "selectable_count": 1 }),
            json!({ "name": "Which?", "options": ["a", "b"], "selectable_count": 1 }),
        ),
        (
            json!({ "type": "product", "product_id": "p1" }),
            json!({ "product_id": "p1" }),
            json!({ "product_id": "p1" }),
        ),
        (json!({ "type": "catalog" }), json!({}), Value::Null),
    ];
    for (mut body, seen, content) in table {
        body["to"] = json!(talk.peer);
        body["client_ref"] = json!("order-17");
        let kind = body["type"].clone();
        for body in [body.clone(), nested(body)] {
            let id = talk.send(body).await;
            let row = talk.arrived(&talk.peer, &id).await;
            assert_eq!((&row["type"], &row["copies"]), (&kind, &json!(1)), "{row}");
            assert_has(&row, &seen);
            if kind == "contact" {
                assert_has(&row["contacts"][0], &card);
                assert!(row["contacts"][0]["vcard"].as_str().unwrap().contains("waid=15551230001"), "{row}");
            }
            let sent = talk.event("message.sent", &id).await;
            assert_has(&sent, &json!({ "type": kind, "source": "api", "client_ref": "order-17", "is_group": false }));
            talk.event_with("message.status", &id, "status", "delivered").await;
            let stored = talk.row(&id).await;
            assert_has(&stored, &json!({ "type": kind, "media": null, "message_key": null, "emoji": null }));
            if kind == "contact" {
                assert_has(&stored["content"]["contacts"][0], &card);
            } else {
                assert_eq!(stored["content"], content, "{stored}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quote_has_the_author_and_the_text_of_what_it_answers() {
    let talk = Conversation::begin().await;
    let heard = talk.hear(json!({ "type": "text", "text": "what is it?" })).await;
    talk.event("message.received", &heard).await;
    let own = talk.text("look").await;
    let expected = [
        (talk.key(&heard, false), address(&talk.peer), json!("what is it?")),
        (talk.key(&own, true), talk.channel.address(), json!("look")),
        // Nothing but the key is known of a message that is not stored.
        (talk.key("3EB0FF", false), address(&talk.peer), Value::Null),
    ];
    for (key, from, text) in expected {
        let body = json!({
            "type": "text", "to": talk.peer, "text": "https://example.com/a, you see", "quoted": key,
            "link_preview": { "title": "A" }, "ephemeral_expiration": 86400,
        });
        let id = talk.send(body).await;
        let row = talk.arrived(&talk.peer, &id).await;
        assert_eq!((&row["quoted"]["message_id"], &row["quoted"]["from"]), (&key["id"], &json!(from)), "{row}");
        assert_eq!(row["quoted"]["text"], text);
        assert_has(&row["link_preview"], &json!({ "url": "https://example.com/a", "title": "A" }));
        assert_eq!(row["ephemeral_expiration"], 86400);
        let stored = talk.row(&id).await;
        assert_eq!(stored["quoted_message_id"], key["id"]);
        assert_eq!(stored["content"]["ephemeral_expiration"], 86400);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_heard_or_said_can_be_forwarded_when_it_is_stored() {
    let talk = Conversation::begin().await;
    let third = number();
    talk.simulator.phone(&third, json!({})).await;
    let heard = talk.hear(json!({ "type": "location", "latitude": 1.0, "longitude": 2.0, "live": true })).await;
    talk.event("message.received", &heard).await;
    let own = talk.text("hello").await;
    for (key, seen) in [
        (talk.key(&heard, false), json!({ "type": "location", "latitude": 1.0, "live": false, "forwarded": true })),
        (talk.key(&own, true), json!({ "type": "text", "text": "hello", "forwarded": true })),
    ] {
        let id = talk.send(json!({ "type": "forward", "to": third, "message_key": key })).await;
        assert_has(&talk.arrived(&third, &id).await, &seen);
        let stored = talk.row(&id).await;
        assert_eq!((&stored["type"], &stored["content"]["forwarded"]), (&seen["type"], &json!(true)));
    }
    let forward = |key: Value| json!({ "type": "forward", "to": third, "message_key": key });
    let path = talk.channel.path("/messages");
    let missing = talk.api.post(&path, forward(talk.key("3EB0FF", false))).await;
    assert_eq!(missing.expect_error(404, "message_not_found"), json!({ "message_id": "3EB0FF" }));
    let reaction = json!({ "type": "reaction", "message_key": talk.key(&own, true), "emoji": "👍" });
    let reaction = talk.send(reaction).await;
    let refused = talk.api.post(&path, forward(talk.key(&reaction, true))).await;
    refused.expect_issue(&json!(["message_key"]), "conflict");
    let nested = json!({ "to": third, "body": { "type": "forward", "message_key": talk.key(&reaction, true) } });
    talk.api.post(&path, nested).await.expect_issue(&json!(["body", "message_key"]), "conflict");
    // A message of another channel is not found.
    let other = talk.tenant.paired("Other").await;
    let elsewhere = talk.api.post(&other.path("/messages"), forward(talk.key(&own, true))).await;
    elsewhere.expect_error(404, "message_not_found");
}

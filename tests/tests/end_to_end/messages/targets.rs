//! Actions on existing messages: reactions in both directions, edits, deletions, pins, stars.

use serde_json::{Value, json};
use tests::tenant::address;

use super::{Conversation, assert_has};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_to_a_message_reaches_its_chat() {
    let talk = Conversation::begin().await;
    let own = talk.text("first").await;
    let heard = talk.hear(json!({ "type": "text", "text": "second" })).await;
    talk.event("message.received", &heard).await;
    let (mine, theirs) = (talk.key(&own, true), talk.key(&heard, false));
    let table: [(Value, Value, Value); 9] = [
        (json!({ "type": "reaction", "emoji": "👍" }), theirs.clone(), json!({ "emoji": "👍" })),
        // An empty emoji removes the reaction; `to` is ignored.
        (json!({ "type": "reaction", "emoji": "", "to": "nowhere" }), theirs.clone(), json!({ "emoji": "" })),
        (json!({ "type": "reaction", "emoji": "❤️" }), mine.clone(), json!({ "emoji": "❤️" })),
        (json!({ "type": "edit", "text": "better" }), mine.clone(), json!({ "text": "better" })),
        (json!({ "type": "pin", "duration": 86400 }), theirs.clone(), json!({ "duration": 86400 })),
        (json!({ "type": "unpin" }), theirs.clone(), json!({})),
        (json!({ "type": "star" }), mine.clone(), json!({})),
        (json!({ "type": "unstar" }), mine.clone(), json!({})),
        (json!({ "type": "delete" }), mine.clone(), json!({ "by_admin": false })),
    ];
    for (mut body, key, seen) in table {
        body["message_key"] = key.clone();
        let kind = body["type"].clone();
        let id = talk.send(body).await;
        let sent = talk.event("message.sent", &id).await;
        assert_has(&sent, &json!({ "type": kind, "to": address(&talk.peer), "chat_id": address(&talk.peer) }));
        let stored = talk.row(&id).await;
        assert_has(&stored, &json!({ "type": kind, "message_key": key, "chat_id": address(&talk.peer) }));
        // Stars are not sent to anybody else.
        if kind != "star" && kind != "unstar" {
            let row = talk.arrived(&talk.peer, &id).await;
            assert_has(&row, &seen);
            assert_eq!(row["message_key"]["id"], key["id"]);
            assert_eq!(row["message_key"]["from_me"], json!(!key["from_me"].as_bool().unwrap()), "as the peer sees it");
        }
        if kind == "reaction" {
            assert_eq!(stored["emoji"], seen["emoji"]);
            let reaction = talk.event("message.reaction", &id).await;
            assert_has(&reaction, &json!({ "from_me": true, "message_key": key, "emoji": seen["emoji"] }));
            assert_has(&reaction, &json!({ "from": talk.channel.address(), "chat_id": address(&talk.peer) }));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reaction_of_the_peers_has_an_event_of_its_own() {
    let talk = Conversation::begin().await;
    let own = talk.text("look").await;
    talk.arrived(&talk.peer, &own).await;
    let target = talk.key(&own, true);
    for emoji in ["😮", ""] {
        let react = json!({ "id": own, "emoji": emoji });
        talk.simulator.api().post(&format!("/phones/{}/react", talk.peer), react).await.expect(204);
        let wanted = |request: &tests::receiver::Received| {
            request.event() == "message.reaction" && request.json()["data"]["emoji"] == emoji
        };
        let event = talk.receiver.wait_for("the reaction", super::SOON, wanted).await.json();
        let data = &event["data"];
        assert_has(data, &json!({ "message_key": target, "from_me": false, "from": address(&talk.peer) }));
        assert_has(data, &json!({ "from_resolved": true, "chat_id": address(&talk.peer), "is_group": false }));
        assert!(data["timestamp"].is_u64() && data.get("participant").is_none(), "{data}");
        let id = tests::http::string(&data["message_id"]);
        let stored = talk.row(&id).await;
        assert_has(
            &stored,
            &json!({ "type": "reaction", "direction": "inbound", "emoji": emoji, "message_key": target }),
        );
        assert!(talk.receiver.of("/", "message.received").iter().all(|r| r.json()["data"]["message_id"] != id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_network_refuses_is_told_with_its_code() {
    let talk = Conversation::begin().await;
    let heard = talk.hear(json!({ "type": "poll", "name": "Which?", "options": ["a", "b"] })).await;
    talk.event("message.received", &heard).await;
    let path = talk.channel.path("/messages");
    let unknown = talk.key("3EB0FF", true);
    let table = [
        (json!({ "type": "edit", "message_key": unknown, "text": "x" }), 404),
        (json!({ "type": "reaction", "message_key": unknown, "emoji": "x" }), 404),
        (json!({ "type": "delete", "message_key": unknown }), 404),
        (json!({ "type": "edit", "message_key": talk.key(&heard, true), "text": "x" }), 403),
        (json!({ "type": "text", "to": "120363999999999999@g.example", "text": "x" }), 404),
    ];
    for (body, code) in table {
        let details = talk.api.post(&path, body.clone()).await.expect_error(422, "other");
        assert_eq!(details["upstream_code"], code, "{body}: {details}");
        assert!(details["upstream_text"].as_str().is_some_and(|text| !text.is_empty()), "{details}");
    }
    // A target in the chat of an unknown LID is as unreachable as the LID.
    let key = json!({ "id": heard, "from_me": false, "remote_jid": "999000111222333@lid" });
    let refused = talk.api.post(&path, json!({ "type": "reaction", "message_key": key, "emoji": "x" })).await;
    assert_eq!(refused.expect_error(400, "undeliverable_recipient")["reason"], "unknown_lid");
}

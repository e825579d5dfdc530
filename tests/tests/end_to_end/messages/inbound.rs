//! Received messages: every content, their context, and messages from the channel's own phone.

use serde_json::{Value, json};
use tests::http::time;
use tests::tenant::{address, number};

use super::{Conversation, assert_has};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_body_has_the_fields_of_its_type() {
    let talk = Conversation::begin().await;
    let own = talk.text("look").await;
    let poll = talk.send(json!({ "type": "poll", "to": talk.peer, "name": "Which?", "options": ["a", "b"] })).await;
    talk.arrived(&talk.peer, &poll).await;
    let heard = talk.hear(json!({ "type": "text", "text": "mistak" })).await;
    let theirs = talk.key(&heard, false);
    let media = |more: Value| {
        let mut media = json!({ "mime_type": "image/png", "size": 2048 });
        media.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        media
    };
    // The message that the phone sends, and the body of the event. The fields of media are checked below.
    let table = [
        (json!({ "type": "text", "text": "hi" }), json!({ "type": "text", "text": "hi" })),
        (
            json!({ "type": "image", "media": media(json!({ "view_once": true })), "caption": "c" }),
            json!({ "type": "image", "caption": "c" }),
        ),
        (
            json!({ "type": "video", "media": media(json!({})), "gif": true }),
            json!({ "type": "video", "caption": null, "animated": true }),
        ),
        (json!({ "type": "audio", "media": media(json!({ "voice": true })) }), json!({ "type": "audio" })),
        (
            json!({ "type": "document", "media": media(json!({ "filename": "a.pdf" })) }),
            json!({ "type": "document", "filename": "a.pdf", "caption": null }),
        ),
        (
            json!({ "type": "sticker", "media": media(json!({})), "animated": true }),
            json!({ "type": "sticker", "animated": true }),
        ),
        (
            json!({ "type": "edit", "message_key": { "id": heard }, "text": "mistake" }),
            json!({ "type": "edit", "message_key": theirs, "text": "mistake" }),
        ),
        (
            json!({ "type": "location", "latitude": 1.5, "longitude": 2.0, "live": true }),
            json!({ "type": "location", "latitude": 1.5, "longitude": 2.0, "name": null, "address": null, "live": true }),
        ),
        (
            json!({ "type": "poll", "name": "q", "options": ["x", "y"], "selectable_count": 2 }),
            json!({ "type": "poll", "name": "q", "options": ["x", "y"], "selectable_count": 2 }),
        ),
        (
            json!({ "type": "poll_vote", "message_key": { "id": poll }, "selected": ["b"] }),
            json!({ "type": "poll_vote", "message_key": talk.key(&poll, true), "selected": ["b"] }),
        ),
        (
            json!({ "type": "button_reply", "id": "1", "title": "Yes" }),
            json!({ "type": "button_reply", "id": "1", "title": "Yes" }),
        ),
        (
            json!({ "type": "list_reply", "id": "2", "title": "No" }),
            json!({ "type": "list_reply", "id": "2", "title": "No" }),
        ),
        (
            json!({ "type": "order", "order_id": "o1", "token": "t", "item_count": 2, "total_amount": 1990, "currency": "EUR" }),
            json!({ "type": "order", "order_id": "o1", "token": "t", "item_count": 2, "total_amount": 1990, "currency": "EUR" }),
        ),
        (
            json!({ "type": "event", "name": "Party", "start_at": 1_800_000_000 }),
            json!({ "type": "event", "name": "Party", "start_at": 1_800_000_000, "end_at": null, "location": null }),
        ),
        (json!({ "type": "unknown", "raw_type": "hologram" }), json!({ "type": "unknown", "raw_type": "hologram" })),
        (
            json!({ "type": "delete", "message_key": { "id": heard } }),
            json!({ "type": "delete", "message_key": theirs, "by_admin": false }),
        ),
    ];
    for (body, expected) in table {
        let id = talk.hear(body.clone()).await;
        let data = talk.event("message.received", &id).await;
        assert_has(&data, &json!({ "from": address(&talk.peer), "to": talk.channel.address(), "push_name": "Ann" }));
        time(&data["received_at"]);
        assert_has(&data["body"], &expected);
        let stored = talk.row(&id).await;
        assert_has(&stored, &json!({ "type": body["type"], "direction": "inbound", "status": "received" }));
        assert_eq!(stored["message_key"], expected.get("message_key").cloned().unwrap_or_default(), "{stored}");
        if let Some(given) = body.get("media") {
            for shown in [&data["body"]["media"], &stored["media"]] {
                assert_eq!(
                    (&shown["mime_type"], &shown["size_bytes"]),
                    (&given["mime_type"], &given["size"]),
                    "{shown}"
                );
                assert_eq!(shown["voice"], given.get("voice").cloned().unwrap_or(json!(false)));
            }
            assert_eq!(data.get("is_view_once"), given.get("view_once"), "{data}");
        }
    }
    // A message without a body in the API has type `unknown` in event and row; both name what it was.
    let id = talk.hear(json!({ "type": "pin", "message_key": { "id": heard }, "duration": 86400 })).await;
    let unknown = json!({ "type": "unknown", "raw_type": "pin" });
    assert_eq!(talk.event("message.received", &id).await["body"], unknown);
    let stored = talk.row(&id).await;
    assert_has(
        &stored,
        &json!({ "type": "unknown", "message_key": theirs, "content": { "duration": 86400, "raw_type": "pin" } }),
    );
    let contact =
        talk.hear(json!({ "type": "contact", "contacts": [{ "name": "Ben", "phones": ["15551230001"] }] })).await;
    let data = talk.event("message.received", &contact).await;
    assert_has(&data["body"]["contacts"][0], &json!({ "name": "Ben", "phones": ["15551230001"] }));

    let around = json!({
        "type": "text", "text": "see https://example.com/a", "quoted": { "id": own }, "forwarded": true,
        "ephemeral_expiration": 604800, "link_preview": { "url": "https://example.com/a", "title": "A" },
    });
    let id = talk.hear(around).await;
    let data = talk.event("message.received", &id).await;
    let quoted = json!({ "message_id": own, "from": talk.channel.address(), "text": "look" });
    assert_has(&data, &json!({ "quoted": quoted, "forwarded": true, "ephemeral_expiration": 604800 }));
    assert_has(&data["body"]["link_preview"], &json!({ "url": "https://example.com/a", "title": "A" }));
    assert_eq!(talk.row(&id).await["quoted_message_id"], own);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undecryptable_message_is_told_of_again_once_it_can_be_read() {
    let talk = Conversation::begin().await;
    let id = talk.hear(json!({ "type": "undecryptable", "reason": "waiting" })).await;
    let first = talk.event("message.received", &id).await;
    assert_eq!(first["body"], json!({ "type": "undecryptable", "reason": "waiting" }));
    assert_eq!(first.get("recovered"), None);
    let before = talk.row(&id).await;
    assert_has(&before, &json!({ "type": "undecryptable", "content": { "reason": "waiting" }, "text": null }));

    let recovered = talk.hear(json!({ "type": "text", "text": "here I am", "recovers": id })).await;
    assert_eq!(recovered, id);
    let wanted = |request: &tests::receiver::Received| {
        let body = request.json();
        body["data"]["message_id"] == id && body["data"]["recovered"] == true
    };
    let second = talk.receiver.wait_for("the recovered message", super::SOON, wanted).await.json();
    assert_eq!(second["data"]["body"], json!({ "type": "text", "text": "here I am" }));
    assert_eq!(talk.receiver.event_ids("message.received")[&id].len(), 2, "each with an id of its own");
    let after = talk.row(&id).await;
    assert_eq!(after["id"], before["id"], "one row");
    assert_has(&after, &json!({ "type": "text", "text": "here I am" }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_channels_own_phone_writes_is_sent_by_the_device() {
    let talk = Conversation::begin().await;
    talk.settle(json!({ "emit_device_sent": true })).await;
    let own = &talk.channel.number;
    let id = talk.write(own, json!({ "type": "text", "to": talk.peer, "text": "from my pocket" })).await;
    let sent = talk.event("message.sent", &id).await;
    assert_has(&sent, &json!({ "source": "device", "client_ref": null, "type": "text", "to": address(&talk.peer) }));
    let stored = talk.row(&id).await;
    assert_has(&stored, &json!({ "direction": "outbound", "source": "device", "text": "from my pocket" }));
    assert_has(&stored, &json!({ "chat_id": address(&talk.peer), "from": talk.channel.address(), "request_id": null }));
    assert!(["sent", "delivered"].iter().any(|status| stored["status"] == *status), "{stored}");

    let heard = talk.hear(json!({ "type": "text", "text": "nice" })).await;
    talk.event("message.received", &heard).await;
    talk.simulator.api().post(&format!("/phones/{own}/react"), json!({ "id": heard, "emoji": "🙂" })).await.expect(204);
    let wanted = |request: &tests::receiver::Received| request.event() == "message.reaction";
    let reaction = talk.receiver.wait_for("the reaction", super::SOON, wanted).await.json()["data"].clone();
    assert_has(&reaction, &json!({ "from_me": true, "emoji": "🙂", "message_key": talk.key(&heard, false) }));
    let id = tests::http::string(&reaction["message_id"]);
    assert_has(&talk.event("message.sent", &id).await, &json!({ "source": "device", "type": "reaction" }));

    // A message sent from here is reported once, although the network shows it to the phone as well.
    let id = talk.text("from the office").await;
    talk.event_with("message.status", &id, "status", "delivered").await;
    assert_eq!(talk.receiver.event_ids("message.sent")[&id].len(), 1);
    assert_eq!(talk.row(&id).await["source"], "api");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_channels_own_phone_wrote_and_nobody_could_read_is_what_it_said_once_it_can_be_read() {
    let talk = Conversation::begin().await;
    talk.settle(json!({ "emit_device_sent": true })).await;
    let own = &talk.channel.number;
    let id = talk.write(own, json!({ "type": "undecryptable", "reason": "waiting", "to": talk.peer })).await;
    let first = talk.event("message.sent", &id).await;
    assert_has(&first, &json!({ "source": "device", "type": "undecryptable" }));
    let before = talk.row(&id).await;
    let read = json!({ "type": "text", "text": "from my pocket", "to": talk.peer, "recovers": id });
    assert_eq!(talk.write(own, read).await, id);
    talk.event_with("message.sent", &id, "type", "text").await;
    assert_eq!(talk.receiver.event_ids("message.sent")[&id].len(), 2, "each with an id of its own");
    let after = talk.row(&id).await;
    assert_eq!(after["id"], before["id"], "one row");
    assert_has(&after, &json!({ "direction": "outbound", "source": "device", "text": "from my pocket" }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hidden_number_is_reached_once_it_is_known() {
    let talk = Conversation::begin().await;
    let hidden = number();
    let lid = talk.simulator.phone(&hidden, json!({ "hide_number": true })).await["lid"].clone();
    let body = json!({ "type": "location", "to": lid, "latitude": 1, "longitude": 2 });
    let unknown = talk.api.post(&talk.channel.path("/messages"), body.clone()).await;
    let details = unknown.expect_error(400, "undeliverable_recipient");
    assert_eq!((&details["to"], &details["reason"]), (&lid, &json!("unknown_lid")));

    let heard = talk.write(&hidden, json!({ "type": "text", "to": talk.channel.number, "text": "guess" })).await;
    let data = talk.event("message.received", &heard).await;
    assert_has(&data, &json!({ "from": lid, "from_resolved": false, "from_lid": lid, "chat_id": lid }));
    let path = format!("/phones/{hidden}/disclose");
    talk.simulator.api().post(&path, json!({ "to": talk.channel.number })).await.expect(204);
    let wanted = |request: &tests::receiver::Received| request.event() == "contact.resolved";
    talk.receiver.wait_for("contact.resolved", super::SOON, wanted).await;

    let id = talk.send(body).await;
    assert_eq!(talk.arrived(&hidden, &id).await["type"], "location");
    assert_eq!(talk.row(&id).await["to"], json!(address(&hidden)));
    // A reaction goes to the chat of its target, whatever name of the chat its key has.
    let key = json!({ "id": heard, "from_me": false, "remote_jid": lid });
    let id = talk.send(json!({ "type": "reaction", "message_key": key, "emoji": "🎉" })).await;
    assert_eq!(talk.arrived(&hidden, &id).await["emoji"], "🎉");
}

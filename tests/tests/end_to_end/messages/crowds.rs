//! Groups and newsletters as recipients and as senders.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::tenant::{address, number};
use tests::wait::{check, eventually};

use super::{Conversation, SOON, assert_has};

/// Creates a group of the channel's phone with others.
async fn group(talk: &Conversation, members: &[&str]) -> String {
    let path = format!("/phones/{}/groups", talk.channel.number);
    let group =
        talk.simulator.api().post(&path, json!({ "subject": "Team", "participants": members })).await.expect(201);
    string(&group["id"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_member_of_a_group_acknowledges_by_itself() {
    let talk = Conversation::begin().await;
    let (ben, cem) = (number(), number());
    for phone in [&ben, &cem] {
        talk.simulator.phone(phone, json!({})).await;
    }
    let group = group(&talk, &[&talk.peer, &ben, &cem]).await;
    let body = json!({ "type": "text", "to": group, "text": "hello all", "mentions": [ben, cem], "client_ref": "g-1" });
    let id = talk.send(body).await;
    for phone in [&talk.peer, &ben, &cem] {
        let row = talk.arrived(phone, &id).await;
        assert_has(&row, &json!({ "type": "text", "to": group, "mentions": [address(&ben), address(&cem)] }));
        let status = talk.event_with("message.status", &id, "participant", &address(phone)).await;
        assert_has(&status, &json!({ "status": "delivered", "is_group": true, "to": group, "client_ref": "g-1" }));
    }
    let sent = talk.event("message.sent", &id).await;
    assert_has(&sent, &json!({ "chat_id": group, "is_group": true, "to": group }));
    let open = json!({ "with": group });
    talk.simulator.api().post(&format!("/phones/{ben}/open-chat"), open).await.expect(204);
    let read = talk.event_with("message.status", &id, "status", "read").await;
    assert_eq!(read["participant"], address(&ben));
    assert_has(&talk.row(&id).await, &json!({ "is_group": true, "chat_id": group, "participant": null }));

    let everybody = json!({ "type": "text", "to": group, "text": "all of you", "mentions": ["all"] });
    let id = talk.send(everybody).await;
    assert_eq!(talk.arrived(&cem, &id).await["mentions_all"], true);

    // An admin deletes another member's message; the channel's phone created the group, so it is one.
    let rude = talk.write(&ben, json!({ "type": "text", "to": group, "text": "rude" })).await;
    let data = talk.event("message.received", &rude).await;
    assert_has(
        &data,
        &json!({ "chat_id": group, "is_group": true, "participant": address(&ben), "from": address(&ben) }),
    );
    // The message is addressed to the channel, in the group.
    let own = json!({ "to": address(&talk.channel.number), "chat_id": group });
    assert_has(&data, &own);
    assert_has(&talk.row(&rude).await, &own);
    let key = json!({ "id": rude, "from_me": false, "remote_jid": group });
    let id = talk.send(json!({ "type": "delete", "message_key": key })).await;
    assert_has(&talk.arrived(&cem, &id).await, &json!({ "type": "delete", "by_admin": true }));
    assert_eq!(talk.row(&id).await["content"]["by_admin"], true);
    // A quote names the author, although its key only names the group.
    let key = json!({ "id": rude, "from_me": false, "remote_jid": group });
    let id = talk.send(json!({ "type": "text", "to": group, "text": "not here", "quoted": key })).await;
    assert_eq!(talk.arrived(&cem, &id).await["quoted"]["from"], address(&ben));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_to_a_group_whose_acceptance_was_lost_is_as_far_as_its_last_member() {
    // Runs on its own cluster, since faults affect the whole network.
    let talk = Conversation::on(&Cluster::start(Options::nodes(1)).await).await;
    let group = group(&talk, &[&talk.peer]).await;
    let known = talk.channel.path(&format!("/groups/{group}"));
    eventually("the group is known", SOON, async || {
        let answer = talk.api.get(&known).await;
        check(answer.status == 200, answer.text())
    })
    .await;
    talk.simulator.faults(json!({ "drop_after_accept_pct": 100 })).await;
    // The receipt of the member implies the acceptance.
    let id = talk.send(json!({ "type": "text", "to": group, "text": "hello all" })).await;
    eventually("the message has been delivered", SOON, async || {
        let row = talk.row(&id).await;
        check(row["status"] == "delivered", row.to_string())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_heard_and_refused_by_their_rank() {
    let talk = Conversation::begin().await;
    let hidden = number();
    let lid = talk.simulator.phone(&hidden, json!({ "hide_number": true })).await["lid"].clone();
    let groups = format!("/phones/{}/groups", talk.peer);
    let made = json!({ "subject": "Theirs", "participants": [talk.channel.number, hidden] });
    let group = string(&talk.simulator.api().post(&groups, made).await.expect(201)["id"]);

    let body = json!({ "type": "text", "to": group, "text": "who am I", "mentions": [talk.channel.number] });
    let heard = talk.write(&hidden, body).await;
    let data = talk.event("message.received", &heard).await;
    assert_has(
        &data,
        &json!({ "from": lid, "from_resolved": false, "participant": lid, "chat_id": group, "to": talk.channel.address() }),
    );
    assert_eq!(data["mentions"], json!([talk.channel.address()]));
    let react = json!({ "id": heard, "emoji": "🤫" });
    talk.simulator.api().post(&format!("/phones/{}/react", talk.peer), react).await.expect(204);
    let wanted = |request: &tests::receiver::Received| request.event() == "message.reaction";
    let reaction = talk.receiver.wait_for("the reaction", super::SOON, wanted).await.json()["data"].clone();
    assert_has(&reaction, &json!({ "participant": address(&talk.peer), "chat_id": group, "is_group": true }));
    assert_has(&reaction["message_key"], &json!({ "id": heard, "from_me": false, "remote_jid": group }));

    let path = talk.channel.path("/messages");
    let key = json!({ "id": heard, "from_me": false, "remote_jid": group });
    let refused = talk.api.post(&path, json!({ "type": "delete", "message_key": key })).await;
    assert_eq!(refused.expect_error(422, "other")["upstream_code"], 403);
    let announce = format!("{groups}/{group}/settings");
    talk.simulator.api().patch(&announce, json!({ "announce": true })).await.expect(200);
    let refused = talk.api.post(&path, json!({ "type": "text", "to": group, "text": "x" })).await;
    assert_eq!(refused.expect_error(422, "other")["upstream_code"], 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newsletters_are_written_and_read() {
    let talk = Conversation::begin().await;
    talk.settle(json!({ "ignore_newsletters": false })).await;
    let made = async |owner: &str, reader: &str| {
        let path = format!("/phones/{owner}/newsletters");
        let made = talk.simulator.api().post(&path, json!({ "name": "News" })).await.expect(201);
        let id = string(&made["id"]);
        let path = format!("/phones/{reader}/newsletters/{id}/subscription");
        talk.simulator.api().post(&path, Value::Null).await.expect(200);
        id
    };
    let own = made(&talk.channel.number, &talk.peer).await;
    let id = talk.send(json!({ "type": "text", "to": own, "text": "today" })).await;
    assert_has(&talk.arrived(&talk.peer, &id).await, &json!({ "text": "today", "to": own }));
    let sent = talk.event("message.sent", &id).await;
    assert_has(&sent, &json!({ "chat_id": own, "is_group": false, "to": own }));
    let path = talk.channel.path("/messages");
    let once = json!({
        "type": "image", "to": own, "media_url": "https://example.com/a", "mime_type": "image/png", "view_once": true,
    });
    talk.api.post(&path, once).await.expect_issue(&json!(["view_once"]), "conflict");

    let theirs = made(&talk.peer, &talk.channel.number).await;
    let heard = talk.write(&talk.peer, json!({ "type": "text", "to": theirs, "text": "hear, hear" })).await;
    let data = talk.event("message.received", &heard).await;
    assert_has(&data, &json!({ "chat_id": theirs, "from": theirs, "from_resolved": false, "is_group": false }));
    assert!(data.get("participant").is_none() && data.get("from_phone").is_none(), "{data}");
    let refused = talk.api.post(&path, json!({ "type": "text", "to": theirs, "text": "me too" })).await;
    assert_eq!(refused.expect_error(422, "other")["upstream_code"], 403);
}

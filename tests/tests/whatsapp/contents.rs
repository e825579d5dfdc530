//! Groups, contents and media from the API to a phone and back.

use reqwest::Method;
use serde_json::{Value, json};
use tests::http::{answer, string};
use tests::receiver::Receiver;
use tests::tenant::{CONNECT, Tenant, address, number, wait_status};
use tests::wait::{check, eventually};

use crate::{assert_clean, cluster};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_written_to_with_quotes_reactions_and_media_and_its_members_answer() {
    let cluster = cluster(1).await;
    let tenant = Tenant::new(&cluster).await;
    let (network, api) = (tenant.simulator(), tenant.any());
    let hooks = Receiver::start().await;
    tenant.endpoint(&hooks.url("/"), &["message.received", "message.status", "group.updated"], json!({})).await;
    let channel = tenant.paired("groups").await;
    let (ann, ben) = (number(), number());
    for person in [&ann, &ben] {
        network.phone(person, json!({})).await;
    }
    let body = json!({ "subject": "Friends", "participants": [address(&ann), address(&ben)] });
    let group = string(&api.post(&channel.path("/groups"), body).await.expect(201)["id"]);
    let send = async |mut body: Value| {
        body["to"] = json!(group);
        string(&api.post(&channel.path("/messages"), body).await.expect(202)["message_id"])
    };
    let read = async |person: &str, id: &str| {
        eventually(&format!("{person} reads {id}"), CONNECT, async || {
            let rows = network.inbox(person).await;
            rows.into_iter().find(|row| row["id"] == id).ok_or_else(|| "not there".to_owned())
        })
        .await
    };
    let anns = network.text(&ann, &group, "who is here?", 1).await.remove(0);
    let told = hooks.wait_message("message.received", &anns, CONNECT).await.json();
    assert_eq!(told["data"]["chat_id"], json!(group), "{told}");
    let key = json!({ "id": anns, "from_me": false, "remote_jid": group });

    let quote = send(json!({ "type": "text", "text": "me", "quoted": key, "mentions": [address(&ann)] })).await;
    let row = read(&ben, &quote).await;
    assert_eq!((&row["text"], &row["quoted"]["text"]), (&json!("me"), &json!("who is here?")), "{row}");
    assert_eq!((&row["quoted"]["from"], &row["mentions"]), (&json!(address(&ann)), &json!([address(&ann)])), "{row}");
    let reaction = send(json!({ "type": "reaction", "emoji": "👍", "message_key": key })).await;
    let row = read(&ann, &reaction).await;
    assert_eq!((&row["emoji"], &row["message_key"]["id"]), (&json!("👍"), &json!(anns)), "{row}");
    assert_eq!(row["message_key"]["participant"], json!(address(&ann)), "in a group a message is named by its author");

    let all = send(json!({ "type": "text", "text": "everybody!", "mentions": ["all"] })).await;
    assert_eq!(read(&ben, &all).await["mentions_all"], true);

    // Votes on a poll of the channel, and on one of somebody else.
    let options = json!(["tea", "coffee", "water"]);
    let poll = send(json!({ "type": "poll", "name": "What?", "options": options, "selectable_count": 2 })).await;
    read(&ann, &poll).await;
    let body = json!({ "to": group, "type": "poll", "name": "And you?", "options": options });
    let sent = network.api().post(&format!("/phones/{ann}/messages"), body).await.expect(201);
    let anns_poll = string(&sent["ids"][0]);
    hooks.wait_message("message.received", &anns_poll, CONNECT).await;
    read(&ben, &anns_poll).await;
    for (voter, on, is_own, selected) in [
        (&ann, &poll, true, json!(["tea", "water"])),
        (&ann, &poll, true, json!([])),
        (&ben, &anns_poll, false, json!(["coffee"])),
    ] {
        let vote = json!({ "to": group, "type": "poll_vote", "selected": selected, "message_key": { "id": on } });
        let sent = network.api().post(&format!("/phones/{voter}/messages"), vote).await.expect(201);
        let told = hooks.wait_message("message.received", sent["ids"][0].as_str().unwrap(), CONNECT).await.json();
        let body = &told["data"]["body"];
        assert_eq!((&body["type"], &body["selected"]), (&json!("poll_vote"), &selected), "{told}");
        let key = json!({ "id": on, "from_me": is_own, "remote_jid": group });
        assert_eq!(body["message_key"], key, "{told}");
    }

    // An upload is sent as the type of the message.
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let upload = api.request(Method::POST, &channel.path("/media")).body(bytes.clone());
    let stored = answer(upload.header("content-type", "application/octet-stream")).await.expect(201);
    let body = json!({
        "type": "document", "media_url": stored["url"], "mime_type": "application/octet-stream", "filename": "all.bin",
    });
    let document = send(body).await;
    let row = read(&ben, &document).await;
    assert_eq!((&row["filename"], &row["media"]["size"]), (&json!("all.bin"), &json!(300_000)), "{row}");
    assert_eq!(row["media"]["intact"], true);

    // Received media can be fetched, too.
    let body = json!({ "type": "document", "to": group, "media": { "base64": "bG9vayBoZXJl", "filename": "look" } });
    let sent = network.api().post(&format!("/phones/{ben}/messages"), body).await.expect(201);
    let bens = string(&sent["ids"][0]);
    hooks.wait_message("message.received", &bens, CONNECT).await;
    let link = eventually("the document is here", CONNECT, async || {
        let rows = api.get(&channel.path(&format!("/messages?message_id={bens}"))).await.expect(200);
        let media = rows["data"][0]["media"].clone();
        check(media["state"] == "ready", media.to_string()).map(|()| string(&media["url"]))
    })
    .await;
    assert_eq!(answer(tenant.client.get(link)).await.body, b"look here".as_slice());

    // A group message counts as delivered once all members have it.
    eventually("the quote is delivered", CONNECT, async || {
        let rows = api.get(&channel.path(&format!("/messages?message_id={quote}"))).await.expect(200);
        check(rows["data"][0]["status"] == "delivered", rows.to_string())
    })
    .await;
    assert_clean(&network, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_is_linked_by_a_code_that_is_typed_on_the_phone() {
    let cluster = cluster(1).await;
    let tenant = Tenant::new(&cluster).await;
    let (network, api, phone) = (tenant.simulator(), tenant.any(), number());
    network.phone(&phone, json!({})).await;
    let channel = tenant.channel("by code").await;
    let body = json!({ "phone_number": phone });
    let shown = eventually("a code", CONNECT, async || {
        let shown = api.post(&format!("/v1/channels/{channel}/pair-code"), body.clone()).await;
        check(shown.status == 200, shown.text()).map(|()| shown.json())
    })
    .await;
    let link = json!({ "pair_code": shown["code"] });
    network.api().post(&format!("/phones/{phone}/link"), link).await.expect(200);
    wait_status(&api, &channel, "connected", CONNECT).await;
}

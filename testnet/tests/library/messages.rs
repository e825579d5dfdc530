use buffa::MessageField;
use serde_json::json;
use wacore::store::traits::ProtocolStore;
use wacore::types::events::Event;
use wacore::types::presence::ReceiptType;
use waproto::whatsapp as wa;

use crate::client::{PATIENCE, TestClient};
use crate::{CHANNEL, PEER, paired};

#[tokio::test]
async fn texts_go_both_ways_with_their_receipts() {
    let (net, control, client) = paired().await;
    assert_eq!(client.send(PEER, "3EB0FIRST", "hello").await, None);
    let row = control.received(PEER, "3EB0FIRST").await;
    assert_eq!((&row["text"], &row["copies"], &row["type"]), (&json!("hello"), &json!(1), &json!("text")));
    assert_eq!(row["from"], format!("{CHANNEL}@s.whatsapp.net"));
    let receipt = |kind: ReceiptType| {
        move |event: &Event| match event {
            Event::Receipt(receipt)
                if receipt.message_ids.iter().any(|id| id == "3EB0FIRST") && receipt.r#type == kind =>
            {
                Some(())
            }
            _ => None,
        }
    };
    client.event("a delivery receipt", receipt(ReceiptType::Delivered)).await;
    assert_eq!(control.post(&format!("/phones/{PEER}/open-chat"), json!({ "with": CHANNEL })).await.0, 204);
    client.event("a read receipt", receipt(ReceiptType::Read)).await;

    let ids = control.write(PEER, CHANNEL, "and to you", 1).await;
    assert_eq!(client.message(&ids[0]).await, "and to you");
    let path = format!("/phones/{PEER}/receipts?id={}", ids[0]);
    let receipts = control.until("the client's receipt", &path, |receipts| receipts["total"] == 1).await;
    assert_eq!(receipts["data"][0]["type"], "delivered");
    control
        .until("the queue is empty", &format!("/devices/{CHANNEL}"), |devices| devices["data"][0]["queue"] == 0)
        .await;
    assert_eq!(client.send(PEER, "3EB0SECOND", "goodbye").await, None);
    control.received(PEER, "3EB0SECOND").await;
    assert_eq!(control.get("/crypto").await["wrong_devices"], 0);
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn the_same_id_again_is_dropped_and_without_deduplication_reaches_the_phone_with_the_same_body() {
    let (net, control, client) = paired().await;
    for _ in 0..2 {
        assert_eq!(client.send(PEER, "3EB0TWICE", "once").await, None);
    }
    assert_eq!(control.received(PEER, "3EB0TWICE").await["copies"], 1);
    let stats = control.get("/stats").await;
    assert_eq!((&stats["duplicates_dropped"], &stats["accepted"]), (&json!(1), &json!(1)));
    assert_eq!(control.get("/accepted").await["data"][0]["raw_copies"], 2);
    control.faults(json!({ "dedup": false })).await;
    assert_eq!(client.send(PEER, "3EB0TWICE", "something else").await, None);
    control.until("a second copy", &format!("/phones/{PEER}/inbox"), |inbox| inbox["data"][0]["copies"] == 2).await;
    // The library gives each copy another secret, which is what this check is for.
    let report = control.get("/crypto").await;
    assert!(!report["body_conflicts"].as_array().unwrap().is_empty(), "{report}");
    assert_eq!(report["key_reuse"], json!([]));
    net.shutdown().await;
}

#[tokio::test]
async fn a_message_to_nobody_is_refused_and_faults_refuse_with_their_code() {
    let (net, control, client) = paired().await;
    control.faults(json!({ "nack": { "code": 463, "pct": 100 } })).await;
    assert_eq!(client.send(PEER, "3EB0NACK", "hello").await.as_deref(), Some("463"));
    control.call("DELETE", "/faults", None).await;
    assert_eq!(client.send(PEER, "3EB0NACK", "hello").await, None);
    assert_eq!(control.received(PEER, "3EB0NACK").await["copies"], 1);
    assert_eq!(control.get("/stats").await["refused"], 1);
    net.shutdown().await;
}

#[tokio::test]
async fn what_a_phone_lost_its_session_for_is_asked_for_and_sent_again() {
    let (net, control, client) = paired().await;
    client.send(PEER, "3EB0BEFORE", "before").await;
    let ids = control.write(PEER, CHANNEL, "so that the session is settled", 1).await;
    client.message(&ids[0]).await;
    assert_eq!(control.post(&format!("/phones/{PEER}/forget-session"), json!({ "with": CHANNEL })).await.0, 204);
    // A client that is asked again draws another secret, unless the message came with one.
    let context = wa::MessageContextInfo { message_secret: Some(vec![7; 32]), ..Default::default() };
    let text = Some("again, please".to_owned());
    let message =
        wa::Message { conversation: text, message_context_info: MessageField::some(context), ..Default::default() };
    client.send_message(PEER, "3EB0LOST", message).await;
    assert_eq!(control.received(PEER, "3EB0LOST").await["text"], "again, please");
    client.send(PEER, "3EB0AFTER", "after").await;
    assert_eq!(control.received(PEER, "3EB0AFTER").await["text"], "after");
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn what_a_client_cannot_read_it_asks_for_and_gets_again() {
    let (net, control, client) = paired().await;
    let first = control.write(PEER, CHANNEL, "first", 1).await;
    client.message(&first[0]).await;
    assert_eq!(control.post(&format!("/phones/{PEER}/corrupt"), json!({ "to": CHANNEL })).await.0, 204);
    let damaged = control.write(PEER, CHANNEL, "damaged on its way", 1).await;
    client
        .event("an unreadable message", |event| match event {
            Event::UndecryptableMessage(message) if message.info.id == damaged[0] => Some(()),
            _ => None,
        })
        .await;
    assert_eq!(client.message(&damaged[0]).await, "damaged on its way");
    let report = control.get("/crypto").await;
    assert!(report["retry_receipts"].as_u64().unwrap() >= 1, "{report}");
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn a_thousand_messages_wait_for_a_client_and_come_once_each() {
    let (net, control, client) = paired().await;
    let store = client.die();
    control.until("nobody is logged in", "/sessions", |sessions| sessions["total"] == 0).await;
    let ids = control.write(PEER, CHANNEL, "while you were out", 1_000).await;
    let mut next = TestClient::on(net.chat_address(), store, None).await;
    next.log_in().await;
    for id in &ids {
        next.message(id).await;
    }
    control
        .until("the queue is empty", &format!("/devices/{CHANNEL}"), |devices| devices["data"][0]["queue"] == 0)
        .await;
    for id in &ids {
        assert_eq!(next.copies(id), 1, "{id}");
    }
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn what_is_not_acknowledged_comes_again_at_the_next_login() {
    let (net, control, client) = paired().await;
    control.faults(json!({ "hold_inbound_acks": true })).await;
    let ids = control.write(PEER, CHANNEL, "hello", 1).await;
    client.message(&ids[0]).await;
    let store = client.die();
    control.until("nobody is logged in", "/sessions", |sessions| sessions["total"] == 0).await;
    control.faults(json!({ "hold_inbound_acks": false })).await;
    let mut next = TestClient::on(net.chat_address(), store, None).await;
    next.log_in().await;
    control
        .until("the queue is empty", &format!("/devices/{CHANNEL}"), |devices| devices["data"][0]["queue"] == 0)
        .await;
    assert!(control.get("/stats").await["redelivered"].as_u64().unwrap() >= 1);
    net.shutdown().await;
}

#[tokio::test]
async fn who_writes_to_fewer_devices_than_there_are_learns_it_from_the_acknowledgement() {
    let (net, control, client) = paired().await;
    let mut other = TestClient::new(net.chat_address()).await;
    other.pair(&control, PEER).await;
    assert_eq!(client.send(PEER, "3EB0KNOWN", "to both").await, None);
    assert_eq!(other.message("3EB0KNOWN").await, "to both");
    let store = client.die();
    control.until("its connection is gone", "/sessions", |sessions| sessions["total"] == 1).await;
    // A sender that was not told of the second device.
    let lid = control.get(&format!("/phones/{PEER}")).await["lid"].as_str().unwrap().replace("@lid", "");
    for user in [PEER, lid.as_str()] {
        if let Some(mut known) = store.get_devices(user).await.unwrap() {
            known.devices.retain(|device| device.device_id == 0);
            store.update_device_list(known).await.unwrap();
        }
    }
    let mut next = TestClient::on(net.chat_address(), store, None).await;
    next.log_in().await;
    let heard = async {
        for n in 0.. {
            assert_eq!(next.send(PEER, &format!("3EB0NEXT{n}"), "to both again").await, None);
            if other.count(|event| event.messages().filter(|said| said.info.id.starts_with("3EB0NEXT")).count()) > 0 {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("the second device is written to again");
    assert_eq!(other.copies("3EB0NEXT0"), 0, "the first one was written to the phone alone");
    assert_ne!(control.get("/crypto").await["wrong_devices"], 0);
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn two_channels_write_to_each_other() {
    let (net, control, client) = paired().await;
    let mut other = TestClient::new(net.chat_address()).await;
    other.pair(&control, PEER).await;
    assert_eq!(client.send(PEER, "3EB0ACROSS", "hello").await, None);
    assert_eq!(other.message("3EB0ACROSS").await, "hello");
    assert_eq!(control.received(PEER, "3EB0ACROSS").await["text"], "hello");
    assert_eq!(other.send(CHANNEL, "3EB0BACK", "yes?").await, None);
    assert_eq!(client.message("3EB0BACK").await, "yes?");
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn a_hidden_number_shows_its_lid_until_it_is_disclosed() {
    let (net, control, client) = paired().await;
    control.post("/phones", json!({ "number": PEER, "hide_number": true })).await;
    let sender = |id: String| {
        let client = &client;
        async move {
            client
                .event("a message", |event| {
                    let inbound = event.messages().find(|inbound| inbound.info.id == id)?;
                    Some((inbound.info.source.sender.to_non_ad().to_string(), inbound.info.source.sender_alt.clone()))
                })
                .await
        }
    };
    let hidden = control.write(PEER, CHANNEL, "who am I?", 1).await.remove(0);
    let (from, number) = sender(hidden).await;
    assert!(from.ends_with("@lid") && number.is_none(), "{from} {number:?}");
    control.post(&format!("/phones/{PEER}/disclose"), json!({ "to": CHANNEL })).await;
    let open = control.write(PEER, CHANNEL, "it is me", 1).await.remove(0);
    let (from, lid) = sender(open).await;
    assert_eq!(from, format!("{PEER}@s.whatsapp.net"));
    assert!(lid.is_some_and(|lid| lid.is_lid()));
    net.shutdown().await;
}

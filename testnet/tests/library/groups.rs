use serde_json::{Value, json};
use wacore_binary::Jid;
use waproto::whatsapp as wa;
use whatsapp_rust::send::SendOptions;

use crate::client::TestClient;
use crate::control::Control;
use crate::{CHANNEL, PEER, paired};

const THIRD: &str = "15553330000";

/// A group of the channel and the two phones, made by the second.
async fn group(control: &Control) -> String {
    control.phone(THIRD).await;
    let body = json!({ "subject": "Us", "participants": [CHANNEL, THIRD] });
    let (status, made) = control.post(&format!("/phones/{PEER}/groups"), body).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["participants"].as_array().unwrap().len(), 3);
    made["id"].as_str().unwrap().to_owned()
}

async fn send(client: &TestClient, group: &str, id: &str, text: &str) {
    let message = wa::Message { conversation: Some(text.into()), ..Default::default() };
    let to: Jid = group.parse().unwrap();
    let sent = client.client.send_message_with_options(to, message, SendOptions::default().with_message_id(id));
    sent.await.unwrap();
}

#[tokio::test]
async fn a_group_reads_what_a_channel_writes_and_a_channel_what_members_write() {
    let (net, control, client) = paired().await;
    let group = group(&control).await;
    for (id, text) in [("3EB0GROUPA", "to all"), ("3EB0GROUPB", "and once more")] {
        send(&client, &group, id, text).await;
        for phone in [PEER, THIRD] {
            let row = control.received(phone, id).await;
            assert_eq!((&row["text"], &row["to"], &row["copies"]), (&json!(text), &json!(group), &json!(1)));
        }
    }
    let written = control.write(PEER, &group, "hello, channel", 2).await;
    for id in &written {
        assert_eq!(client.message(id).await, "hello, channel");
        control.received(THIRD, id).await;
    }
    control
        .until("the queue is empty", &format!("/devices/{CHANNEL}"), |devices| devices["data"][0]["queue"] == 0)
        .await;
    let receipts = format!("/phones/{PEER}/receipts?id={}", written[0]);
    control.until("receipts of both members", &receipts, |receipts| receipts["total"] == 2).await;
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn a_channel_makes_and_changes_groups_and_is_refused_what_it_may_not() {
    let (net, control, client) = paired().await;
    let ours: Jid = group(&control).await.parse().unwrap();
    let metadata = client.client.groups().get_metadata(&ours).await.unwrap();
    assert_eq!(metadata.participants.len(), 3);
    assert!(client.client.groups().set_announce(&ours, true).await.is_err(), "a member is no admin");
    let path = format!("/phones/{PEER}/groups/{ours}");
    let promote = json!({ "action": "promote", "participants": [CHANNEL] });
    let (status, promoted) = control.post(&format!("{path}/participants"), promote).await;
    assert_eq!((status, &promoted["participants"][0]["status"]), (200, &json!("ok")));
    client.client.groups().set_announce(&ours, true).await.unwrap();
    let shown = control.get(&path).await;
    assert_eq!(shown["announce"], true, "{shown}");
    let refused = json!({ "to": ours.to_string(), "type": "text", "text": "may I?" });
    assert_eq!(control.post(&format!("/phones/{THIRD}/messages"), refused).await.0, 400);
    let (status, _) = control.post(&format!("{path}/leave"), Value::Null).await;
    assert_eq!(status, 204);
    control.assert_clean().await;
    net.shutdown().await;
}

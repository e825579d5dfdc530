use buffa::MessageField;
use serde_json::{Value, json};
use wacore::download::MediaType;
use waproto::whatsapp as wa;
use waproto::whatsapp::message;
use whatsapp_rust::upload::UploadOptions;

use crate::control::Control;
use crate::{CHANNEL, PEER, paired};

async fn written(control: &Control, body: Value) -> String {
    let (status, sent) = control.post(&format!("/phones/{PEER}/messages"), body).await;
    assert_eq!(status, 201, "{sent}");
    sent["ids"][0].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn phones_write_every_kind_that_they_can() {
    let (net, control, client) = paired().await;
    client.send(PEER, "3EB0TARGET", "a target").await;
    control.received(PEER, "3EB0TARGET").await;
    let quoting = json!({ "to": CHANNEL, "type": "text", "text": "quoted", "quoted": { "id": "3EB0TARGET" },
        "mentions": [CHANNEL], "forwarded": true });
    let message = client.content(&written(&control, quoting).await).await;
    let context = message.extended_text_message.as_option().unwrap().context_info.as_option().unwrap();
    assert_eq!(context.stanza_id.as_deref(), Some("3EB0TARGET"));
    assert_eq!((context.mentioned_jid.len(), context.is_forwarded), (1, Some(true)));

    let key = json!({ "id": "3EB0TARGET" });
    let reaction =
        written(&control, json!({ "to": CHANNEL, "type": "reaction", "message_key": key, "emoji": "👍" })).await;
    let reaction = client.content(&reaction).await;
    assert_eq!(reaction.reaction_message.as_option().unwrap().text.as_deref(), Some("👍"));

    let own = written(&control, json!({ "to": CHANNEL, "type": "text", "text": "with a mistkae" })).await;
    client.message(&own).await;
    let edit =
        written(&control, json!({ "to": CHANNEL, "type": "edit", "message_key": { "id": own }, "text": "mended" }))
            .await;
    let edit = client.content(&edit).await;
    let protocol = edit.protocol_message.as_option();
    assert!(protocol.is_some_and(|protocol| protocol.edited_message.is_set()));

    let place =
        written(&control, json!({ "to": CHANNEL, "type": "location", "latitude": 1.5, "longitude": -2.5 })).await;
    assert_eq!(client.content(&place).await.location_message.as_option().unwrap().degrees_latitude, Some(1.5));
    let card = written(
        &control,
        json!({ "to": CHANNEL, "type": "contact", "contacts": [{ "name": "Ann", "phones": ["1555"] }] }),
    )
    .await;
    assert!(client.content(&card).await.contact_message.is_set());
    let poll = written(&control, json!({ "to": CHANNEL, "type": "poll", "name": "?", "options": ["a", "b"] })).await;
    assert_eq!(client.content(&poll).await.poll_creation_message_v3.as_option().unwrap().options.len(), 2);
    let unknown = json!({ "to": CHANNEL, "type": "reaction", "message_key": { "id": "NONE" }, "emoji": "x" });
    assert_eq!(control.post(&format!("/phones/{PEER}/messages"), unknown).await.0, 404);
    control.assert_clean().await;
    net.shutdown().await;
}

#[tokio::test]
async fn media_goes_both_ways_and_what_is_not_there_is_not_intact() {
    let (net, control, client) = paired().await;
    let bytes = vec![7_u8; 100_000];
    let up = client.client.upload(bytes.clone(), MediaType::Image, UploadOptions::default()).await.unwrap();
    let image = |path: String| message::ImageMessage {
        mimetype: Some("image/jpeg".into()),
        caption: Some("a picture".into()),
        direct_path: Some(path),
        media_key: Some(up.media_key.to_vec()),
        file_sha256: Some(up.file_sha256.to_vec()),
        file_enc_sha256: Some(up.file_enc_sha256.to_vec()),
        file_length: Some(up.file_length),
        ..Default::default()
    };
    let message =
        |path: &str| wa::Message { image_message: MessageField::some(image(path.to_owned())), ..Default::default() };
    assert_eq!(client.send_message(PEER, "3EB0IMAGE", message(&up.direct_path)).await, None);
    let row = control.received(PEER, "3EB0IMAGE").await;
    assert_eq!((&row["type"], &row["caption"]), (&json!("image"), &json!("a picture")));
    assert_eq!((&row["media"]["intact"], &row["media"]["size"]), (&json!(true), &json!(100_000)));
    assert_eq!(client.send_message(PEER, "3EB0GONE", message("/v/gone")).await, None);
    assert_eq!(control.received(PEER, "3EB0GONE").await["media"]["intact"], false);

    let sent = json!({ "to": CHANNEL, "type": "document", "media": { "size": 50_000, "mime_type": "application/pdf" }, "filename": "a.pdf" });
    let content = client.content(&written(&control, sent).await).await;
    let document = content.document_message.as_option().unwrap();
    assert_eq!(document.file_name.as_deref(), Some("a.pdf"));
    let down = client.client.download(document).await.unwrap();
    assert_eq!((down.len(), &down[..5]), (50_000, b"%PDF-".as_slice()));
    control.faults(json!({ "media": { "status": 404 } })).await;
    assert!(client.client.download(document).await.is_err());
    control.assert_clean().await;
    net.shutdown().await;
}

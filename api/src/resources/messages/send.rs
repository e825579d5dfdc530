//! `POST /v1/channels/{id}/messages`: the body is validated here, then the owner of the channel commits and sends the
//! message (docs/design/overview.md#the-way-of-a-send).

use model::error::CallError;
use model::id::MessageId;
use model::send::{SendContent, SendRequest};
use serde_json::{Value, json};
use shard::call::request::CheckSend;
use shard::call::{Send, SendBody};

use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;

pub async fn send(call: &mut ChannelCall) -> Outcome {
    let body = call.send_object().await?;
    let SendRequest { to, content, around, client_ref } = SendRequest::parse(&body, &call.app.config.suffixes)?;
    let nested = !body.contains_key("type");
    // Dropped early: a parsed body takes several times its bytes of memory, and a send may take ten seconds.
    drop(body);
    let (customer, channel) = (call.customer_id(), call.channel.id);
    let in_place = |error: CallError| if nested { error.inside("body") } else { error };
    let (said, media_room) = match content {
        SendContent::Ready(content) => (SendBody::Content(content), None),
        SendContent::Forward(key) => {
            let left = Box::pin(call.cluster().media_left(customer, channel, &call.context())).await;
            (SendBody::Forward(key), left.map(|(room, _)| room))
        }
        SendContent::Media(media) => {
            // Checked first, so that nothing is fetched for a channel that cannot send.
            Box::pin(call.ask(CheckSend(Some(to.clone())))).await?;
            let made = call.cluster().send_media(customer, channel, &media, &["media_url"], &call.context()).await;
            made.map_err(in_place)?
        }
    };
    // Minted before the owner is called, so that a retry at another owner is the same send.
    let message_id = MessageId::mint(rand::random());
    let (around, media_room) = (Box::new(around), media_room.map(Box::new));
    let sent = call.ask(Send { message_id, to, body: said, around, client_ref, media_room }).await.map_err(in_place)?;
    Ok(Reply::accepted(&sent))
}

/// Example sends for the OpenAPI document, by name.
pub fn examples() -> Vec<(&'static str, Value)> {
    let to = "15550001002";
    let key = json!({ "id": "3EB0C2A5F0D1B2C3D4E5F60718293A4B5C6D7E8F", "from_me": true, "remote_jid": "15550001002@s.example" });
    vec![
        ("text", json!({ "type": "text", "to": to, "text": "hello", "client_ref": "order-17" })),
        (
            "image",
            json!({
                "type": "image", "to": to, "media_url": "https://example.com/a.png", "mime_type": "image/png", "caption": "look",
            }),
        ),
        ("reaction", json!({ "type": "reaction", "message_key": key, "emoji": "👍" })),
        ("poll", json!({ "type": "poll", "to": to, "name": "Lunch?", "options": ["Pizza", "Salad"] })),
        ("nested", json!({ "to": to, "body": { "type": "text", "text": "hello" } })),
    ]
}

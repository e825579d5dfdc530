//! A row of a phone's inbox: what reached it, in the words of the send body.

use model::address::Address;
use model::id::MessageId;
use model::media::Media;
use model::message::{Content, Surroundings};
use model::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InboxRow {
    pub id: MessageId,
    pub from: Address,
    pub to: Address,
    /// `type` and what belongs to it, and what stands around it; absent where there is nothing.
    #[serde(flatten)]
    pub says: Map<String, Value>,
    pub copies: u32,
    pub first_at: Timestamp,
}

impl InboxRow {
    pub(crate) fn new(
        id: MessageId,
        from: Address,
        to: Address,
        content: &Content,
        around: &Surroundings,
        (copies, first_at): (u32, Timestamp),
    ) -> Self {
        let mut says = of_content(content);
        says.append(&mut of_surroundings(around));
        says.retain(|_, value| !value.is_null());
        Self { id, from, to, says, copies, first_at }
    }
}

fn of_content(content: &Content) -> Map<String, Value> {
    let said = match content {
        Content::Text { text } => json!({ "text": text }),
        Content::Image { media, caption } | Content::Document { media, caption } => {
            with_media(media, json!({ "caption": caption }))
        }
        Content::Video { media, caption, gif, note } => {
            with_media(media, json!({ "caption": caption, "gif": gif, "ptv": note }))
        }
        Content::Audio { media } => with_media(media, json!({ "ptt": media.voice })),
        Content::Sticker { media, animated } => with_media(media, json!({ "animated": animated })),
        Content::Reaction { target, emoji } => json!({ "message_key": target, "emoji": emoji }),
        Content::Edit { target, text } => json!({ "message_key": target, "text": text }),
        Content::Delete { target, by_admin } => json!({ "message_key": target, "by_admin": by_admin }),
        Content::Location { latitude, longitude, name, address, live } => {
            json!({ "latitude": latitude, "longitude": longitude, "name": name, "address": address, "live": live })
        }
        Content::Contact { contacts } => json!({ "contacts": contacts }),
        Content::Poll { name, options, selectable_count } => {
            json!({ "name": name, "options": options, "selectable_count": selectable_count })
        }
        Content::Pin { target, duration_seconds } => json!({ "message_key": target, "duration": duration_seconds }),
        Content::Unpin { target } | Content::Star { target } | Content::Unstar { target } => {
            json!({ "message_key": target })
        }
        Content::Product { product_id } => json!({ "product_id": product_id }),
        // Stories come into no inbox.
        Content::Catalog | Content::Story(_) | Content::StoryDelete { .. } => json!({}),
        Content::PollVote { target, selected } => json!({ "message_key": target, "selected": selected }),
        Content::ButtonReply { id, title } | Content::ListReply { id, title } => {
            // `id` is the message's own name in a row.
            json!({ "reply_id": id, "title": title })
        }
        Content::Order { order_id, token, item_count, total_amount, currency } => json!({
            "order_id": order_id,
            "token": token,
            "item_count": item_count,
            "total_amount": total_amount,
            "currency": currency,
        }),
        Content::Event { name, start_at, end_at, location } => {
            json!({ "name": name, "start_at": start_at, "end_at": end_at, "location": location })
        }
        Content::Undecryptable { reason } => json!({ "reason": reason }),
        Content::Unknown { raw_type } => json!({ "raw_type": raw_type }),
    };
    let mut row = Map::from_iter([("type".to_owned(), content.type_name().into())]);
    if let Value::Object(said) = said {
        row.extend(said);
    }
    row
}

/// Media both as a phone sends it (`media`) and flat, as the gateway's send body has it.
fn with_media(media: &Media, mut said: Value) -> Value {
    let facts = json!({
        "mime_type": media.mime_type,
        "size": media.size_bytes,
        "sha256": media.sha256,
        "filename": media.filename,
        "width": media.width,
        "height": media.height,
        "duration_seconds": media.duration_seconds,
        "voice": media.voice,
        "view_once": media.view_once,
        "handle": media.handle,
    });
    for name in ["mime_type", "filename", "size", "sha256", "view_once"] {
        said[name] = facts[name].clone();
    }
    said["media"] = facts;
    said
}

fn of_surroundings(around: &Surroundings) -> Map<String, Value> {
    match serde_json::to_value(around) {
        Ok(Value::Object(around)) => around,
        // Surroundings are a struct of texts, numbers and lists.
        _ => Map::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::media::Sha256Hex;
    use model::message::{MessageKey, Quoted};

    use super::*;

    fn row(content: &Content, around: &Surroundings) -> Value {
        let address = |text| Address::parse(text).unwrap();
        let (from, to) = (address("1111@s.example"), address("2222@s.example"));
        let row = InboxRow::new(MessageId("A".into()), from, to, content, around, (1, Timestamp(0)));
        serde_json::to_value(row).unwrap()
    }

    #[test]
    fn media_is_shown_with_its_facts() {
        let media = Media {
            size_bytes: Some(3),
            filename: Some("a.pdf".into()),
            sha256: Some(Sha256Hex("ab".into())),
            ..Media::of_type("application/pdf")
        };
        let shown = row(&Content::Document { media, caption: None }, &Surroundings::default());
        assert_eq!(shown["type"], "document");
        assert_eq!(shown["media"]["size"], 3);
        assert_eq!((&shown["filename"], &shown["sha256"]), (&json!("a.pdf"), &json!("ab")));
        assert!(shown.get("caption").is_none());
    }

    #[test]
    fn targets_are_shown_as_message_keys_and_surroundings_beside_the_content() {
        let remote_jid = Address::parse("1111@s.example").unwrap();
        let target = MessageKey { id: MessageId("B".into()), from_me: true, remote_jid: remote_jid.clone() };
        let quoted = Quoted { message_id: MessageId("C".into()), from: remote_jid, text: Some("why".into()) };
        let around = Surroundings { quoted: Some(quoted), forwarded: true, ..Default::default() };
        let shown = row(&Content::Reaction { target, emoji: "👍".into() }, &around);
        let key = json!({ "id": "B", "from_me": true, "remote_jid": "1111@s.example" });
        assert_eq!((&shown["message_key"], &shown["emoji"]), (&key, &json!("👍")));
        assert_eq!((&shown["quoted"]["message_id"], &shown["forwarded"]), (&json!("C"), &json!(true)));
        assert_eq!(shown["id"], "A");
    }
}

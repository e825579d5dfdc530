//! Rows of a phone's inbox, in the terms of the send body.

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
    /// `type` with the fields of the type, and the context of the message; absent values are omitted.
    #[serde(flatten)]
    pub says: Map<String, Value>,
    pub copies: u32,
    pub first_at: Timestamp,
}

/// The fields that a row shows of a message.
pub(crate) fn says(content: &Content, around: &Surroundings) -> Map<String, Value> {
    let mut says = of_content(content);
    says.append(&mut of_surroundings(around));
    says.retain(|_, value| !value.is_null());
    says
}

fn of_content(content: &Content) -> Map<String, Value> {
    let mut row = content.fields();
    // `id` is the message's own id in a row.
    if let Some(id) = row.remove("id") {
        row.insert("reply_id".to_owned(), id);
    }
    row.insert("type".to_owned(), content.type_name().into());
    if let Some(media) = content.media() {
        add_media(media, &mut row);
    }
    if let Content::Audio { media } = content {
        row.insert("ptt".to_owned(), media.voice.into());
    }
    row
}

/// Adds media both as a phone sends it (`media`) and flat, as in the gateway's send body.
fn add_media(media: &Media, row: &mut Map<String, Value>) {
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
        row.insert(name.to_owned(), facts[name].clone());
    }
    row.insert("media".to_owned(), facts);
}

fn of_surroundings(around: &Surroundings) -> Map<String, Value> {
    match serde_json::to_value(around) {
        Ok(Value::Object(around)) => around,
        // `Surroundings` is a struct, so this arm is unreachable.
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
        let (id, says) = (MessageId("A".into()), says(content, around));
        serde_json::to_value(InboxRow { id, from, to, says, copies: 1, first_at: Timestamp(0) }).unwrap()
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

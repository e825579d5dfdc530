//! What a phone writes: the flat send shape of the interface with `media` in place of `media_url`, and the bodies that
//! only phones and the network send.

use model::id::MessageId;
use model::media::Media;
use model::message::{ContactCard, Content, MessageKey, UndecryptableReason};
use serde::Deserialize;

/// `POST /phones/{n}/messages`.
#[derive(Clone, Debug, Deserialize)]
pub struct PhoneMessage {
    /// A number, or an address of any kind. Not needed where a `message_key` says it.
    pub to: Option<String>,
    #[serde(default = "one")]
    pub count: u32,
    pub media: Option<GivenMedia>,
    /// The type, the file's name and `view_once` may stand in `media` as well.
    pub mime_type: Option<String>,
    pub filename: Option<String>,
    #[serde(default)]
    pub view_once: bool,
    pub message_key: Option<GivenKey>,
    pub quoted: Option<GivenKey>,
    /// Numbers, addresses, or `all`.
    #[serde(default)]
    pub mentions: Vec<String>,
    #[serde(default)]
    pub forwarded: bool,
    pub ephemeral_expiration: Option<u32>,
    pub link_preview: Option<GivenPreview>,
    /// The id of an `undecryptable` message of this phone: it comes again under that id, now with this content.
    pub recovers: Option<MessageId>,
    /// The id that the sender gives it, which may be one that another has used; minted unless given.
    pub message_id: Option<MessageId>,
    #[serde(flatten)]
    pub body: PhoneBody,
}

fn one() -> u32 {
    1
}

/// By its `type`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PhoneBody {
    Text {
        text: String,
    },
    Image {
        caption: Option<String>,
    },
    Video {
        caption: Option<String>,
        #[serde(default)]
        gif: bool,
        #[serde(default)]
        ptv: bool,
    },
    Audio {
        #[serde(default)]
        ptt: bool,
    },
    Voice,
    Document {
        caption: Option<String>,
    },
    Sticker {
        #[serde(default)]
        animated: bool,
    },
    Reaction {
        emoji: String,
    },
    Edit {
        text: String,
    },
    Delete,
    Location {
        latitude: f64,
        longitude: f64,
        name: Option<String>,
        address: Option<String>,
        #[serde(default)]
        live: bool,
    },
    Contact {
        contacts: Vec<GivenContact>,
    },
    Poll {
        name: String,
        options: Vec<String>,
        #[serde(default = "one_option")]
        selectable_count: u8,
    },
    Forward,
    Pin {
        #[serde(default = "a_week")]
        duration: u32,
    },
    Unpin,
    Star,
    Unstar,
    PollVote {
        selected: Vec<String>,
    },
    ButtonReply {
        id: String,
        title: String,
    },
    ListReply {
        id: String,
        title: String,
    },
    Order {
        order_id: String,
        #[serde(default)]
        token: String,
        #[serde(default)]
        item_count: u32,
        #[serde(default)]
        total_amount: i64,
        #[serde(default)]
        currency: String,
    },
    Event {
        name: String,
        /// Unix seconds.
        start_at: i64,
        end_at: Option<i64>,
        location: Option<String>,
    },
    Undecryptable {
        #[serde(default = "waiting")]
        reason: UndecryptableReason,
    },
    Unknown {
        raw_type: String,
    },
}

fn one_option() -> u8 {
    1
}

fn a_week() -> u32 {
    604_800
}

fn waiting() -> UndecryptableReason {
    UndecryptableReason::Waiting
}

/// Bytes to send: given ones, or as many as `size` says, which begin as the MIME type wants it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GivenMedia {
    pub mime_type: Option<String>,
    pub size: Option<u64>,
    pub base64: Option<String>,
    pub filename: Option<String>,
    pub voice: bool,
    pub view_once: bool,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub duration_seconds: Option<u32>,
}

/// A message key. The id is enough: the network knows the rest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GivenKey {
    pub id: MessageId,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GivenContact {
    pub name: String,
    #[serde(default)]
    pub phones: Vec<String>,
    pub vcard: Option<String>,
}

/// `true` makes one of the first link in the text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected true, false or a preview")]
pub enum GivenPreview {
    Wanted(bool),
    Given { url: Option<String>, title: Option<String>, description: Option<String>, image_url: Option<String> },
}

impl PhoneBody {
    /// What it says, with the bytes and the message that are asked for where it needs them; `None` where that is for another
    /// message to say.
    pub(crate) fn content<E>(
        self,
        media: impl FnOnce() -> Result<Media, E>,
        target: impl FnOnce() -> Result<MessageKey, E>,
    ) -> Result<Option<Content>, E> {
        Ok(Some(match self {
            Self::Text { text } => Content::Text { text },
            Self::Image { caption } => Content::Image { media: media()?, caption },
            Self::Video { caption, gif, ptv } => Content::Video { media: media()?, caption, gif, note: ptv },
            Self::Audio { .. } | Self::Voice => Content::Audio { media: media()? },
            Self::Document { caption } => Content::Document { media: media()?, caption },
            Self::Sticker { animated } => Content::Sticker { media: media()?, animated },
            Self::Reaction { emoji } => Content::Reaction { target: target()?, emoji },
            Self::Edit { text } => Content::Edit { target: target()?, text },
            Self::Delete => Content::Delete { target: target()?, by_admin: false },
            Self::Location { latitude, longitude, name, address, live } => {
                Content::Location { latitude, longitude, name, address, live }
            }
            Self::Contact { contacts } => Content::Contact { contacts: contacts.into_iter().map(card).collect() },
            Self::Poll { name, options, selectable_count } => Content::Poll { name, options, selectable_count },
            Self::Forward => return Ok(None),
            Self::Pin { duration } => Content::Pin { target: target()?, duration_seconds: duration },
            Self::Unpin => Content::Unpin { target: target()? },
            Self::Star => Content::Star { target: target()? },
            Self::Unstar => Content::Unstar { target: target()? },
            Self::PollVote { selected } => Content::PollVote { target: target()?, selected },
            Self::ButtonReply { id, title } => Content::ButtonReply { id, title },
            Self::ListReply { id, title } => Content::ListReply { id, title },
            Self::Order { order_id, token, item_count, total_amount, currency } => {
                Content::Order { order_id, token, item_count, total_amount, currency }
            }
            Self::Event { name, start_at, end_at, location } => Content::Event { name, start_at, end_at, location },
            Self::Undecryptable { reason } => Content::Undecryptable { reason },
            Self::Unknown { raw_type } => Content::Unknown { raw_type },
        }))
    }

    /// The MIME type that its media has when none is given; `None` for a body without media.
    pub(crate) fn default_mime_type(&self) -> Option<&'static str> {
        match self {
            Self::Image { .. } => Some("image/jpeg"),
            Self::Video { .. } => Some("video/mp4"),
            Self::Audio { .. } | Self::Voice => Some("audio/ogg"),
            Self::Document { .. } => Some("application/octet-stream"),
            Self::Sticker { .. } => Some("image/webp"),
            _ => None,
        }
    }
}

fn card(given: GivenContact) -> ContactCard {
    let GivenContact { name, phones, vcard } = given;
    let vcard = vcard.unwrap_or_else(|| {
        let phones: String = phones.iter().map(|phone| format!("TEL;type=CELL:+{phone}\n")).collect();
        format!("BEGIN:VCARD\nVERSION:3.0\nFN:{name}\n{phones}END:VCARD")
    });
    ContactCard { name, vcard, phones }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn parsed(json: &str) -> PhoneMessage {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn every_type_is_read_in_the_flat_shape() {
        let bodies = [
            r#""type":"text","text":"hi""#,
            r#""type":"image","media":{"size":10},"caption":"c","view_once":true"#,
            r#""type":"video","media":{"mime_type":"video/mp4","size":10},"ptv":true"#,
            r#""type":"audio","media":{"size":10,"voice":true}"#,
            r#""type":"voice","media":{"size":10}"#,
            r#""type":"document","media":{"base64":"aGk="},"filename":"a.txt""#,
            r#""type":"sticker","media":{"size":10}"#,
            r#""type":"reaction","message_key":{"id":"A","from_me":false,"remote_jid":"1@s.example"},"emoji":"x""#,
            r#""type":"edit","message_key":{"id":"A"},"text":"x""#,
            r#""type":"delete","message_key":{"id":"A"}"#,
            r#""type":"location","latitude":1,"longitude":-2.5"#,
            r#""type":"contact","contacts":[{"name":"Ann","phones":["1555"]}]"#,
            r#""type":"poll","name":"?","options":["a","b"]"#,
            r#""type":"forward","message_key":{"id":"A"}"#,
            r#""type":"pin","message_key":{"id":"A"},"duration":86400"#,
            r#""type":"unpin","message_key":{"id":"A"}"#,
            r#""type":"star","message_key":{"id":"A"}"#,
            r#""type":"unstar","message_key":{"id":"A"}"#,
            r#""type":"poll_vote","message_key":{"id":"A"},"selected":["a"]"#,
            r#""type":"button_reply","id":"1","title":"One""#,
            r#""type":"list_reply","id":"1","title":"One""#,
            r#""type":"order","order_id":"1","item_count":2,"total_amount":100,"currency":"EUR""#,
            r#""type":"event","name":"Party","start_at":1767225600"#,
            r#""type":"undecryptable""#,
            r#""type":"unknown","raw_type":"new_thing""#,
        ];
        for body in bodies {
            let message = parsed(&format!(r#"{{ "to": "15551234567", {body} }}"#));
            assert_eq!(message.count, 1, "{body}");
            let with_media = message.body.default_mime_type().is_some();
            assert_eq!(with_media, message.media.is_some(), "{body}");
        }
    }

    #[test]
    fn what_stands_around_a_message_is_read_beside_it() {
        let message = parsed(
            r#"{ "type": "text", "text": "see https://example.com", "to": "15551234567", "count": 3,
                 "quoted": { "id": "A" }, "mentions": ["all", "15550000001"], "forwarded": true,
                 "ephemeral_expiration": 86400, "link_preview": { "title": "Example" } }"#,
        );
        assert_eq!((message.count, message.mentions.len(), message.forwarded), (3, 2, true));
        assert!(matches!(message.link_preview, Some(GivenPreview::Given { .. })));
        assert_eq!(message.body, PhoneBody::Text { text: "see https://example.com".into() });
    }

    #[test]
    fn an_unknown_type_is_refused() {
        assert!(serde_json::from_str::<PhoneMessage>(r#"{ "to": "1555", "type": "telegram" }"#).is_err());
    }
}

//! The content of an inbound message, as `message.received` shows it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::media::{Media, MediaRef};
use crate::message::{ContactCard, Content, LinkPreview, MessageKey, Surroundings, UndecryptableReason};

/// Content of a received message.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReceivedBody {
    Text {
        /// The text.
        text: String,
        /// A preview of the first link in the text.
        #[serde(skip_serializing_if = "Option::is_none")]
        link_preview: Option<LinkPreview>,
    },
    Image {
        media: MediaRef,
        caption: Option<String>,
    },
    Video {
        media: MediaRef,
        caption: Option<String>,
        /// Whether the video is animated.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        animated: bool,
    },
    Sticker {
        media: MediaRef,
        caption: Option<String>,
        /// Whether the sticker is animated.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        animated: bool,
    },
    Audio {
        media: MediaRef,
    },
    Document {
        media: MediaRef,
        filename: Option<String>,
        caption: Option<String>,
    },
    Edit {
        message_key: MessageKey,
        /// The new text.
        text: String,
    },
    Delete {
        message_key: MessageKey,
        /// Whether an admin of the group deleted somebody else's message.
        by_admin: bool,
    },
    Location {
        latitude: f64,
        longitude: f64,
        /// Name of the place; `null` for none.
        name: Option<String>,
        address: Option<String>,
        /// Whether the location is updated continually.
        live: bool,
    },
    Contact {
        contacts: Vec<ContactCard>,
    },
    Poll {
        /// Question of the poll.
        name: String,
        options: Vec<String>,
        selectable_count: u8,
    },
    PollVote {
        message_key: MessageKey,
        /// The chosen options.
        selected: Vec<String>,
    },
    ButtonReply {
        /// Id of the chosen answer.
        id: String,
        /// The chosen answer.
        title: String,
    },
    ListReply {
        /// Id of the chosen answer.
        id: String,
        /// The chosen answer.
        title: String,
    },
    Order {
        /// Id of the order.
        order_id: String,
        token: String,
        /// Number of items ordered.
        item_count: u32,
        /// Total in thousandths of the currency's unit.
        total_amount: i64,
        currency: String,
    },
    Event {
        /// Name of the event.
        name: String,
        /// Start of the event in Unix seconds.
        start_at: i64,
        /// End of the event in Unix seconds; `null` if open.
        end_at: Option<i64>,
        /// Place of the event; `null` for none.
        location: Option<String>,
    },
    Undecryptable {
        reason: UndecryptableReason,
    },
    Unknown {
        /// Type of the message in the network; there is no body for it here.
        raw_type: String,
    },
}

impl Content {
    /// The name of the type in inbound messages: types that only occur under their name when sent are `unknown`.
    pub fn received_name(&self) -> &'static str {
        match self {
            Self::Pin { .. }
            | Self::Unpin { .. }
            | Self::Star { .. }
            | Self::Unstar { .. }
            | Self::Product { .. }
            | Self::Catalog
            | Self::Story(_)
            | Self::StoryDelete { .. } => "unknown",
            known => known.type_name(),
        }
    }
}

impl ReceivedBody {
    /// Halves the longest text of the body; `false` when nothing is left to halve.
    pub(crate) fn halve(&mut self) -> bool {
        match self {
            // Half a vCard is useless, so the whole one is dropped.
            Self::Contact { contacts } => {
                let longest = contacts.iter_mut().max_by_key(|card| card.vcard.len());
                longest.filter(|card| !card.vcard.is_empty()).is_some_and(|card| {
                    card.vcard.clear();
                    true
                })
            }
            body => body.text_mut().is_some_and(halve_text),
        }
    }

    /// The text to cut when the envelope is too large.
    fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Text { text, .. } | Self::Edit { text, .. } => Some(text),
            Self::Image { caption, .. }
            | Self::Video { caption, .. }
            | Self::Sticker { caption, .. }
            | Self::Document { caption, .. } => caption.as_mut(),
            _ => None,
        }
    }
}

impl ReceivedBody {
    /// The body of an event; `media_ref` renders its media. Content without a body of its own in the API, such as a
    /// pinned message, is `unknown` under its own name. A reaction has an event of its own.
    pub fn of(content: &Content, around: &Surroundings, media_ref: impl Fn(&Media) -> MediaRef) -> Self {
        match content.clone() {
            Content::Text { text } => Self::Text { text, link_preview: around.link_preview.clone() },
            Content::Image { media, caption } => Self::Image { media: media_ref(&media), caption },
            Content::Video { media, caption, gif, .. } => {
                Self::Video { media: media_ref(&media), caption, animated: gif }
            }
            Content::Sticker { media, animated } => Self::Sticker { media: media_ref(&media), caption: None, animated },
            Content::Audio { media } => Self::Audio { media: media_ref(&media) },
            Content::Document { media, caption } => {
                Self::Document { filename: media.filename.clone(), media: media_ref(&media), caption }
            }
            Content::Edit { target, text } => Self::Edit { message_key: target, text },
            Content::Delete { target, by_admin } => Self::Delete { message_key: target, by_admin },
            Content::Location { latitude, longitude, name, address, live } => {
                Self::Location { latitude, longitude, name, address, live }
            }
            Content::Contact { contacts } => Self::Contact { contacts },
            Content::Poll { name, options, selectable_count } => Self::Poll { name, options, selectable_count },
            Content::PollVote { target, selected } => Self::PollVote { message_key: target, selected },
            Content::ButtonReply { id, title } => Self::ButtonReply { id, title },
            Content::ListReply { id, title } => Self::ListReply { id, title },
            Content::Order { order_id, token, item_count, total_amount, currency } => {
                Self::Order { order_id, token, item_count, total_amount, currency }
            }
            Content::Event { name, start_at, end_at, location } => Self::Event { name, start_at, end_at, location },
            Content::Undecryptable { reason } => Self::Undecryptable { reason },
            Content::Unknown { raw_type } => Self::Unknown { raw_type },
            other @ (Content::Reaction { .. }
            | Content::Pin { .. }
            | Content::Unpin { .. }
            | Content::Star { .. }
            | Content::Unstar { .. }
            | Content::Product { .. }
            | Content::Catalog
            | Content::Story(_)
            | Content::StoryDelete { .. }) => Self::Unknown { raw_type: other.type_name().to_owned() },
        }
    }
}

/// Halves the text; returns whether there was any left.
fn halve_text(text: &mut String) -> bool {
    let had_some = !text.is_empty();
    text.truncate(text.floor_char_boundary(text.len() / 2));
    had_some
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::address::Address;
    use crate::id::MessageId;
    use crate::message::{ContactCard, MessageKey, UndecryptableReason};

    #[test]
    fn every_body_has_the_fields_of_its_type() {
        let key = || MessageKey {
            id: MessageId("3EB0A1".into()),
            from_me: false,
            remote_jid: Address::parse("1555@s.example").unwrap(),
        };
        let shown_key = json!({ "id": "3EB0A1", "from_me": false, "remote_jid": "1555@s.example" });
        let media = || Media { filename: Some("a.pdf".into()), ..Media::of_type("image/png") };
        let card = ContactCard { name: "Ann".into(), vcard: "BEGIN:VCARD".into(), phones: vec!["1555".into()] };
        let text = |text: &str| text.to_owned();
        let table: Vec<(Content, Value)> = vec![
            (Content::Text { text: text("hi") }, json!({ "type": "text", "text": "hi" })),
            (
                Content::Image { media: media(), caption: None },
                json!({ "type": "image", "media": "ref", "caption": null }),
            ),
            (
                Content::Video { media: media(), caption: Some(text("c")), gif: true, note: false },
                json!({ "type": "video", "media": "ref", "caption": "c", "animated": true }),
            ),
            (
                Content::Sticker { media: media(), animated: false },
                json!({ "type": "sticker", "media": "ref", "caption": null }),
            ),
            (Content::Audio { media: media() }, json!({ "type": "audio", "media": "ref" })),
            (
                Content::Document { media: media(), caption: None },
                json!({ "type": "document", "media": "ref", "filename": "a.pdf", "caption": null }),
            ),
            (
                Content::Edit { target: key(), text: text("b") },
                json!({ "type": "edit", "message_key": shown_key, "text": "b" }),
            ),
            (
                Content::Delete { target: key(), by_admin: true },
                json!({ "type": "delete", "message_key": shown_key, "by_admin": true }),
            ),
            (
                Content::Location { latitude: 1.5, longitude: -2.0, name: None, address: None, live: true },
                json!({ "type": "location", "latitude": 1.5, "longitude": -2.0, "name": null, "address": null, "live": true }),
            ),
            (
                Content::Contact { contacts: vec![card] },
                json!({ "type": "contact", "contacts": [{ "name": "Ann", "vcard": "BEGIN:VCARD", "phones": ["1555"] }] }),
            ),
            (
                Content::Poll { name: text("q"), options: vec![text("a")], selectable_count: 1 },
                json!({ "type": "poll", "name": "q", "options": ["a"], "selectable_count": 1 }),
            ),
            (
                Content::PollVote { target: key(), selected: vec![text("a")] },
                json!({ "type": "poll_vote", "message_key": shown_key, "selected": ["a"] }),
            ),
            (
                Content::ButtonReply { id: text("1"), title: text("t") },
                json!({ "type": "button_reply", "id": "1", "title": "t" }),
            ),
            (
                Content::ListReply { id: text("1"), title: text("t") },
                json!({ "type": "list_reply", "id": "1", "title": "t" }),
            ),
            (
                Content::Order {
                    order_id: text("o"),
                    token: text("t"),
                    item_count: 2,
                    total_amount: 1990,
                    currency: text("EUR"),
                },
                json!({ "type": "order", "order_id": "o", "token": "t", "item_count": 2, "total_amount": 1990, "currency": "EUR" }),
            ),
            (
                Content::Event { name: text("e"), start_at: 5, end_at: None, location: None },
                json!({ "type": "event", "name": "e", "start_at": 5, "end_at": null, "location": null }),
            ),
            (
                Content::Undecryptable { reason: UndecryptableReason::NoSession },
                json!({ "type": "undecryptable", "reason": "no_session" }),
            ),
            (Content::Unknown { raw_type: text("new") }, json!({ "type": "unknown", "raw_type": "new" })),
            (Content::Unpin { target: key() }, json!({ "type": "unknown", "raw_type": "unpin" })),
        ];
        for (content, expected) in table {
            let mut shown =
                serde_json::to_value(ReceivedBody::of(&content, &Surroundings::default(), MediaRef::not_here)).unwrap();
            if let Some(media) = shown.get_mut("media") {
                assert_eq!((&media["state"], &media["url"]), (&json!("pending"), &json!(null)));
                *media = json!("ref");
            }
            assert_eq!(shown, expected);
            assert_eq!(shown["type"], content.received_name());
        }
    }
}

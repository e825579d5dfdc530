//! What a message says, in either direction.
//!
//! Stored records and the driver carry these types; the interface's JSON shapes are made from them at the edge.

pub mod story;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::story::Story;
use crate::address::Address;
use crate::id::MessageId;
use crate::media::{Media, MediaKind};
use crate::time::Timestamp;

/// Names an existing message: its chat, its id, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageKey {
    pub id: MessageId,
    /// Whether the channel itself sent it.
    pub from_me: bool,
    /// The conversation that it is in.
    pub remote_jid: Address,
}

/// Declares what a message can be, with the interface's name of each: first what is stored, then what stands in no chat.
macro_rules! contents {
    (
        $($(#[$says:meta])* $stored:ident $({ $($field:tt)+ })? = $name:literal,)+
        ;
        $($(#[$tells:meta])* $passing:ident $(($boxed:ty))? $({ $($held:tt)+ })? = $passing_name:literal,)+
    ) => {
        /// The content of a message.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "type")]
        pub enum Content {
            $($(#[$says])* #[serde(rename = $name)] $stored $({ $($field)+ })?,)+
            $($(#[$tells])* #[serde(rename = $passing_name)] $passing $(($boxed))? $({ $($held)+ })?,)+
        }

        /// What a content is, without what it says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        pub enum ContentKind {
            $(#[serde(rename = $name)] $stored,)+
            $(#[serde(rename = $passing_name)] $passing,)+
        }

        /// The type names that a stored message can have.
        pub const TYPE_NAMES: &[&str] = &[$($name,)+];

        impl Content {
            /// The interface's name of the type.
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Self::$stored { .. } => $name,)+
                    $(Self::$passing { .. } => $passing_name,)+
                }
            }

            /// Which of them it is.
            pub fn kind(&self) -> ContentKind {
                match self {
                    $(Self::$stored { .. } => ContentKind::$stored,)+
                    $(Self::$passing { .. } => ContentKind::$passing,)+
                }
            }
        }
    };
}

contents! {
    /// A text.
    Text { text: String } = "text",
    /// A picture.
    Image { media: Media, caption: Option<String> } = "image",
    /// A film: `gif` plays in a loop and without sound, `note` is a round video note (`ptv`).
    Video { media: Media, caption: Option<String>, gif: bool, note: bool } = "video",
    /// A voice note when `media.voice` says so.
    Audio { media: Media } = "audio",
    /// A file.
    Document { media: Media, caption: Option<String> } = "document",
    /// A sticker.
    Sticker { media: Media, animated: bool } = "sticker",
    /// An emoji at a message; an empty one takes the reaction back.
    Reaction { target: MessageKey, emoji: String } = "reaction",
    /// Another text for a message.
    Edit { target: MessageKey, text: String } = "edit",
    /// Takes a message back: `by_admin`, when a group's admin does so with another one's message.
    Delete { target: MessageKey, by_admin: bool } = "delete",
    /// A place. One that is `live` goes on being updated, and is received only.
    Location { latitude: f64, longitude: f64, name: Option<String>, address: Option<String>, live: bool } = "location",
    /// Business cards.
    Contact { contacts: Vec<ContactCard> } = "contact",
    /// A question with answers to choose from.
    Poll { name: String, options: Vec<String>, selectable_count: u8 } = "poll",
    /// Pins a message for everybody in its chat.
    Pin { target: MessageKey, duration_seconds: u32 } = "pin",
    /// Takes a pin back.
    Unpin { target: MessageKey } = "unpin",
    /// Stars a message for the channel's own account only.
    Star { target: MessageKey } = "star",
    /// Takes a star back.
    Unstar { target: MessageKey } = "unstar",
    /// A product of a business catalog.
    Product { product_id: String } = "product",
    /// The channel's whole catalog.
    Catalog = "catalog",

    // What follows is received only.
    /// What somebody has chosen.
    PollVote { target: MessageKey, selected: Vec<String> } = "poll_vote",
    /// The button that somebody pressed.
    ButtonReply { id: String, title: String } = "button_reply",
    /// The row of a list that somebody picked.
    ListReply { id: String, title: String } = "list_reply",
    /// Products that somebody ordered.
    Order { order_id: String, token: String, item_count: u32, total_amount: i64, currency: String } = "order",
    /// Something that is to take place. Times are in Unix seconds.
    Event { name: String, start_at: i64, end_at: Option<i64>, location: Option<String> } = "event",
    /// A message that cannot be read, or not yet.
    Undecryptable { reason: UndecryptableReason } = "undecryptable",
    /// A type that this release does not know.
    Unknown { raw_type: String } = "unknown",
    ;
    /// Shown to an audience for a day, and no message of any chat.
    Story(Box<Story>) = "story",
    /// Takes a story back.
    StoryDelete { story: MessageId } = "story_delete",
}

/// Why a message could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum UndecryptableReason {
    Waiting,
    NoSession,
    Expired,
}

/// A person in a contact message. The vCard is always there: it is made from name and phones when only those were given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContactCard {
    pub name: String,
    pub vcard: String,
    /// Digits.
    pub phones: Vec<String>,
}

impl ContactCard {
    /// The bytes of all that it says.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.vcard.len() + self.phones.iter().map(String::len).sum::<usize>()
    }
}

/// What stands around a message's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Surroundings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Quoted>,
    /// Addresses of those who are mentioned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Address>,
    /// All members of the group are mentioned (`["all"]`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mentions_all: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_preview: Option<LinkPreview>,
    /// Seconds after which the message disappears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral_expiration: Option<u32>,
    /// Who wrote the message that this one is about, where that stands in a group and is not the channel's (sent only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_author: Option<Address>,
    /// When it was said, where a network writes that into the message: the same whoever sends it again (sent only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said_at: Option<Timestamp>,
    /// An undecryptable message of the same id came before (received only).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
}

impl Surroundings {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Without what is for a network alone.
    pub fn shown(&self) -> Self {
        Self { target_author: None, said_at: None, ..self.clone() }
    }
}

/// The message that a message answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quoted {
    pub message_id: MessageId,
    /// Its author.
    pub from: Address,
    /// Its text, where it is known and has one.
    pub text: Option<String>,
}

/// The preview of the first link in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkPreview {
    pub url: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub image_url: Option<String>,
}

/// The types that can be sent, by the names that bodies give them. Of the others, but for stories, a network takes none from a device.
pub const SEND_TYPES: &[&str] = &[
    "text", "image", "video", "audio", "document", "sticker", "reaction", "edit", "delete", "location", "contact",
    "poll", "forward", "pin", "unpin", "star", "unstar", "voice", "product", "catalog",
];

/// What several types hold under one name, borrowed as the content is.
macro_rules! held {
    ($content:expr, target) => {
        match $content {
            Content::Reaction { target, .. }
            | Content::Edit { target, .. }
            | Content::Delete { target, .. }
            | Content::Pin { target, .. }
            | Content::Unpin { target }
            | Content::Star { target }
            | Content::Unstar { target }
            | Content::PollVote { target, .. } => Some(target),
            _ => None,
        }
    };
    ($content:expr, media, $of_story:ident) => {
        match $content {
            Content::Image { media, .. }
            | Content::Video { media, .. }
            | Content::Audio { media }
            | Content::Document { media, .. }
            | Content::Sticker { media, .. } => Some(media),
            Content::Story(story) => story.says.$of_story(),
            _ => None,
        }
    };
}

impl ContentKind {
    /// Whether it is a story, or about one: it stands in no chat and in no history.
    pub fn is_story(self) -> bool {
        matches!(self, Self::Story | Self::StoryDelete)
    }
}

impl Content {
    /// The bytes that come with it.
    pub fn media(&self) -> Option<&Media> {
        held!(self, media, media)
    }

    /// As what its bytes are shown.
    pub fn media_kind(&self) -> Option<MediaKind> {
        match self {
            Self::Story(story) => story.says.media_kind(),
            other => MediaKind::parse(other.type_name()),
        }
    }

    pub fn media_mut(&mut self) -> Option<&mut Media> {
        held!(self, media, media_mut)
    }

    /// As [`ContentKind::is_story`].
    pub fn is_story(&self) -> bool {
        self.kind().is_story()
    }

    /// The message that this one is about.
    pub fn target(&self) -> Option<&MessageKey> {
        held!(self, target)
    }

    pub fn target_mut(&mut self) -> Option<&mut MessageKey> {
        held!(self, target)
    }

    /// What its type says, but for its bytes, by the names that the interface has for it. The three names of ours that
    /// are shown as others cannot name a field of another type.
    pub fn fields(&self) -> Map<String, Value> {
        // A content's fields are texts, numbers and lists, which always make an object.
        let Ok(Value::Object(mut fields)) = serde_json::to_value(self) else { return Map::new() };
        fields.retain(|name, _| !matches!(name.as_str(), "type" | "media"));
        for (own, shown) in [("target", "message_key"), ("note", "ptv"), ("duration_seconds", "duration")] {
            if let Some(value) = fields.remove(own) {
                fields.insert(shown.to_owned(), value);
            }
        }
        fields
    }

    /// Text, caption or edited text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text } | Self::Edit { text, .. } => Some(text),
            Self::Image { caption, .. } | Self::Video { caption, .. } | Self::Document { caption, .. } => {
                caption.as_deref()
            }
            _ => None,
        }
    }
}

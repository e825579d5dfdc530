//! What a message says, in either direction.
//!
//! Stored records and the driver carry these types; the interface's JSON shapes are made from them at the edge.

pub mod story;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The conversation in which it stands.
    pub remote_jid: Address,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    Text {
        text: String,
    },
    Image {
        media: Media,
        caption: Option<String>,
    },
    Video {
        media: Media,
        caption: Option<String>,
        /// Plays in a loop and without sound.
        gif: bool,
        /// A round video note (`ptv`).
        note: bool,
    },
    /// A voice note when `media.voice` says so.
    Audio {
        media: Media,
    },
    Document {
        media: Media,
        caption: Option<String>,
    },
    Sticker {
        media: Media,
        animated: bool,
    },
    Reaction {
        target: MessageKey,
        /// Empty takes the reaction back.
        emoji: String,
    },
    Edit {
        target: MessageKey,
        text: String,
    },
    Delete {
        target: MessageKey,
        /// By a group's admin, of a message that is not the admin's own.
        by_admin: bool,
    },
    Location {
        latitude: f64,
        longitude: f64,
        name: Option<String>,
        address: Option<String>,
        /// Goes on being updated. Received only.
        live: bool,
    },
    Contact {
        contacts: Vec<ContactCard>,
    },
    Poll {
        name: String,
        options: Vec<String>,
        selectable_count: u8,
    },
    /// Pins a message for everybody in its chat.
    Pin {
        target: MessageKey,
        duration_seconds: u32,
    },
    Unpin {
        target: MessageKey,
    },
    /// Stars a message for the channel's own account only.
    Star {
        target: MessageKey,
    },
    Unstar {
        target: MessageKey,
    },
    /// A product of a business catalog.
    Product {
        product_id: String,
    },
    /// The channel's whole catalog.
    Catalog,
    /// Shown to an audience for a day, and no message of any chat.
    Story(Box<Story>),
    /// Takes a story back.
    StoryDelete {
        story: MessageId,
    },

    // What follows is received only.
    PollVote {
        target: MessageKey,
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
        token: String,
        item_count: u32,
        total_amount: i64,
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
        reason: UndecryptableReason,
    },
    Unknown {
        raw_type: String,
    },
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

/// The type names that a stored message can have.
pub const TYPE_NAMES: &[&str] = &[
    "text",
    "image",
    "video",
    "audio",
    "document",
    "sticker",
    "reaction",
    "edit",
    "delete",
    "location",
    "contact",
    "poll",
    "pin",
    "unpin",
    "star",
    "unstar",
    "product",
    "catalog",
    "poll_vote",
    "button_reply",
    "list_reply",
    "order",
    "event",
    "undecryptable",
    "unknown",
];

impl Content {
    /// The interface's name of the type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Image { .. } => "image",
            Self::Video { .. } => "video",
            Self::Audio { .. } => "audio",
            Self::Document { .. } => "document",
            Self::Sticker { .. } => "sticker",
            Self::Reaction { .. } => "reaction",
            Self::Edit { .. } => "edit",
            Self::Delete { .. } => "delete",
            Self::Location { .. } => "location",
            Self::Contact { .. } => "contact",
            Self::Poll { .. } => "poll",
            Self::Pin { .. } => "pin",
            Self::Unpin { .. } => "unpin",
            Self::Star { .. } => "star",
            Self::Unstar { .. } => "unstar",
            Self::Product { .. } => "product",
            Self::Catalog => "catalog",
            Self::Story(_) => "story",
            Self::StoryDelete { .. } => "story_delete",
            Self::PollVote { .. } => "poll_vote",
            Self::ButtonReply { .. } => "button_reply",
            Self::ListReply { .. } => "list_reply",
            Self::Order { .. } => "order",
            Self::Event { .. } => "event",
            Self::Undecryptable { .. } => "undecryptable",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// The bytes that come with it.
    pub fn media(&self) -> Option<&Media> {
        match self {
            Self::Image { media, .. }
            | Self::Video { media, .. }
            | Self::Audio { media }
            | Self::Document { media, .. }
            | Self::Sticker { media, .. } => Some(media),
            Self::Story(story) => story.says.media(),
            _ => None,
        }
    }

    /// As what its bytes are shown.
    pub fn media_kind(&self) -> Option<MediaKind> {
        match self {
            Self::Image { .. } => Some(MediaKind::Image),
            Self::Video { .. } => Some(MediaKind::Video),
            Self::Audio { .. } => Some(MediaKind::Audio),
            Self::Document { .. } => Some(MediaKind::Document),
            Self::Sticker { .. } => Some(MediaKind::Sticker),
            Self::Story(story) => story.says.media_kind(),
            _ => None,
        }
    }

    pub fn media_mut(&mut self) -> Option<&mut Media> {
        match self {
            Self::Image { media, .. }
            | Self::Video { media, .. }
            | Self::Audio { media }
            | Self::Document { media, .. }
            | Self::Sticker { media, .. } => Some(media),
            Self::Story(story) => story.says.media_mut(),
            _ => None,
        }
    }

    /// Whether it is a story, or about one: it stands in no chat and in no history.
    pub fn is_story(&self) -> bool {
        matches!(self, Self::Story(_) | Self::StoryDelete { .. })
    }

    /// The message that this one is about.
    pub fn target(&self) -> Option<&MessageKey> {
        match self {
            Self::Reaction { target, .. }
            | Self::Edit { target, .. }
            | Self::Delete { target, .. }
            | Self::Pin { target, .. }
            | Self::Unpin { target }
            | Self::Star { target }
            | Self::Unstar { target }
            | Self::PollVote { target, .. } => Some(target),
            _ => None,
        }
    }

    pub fn target_mut(&mut self) -> Option<&mut MessageKey> {
        match self {
            Self::Reaction { target, .. }
            | Self::Edit { target, .. }
            | Self::Delete { target, .. }
            | Self::Pin { target, .. }
            | Self::Unpin { target }
            | Self::Star { target }
            | Self::Unstar { target }
            | Self::PollVote { target, .. } => Some(target),
            _ => None,
        }
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

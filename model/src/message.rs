//! The content of messages, inbound and outbound.
//!
//! Stored records and the driver use these types; the API's JSON shapes are derived from them at the edge.

pub mod story;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::story::Story;
use crate::address::Address;
use crate::id::MessageId;
use crate::media::{Media, MediaKind};
use crate::time::Timestamp;

/// Identifies a message by its chat, its id, and whether the channel sent it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageKey {
    pub id: MessageId,
    /// Whether the channel itself sent the message.
    pub from_me: bool,
    /// Address of the chat that contains the message.
    pub remote_jid: Address,
}

/// Declares the kinds of content with their API names: first those stored in a chat, then those in no chat.
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

        /// The kind of a content, without its data.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        pub enum ContentKind {
            $(#[serde(rename = $name)] $stored,)+
            $(#[serde(rename = $passing_name)] $passing,)+
        }

        /// Type names of stored messages.
        pub const TYPE_NAMES: &[&str] = &[$($name,)+];

        impl Content {
            /// The API's name of the type.
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Self::$stored { .. } => $name,)+
                    $(Self::$passing { .. } => $passing_name,)+
                }
            }

            /// The kind of this content.
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
    /// A video: `gif` plays in a loop without sound, `note` is a round video note (`ptv`).
    Video { media: Media, caption: Option<String>, gif: bool, note: bool } = "video",
    /// An audio file, or a voice note if `media.voice` is set.
    Audio { media: Media } = "audio",
    /// A file.
    Document { media: Media, caption: Option<String> } = "document",
    /// A sticker.
    Sticker { media: Media, animated: bool } = "sticker",
    /// An emoji on a message; an empty one removes the reaction.
    Reaction { target: MessageKey, emoji: String } = "reaction",
    /// Replaces the text of a message.
    Edit { target: MessageKey, text: String } = "edit",
    /// Deletes a message for everyone. `by_admin`: an admin of the group deletes another member's message.
    Delete { target: MessageKey, by_admin: bool } = "delete",
    /// A location. A `live` one keeps being updated, and is received only.
    Location { latitude: f64, longitude: f64, name: Option<String>, address: Option<String>, live: bool } = "location",
    /// Business cards.
    Contact { contacts: Vec<ContactCard> } = "contact",
    /// A question with answers to choose from.
    Poll { name: String, options: Vec<String>, selectable_count: u8 } = "poll",
    /// Pins a message for everyone in its chat.
    Pin { target: MessageKey, duration_seconds: u32 } = "pin",
    /// Removes a pin.
    Unpin { target: MessageKey } = "unpin",
    /// Stars a message, visible only to the channel's own account.
    Star { target: MessageKey } = "star",
    /// Removes a star.
    Unstar { target: MessageKey } = "unstar",
    /// A product of a business catalog.
    Product { product_id: String } = "product",
    /// The channel's whole catalog.
    Catalog = "catalog",

    // The following are received only.
    /// The options that a voter chose in a poll.
    PollVote { target: MessageKey, selected: Vec<String> } = "poll_vote",
    /// The button that the sender pressed.
    ButtonReply { id: String, title: String } = "button_reply",
    /// The list row that the sender picked.
    ListReply { id: String, title: String } = "list_reply",
    /// An order of products.
    Order { order_id: String, token: String, item_count: u32, total_amount: i64, currency: String } = "order",
    /// A scheduled event; times are Unix seconds.
    Event { name: String, start_at: i64, end_at: Option<i64>, location: Option<String> } = "event",
    /// A message that cannot be decrypted, or not yet.
    Undecryptable { reason: UndecryptableReason } = "undecryptable",
    /// A type that this release does not know.
    Unknown { raw_type: String } = "unknown",
    ;
    /// A story: shown to an audience for a day, in no chat.
    Story(Box<Story>) = "story",
    /// Deletes a story.
    StoryDelete { story: MessageId } = "story_delete",
}

/// Why the message could not be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum UndecryptableReason {
    Waiting,
    NoSession,
    Expired,
}

/// A contact in a message. `vcard` is always present: created from name and phones if only those were given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContactCard {
    pub name: String,
    pub vcard: String,
    /// Phone numbers as digits.
    pub phones: Vec<String>,
}

impl ContactCard {
    /// Total length of its texts, in bytes.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.vcard.len() + self.phones.iter().map(String::len).sum::<usize>()
    }
}

/// The context of a message's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Surroundings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Quoted>,
    /// Addresses of the mentioned members.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Address>,
    /// Whether all members of the group are mentioned (`["all"]`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mentions_all: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_preview: Option<LinkPreview>,
    /// Seconds after which the message disappears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral_expiration: Option<u32>,
    /// The author of the target message, if that is in a group and not the channel's own (sent only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_author: Option<Address>,
    /// When the message was created, for networks that write it into the message; kept when sent again (sent only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said_at: Option<Timestamp>,
    /// Whether an undecryptable message of the same id came before (received only).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
}

impl Surroundings {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A copy without the fields that are meant for the network only.
    pub fn shown(&self) -> Self {
        Self { target_author: None, said_at: None, ..self.clone() }
    }
}

/// The message that a message replies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quoted {
    pub message_id: MessageId,
    /// Author of the quoted message.
    pub from: Address,
    /// Text of the quoted message; `null` if unknown, or if it has none.
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

/// The types that can be sent, as bodies name them. Apart from stories, networks accept no other type from a device.
pub const SEND_TYPES: &[&str] = &[
    "text", "image", "video", "audio", "document", "sticker", "reaction", "edit", "delete", "location", "contact",
    "poll", "forward", "pin", "unpin", "star", "unstar", "voice", "product", "catalog",
];

/// Borrows the field of this name from the variants that have it.
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
    /// Whether it is a story or concerns one, and so is in no chat and no history.
    pub fn is_story(self) -> bool {
        matches!(self, Self::Story | Self::StoryDelete)
    }
}

impl Content {
    /// The media of the content.
    pub fn media(&self) -> Option<&Media> {
        held!(self, media, media)
    }

    /// The kind under which the media is shown.
    pub fn media_kind(&self) -> Option<MediaKind> {
        match self {
            Self::Story(story) => story.says.media_kind(),
            other => MediaKind::parse(other.type_name()),
        }
    }

    pub fn media_mut(&mut self) -> Option<&mut Media> {
        held!(self, media, media_mut)
    }

    /// See [`ContentKind::is_story`].
    pub fn is_story(&self) -> bool {
        self.kind().is_story()
    }

    /// The message that this content refers to.
    pub fn target(&self) -> Option<&MessageKey> {
        held!(self, target)
    }

    pub fn target_mut(&mut self) -> Option<&mut MessageKey> {
        held!(self, target)
    }

    /// The fields of the content, except its media, under their API names. The three names that are replaced occur in
    /// no other type, so that they cannot clash.
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

    /// Its text, caption or edited text.
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

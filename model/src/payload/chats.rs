//! What `chat.*` says.

use schemars::JsonSchema;
use serde::Serialize;

use crate::address::Address;
use crate::chat::Chat;

/// What changed of a chat. `labels` are those of the chat, or of messages in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ChatField {
    Unread,
    MutedUntil,
    EphemeralExpiration,
    Labels,
    Cleared,
    Deleted,
}

/// Flags of a chat changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChatUpdatedData")]
pub struct ChatUpdated {
    pub chat: Chat,
    /// Which of its fields changed.
    pub changed: Vec<ChatField>,
    /// Unix seconds.
    pub timestamp: i64,
    /// For filters by chat.
    #[serde(skip)]
    pub is_group: bool,
}

/// A chat went into the archive, or came out of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChatArchivedData")]
pub struct ChatArchived {
    pub chat_id: Address,
    pub archived: bool,
    /// Unix seconds.
    pub timestamp: i64,
    #[serde(skip)]
    pub is_group: bool,
}

/// A chat was pinned, or is no more.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChatPinnedData")]
pub struct ChatPinned {
    pub chat_id: Address,
    pub pinned: bool,
    /// Unix seconds.
    pub timestamp: i64,
    #[serde(skip)]
    pub is_group: bool,
}

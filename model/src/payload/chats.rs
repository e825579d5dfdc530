//! `chat.*` events (supplement 24).

use serde::Serialize;

use crate::address::Address;
use crate::chat::Chat;

/// What changed of a chat. `labels` are those of the chat, or of messages in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatField {
    Unread,
    MutedUntil,
    EphemeralExpiration,
    Labels,
    Cleared,
    Deleted,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatUpdated {
    pub chat: Chat,
    pub changed: Vec<ChatField>,
    /// Unix seconds.
    pub timestamp: i64,
    /// For filters by chat.
    #[serde(skip)]
    pub is_group: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatArchived {
    pub chat_id: Address,
    pub archived: bool,
    /// Unix seconds.
    pub timestamp: i64,
    #[serde(skip)]
    pub is_group: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatPinned {
    pub chat_id: Address,
    pub pinned: bool,
    /// Unix seconds.
    pub timestamp: i64,
    #[serde(skip)]
    pub is_group: bool,
}

//! Operations on the channel's own chats.

use model::address::Address;
use model::chat::{ChatChanges, SyncedChat};
use model::id::MessageId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChatOperation {
    /// Returns all chats of the account, including those from before it was linked.
    List,
    /// Patches the account's state, which all its devices share. If another device changed it at the same time, the
    /// network refuses the patch as a conflict, and the caller must build a new one.
    Change { chat: Address, changes: ChatChanges },
    Clear {
        chat: Address,
        /// Whether the chat itself is removed too, until the next message.
        delete: bool,
    },
    /// Sends read receipts to the authors.
    Read {
        chat: Address,
        /// The messages; an empty list means all unread ones.
        messages: Vec<MessageId>,
        /// In a group, the author of the messages.
        participant: Option<Address>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChatAnswer {
    Done,
    Chats(Vec<SyncedChat>),
}

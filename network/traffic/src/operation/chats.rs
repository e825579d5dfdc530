//! What is asked about the channel's own chats.

use model::address::Address;
use model::chat::{ChatChanges, SyncedChat};
use model::id::MessageId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChatOperation {
    /// All chats of the account, from before the gateway too.
    List,
    /// A patch of the account's state, which all its devices share. Where another device changed it in the same moment
    /// the network refuses it as a conflict, and it is to be made anew.
    Change { chat: Address, changes: ChatChanges },
    Clear {
        chat: Address,
        /// The chat itself goes too, until the next message.
        delete: bool,
    },
    /// Sends read receipts to the authors.
    Read {
        chat: Address,
        /// Empty: for all that is unread.
        messages: Vec<MessageId>,
        /// Whose messages they are, in a group.
        participant: Option<Address>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChatAnswer {
    Done,
    Chats(Vec<SyncedChat>),
}

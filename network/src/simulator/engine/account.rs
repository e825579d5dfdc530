//! What a subscriber keeps at the network for itself, the same on its phone and on all devices.

use std::collections::{BTreeMap, HashMap};

use model::chat::ChatFlags;

use super::message::Chat;
use crate::simulator::number::Number;

/// How many chats may be pinned.
const MOST_PINNED: usize = 3;

#[derive(Debug, Default)]
pub struct Account {
    /// Chats that are not as every new one is.
    pub chats: HashMap<Chat, ChatFlags>,
    /// The address book.
    pub book: BTreeMap<Number, String>,
}

impl Account {
    pub fn flags(&self, chat: Chat) -> ChatFlags {
        self.chats.get(&chat).cloned().unwrap_or_default()
    }

    pub fn set_flags(&mut self, chat: Chat, flags: ChatFlags) {
        if flags == ChatFlags::default() {
            self.chats.remove(&chat);
        } else {
            self.chats.insert(chat, flags);
        }
    }

    /// Whether one more chat may be pinned.
    pub fn may_pin(&self) -> bool {
        self.chats.values().filter(|flags| flags.pinned).count() < MOST_PINNED
    }
}

//! Data that a subscriber stores at the network, shared by its phone and all devices.

use std::collections::{BTreeMap, HashMap};

use model::chat::ChatFlags;
use model::privacy::{Privacy, ReadReceipts};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::SessionId;
use super::message::Chat;
use super::pictures::PictureId;
use super::subscriber::Subscriber;
use crate::simulator::number::Number;

/// Maximum number of pinned chats.
const MOST_PINNED: usize = 3;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// Chats whose flags differ from those of a new chat.
    pub chats: HashMap<Chat, ChatFlags>,
    /// The address book.
    pub book: BTreeMap<Number, String>,
    /// Blocked subscribers, with the time of the block.
    pub blocked: BTreeMap<Number, Timestamp>,
    pub about: Option<String>,
    pub picture: Option<PictureId>,
    /// Privacy settings except read receipts, which are a setting of the phone: see [`Subscriber::privacy`].
    pub privacy: Privacy,
    /// Whether a presence was ever shown.
    pub has_shown: bool,
    pub last_seen_at: Option<Timestamp>,
    /// Subscribers to the presence, each valid while the given session lives.
    #[serde(skip)]
    pub watchers: Vec<(Number, SessionId)>,
}

impl Subscriber {
    pub fn privacy(&self) -> Privacy {
        let read_receipts = if self.read_receipts { ReadReceipts::All } else { ReadReceipts::None };
        Privacy { read_receipts, ..self.account.privacy }
    }
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

    /// Whether another chat may be pinned.
    pub fn may_pin(&self) -> bool {
        self.chats.values().filter(|flags| flags.pinned).count() < MOST_PINNED
    }
}

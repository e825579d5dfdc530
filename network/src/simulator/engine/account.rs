//! What a subscriber keeps at the network for itself, the same on its phone and on all devices.

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

/// How many chats may be pinned.
const MOST_PINNED: usize = 3;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// Chats that are not as every new one is.
    pub chats: HashMap<Chat, ChatFlags>,
    /// The address book.
    pub book: BTreeMap<Number, String>,
    /// Whose messages do not arrive, and since when.
    pub blocked: BTreeMap<Number, Timestamp>,
    pub about: Option<String>,
    pub picture: Option<PictureId>,
    /// But for read receipts, which phones have beside it: see [`Subscriber::privacy`].
    pub privacy: Privacy,
    /// Whether a presence was ever shown.
    pub has_shown: bool,
    pub last_seen_at: Option<Timestamp>,
    /// Who wants to hear of the presence, while that session lives.
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

    /// Whether one more chat may be pinned.
    pub fn may_pin(&self) -> bool {
        self.chats.values().filter(|flags| flags.pinned).count() < MOST_PINNED
    }
}

//! The phone of an account: device 0, which holds real Signal sessions and decrypts what reaches it.
//!
//! - [`signal`]: its keys and sessions. [`inbox`]: what it read. [`content`]: what messages say.
//! - [`attachment`]: their media. [`again`]: what it does when the network has lost that.
//! - [`behave`]: what it does, by itself and when it is told.

mod again;
pub(crate) mod attachment;
pub mod behave;
pub(crate) mod content;
pub mod inbox;
pub mod signal;

use std::collections::{HashMap, HashSet, VecDeque};

use model::time::Timestamp;
use serde::Serialize;
use wacore_binary::Jid;
use waproto::whatsapp as wa;

use self::inbox::{Inbox, Item};
pub use self::signal::EncType;
use self::signal::Signal;
use crate::number::{DeviceAddress, Naming, Number};

/// How many of its own messages a phone keeps, to send them again and to do something about them.
const MAX_SENT: usize = 20_000;

/// How many receipts it remembers.
const MAX_RECEIPTS: usize = 100_000;

/// How many messages wait for a phone that is off.
const MAX_AWAY: usize = 100_000;

/// A ciphertext on its way to a phone.
#[derive(Clone)]
pub struct Arrival {
    pub id: String,
    pub from: DeviceAddress,
    /// How the sender named the phone, which is how its receipts name themselves.
    pub naming: Naming,
    /// Of a message to a group: the group's address.
    pub group: Option<Jid>,
    pub kind: EncType,
    pub bytes: Vec<u8>,
    pub at: Timestamp,
}

/// Where a phone writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chat {
    With(Number),
    Group(Jid),
}

impl Chat {
    pub fn jid(&self) -> Jid {
        match self {
            Self::With(number) => number.pn(),
            Self::Group(jid) => jid.clone(),
        }
    }
}

/// A message that a phone wrote, or another device of its account.
#[derive(Clone)]
pub struct Sent {
    pub to: Chat,
    pub message: wa::Message,
    /// For an own device alone, as keys are.
    pub peer: bool,
}

/// A receipt that reached a phone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReceiptRow {
    pub id: String,
    pub from: String,
    /// `delivered` where the wire has none.
    #[serde(rename = "type")]
    pub kind: String,
    pub at: Timestamp,
}

#[derive(Default)]
pub struct Phone {
    /// Made at its first use: most of many phones are never written to.
    signal: Option<Box<Signal>>,
    pub inbox: Inbox,
    sent: HashMap<String, Sent>,
    sent_order: VecDeque<String>,
    receipts: VecDeque<ReceiptRow>,
    /// Several devices of one reader send the same receipt: it is shown once.
    known_receipts: HashSet<(String, String, String)>,
    /// Under which its devices keep chats, contacts and settings in step: an id and the key.
    app_state_key: Option<([u8; 6], [u8; 32])>,
    /// How often it asked for what it could not read.
    asked: HashMap<(DeviceAddress, String), u8>,
    away: VecDeque<Arrival>,
    /// How many of its next messages to somebody are damaged on the wire.
    pub damage: HashMap<Number, u32>,
    /// Devices whose session it was made to forget: what it cannot read of these is no finding.
    pub forgotten: HashSet<DeviceAddress>,
}

impl Phone {
    pub fn signal(&mut self) -> &mut Signal {
        self.signal.get_or_insert_with(|| Box::new(Signal::generate()))
    }

    fn app_state_key(&mut self) -> ([u8; 6], [u8; 32]) {
        *self.app_state_key.get_or_insert_with(|| {
            // As the network has them: the number of the device that made it, and which of its keys it is.
            let [a, b, c, d] = rand::random::<[u8; 4]>();
            ([0, 0, a, b, c, d], rand::random())
        })
    }

    pub fn session_count(&self) -> usize {
        self.signal.as_ref().map_or(0, |signal| signal.session_count())
    }

    fn keep_sent(&mut self, id: &str, sent: Sent) {
        if self.sent.insert(id.to_owned(), sent).is_none() {
            self.sent_order.push_back(id.to_owned());
        }
        if self.sent_order.len() > MAX_SENT
            && let Some(oldest) = self.sent_order.pop_front()
        {
            self.sent.remove(&oldest);
        }
    }

    /// In which chat it has the message of an id.
    pub fn chat_of(&self, id: &str) -> Option<Chat> {
        let wrote = self.sent.get(id).map(|sent| sent.to.clone());
        wrote.or_else(|| self.inbox.by_id(id).map(Item::chat))
    }

    pub fn written(&self, id: &str) -> Option<&wa::Message> {
        self.sent.get(id).map(|sent| &sent.message)
    }

    pub fn take_receipt(&mut self, row: ReceiptRow) {
        let key = |row: &ReceiptRow| (row.id.clone(), row.from.clone(), row.kind.clone());
        if !self.known_receipts.insert(key(&row)) {
            return;
        }
        if self.receipts.len() == MAX_RECEIPTS
            && let Some(oldest) = self.receipts.pop_front()
        {
            self.known_receipts.remove(&key(&oldest));
        }
        self.receipts.push_back(row);
    }

    pub fn receipts(&self, id: Option<&str>) -> Vec<ReceiptRow> {
        self.receipts.iter().filter(|row| id.is_none_or(|id| row.id == id)).cloned().collect()
    }

    fn wait(&mut self, arrival: Arrival) {
        if self.away.len() == MAX_AWAY {
            self.away.pop_front();
        }
        self.away.push_back(arrival);
    }
}

//! The phone of an account: device 0, which has real Signal sessions and decrypts what it receives.
//!
//! - [`signal`]: its keys and sessions. [`inbox`]: received messages. [`content`]: contents of messages.
//! - [`attachment`]: media of messages. [`again`]: uploads media again that the network has lost.
//! - [`behave`]: actions, automatic or by the control API.

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

/// Maximum number of sent messages that a phone keeps, for retries and for later changes.
const MAX_SENT: usize = 20_000;

/// Maximum number of receipts that a phone remembers.
const MAX_RECEIPTS: usize = 100_000;

/// Maximum number of queued messages of a phone that is off.
const MAX_AWAY: usize = 100_000;

/// A ciphertext for a phone.
#[derive(Clone)]
pub struct Arrival {
    pub id: String,
    pub from: DeviceAddress,
    /// Whether the sender used the phone's number or LID; its receipts use the same.
    pub naming: Naming,
    /// The group's address, for a group message.
    pub group: Option<Jid>,
    pub kind: EncType,
    pub bytes: Vec<u8>,
    pub at: Timestamp,
}

/// A chat of a phone.
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

/// A message sent by a phone, or by another device of its account.
#[derive(Clone)]
pub struct Sent {
    pub to: Chat,
    pub message: wa::Message,
    /// The message is only for a device of the same account, such as a key.
    pub peer: bool,
}

/// A receipt that a phone has received.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReceiptRow {
    pub id: String,
    pub from: String,
    /// The receipt's type; `delivered` if the wire has none.
    #[serde(rename = "type")]
    pub kind: String,
    pub at: Timestamp,
}

#[derive(Default)]
pub struct Phone {
    /// Created at its first use: of many phones, most never get a message.
    signal: Option<Box<Signal>>,
    pub inbox: Inbox,
    sent: HashMap<String, Sent>,
    sent_order: VecDeque<String>,
    receipts: VecDeque<ReceiptRow>,
    /// Receipts already recorded: several devices of a reader send the same one.
    known_receipts: HashSet<(String, String, String)>,
    /// Id and key for synchronizing chats, contacts and settings between the account's devices.
    app_state_key: Option<([u8; 6], [u8; 32])>,
    /// Number of retries requested for each unreadable message.
    asked: HashMap<(DeviceAddress, String), u8>,
    away: VecDeque<Arrival>,
    /// Number of next messages to damage, by recipient.
    pub damage: HashMap<Number, u32>,
    /// Devices with forgotten sessions: unreadable messages from them are not findings.
    pub forgotten: HashSet<DeviceAddress>,
}

impl Phone {
    pub fn signal(&mut self) -> &mut Signal {
        self.signal.get_or_insert_with(|| Box::new(Signal::generate()))
    }

    fn app_state_key(&mut self) -> ([u8; 6], [u8; 32]) {
        *self.app_state_key.get_or_insert_with(|| {
            // A key id consists of the device number and a key number, as in the real network.
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

    /// The chat of a message.
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

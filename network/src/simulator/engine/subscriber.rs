//! A subscriber: the phone, what reached it, and its linked devices.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use model::address::{Address, Suffixes};
use model::id::MessageId;
use model::message::{Content, Surroundings};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::SessionId;
use super::mailbox::Mailbox;
use crate::driver::{Identity, InboundItem, InboundKind, InboundMessage, ItemId, Receipt, ReceiptStatus};
use crate::simulator::answers::{InboxRow, PhoneSettings};
use crate::simulator::number::Number;

/// A message, held once and shared by the ledger, inboxes and mailboxes.
#[derive(Debug)]
pub struct Message {
    pub id: Arc<str>,
    pub from: Number,
    /// The device that sent it; `None` when the phone did.
    pub device: Option<u32>,
    /// As the sender addressed it.
    pub to: Address,
    pub content: Content,
    pub around: Surroundings,
    pub at: Timestamp,
}

impl Message {
    pub fn message_id(&self) -> MessageId {
        MessageId(self.id.to_string())
    }
}

#[derive(Debug)]
pub struct Subscriber {
    pub number: Number,
    pub name: Option<Box<str>>,
    pub online: bool,
    pub read_receipts: bool,
    pub business: bool,
    pub hide_number: bool,
    pub auto_read_ms: Option<u32>,
    pub ban: Option<Ban>,
    pub devices: Vec<Device>,
    next_device: u32,
    /// Whose numbers were disclosed to this one.
    pub disclosed: HashSet<Number>,
    /// What came while the phone was away, with the number of its copies.
    pub waiting: Vec<(Arc<Message>, u32)>,
    inbox: VecDeque<InboxEntry>,
    /// How many entries were ever removed from the inbox's front: positions stay true when it is cleared.
    inbox_start: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// `None`: until the number is deleted.
    pub until: Option<Timestamp>,
}

/// A linked device: one pairing of a channel.
#[derive(Debug)]
pub struct Device {
    pub id: u32,
    pub secret: [u8; 32],
    pub linked_at: Timestamp,
    pub standing: Standing,
    pub live: Option<SessionId>,
    pub mailbox: Mailbox<Kept>,
    /// Sends of this device are answered no earlier: so they keep their order under random delays.
    pub answers_from: Timestamp,
}

/// Whether a device may log in. One that may not is remembered, to be told why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Linked,
    Unlinked,
    Invalidated,
}

/// What a device shows at login. Opaque to the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    pub number: u64,
    pub device: u32,
    pub secret: [u8; 32],
}

#[derive(Debug)]
pub struct InboxEntry {
    pub message: Arc<Message>,
    pub copies: u32,
    pub first_at: Timestamp,
    pub read: bool,
}

/// An inbound item as a mailbox keeps it: small, and the same at every delivery.
#[derive(Debug)]
pub enum Kept {
    Message { message: Arc<Message>, shown: Shown, push_name: Option<Box<str>> },
    Receipt { message: Arc<Message>, status: ReceiptStatus, at: Timestamp },
    LidDisclosed { number: Number, at: Timestamp },
}

/// How the sender of an inbound message is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Phone,
    Lid,
    LidWithPhone,
}

impl Subscriber {
    pub fn new(number: Number) -> Self {
        Self {
            number,
            name: None,
            online: true,
            read_receipts: true,
            business: false,
            hide_number: false,
            auto_read_ms: None,
            ban: None,
            devices: Vec::new(),
            next_device: 1,
            disclosed: HashSet::new(),
            waiting: Vec::new(),
            inbox: VecDeque::new(),
            inbox_start: 0,
        }
    }

    /// Takes over the settings that are given.
    pub fn set(&mut self, settings: &PhoneSettings) {
        if let Some(name) = &settings.name {
            self.name = Some(name.as_str().into());
        }
        self.online = settings.online.unwrap_or(self.online);
        self.read_receipts = settings.read_receipts.unwrap_or(self.read_receipts);
        self.business = settings.business.unwrap_or(self.business);
        self.hide_number = settings.hide_number.unwrap_or(self.hide_number);
        self.auto_read_ms = settings.auto_read_ms.unwrap_or(self.auto_read_ms);
    }

    pub fn identity(&self) -> Identity {
        Identity {
            phone_number: self.number.to_string(),
            lid: Some(self.number.lid()),
            push_name: self.name.as_deref().map(str::to_owned),
        }
    }

    /// The ban in force, if any.
    pub fn banned(&self, now: Timestamp) -> Option<Ban> {
        self.ban.filter(|ban| ban.until.is_none_or(|until| now < until))
    }

    /// How this subscriber's messages are addressed towards another.
    pub fn shown_to(&self, recipient: &Self) -> Shown {
        match (self.hide_number, recipient.disclosed.contains(&self.number)) {
            (false, _) => Shown::Phone,
            (true, false) => Shown::Lid,
            (true, true) => Shown::LidWithPhone,
        }
    }

    pub fn device(&self, id: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.id == id)
    }

    pub fn device_mut(&mut self, id: u32) -> Option<&mut Device> {
        self.devices.iter_mut().find(|device| device.id == id)
    }

    /// The devices that are linked now.
    pub fn linked(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.standing == Standing::Linked)
    }

    /// A device, while it is linked.
    pub fn linked_mut(&mut self, id: u32) -> Option<&mut Device> {
        self.device_mut(id).filter(|device| device.standing == Standing::Linked)
    }

    /// A name for a device to come.
    pub fn next_device_id(&mut self) -> u32 {
        let id = self.next_device;
        self.next_device += 1;
        id
    }

    /// Puts a message into the inbox and says at which position it stands for ever.
    pub fn receive(&mut self, message: Arc<Message>, copies: u32, now: Timestamp) -> u64 {
        self.inbox.push_back(InboxEntry { message, copies, first_at: now, read: false });
        self.inbox_start + self.inbox.len() as u64 - 1
    }

    /// The entry of a message that reached the phone before.
    pub fn received(&mut self, message: &Arc<Message>) -> Option<&mut InboxEntry> {
        self.inbox.iter_mut().rev().find(|entry| Arc::ptr_eq(&entry.message, message))
    }

    pub fn inbox(&self) -> impl Iterator<Item = &InboxEntry> {
        self.inbox.iter()
    }

    /// The entry at a position, unless it was cleared away.
    pub fn inbox_entry(&mut self, position: u64) -> Option<&mut InboxEntry> {
        let index = position.checked_sub(self.inbox_start)?;
        self.inbox.get_mut(usize::try_from(index).ok()?)
    }

    /// Marks everything from a sender as read and returns what was not.
    pub fn read_all_from(&mut self, sender: Number) -> Vec<Arc<Message>> {
        let unread = self.inbox.iter_mut().filter(|entry| entry.message.from == sender && !entry.read);
        unread
            .map(|entry| {
                entry.read = true;
                Arc::clone(&entry.message)
            })
            .collect()
    }

    pub fn clear_inbox(&mut self) {
        self.inbox_start += self.inbox.len() as u64;
        self.inbox = VecDeque::new();
    }
}

impl InboxEntry {
    pub fn row(&self, suffixes: &Suffixes) -> InboxRow {
        InboxRow {
            id: self.message.message_id(),
            from: suffixes.phone_address(&self.message.from.to_string()),
            to: self.message.to.clone(),
            content: self.message.content.clone(),
            copies: self.copies,
            first_at: self.first_at,
        }
    }
}

impl Kept {
    /// The item as it goes to a device of `owner`.
    pub fn item(&self, id: ItemId, owner: Number, suffixes: &Suffixes) -> InboundItem {
        let phone = |number: Number| suffixes.phone_address(&number.to_string());
        match self {
            Self::Message { message, shown, push_name } => {
                let (from, from_phone) = match shown {
                    Shown::Phone => (phone(message.from), None),
                    Shown::Lid => (message.from.lid(), None),
                    Shown::LidWithPhone => (message.from.lid(), Some(phone(message.from))),
                };
                let kind = InboundKind::Message(InboundMessage {
                    id: message.message_id(),
                    chat: from.clone(),
                    from,
                    from_phone,
                    to: phone(owner),
                    push_name: push_name.as_deref().map(str::to_owned),
                    content: message.content.clone(),
                    around: message.around.clone(),
                });
                InboundItem { id, at: message.at, kind }
            }
            Self::Receipt { message, status, at } => {
                let kind = InboundKind::Receipt(Receipt {
                    message_id: message.message_id(),
                    chat: message.to.clone(),
                    participant: None,
                    status: *status,
                });
                InboundItem { id, at: *at, kind }
            }
            Self::LidDisclosed { number, at } => {
                let kind = InboundKind::LidDisclosed { lid: number.lid(), phone: phone(*number) };
                InboundItem { id, at: *at, kind }
            }
        }
    }
}

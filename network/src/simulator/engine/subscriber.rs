//! A subscriber: the phone, its inbox, and its linked devices.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use model::address::{Address, Suffixes};
use model::message::Surroundings;
use model::presence::Presence;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::SessionId;
use super::account::Account;
use super::mailbox::Mailbox;
use super::message::{self, Chat, Message};
use super::pairing::LinkAs;
use crate::driver::{Identity, InboundItem, InboundKind, InboundMessage, ItemId, Receipt, ReceiptStatus};
use crate::notice::Notice;
use crate::simulator::answers::{PhoneSettings, PresenceRow};
use crate::simulator::number::Number;
use crate::wire::SessionFrame;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subscriber {
    pub number: Number,
    pub name: Option<Arc<str>>,
    pub online: bool,
    pub read_receipts: bool,
    pub business: bool,
    pub hide_number: bool,
    pub auto_read_ms: Option<u32>,
    pub ban: Option<Ban>,
    pub devices: Vec<Device>,
    next_device: u32,
    /// Data that the subscriber stores at the network.
    pub account: Account,
    /// Subscribers whose numbers were disclosed to this one.
    pub disclosed: HashSet<Number>,
    /// The presence that its devices report: `available` or `unavailable`.
    pub presence: Presence,
    /// Presences that others showed in chats with it, newest first.
    pub presences: VecDeque<PresenceRow>,
    /// Messages that arrived while the phone was offline, each with its number of copies.
    #[serde(with = "message::numbered_with")]
    pub waiting: Vec<(Arc<Message>, u32)>,
    inbox: VecDeque<InboxEntry>,
    /// Number of entries removed from the front of the inbox, so that positions stay valid when it is cleared.
    inbox_start: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ban {
    /// `None`: until the number is deleted.
    pub until: Option<Timestamp>,
}

/// A linked device: one pairing of a channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Device {
    pub id: u32,
    pub link_as: LinkAs,
    pub secret: [u8; 32],
    pub linked_at: Timestamp,
    pub standing: Standing,
    #[serde(skip)]
    pub live: Option<SessionId>,
    pub mailbox: Mailbox<Kept>,
    /// Answers to requests of the live session, each with the number of the last item that must be sent before it.
    #[serde(skip)]
    pub answers: VecDeque<(u64, SessionFrame)>,
    /// Sends of this device are answered no earlier than this, which keeps their order under random delays.
    #[serde(skip)]
    pub answers_from: Timestamp,
}

/// Whether a device may log in. Devices that may not are remembered, so that they can be told why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    Linked,
    Unlinked,
    Invalidated,
}

/// The credentials that a device presents at login. Opaque to the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    pub number: u64,
    pub device: u32,
    pub secret: [u8; 32],
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InboxEntry {
    #[serde(with = "message::numbered")]
    pub message: Arc<Message>,
    pub copies: u32,
    pub first_at: Timestamp,
    pub read: bool,
    pub played: bool,
}

/// An inbound item as a mailbox stores it: small, and identical at every delivery.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Kept {
    Message {
        #[serde(with = "message::numbered")]
        message: Arc<Message>,
        shown: Shown,
        /// How the author of the quoted message is addressed.
        quoted: Shown,
        push_name: Option<Arc<str>>,
    },
    /// A message from the owner's phone or another of its devices.
    Own {
        #[serde(with = "message::numbered")]
        message: Arc<Message>,
    },
    Receipt {
        #[serde(with = "message::numbered")]
        message: Arc<Message>,
        status: ReceiptStatus,
        at: Timestamp,
        /// The acknowledging member in a group.
        participant: Option<(Number, Shown)>,
    },
    LidDisclosed {
        number: Number,
        at: Timestamp,
    },
    Notice {
        at: Timestamp,
        notice: Box<Notice>,
    },
}

/// How the sender of an inbound message is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
            account: Account::default(),
            disclosed: HashSet::new(),
            presence: Presence::Unavailable,
            presences: VecDeque::new(),
            waiting: Vec::new(),
            inbox: VecDeque::new(),
            inbox_start: 0,
        }
    }

    /// Applies the given settings.
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

    /// The current ban, if any.
    pub fn banned(&self, now: Timestamp) -> Option<Ban> {
        self.ban.filter(|ban| ban.until.is_none_or(|until| now < until))
    }

    pub fn device(&self, id: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.id == id)
    }

    pub fn device_mut(&mut self, id: u32) -> Option<&mut Device> {
        self.devices.iter_mut().find(|device| device.id == id)
    }

    /// The devices that are currently linked.
    pub fn linked(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.standing == Standing::Linked)
    }

    /// A device, if it is currently linked.
    pub fn linked_mut(&mut self, id: u32) -> Option<&mut Device> {
        self.device_mut(id).filter(|device| device.standing == Standing::Linked)
    }

    /// Allocates a device id.
    pub fn next_device_id(&mut self) -> u32 {
        let id = self.next_device;
        self.next_device += 1;
        id
    }

    /// Adds a message to the inbox and returns its permanent position.
    pub fn receive(&mut self, message: Arc<Message>, copies: u32, now: Timestamp) -> u64 {
        self.inbox.push_back(InboxEntry { message, copies, first_at: now, read: false, played: false });
        self.inbox_start + self.inbox.len() as u64 - 1
    }

    /// The entry of a message that reached the phone.
    pub fn received(&mut self, message: &Arc<Message>) -> Option<&mut InboxEntry> {
        self.inbox.iter_mut().rev().find(|entry| Arc::ptr_eq(&entry.message, message))
    }

    pub fn inbox(&self) -> impl Iterator<Item = &InboxEntry> {
        self.inbox.iter()
    }

    /// The entry at a position, unless it was cleared.
    pub fn inbox_entry(&mut self, position: u64) -> Option<&mut InboxEntry> {
        let index = position.checked_sub(self.inbox_start)?;
        self.inbox.get_mut(usize::try_from(index).ok()?)
    }

    /// The last message with this id that reached the phone.
    pub fn received_as(&mut self, id: &str) -> Option<&mut InboxEntry> {
        self.inbox.iter_mut().rev().find(|entry| &*entry.message.id == id)
    }

    /// Marks everything in a chat as read, including messages that wait for the phone; returns what was unread.
    pub fn read_all_in(&mut self, chat: Chat) -> Vec<Arc<Message>> {
        let owner = self.number;
        let is_there = |message: &Message| message.chat_for(owner) == chat;
        let unread = self.inbox.iter_mut().filter(|entry| !entry.read && is_there(&entry.message));
        let unread = unread.map(|entry| {
            entry.read = true;
            Arc::clone(&entry.message)
        });
        let waiting = self.waiting.iter().filter(|(message, _)| is_there(message));
        unread.chain(waiting.map(|(message, _)| Arc::clone(message))).collect()
    }

    /// Inbox positions of unread messages.
    pub fn unread(&self) -> impl Iterator<Item = u64> {
        (self.inbox_start..).zip(&self.inbox).filter(|(_, entry)| !entry.read).map(|(position, _)| position)
    }

    /// Resets what does not survive the process: presence, sessions and answers.
    pub fn begin_anew(&mut self) {
        self.presence = Presence::Unavailable;
        for device in &mut self.devices {
            device.mailbox.rewind();
        }
    }

    pub fn clear_inbox(&mut self) {
        self.inbox_start += self.inbox.len() as u64;
        self.inbox = VecDeque::new();
    }
}

impl Shown {
    /// The addresses of a number that is shown in this way.
    fn addresses(self, number: Number, suffixes: &Suffixes) -> (Address, Option<Address>) {
        let phone = suffixes.phone_address(&number.to_string());
        match self {
            Self::Phone => (phone, None),
            Self::Lid => (number.lid(), None),
            Self::LidWithPhone => (number.lid(), Some(phone)),
        }
    }

    pub fn address(self, number: Number, suffixes: &Suffixes) -> Address {
        self.addresses(number, suffixes).0
    }
}

impl Kept {
    /// The item as it is sent to a device of `owner`.
    pub fn item(&self, id: ItemId, owner: Number, suffixes: &Suffixes) -> InboundItem {
        let phone = |number: Number| suffixes.phone_address(&number.to_string());
        let (at, kind) = match self {
            Self::Message { message, shown, quoted, push_name } => {
                let (from, from_phone, chat, to) = match message.chat {
                    Chat::Direct(_) => {
                        let (from, from_phone) = shown.addresses(message.from, suffixes);
                        (from.clone(), from_phone, from, phone(owner))
                    }
                    Chat::Group(_) => {
                        let (from, from_phone) = shown.addresses(message.from, suffixes);
                        (from, from_phone, message.to.clone(), message.to.clone())
                    }
                    // Newsletters do not show which admin wrote.
                    Chat::Newsletter(_) => (message.to.clone(), None, message.to.clone(), message.to.clone()),
                };
                let kind = InboundKind::Message(InboundMessage {
                    id: message.message_id(),
                    content: message.content_for(owner, &chat),
                    around: around_for(message, *quoted, suffixes),
                    chat,
                    from,
                    from_phone,
                    to,
                    push_name: push_name.as_deref().map(str::to_owned),
                });
                (message.at, kind)
            }
            Self::Own { message } => {
                let kind = InboundKind::OwnMessage(InboundMessage {
                    id: message.message_id(),
                    content: message.content_for(owner, &message.to),
                    around: around_for(message, Shown::Phone, suffixes),
                    chat: message.to.clone(),
                    from: phone(owner),
                    from_phone: None,
                    to: message.to.clone(),
                    push_name: None,
                });
                (message.at, kind)
            }
            Self::Receipt { message, status, at, participant } => {
                let kind = InboundKind::Receipt(Receipt {
                    message_id: message.message_id(),
                    chat: message.to.clone(),
                    participant: participant.map(|(member, shown)| shown.address(member, suffixes)),
                    status: *status,
                });
                (*at, kind)
            }
            Self::LidDisclosed { number, at } => {
                (*at, InboundKind::LidDisclosed { lid: number.lid(), phone: phone(*number) })
            }
            Self::Notice { at, notice } => (*at, InboundKind::Notice(notice.clone())),
        };
        InboundItem { id, at, kind }
    }
}

/// The context of a message, with the author of the quoted message as the reader knows them.
fn around_for(message: &Message, quoted: Shown, suffixes: &Suffixes) -> Surroundings {
    let mut around = message.around.as_deref().cloned().unwrap_or_default();
    if let (Some(quote), Some(author)) = (&mut around.quoted, message.quoted_from) {
        quote.from = quoted.address(author, suffixes);
    }
    around
}

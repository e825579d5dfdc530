//! Items that the network sends to a channel: committed first, acknowledged afterwards.

use model::address::{Address, AddressKind};
use model::event::{EventId, NetworkItem};
use model::format::Format;
use model::id::{MessageId, RowId};
use model::media::{Media, MediaRef};
use model::message::{Content, Surroundings};
use model::payload::{
    Chat, ContactResolved, MessageReaction, MessageReceived, Payload, ReceivedBody, SendSource, Sender,
};
use model::time::Timestamp;
use network::driver::{InboundItem, InboundKind, InboundMessage};
use raft::failpoint::{self, Point};
use raft::machine::View;

use super::channel::{Batch, Channel, OnCommit};
use super::events::About;
use super::sends::{about, chat_of, sent_payload};
use crate::command::{Command, NewEvent};
use crate::figures;
use crate::history::{Direction, Source};
use crate::projection::{self, contacts};
use crate::records::{MessageRow, decode};
use crate::trace::{self, Kind, Place};
use crate::{keys, sameness};

/// Maximum bytes of a message's events with their deliveries; together with its row they go into one log entry. The
/// item is within [`InboundItem::fit`] here, but JSON may take six times the bytes of a text.
const LARGEST_EVENT: usize = 512 << 10;

/// Distinguishes the event of a recovered message from that of the undecryptable one.
const RECOVERED: &str = "recovered";

impl Channel {
    /// Adds an item to the batch; it is acknowledged once the batch is committed. `is_cut`: the item was truncated.
    pub fn take_inbound(&mut self, batch: &mut Batch, item: InboundItem, is_cut: bool) {
        failpoint::reach(Point::InboundBeforeCommit);
        let InboundItem { id, at, kind } = item;
        match kind {
            InboundKind::Message(message) => self.receive(batch, message, at, is_cut),
            InboundKind::OwnMessage(message) => self.receive_own(batch, message, at),
            InboundKind::Receipt(receipt) => self.take_receipt(batch, receipt, at),
            InboundKind::LidDisclosed { lid, phone } => self.learn_lid(batch, lid, phone, at),
            InboundKind::Notice(notice) => self.take_notice(batch, &id, *notice, at),
            InboundKind::Synced(part) => {
                self.project_in(batch, at, |rows, context| projection::take_synced(&part, rows, context));
            }
        }
        batch.on_commit.push(OnCommit::Acknowledge(id));
    }

    fn receive(&mut self, batch: &mut Batch, message: InboundMessage, at: Timestamp, is_cut: bool) {
        if let (true, Some(phone)) = (message.from.is_lid(), &message.from_phone) {
            self.learn_lid(batch, message.from.clone(), phone.clone(), at);
        }
        // Several people may send messages of one id at the same time, so chat and author are part of the event id: as
        // the network gave them, so that a repeat gets the same id.
        let is_named = self.owner.node.directory.format() >= Format::THIRD;
        let named = is_named.then(|| format!("|{}|{}", message.chat, message.from));
        let sender = self.sender_of(&message, batch);
        let is_group = self.is_group(&message.chat);
        // A direct chat is named by the peer's best address, as replies to it are.
        let chat = if is_group || message.chat != message.from { message.chat } else { sender.from().clone() };
        let now = Timestamp::now();
        let id = RowId::new();
        let mut row = MessageRow {
            id,
            message_id: message.id,
            channel: self.row.id,
            direction: Direction::Inbound,
            source: Source::Network,
            participant: is_group.then(|| sender.from().clone()),
            chat,
            is_group,
            from: sender.from().clone(),
            from_resolved: sender.is_resolved(),
            from_lid: sender.lid().cloned(),
            from_phone: sender.phone_address().cloned(),
            // A group's messages are addressed to its members, here to this channel.
            to: if is_group { self.own_address() } else { message.to },
            push_name: message.push_name,
            content: message.content,
            around: message.around,
            client_ref: None,
            request_id: None,
            correlation_id: format!("cor_{}", id.0.simple()),
            occurred_at: at,
            created_at: now,
        };
        self.settle_addresses(batch, &mut row);
        let unread = self.undecryptable(batch, &row);
        row.around.recovered |= unread.is_some();
        if let Some(unread) = &unread {
            row.id = unread.id;
            row.occurred_at = unread.occurred_at;
            row.correlation_id.clone_from(&unread.correlation_id);
        }
        metrics::counter!("gateway_inbound_total", "type" => row.content.type_name()).increment(1);
        figures::received();
        if let Some(span) = trace::begin(&row.correlation_id, Place::First, Kind::Consumer, || "receive".to_owned()) {
            let span = span.since(now).with("gateway.message_id", row.message_id.as_str());
            span.with("gateway.channel_id", self.row.id.to_string()).end();
        }
        self.meet(batch, &row);
        let recovered = if row.around.recovered { RECOVERED } else { "" };
        let told_apart = format!("{recovered}{}", named.as_deref().unwrap_or_default());
        let told = |row: &MessageRow, is_cut| {
            let payload = match &row.content {
                Content::Reaction { .. } => reaction_payload(row, sender.clone(), false, at)?,
                _ => received_payload(row, sender.clone(), at, now, is_cut, |media| self.media_ref(batch, media)),
            };
            Some(self.network_event(row.message_id.as_str(), &told_apart, at, payload, about(row), now))
        };
        let Some(mut event) = told(&row, is_cut) else { return };
        if event.weight() > LARGEST_EVENT {
            leave_out(&mut row);
            let Some(smaller) = told(&row, true) else { return };
            event = smaller;
        }
        batch.bytes += event.weight();
        let customer = self.row.customer;
        let message = self.new_message(&row);
        batch.commands.push(match unread {
            Some(_) => Command::Recover { customer, message, event },
            None => Command::Receive { customer, message, event },
        });
        self.read_at_once(batch, &row);
    }

    /// Makes the author a contact, under the name that came with the message.
    fn meet(&self, batch: &mut Batch, row: &MessageRow) {
        self.project_in(batch, row.occurred_at, |rows, context| {
            contacts::met(&row.from, row.from_lid.as_ref(), row.push_name.as_deref(), rows, context);
        });
    }

    /// Stores a message that the channel's own phone wrote beside those sent here; `source` distinguishes them.
    fn receive_own(&mut self, batch: &mut Batch, message: InboundMessage, at: Timestamp) {
        let own = self.own_address();
        let is_group = self.is_group(&message.chat);
        let now = Timestamp::now();
        let id = RowId::new();
        let mut row = MessageRow {
            id,
            message_id: message.id,
            channel: self.row.id,
            direction: Direction::Outbound,
            source: Source::Device,
            chat: self.best_address(batch, &message.chat),
            is_group,
            from: own.clone(),
            from_resolved: true,
            from_lid: None,
            from_phone: Some(own.clone()),
            to: self.best_address(batch, &message.to),
            participant: None,
            push_name: message.push_name,
            content: message.content,
            around: message.around,
            client_ref: None,
            request_id: None,
            correlation_id: format!("cor_{}", id.0.simple()),
            occurred_at: at,
            created_at: now,
        };
        self.settle_addresses(batch, &mut row);
        let is_told = self.settings.settings.emit_device_sent;
        let told = |row: &MessageRow| -> Vec<NewEvent> {
            let sent = is_told.then(|| sent_payload(row, SendSource::Device, at));
            let payloads = sent.into_iter().chain(reaction_payload(row, Sender::phone(own.clone()), true, at));
            // The text of an undecryptable message may come later: its events then need other ids.
            let is_unread = matches!(row.content, Content::Undecryptable { .. });
            let status = if is_unread { row.content.type_name() } else { "" };
            let of_network =
                |payload| self.network_event(row.message_id.as_str(), status, at, payload, about(row), now);
            payloads.map(of_network).collect()
        };
        let mut events = told(&row);
        if events.iter().map(NewEvent::weight).sum::<usize>() > LARGEST_EVENT {
            leave_out(&mut row);
            events = told(&row);
        }
        let message = self.new_message(&row);
        batch.bytes += message.row.len();
        batch.commands.push(Command::ReceiveOwn { customer: self.row.customer, message, events });
    }

    /// Replaces the addresses inside a message by those that the row uses: the message that it refers to is in the same
    /// chat, and a quoted author is named like any author.
    fn settle_addresses(&self, batch: &Batch, row: &mut MessageRow) {
        if let Some(target) = row.content.target_mut() {
            target.remote_jid.clone_from(&row.chat);
        }
        if let Some(quoted) = &mut row.around.quoted {
            quoted.from = self.best_address(batch, &quoted.from);
        }
    }

    /// The stored undecryptable message whose text this one brings.
    fn undecryptable(&self, batch: &Batch, row: &MessageRow) -> Option<MessageRow> {
        let is_news = |content: &Content| !matches!(content, Content::Undecryptable { .. });
        if !is_news(&row.content) {
            return None;
        }
        let reader = &self.owner.reader;
        let stored = || {
            let pointer = sameness::find(reader, row).ok()?;
            reader.get(&keys::message(row.channel, pointer.occurred_at, pointer.row)).map(|row| decode(&row))
        };
        let before =
            batch.received(&row.message_id).find(|before| sameness::is_same(reader, before, row)).or_else(stored);
        before.filter(|before| !is_news(&before.content))
    }

    fn is_group(&self, chat: &Address) -> bool {
        chat.kind(&self.owner.node.suffixes) == AddressKind::Group
    }

    /// The addresses under which a sender is shown: the phone address if it is known, else the LID.
    fn sender_of(&self, message: &InboundMessage, batch: &Batch) -> Sender {
        let lid = match message.from.kind(&self.owner.node.suffixes) {
            AddressKind::Lid => message.from.clone(),
            AddressKind::Phone => return Sender::phone(message.from.clone()),
            _ => return Sender::unnamed(message.from.clone()),
        };
        match message.from_phone.clone().or_else(|| self.known_phone(batch, &lid)) {
            Some(phone) => Sender::resolved(lid, phone),
            None => Sender::unresolved(lid),
        }
    }

    fn known_phone(&self, batch: &Batch, lid: &Address) -> Option<Address> {
        batch.learned(lid).or_else(|| self.phone_behind(lid))
    }

    /// The phone address of a LID, if it is known; any other address unchanged.
    pub fn best_address(&self, batch: &Batch, address: &Address) -> Address {
        let phone = if address.is_lid() { self.known_phone(batch, address) } else { None };
        phone.unwrap_or_else(|| address.clone())
    }

    pub fn learn_lid(&self, batch: &mut Batch, lid: Address, phone: Address, at: Timestamp) {
        if self.known_phone(batch, &lid).as_ref() == Some(&phone) {
            return;
        }
        let now = Timestamp::now();
        let payload = Payload::ContactResolved(ContactResolved {
            channel_id: self.row.id,
            lid: lid.clone(),
            phone_jid: phone.clone(),
            first_seen_at: at,
        });
        let event = self.network_event(lid.as_str(), phone.as_str(), at, payload, About::default(), now);
        self.project_in(batch, at, |rows, _| projection::resolved(&lid, &phone, rows));
        batch.commands.push(Command::LearnLid { channel: self.row.id, lid, phone, at, event });
    }

    /// An event about something that the network sent; a repeat gets the same event id.
    pub fn network_event(
        &self,
        network_id: &str,
        status: &str,
        at: Timestamp,
        payload: Payload,
        about: About,
        now: Timestamp,
    ) -> NewEvent {
        let item = NetworkItem { channel: self.row.id, network_id, event: payload.name(), status, network_time: at };
        self.event_of_id(EventId::derived(&self.owner.deployment_key, item), payload, about, now)
    }
}

/// Removes everything from a message but its arrival and its type.
fn leave_out(row: &mut MessageRow) {
    row.content = Content::Unknown { raw_type: row.content.type_name().to_owned() };
    row.around = Surroundings::default();
}

/// `message.received` of a row.
fn received_payload(
    row: &MessageRow,
    sender: Sender,
    at: Timestamp,
    now: Timestamp,
    truncated: bool,
    media_ref: impl Fn(&Media) -> MediaRef,
) -> Payload {
    let around = row.around.clone();
    Payload::MessageReceived(Box::new(MessageReceived {
        message_id: row.message_id.clone(),
        sender,
        to: row.to.clone(),
        chat: chat_of(row),
        push_name: row.push_name.clone(),
        body: ReceivedBody::of(&row.content, &row.around, media_ref),
        quoted: around.quoted,
        mentions: around.mentions,
        mentions_all: around.mentions_all,
        forwarded: around.forwarded,
        is_view_once: row.content.media().is_some_and(|media| media.view_once),
        ephemeral_expiration: around.ephemeral_expiration,
        recovered: around.recovered,
        received_at: now,
        timestamp: at.unix_seconds(),
        truncated,
    }))
}

/// `message.reaction` of a row that holds a reaction.
pub fn reaction_payload(row: &MessageRow, sender: Sender, from_me: bool, at: Timestamp) -> Option<Payload> {
    let Content::Reaction { target, emoji } = &row.content else { return None };
    let participant = row.is_group.then(|| sender.from().clone());
    Some(Payload::MessageReaction(MessageReaction {
        chat: Chat { participant, ..chat_of(row) },
        sender,
        message_id: row.message_id.clone(),
        message_key: target.clone(),
        emoji: emoji.clone(),
        from_me,
        timestamp: at.unix_seconds(),
    }))
}

impl Batch {
    /// The phone address of a LID, if this batch learns it.
    fn learned(&self, lid: &Address) -> Option<Address> {
        self.commands.iter().rev().find_map(|command| match command {
            Command::LearnLid { lid: known, phone, .. } if known == lid => Some(phone.clone()),
            _ => None,
        })
    }

    /// The rows of messages of an id that this batch receives, last one first.
    fn received(&self, id: &MessageId) -> impl Iterator<Item = MessageRow> {
        self.commands.iter().rev().filter_map(move |command| match command {
            Command::Receive { message, .. } | Command::Recover { message, .. } if message.message_id == *id => {
                Some(decode(&message.row))
            }
            _ => None,
        })
    }
}

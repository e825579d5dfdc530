//! What the network sends to a channel: committed first, acknowledged after.

use model::address::{Address, AddressKind};
use model::id::RowId;
use model::payload::{AckStatus, Chat, ContactResolved, MessageReceived, Payload, ReceivedBody, Sender};
use model::time::Timestamp;
use network::driver::{InboundItem, InboundKind, InboundMessage, Receipt, ReceiptStatus};

use super::channel::{After, Channel, Turn};
use super::events::{self, About};
use super::sends::{about, status_payload};
use crate::command::{Command, NewMessage};
use crate::history::{Direction, Source};
use crate::records::MessageRow;

impl Channel {
    /// Adds an item to the turn; it is acknowledged once the turn is committed.
    pub fn take_inbound(&mut self, turn: &mut Turn, item: InboundItem) {
        let InboundItem { id, at, kind } = item;
        match kind {
            InboundKind::Message(message) => self.receive(turn, message, at),
            InboundKind::OwnMessage(_) => {}
            InboundKind::Receipt(receipt) => self.take_receipt(turn, receipt, at),
            InboundKind::LidDisclosed { lid, phone } => self.learn_lid(turn, lid, phone, at),
        }
        turn.after.push(After::Acknowledge(id));
    }

    fn receive(&mut self, turn: &mut Turn, message: InboundMessage, at: Timestamp) {
        let suffixes = self.owner.node.suffixes.clone();
        if let (AddressKind::Lid, Some(phone)) = (message.from.kind(&suffixes), &message.from_phone) {
            self.learn_lid(turn, message.from.clone(), phone.clone(), at);
        }
        let sender = self.sender_of(&message, turn);
        let is_group = message.chat.kind(&suffixes) == AddressKind::Group;
        // A direct conversation goes by the best address of the peer, as replies to it do.
        let chat = if is_group || message.chat != message.from { message.chat } else { sender.from().clone() };
        let participant = is_group.then(|| sender.from().clone());
        let now = Timestamp::now();
        let id = RowId::new();
        let row = MessageRow {
            id,
            message_id: message.id.clone(),
            channel: self.row.id,
            direction: Direction::Inbound,
            source: Source::Network,
            chat: chat.clone(),
            is_group,
            from: sender.from().clone(),
            from_resolved: sender.is_resolved(),
            from_lid: sender.lid().cloned(),
            from_phone: sender.phone_address().cloned(),
            to: message.to.clone(),
            participant: participant.clone(),
            push_name: message.push_name.clone(),
            content: message.content.clone(),
            around: message.around.clone(),
            client_ref: None,
            request_id: None,
            correlation_id: format!("cor_{}", id.0.simple()),
            occurred_at: at,
            created_at: now,
        };
        metrics::counter!("gateway_inbound_total", "type" => row.content.type_name()).increment(1);
        let payload = Payload::MessageReceived(Box::new(MessageReceived {
            message_id: message.id.clone(),
            sender,
            to: message.to,
            chat: Chat { chat_id: chat, is_group, participant },
            push_name: message.push_name,
            body: ReceivedBody::Text {
                text: message.content.text().unwrap_or_default().to_owned(),
                link_preview: None,
            },
            quoted: message.around.quoted,
            mentions: message.around.mentions,
            forwarded: message.around.forwarded,
            is_view_once: message.content.media().is_some_and(|media| media.view_once),
            ephemeral_expiration: message.around.ephemeral_expiration,
            recovered: message.around.recovered,
            received_at: now,
            timestamp: at.unix_seconds(),
            truncated: false,
        }));
        let event = self.network_event(message.id.as_str(), "", at, payload, about(&row), now);
        let message = NewMessage::of(&row);
        turn.commands.push(Command::Receive { customer: self.row.customer, message, event });
    }

    /// The address fields of interface 6.2.
    fn sender_of(&self, message: &InboundMessage, turn: &Turn) -> Sender {
        if !message.from.is_lid() {
            return Sender::phone(message.from.clone());
        }
        let lid = message.from.clone();
        match message.from_phone.clone().or_else(|| turn.learned(&lid)).or_else(|| self.phone_behind(&lid)) {
            Some(phone) => Sender::resolved(lid, phone),
            None => Sender::unresolved(lid),
        }
    }

    fn learn_lid(&mut self, turn: &mut Turn, lid: Address, phone: Address, at: Timestamp) {
        if turn.learned(&lid).as_ref() == Some(&phone) || self.phone_behind(&lid).as_ref() == Some(&phone) {
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
        turn.commands.push(Command::LearnLid { channel: self.row.id, lid, phone, at, event });
    }

    fn take_receipt(&mut self, turn: &mut Turn, receipt: Receipt, at: Timestamp) {
        // A receipt proves the acceptance that got lost on its way.
        self.settle_accepted(turn, &receipt.message_id, at, None);
        // Its row is gone with the history, or it was sent from the phone itself.
        let Some(row) = self.stored_message(&receipt.message_id) else { return };
        let status = match receipt.status {
            ReceiptStatus::Delivered => AckStatus::Delivered,
            ReceiptStatus::Read => AckStatus::Read,
            ReceiptStatus::Played => AckStatus::Played,
        };
        let mut payload = status_payload(&row, status, at, None);
        if let Payload::MessageStatus(data) = &mut payload {
            data.participant.clone_from(&receipt.participant);
        }
        let member = receipt.participant.as_ref().map_or("", Address::as_str);
        let told_apart = format!("{}{member}", status.as_str());
        let event =
            self.network_event(receipt.message_id.as_str(), &told_apart, at, payload, about(&row), Timestamp::now());
        turn.commands.push(Command::Receipt {
            channel: self.row.id,
            message: receipt.message_id,
            status: receipt.status,
            participant: receipt.participant,
            at,
            event,
        });
    }

    /// An event of something that the network sent: the same thing again gets the same id.
    fn network_event(
        &self,
        network_id: &str,
        status: &str,
        at: Timestamp,
        payload: Payload,
        about: About,
        now: Timestamp,
    ) -> crate::command::NewEvent {
        let source = events::Source { channel: self.row.id, network_id, status, at };
        let owner = &self.owner;
        events::of_network(&owner.node.directory, &owner.deployment_key, self.row.customer, source, payload, about, now)
    }
}

impl Turn {
    /// The phone address behind a LID, when this very turn learns it.
    fn learned(&self, lid: &Address) -> Option<Address> {
        self.commands.iter().rev().find_map(|command| match command {
            Command::LearnLid { lid: known, phone, .. } if known == lid => Some(phone.clone()),
            _ => None,
        })
    }
}

//! Messages: sends of channels and phones, acceptance and refusal, delivery, receipts, reading.

use std::sync::Arc;
use std::time::Duration;

use model::address::Address;
use model::id::MessageId;
use model::message::{Content, Surroundings};
use model::time::Timestamp;
use rand::RngExt;

use super::sessions::Live;
use super::subscriber::{Kept, Message};
use super::{ControlError, Engine, Holder, Later, SessionId};
use crate::driver::{Outbound, ReceiptStatus};
use crate::simulator::number::Number;
use crate::wire::SessionFrame;

/// The network's code for a recipient that it cannot reach.
const BAD_RECIPIENT: u16 = 479;

/// A send that arrived and is not answered yet. It is judged even when its session ends meanwhile.
#[derive(Debug)]
pub struct InFlight {
    session: SessionId,
    live: Live,
    holder: Holder,
    id: MessageId,
    to: Address,
    content: Content,
    around: Surroundings,
}

impl Engine {
    /// A channel writes a message.
    pub(super) fn send(&mut self, now: Timestamp, session: SessionId, message: Outbound) {
        let Outbound { id, to, content, around } = message;
        let Some(live) = self.live(session) else {
            self.stats.late_writes += u64::from(self.session(session).is_none());
            return;
        };
        if self.chance(self.faults.drop_before_accept_pct) {
            return;
        }
        self.stats.raw_sends += 1;
        let jitter = self.rng.random_range(0..=self.faults.accept_jitter_ms);
        let earliest = now.plus(Duration::from_millis(self.faults.accept_delay_ms + jitter));
        let holder = Holder { node: self.node_of(session), epoch: self.session(session).map_or(0, |s| s.epoch) };
        let in_flight = InFlight { session, live, holder, id, to, content, around };
        let subscriber = self.subscribers.get_mut(&live.number);
        let Some(device) = subscriber.and_then(|subscriber| subscriber.device_mut(live.device)) else { return };
        device.answers_from = device.answers_from.max(earliest);
        if device.answers_from <= now {
            self.judge(now, in_flight);
        } else {
            self.timers.push(device.answers_from, Later::Answer(Box::new(in_flight)));
        }
    }

    /// Accepts or refuses a send, and delivers it.
    pub(super) fn judge(&mut self, now: Timestamp, send: InFlight) {
        let from = send.live.number;
        if let Some(message) = self.ledger.repeat(from, send.id.as_str()) {
            if self.faults.dedup {
                self.stats.duplicates_dropped += 1;
            } else {
                self.deliver_copy(&message);
            }
            return self.accept(now, send.session, send.id);
        }
        if let Some(nack) = self.faults.nack
            && self.chance(nack.pct)
        {
            return self.refuse(send.session, send.id, nack.code, "refused by fault");
        }
        let recipient = Number::of_address(&send.to, &self.suffixes);
        let Some(recipient) = recipient.filter(|number| self.subscribers.contains_key(number)) else {
            return self.refuse(send.session, send.id, BAD_RECIPIENT, "the recipient is not registered");
        };
        let message = Arc::new(Message {
            id: send.id.as_str().into(),
            from,
            device: Some(send.live.device),
            to: send.to,
            content: send.content,
            around: send.around,
            at: now,
        });
        self.stats.accepted += 1;
        self.ledger.push(Arc::clone(&message), send.holder.node, send.holder.epoch, now);
        // The acceptance goes first: the network tells of the acceptance before it tells of the delivery.
        self.accept(now, send.session, send.id);
        self.deliver(now, &message, recipient);
    }

    fn accept(&mut self, at: Timestamp, session: SessionId, id: MessageId) {
        let lost = self.chance(self.faults.drop_after_accept_pct);
        if !lost && self.live(session).is_some() {
            self.emit(session, SessionFrame::Accepted { id, at, recipients: None });
        }
    }

    fn refuse(&mut self, session: SessionId, id: MessageId, code: u16, text: &str) {
        self.stats.refused += 1;
        if self.live(session).is_some() {
            self.emit(session, SessionFrame::Refused { id, code, text: text.to_owned() });
        }
    }

    /// A phone writes messages of one content.
    ///
    /// # Errors
    /// An unknown phone or recipient.
    pub fn phone_send(
        &mut self,
        now: Timestamp,
        from: Number,
        to: &str,
        content: &Content,
        count: u32,
    ) -> Result<Vec<MessageId>, ControlError> {
        self.advance(now);
        if self.subscriber(from)?.banned(now).is_some() {
            return Err(ControlError::Invalid("the phone is banned".into()));
        }
        let to = self.parse_address(to)?;
        let recipient = Number::of_address(&to, &self.suffixes);
        let recipient = recipient.filter(|number| self.subscribers.contains_key(number));
        let recipient = recipient.ok_or_else(|| ControlError::Invalid(format!("{to} is not registered")))?;
        let mut ids = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let id = MessageId::mint(self.rng.random());
            let message = Message {
                id: id.as_str().into(),
                from,
                device: None,
                to: to.clone(),
                content: content.clone(),
                around: Surroundings::default(),
                at: now,
            };
            self.deliver(now, &Arc::new(message), recipient);
            ids.push(id);
        }
        Ok(ids)
    }

    /// Brings a message to the recipient's phone, or keeps it until that is online, and to its linked devices.
    fn deliver(&mut self, now: Timestamp, message: &Arc<Message>, recipient: Number) {
        let Some(sender) = self.subscribers.get(&message.from) else { return };
        let Some(subscriber) = self.subscribers.get(&recipient) else { return };
        let (shown, push_name) = (sender.shown_to(subscriber), sender.name.clone());
        let own = |device: u32| recipient == message.from && message.device == Some(device);
        let devices: Vec<u32> = subscriber.linked().map(|device| device.id).filter(|id| !own(*id)).collect();
        for device in devices {
            let kept = Kept::Message { message: Arc::clone(message), shown, push_name: push_name.clone() };
            self.keep(recipient, device, kept);
        }
        let Some(subscriber) = self.subscribers.get_mut(&recipient) else { return };
        if subscriber.online {
            self.take_in(now, Arc::clone(message), 1, recipient);
        } else {
            subscriber.waiting.push((Arc::clone(message), 1));
        }
    }

    /// One more copy of a message reaches the phone: counted, and told to nobody.
    fn deliver_copy(&mut self, message: &Arc<Message>) {
        let recipient = Number::of_address(&message.to, &self.suffixes);
        let Some(subscriber) = recipient.and_then(|number| self.subscribers.get_mut(&number)) else { return };
        let waiting = subscriber.waiting.iter_mut().find(|(waiting, _)| Arc::ptr_eq(waiting, message));
        if let Some((_, copies)) = waiting {
            *copies += 1;
        } else if let Some(entry) = subscriber.received(message) {
            entry.copies += 1;
        }
    }

    /// A message reaches a phone that is online.
    pub(super) fn take_in(&mut self, now: Timestamp, message: Arc<Message>, copies: u32, recipient: Number) {
        let Some(subscriber) = self.subscribers.get_mut(&recipient) else { return };
        let position = subscriber.receive(Arc::clone(&message), copies, now);
        let auto_read_ms = subscriber.auto_read_ms;
        self.stats.delivered += 1;
        self.receipt(now, message, ReceiptStatus::Delivered);
        if let Some(delay) = auto_read_ms {
            let due = now.plus(Duration::from_millis(delay.into()));
            self.timers.push(due, Later::AutoRead { number: recipient, position });
        }
    }

    /// The phone of `number` opens the chat in which the message at `position` stands.
    pub(super) fn auto_read(&mut self, now: Timestamp, number: Number, position: u64) {
        let Some(subscriber) = self.subscribers.get_mut(&number) else { return };
        let receipts = subscriber.read_receipts;
        let Some(entry) = subscriber.inbox_entry(position).filter(|entry| !entry.read) else { return };
        entry.read = true;
        let message = Arc::clone(&entry.message);
        if receipts {
            self.receipt(now, message, ReceiptStatus::Read);
        }
    }

    /// Tells the device that sent a message how far it came. Phones get no receipts here.
    pub(super) fn receipt(&mut self, at: Timestamp, message: Arc<Message>, status: ReceiptStatus) {
        if let Some(device) = message.device {
            self.keep(message.from, device, Kept::Receipt { message, status, at });
        }
    }

    /// Puts an item into a device's mailbox and sends it, when its session has room.
    pub(super) fn keep(&mut self, number: Number, device: u32, kept: Kept) {
        let subscriber = self.subscribers.get_mut(&number);
        let linked = subscriber.and_then(|subscriber| subscriber.linked_mut(device));
        let Some(linked) = linked else { return };
        self.items += 1;
        linked.mailbox.push(self.items, kept);
        self.pump(number, device);
    }
}

//! Message traffic: sends of channels and phones, acceptance and refusal, delivery, receipts.

use std::sync::Arc;
use std::time::Duration;

use model::address::Address;
use model::id::MessageId;
use model::message::{Content, Surroundings};
use model::time::Timestamp;
use rand::RngExt;

use super::message::{Chat, Message};
use super::rules::Draft;
use super::sessions::Live;
use super::subscriber::{Kept, Shown};
use super::{ControlError, Engine, Holder, Later, SessionId};
use crate::driver::{Outbound, ReceiptStatus};
use crate::simulator::number::Number;
use crate::wire::SessionFrame;

/// A send that arrived and is not answered yet. It is judged even if its session ends meanwhile.
#[derive(Debug)]
pub struct InFlight {
    session: SessionId,
    live: Live,
    holder: Holder,
    message: Outbound,
}

/// A message that a phone sends.
#[derive(Clone, Debug)]
pub struct Writing {
    pub to: Address,
    pub content: Arc<Content>,
    pub around: Surroundings,
    /// The id of an undecryptable message that this message recovers.
    pub recovers: Option<MessageId>,
    /// The id that the sender chose.
    pub id: Option<MessageId>,
}

impl Engine {
    /// Handles a message from a channel.
    pub(super) fn send(&mut self, session: SessionId, message: Outbound) {
        let Some(live) = self.live_or_late(session) else { return };
        if self.chance(self.faults.drop_before_accept_pct) {
            return;
        }
        self.stats.raw_sends += 1;
        let jitter = self.rng.random_range(0..=self.faults.accept_jitter_ms);
        let earliest = self.now.plus(Duration::from_millis(self.faults.accept_delay_ms + jitter));
        let holder = Holder { node: self.node_of(session), epoch: self.session(session).map_or(0, |s| s.epoch) };
        let in_flight = InFlight { session, live, holder, message };
        let Some(device) = self.subscribers.device_mut(live.number, live.device) else { return };
        device.answers_from = device.answers_from.max(earliest);
        if device.answers_from <= self.now {
            self.judge(in_flight);
        } else {
            self.timers.push(device.answers_from, Later::Answer(Box::new(in_flight)));
        }
    }

    /// Accepts or refuses a send, and delivers it if accepted.
    pub(super) fn judge(&mut self, send: InFlight) {
        let InFlight { session, live, holder, message } = send;
        let Outbound { id, to, content, around } = message;
        // This network needs no author of the target message, and uses its own clock.
        let around = around.shown();
        let content = match content {
            content if content.is_story() => return self.judge_story(session, live.number, id, content),
            content => content,
        };
        if let Some(message) = self.ledger.repeat(live.number, id.as_str()) {
            if self.faults.dedup {
                self.stats.duplicates_dropped += 1;
            } else {
                self.deliver_copy(&message);
            }
            let recipients = self.group_members(&message);
            return self.accept(session, id, recipients);
        }
        if let Some(nack) = self.faults.nack
            && self.chance(nack.pct)
        {
            return self.refuse(session, id, nack.code, nack.text());
        }
        let (number, content) = (live.number, Arc::new(content));
        let draft = Draft { id: id.as_str().into(), from: number, device: Some(live.device), to, content, around };
        let message = match self.compose(draft) {
            Ok(message) => message,
            Err(refusal) => return self.refuse(session, id, refusal.code, refusal.text),
        };
        self.stats.accepted += 1;
        self.ledger.push(Arc::clone(&message), holder.node, holder.epoch, self.now);
        // Acceptance first: the network reports the acceptance before the delivery.
        let recipients = self.group_members(&message);
        self.accept(session, id, recipients);
        self.deliver(&message);
    }

    /// Handles a story, a part of one, or the deletion of one.
    fn judge_story(&mut self, session: SessionId, author: Number, id: MessageId, content: Content) {
        let nacked = self.faults.nack.filter(|nack| self.chance(nack.pct));
        let whole = match (nacked, content) {
            (Some(nack), _) => {
                self.stories.remove(author, id.as_str());
                return self.refuse(session, id, nack.code, nack.text());
            }
            (None, Content::Story(part)) => self.post_story(author, &id, *part),
            (None, Content::StoryDelete { story }) => self.delete_story(author, &story).map(|()| true),
            (None, _) => return,
        };
        match whole {
            Ok(true) => self.accept(session, id, None),
            // Further parts follow.
            Ok(false) => {}
            Err(refusal) => self.refuse(session, id, refusal.code, refusal.text),
        }
    }

    /// The number of members who will acknowledge a message to a group.
    fn group_members(&self, message: &Message) -> Option<u32> {
        let to_group = matches!(message.chat, Chat::Group(_));
        to_group.then(|| u32::try_from(self.recipients(message).len()).unwrap_or(u32::MAX))
    }

    fn accept(&mut self, session: SessionId, id: MessageId, recipients: Option<u32>) {
        let lost = self.chance(self.faults.drop_after_accept_pct);
        if !lost && self.live(session).is_some() {
            self.emit(session, SessionFrame::Accepted { id, at: self.now, recipients });
        }
    }

    fn refuse(&mut self, session: SessionId, id: MessageId, code: u16, text: &str) {
        self.stats.refused += 1;
        if self.live(session).is_some() {
            self.emit(session, SessionFrame::Refused { id, code, text: text.to_owned() });
        }
    }

    /// Sends `count` messages of the same content from a phone.
    ///
    /// # Errors
    /// An unknown phone, or a refusal by the network.
    pub fn phone_send(
        &mut self,
        now: Timestamp,
        from: Number,
        writing: &Writing,
        count: u32,
    ) -> Result<Vec<MessageId>, ControlError> {
        if self.acting(now, from)?.banned(now).is_some() {
            return Err(ControlError::Invalid("the phone is banned".into()));
        }
        let mut ids = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let id = match (&writing.recovers, &writing.id) {
                (Some(id), _) => self.check_recovers(id, from)?,
                (None, Some(id)) => self.check_unused(id, from)?,
                (None, None) => MessageId::mint(self.rng.random()),
            };
            let draft = Draft {
                id: id.as_str().into(),
                from,
                device: None,
                to: writing.to.clone(),
                content: Arc::clone(&writing.content),
                around: writing.around.clone(),
            };
            let message = self.compose(draft)?;
            self.deliver(&message);
            ids.push(id);
        }
        Ok(ids)
    }

    /// Checks an id that the sender chose: other senders may have used it, but not this one.
    fn check_unused(&self, id: &MessageId, from: Number) -> Result<MessageId, ControlError> {
        if self.messages.named(id.as_str()).any(|message| message.from == from) {
            return Err(ControlError::Invalid(format!("{from} has sent a message {id}")));
        }
        Ok(id.clone())
    }

    /// Checks that the id is that of an undecryptable message from this sender.
    fn check_recovers(&self, id: &MessageId, from: Number) -> Result<MessageId, ControlError> {
        let mut sent = self.messages.named(id.as_str()).filter(|message| message.from == from);
        let unread = sent.any(|message| matches!(message.body.other(), Some(Content::Undecryptable { .. })));
        if unread {
            Ok(id.clone())
        } else {
            Err(ControlError::NotFound(format!("{from} sent no undecryptable message {id}")))
        }
    }

    /// Delivers a message to everyone concerned.
    fn deliver(&mut self, message: &Arc<Message>) {
        self.messages.insert(message);
        if matches!(message.body.other(), Some(Content::Star { .. } | Content::Unstar { .. })) {
            // A star is private: the sender's phone shows it and nobody is notified.
            if let Some(sender) = self.subscribers.get_mut(&message.from) {
                sender.receive(Arc::clone(message), 1, self.now);
            }
            return;
        }
        if let Chat::Newsletter(newsletter) = message.chat
            && let Ok(newsletter) = self.newsletters.get_mut(newsletter)
        {
            newsletter.publish(message);
        }
        let recipients = self.recipients(message);
        if !recipients.contains(&message.from) {
            // The sender's other devices are shown what it sent.
            for device in self.devices_to_tell(message, message.from) {
                self.keep(message.from, device, Kept::Own { message: Arc::clone(message) });
            }
        }
        for recipient in recipients {
            self.deliver_to(message, recipient);
        }
    }

    fn recipients(&self, message: &Message) -> Vec<Number> {
        let others = |number: &Number| *number != message.from;
        match message.chat {
            Chat::Direct(recipient) => vec![recipient],
            Chat::Group(group) => {
                let members = self.groups.get(group).map(|group| group.members()).unwrap_or_default();
                members.iter().map(|member| member.number).filter(others).collect()
            }
            Chat::Newsletter(newsletter) => {
                let newsletter = self.newsletters.get(newsletter);
                newsletter.map(|newsletter| newsletter.readers().filter(others).collect()).unwrap_or_default()
            }
        }
    }

    /// The linked devices of `number`, except the one that sent the message.
    fn devices_to_tell(&self, message: &Message, number: Number) -> Vec<u32> {
        let sent = |device: u32| number == message.from && message.device == Some(device);
        self.subscribers.linked_devices(number).into_iter().filter(|device| !sent(*device)).collect()
    }

    /// Delivers a message to the recipient's linked devices and phone, or keeps it until the phone is online.
    fn deliver_to(&mut self, message: &Arc<Message>, recipient: Number) {
        let Some(subscriber) = self.subscribers.get(&recipient) else { return };
        // A blocked sender does not learn of the block: the message is accepted and reaches nobody.
        let direct = matches!(message.chat, Chat::Direct(_));
        if direct && subscriber.account.blocked.contains_key(&message.from) {
            return;
        }
        let online = subscriber.online;
        let shown = self.shown(message.from, recipient);
        let quoted = message.quoted_from.map_or(Shown::Phone, |author| self.shown(author, recipient));
        let newsletter = matches!(message.chat, Chat::Newsletter(_));
        let push_name = self.subscribers.get(&message.from).filter(|_| !newsletter).and_then(|s| s.name.clone());
        for device in self.devices_to_tell(message, recipient) {
            let (message, push_name) = (Arc::clone(message), push_name.clone());
            self.keep(recipient, device, Kept::Message { message, shown, quoted, push_name });
        }
        if online {
            self.take_in(Arc::clone(message), 1, recipient);
        } else if let Some(subscriber) = self.subscribers.get_mut(&recipient) {
            subscriber.waiting.push((Arc::clone(message), 1));
        }
    }

    /// How one subscriber is addressed towards another.
    pub(super) fn shown(&self, who: Number, towards: Number) -> Shown {
        match (self.subscribers.get(&who), self.subscribers.get(&towards)) {
            // A subscriber does not hide from itself.
            (Some(author), Some(reader)) if who != towards && author.hide_number => {
                if reader.disclosed.contains(&who) {
                    Shown::LidWithPhone
                } else {
                    Shown::Lid
                }
            }
            _ => Shown::Phone,
        }
    }

    /// The address under which one subscriber knows another.
    pub(super) fn name_of(&self, who: Number, towards: Number) -> Address {
        self.shown(who, towards).address(who, &self.suffixes)
    }

    /// Counts another copy of a message at its recipients; nobody is notified.
    fn deliver_copy(&mut self, message: &Arc<Message>) {
        for recipient in self.recipients(message) {
            let Some(subscriber) = self.subscribers.get_mut(&recipient) else { continue };
            let waiting = subscriber.waiting.iter_mut().find(|(waiting, _)| Arc::ptr_eq(waiting, message));
            if let Some((_, copies)) = waiting {
                *copies += 1;
            } else if let Some(entry) = subscriber.received(message) {
                entry.copies += 1;
            }
        }
    }

    /// Delivers a message to a phone that is online.
    pub(super) fn take_in(&mut self, message: Arc<Message>, copies: u32, recipient: Number) {
        let Some(subscriber) = self.subscribers.get_mut(&recipient) else { return };
        let position = subscriber.receive(Arc::clone(&message), copies, self.now);
        let auto_read_ms = subscriber.auto_read_ms;
        self.stats.delivered += 1;
        self.receipt(message, ReceiptStatus::Delivered, recipient);
        if let Some(delay) = auto_read_ms {
            let due = self.now.plus(Duration::from_millis(delay.into()));
            self.timers.push(due, Later::AutoRead { number: recipient, position });
        }
    }

    /// Reports a message's status at `reader` to the device that sent it. Phones get no receipts here, and newsletters
    /// give none.
    pub(super) fn receipt(&mut self, message: Arc<Message>, status: ReceiptStatus, reader: Number) {
        let Some(device) = message.device else { return };
        let participant = match message.chat {
            Chat::Direct(_) => None,
            Chat::Group(_) => Some((reader, self.shown(reader, message.from))),
            Chat::Newsletter(_) => return,
        };
        self.keep(message.from, device, Kept::Receipt { message, status, at: self.now, participant });
    }

    /// Adds an item to a device's mailbox and sends it if the window has room.
    pub(super) fn keep(&mut self, number: Number, device: u32, kept: Kept) {
        let subscriber = self.subscribers.get_mut(&number);
        let Some(linked) = subscriber.and_then(|subscriber| subscriber.linked_mut(device)) else { return };
        self.items += 1;
        linked.mailbox.push(self.items, kept);
        self.pump(number, device);
    }
}

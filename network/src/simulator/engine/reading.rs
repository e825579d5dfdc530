//! What phones do with messages that reached them: open chats, play, react.

use std::sync::Arc;

use model::address::Address;
use model::message::{Content, Surroundings};
use model::time::Timestamp;

use super::message::{Chat, Message};
use super::traffic::Writing;
use super::{ControlError, Engine};
use crate::driver::ReceiptStatus;
use crate::simulator::number::Number;

impl Engine {
    /// The phone opens a chat, which marks everything in it as read.
    pub fn open_chat(&mut self, now: Timestamp, number: Number, with: &str) -> Result<(), ControlError> {
        self.advance(now);
        let chat = self.parse_chat(with)?;
        self.subscriber(number)?;
        self.read_chat(number, chat);
        Ok(())
    }

    /// The phone of `number` reads the message at `position`, a while after its arrival.
    pub(super) fn auto_read(&mut self, number: Number, position: u64) {
        let Some(subscriber) = self.subscribers.get_mut(&number) else { return };
        let Some(entry) = subscriber.inbox_entry(position).filter(|entry| !entry.read) else { return };
        entry.read = true;
        let message = Arc::clone(&entry.message);
        self.acknowledge_reading(number, vec![message]);
    }

    /// The phone plays an audio or a video. The sender is told once, even if read receipts are off.
    pub fn play(&mut self, now: Timestamp, number: Number, id: &str) -> Result<(), ControlError> {
        self.advance(now);
        let entry = self.subscriber_mut(number)?.received_as(id);
        let entry = entry.ok_or_else(|| ControlError::NotFound(format!("no message {id} reached {number}")))?;
        if !matches!(entry.message.body.other(), Some(Content::Audio { .. } | Content::Video { .. })) {
            return Err(ControlError::Invalid(format!("{id} is neither a sound nor a video")));
        }
        if !std::mem::replace(&mut entry.played, true) {
            let message = Arc::clone(&entry.message);
            self.receipt(message, ReceiptStatus::Played, number);
        }
        Ok(())
    }

    /// The phone reacts to a message that it received or sent.
    pub fn react(&mut self, now: Timestamp, number: Number, id: &str, emoji: &str) -> Result<(), ControlError> {
        self.advance(now);
        let message = self.seen(number, id)?;
        let to = self.chat_address(number, message);
        let target = self.key(number, message);
        let content = Content::Reaction { target, emoji: emoji.to_owned() };
        let (content, around) = (Arc::new(content), Surroundings::default());
        let writing = Writing { to, content, around, recovers: None, id: None };
        self.phone_send(now, number, &writing, 1).map(drop)
    }

    /// A message that a phone received or sent.
    pub(super) fn seen(&self, number: Number, id: &str) -> Result<&Arc<Message>, ControlError> {
        self.subscriber(number)?;
        let mut named = self.messages.named(id);
        let seen = named.find(|message| match message.chat {
            Chat::Direct(to) => message.from == number || to == number,
            Chat::Group(group) => self.groups.get(group).is_some_and(|group| group.rank_of(number).is_some()),
            Chat::Newsletter(_) => true,
        });
        seen.ok_or_else(|| ControlError::NotFound(format!("{number} knows no message {id}")))
    }

    /// The address of the conversation in which a phone sees a message.
    pub(super) fn chat_address(&self, number: Number, message: &Message) -> Address {
        self.chat_as_seen(number, message.chat_for(number))
    }

    /// The address under which `viewer` knows a conversation; the peer may hide its number.
    pub(super) fn chat_as_seen(&self, viewer: Number, chat: Chat) -> Address {
        match chat {
            Chat::Direct(peer) => self.name_of(peer, viewer),
            Chat::Group(group) => group.address(&self.suffixes),
            Chat::Newsletter(newsletter) => newsletter.address(&self.suffixes),
        }
    }

    /// Parses a conversation: a number, or an address of any kind.
    pub(super) fn parse_chat(&self, text: &str) -> Result<Chat, ControlError> {
        let address = self.parse_address(text)?;
        match self.chat_of(&address) {
            Ok(chat) => Ok(chat),
            // Messages to and from a deleted number can still be read.
            Err(refusal) => Number::of_address(&address, &self.suffixes).map(Chat::Direct).ok_or(refusal.into()),
        }
    }
}

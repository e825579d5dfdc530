//! Inbound messages: each is stored once, however often the network sends it.

use model::format::Format;
use model::id::CustomerId;
use model::message::Content;

use super::Apply;
use crate::command::{NewEvent, NewMessage, Reply};
use crate::history::Direction;
use crate::records::{MessagePointer, MessageRow, decode};
use crate::{keys, sameness};

impl Apply<'_> {
    pub(super) fn receive(&mut self, customer: CustomerId, message: &NewMessage, event: NewEvent) -> Reply {
        if self.standing(message.channel).deleted {
            return Reply::ChannelDeleted;
        }
        let pointer_key = match self.same_as(message) {
            Err(free) => free,
            Ok(_) => return Reply::Unchanged,
        };
        self.put_message(&pointer_key, message, None);
        self.said_to_channel(message);
        self.count_received(customer, message.channel, event.at);
        self.emit(event, Some(message.id));
        Reply::Done
    }

    /// The stored message that an inbound one repeats, or the key under which to index it. The row is decoded only if
    /// its id is known: most messages are new.
    fn same_as(&self, message: &NewMessage) -> Result<MessagePointer, Vec<u8>> {
        let by_id = keys::message_id(message.channel, Direction::Inbound, &message.message_id);
        match self.read(&by_id) {
            None => Err(by_id),
            Some(first) if self.format < Format::THIRD => Ok(first),
            Some(_) => sameness::find(&*self.state, &decode(&message.row)),
        }
    }

    /// Stores a message that was written on the phone, as sent by the channel; its event is `message.sent`. If the
    /// message could not be decrypted at first, its content later replaces the row, once.
    pub(super) fn receive_own(&mut self, message: &NewMessage, events: Vec<NewEvent>) -> Reply {
        if self.standing(message.channel).deleted {
            return Reply::ChannelDeleted;
        }
        let pointer_key = keys::message_id(message.channel, Direction::Outbound, &message.message_id);
        let row = match self.read::<MessagePointer>(&pointer_key) {
            None => {
                self.put_message(&pointer_key, message, None);
                self.said_by_channel(message);
                message.id
            }
            Some(place) => {
                let Some(read) = self.own_in_place(&place, message) else { return Reply::Unchanged };
                self.state.put(&keys::message(message.channel, place.occurred_at, place.row), &read.encode());
                place.row
            }
        };
        events.into_iter().for_each(|event| self.emit(event, Some(row)));
        Reply::Done
    }

    /// The row for a message from the phone, if the stored one could not be decrypted; before format 3, none.
    fn own_in_place(&self, place: &MessagePointer, message: &NewMessage) -> Option<MessageRow> {
        let is_unread = |row: &MessageRow| matches!(row.content, Content::Undecryptable { .. });
        let unread: MessageRow = self.read(&keys::message(message.channel, place.occurred_at, place.row))?;
        let read: MessageRow = decode(&message.row);
        if self.format < Format::THIRD || !is_unread(&unread) || is_unread(&read) {
            return None;
        }
        Some(MessageRow {
            id: unread.id,
            occurred_at: unread.occurred_at,
            correlation_id: unread.correlation_id,
            ..read
        })
    }

    /// Replaces an undecryptable message by its content, once. If that message is deleted, stores a new message.
    pub(super) fn recover(&mut self, customer: CustomerId, message: &NewMessage, event: NewEvent) -> Reply {
        let Ok(pointer) = self.same_as(message) else { return self.receive(customer, message, event) };
        let key = keys::message(message.channel, pointer.occurred_at, pointer.row);
        let row: Option<MessageRow> = self.read(&key);
        let waits = row.is_some_and(|row| matches!(row.content, Content::Undecryptable { .. }));
        if !waits || (pointer.occurred_at, pointer.row) != (message.occurred_at, message.id) {
            return Reply::Unchanged;
        }
        self.state.put(&key, &message.row);
        self.emit(event, Some(message.id));
        Reply::Done
    }
}

//! Deletes expired rows. The owner names them; this module only makes sure that no row that is still needed is deleted,
//! so that a late or repeated step is harmless.

use model::address::Address;
use model::format::Format;
use model::id::{ChannelId, DeliveryId, EndpointId};

use super::Apply;
use crate::command::Reply;
use crate::history::{Direction, Place, withhold};
use crate::records::{ChannelRow, DeliveryRow, EventRow, LidRow, MessagePointer, MessageRow, OutboxEntry, encode};
use crate::retention::Expire;
use crate::{keys, sameness};

/// The most keys that one step deletes before it leaves the rest to the next: a message to a large group has thousands.
const KEYS_AT_ONCE: usize = 2_000;

/// The least number of status changes that a channel keeps, whatever their age; in time at most [`BOUND_EVERY`] more.
const STATUS_CHANGES: u64 = 1_000;

/// The number of transitions between two checks for excess status changes.
const BOUND_EVERY: u64 = 64;

impl Apply<'_> {
    pub(super) fn expire(&mut self, expire: Expire) -> Reply {
        match expire {
            Expire::Bodies { channel, rows } => self.expire_bodies(channel, rows),
            Expire::Messages { channel, rows } => return self.expire_messages(channel, rows),
            Expire::Deliveries { endpoint, deliveries } => {
                deliveries.into_iter().for_each(|id| self.expire_delivery(endpoint, id));
            }
            Expire::Endpoint { customer, endpoint } => {
                if self.state.scan_range(keys::deliveries_of(endpoint, None, None), 1).is_empty() {
                    self.state.delete(&keys::customer_endpoint(customer, endpoint));
                }
            }
            Expire::StatusChanges { channel, changes } => {
                for (at, version) in changes {
                    self.state.delete(&keys::status_change(channel, at, version));
                }
            }
            Expire::Usage { rows } => {
                for (customer, hour, channel) in rows {
                    self.state.delete(&keys::usage(customer, hour, channel));
                }
            }
            Expire::Channels { channels } => {
                for key in channels.into_iter().map(keys::channel) {
                    if self.read::<ChannelRow>(&key).is_some_and(|row| row.deleted && row.wiped) {
                        self.state.delete(&key);
                    }
                }
            }
            Expire::Lids { channel, lids } => lids.iter().for_each(|lid| self.expire_lid(channel, lid)),
            Expire::Projected { channel, rows } => {
                for (kind, id) in rows {
                    self.state.delete(&keys::projected(channel, kind, &id));
                }
            }
        }
        Reply::Done
    }

    /// Deletes the oldest status changes, so that a channel that keeps changing its status does not fill the store.
    pub(super) fn bound_status_changes(&mut self, row: &ChannelRow) {
        if !row.version.is_multiple_of(BOUND_EVERY) {
            return;
        }
        let oldest = self.state.scan_range(keys::status_changes(row.id, None), BOUND_EVERY as usize);
        let excess = oldest.iter().filter(|(key, _)| keys::version_of_change(key) + STATUS_CHANGES <= row.version);
        excess.for_each(|(key, _)| self.state.delete(key));
    }

    fn expire_bodies(&mut self, channel: ChannelId, rows: Vec<Place>) {
        for (at, id) in rows {
            let key = keys::message(channel, at, id);
            let Some(mut row) = self.read::<MessageRow>(&key) else { continue };
            self.keep_for_network(&row);
            withhold(&mut row);
            self.state.put(&key, &row.encode());
        }
    }

    /// Copies into the outbox entry of a waiting send what its row is about to lose.
    fn keep_for_network(&mut self, row: &MessageRow) {
        let pointer = keys::message_id(row.channel, Direction::Outbound, &row.message_id);
        let pointer = self.read::<MessagePointer>(&pointer).filter(|pointer| pointer.row == row.id);
        let Some(place) = pointer.and_then(|pointer| pointer.outbox) else { return };
        let key = keys::outbox(row.channel, place);
        if self.read::<OutboxEntry>(&key).is_some_and(|entry| !entry.is_whole()) {
            self.state.put(&key, &encode(&OutboxEntry::whole(row)));
        }
    }

    fn expire_messages(&mut self, channel: ChannelId, rows: Vec<Place>) -> Reply {
        let mut deleted = 0;
        for (at, id) in rows {
            if deleted >= KEYS_AT_ONCE {
                return Reply::More;
            }
            let key = keys::message(channel, at, id);
            let Some(row) = self.read::<MessageRow>(&key) else { continue };
            if !self.expire_pointer(&row) {
                continue;
            }
            deleted += 2 + self.delete_all(keys::receipts_of(channel, id), KEYS_AT_ONCE);
            deleted += self.delete_all(keys::message_deliveries(channel, id), KEYS_AT_ONCE);
            self.state.delete(&keys::message_state(channel, id));
            self.state.delete(&key);
        }
        Reply::Done
    }

    /// Deletes a delivery that has ended, but not one that has yet to be attempted.
    fn expire_delivery(&mut self, endpoint: EndpointId, id: DeliveryId) {
        let key = keys::delivery(endpoint, id);
        let Some(row) = self.read::<DeliveryRow>(&key).filter(|row| row.next_attempt_at.is_none()) else { return };
        self.delete_all(keys::attempts_of(endpoint, id), KEYS_AT_ONCE);
        self.state.delete(&keys::begun_attempt(endpoint, id));
        for direction in [Direction::Inbound, Direction::Outbound] {
            let pointer = row.message_id.as_ref().map(|message| keys::message_id(row.channel, direction, message));
            if let Some(pointer) = pointer.and_then(|pointer| self.read::<MessagePointer>(&pointer)) {
                self.state.delete(&keys::message_delivery(row.channel, pointer.row, id));
            }
        }
        let event_key = keys::event(row.event_id.as_str());
        match self.read::<EventRow>(&event_key) {
            Some(event) if event.deliveries > 1 => {
                self.state.put(&event_key, &encode(&EventRow { deliveries: event.deliveries - 1, ..event }));
            }
            Some(_) => self.state.delete(&event_key),
            None => {}
        }
        self.state.delete(&key);
    }

    fn expire_lid(&mut self, channel: ChannelId, lid: &Address) {
        let key = keys::lid(channel, lid.local());
        let Some(known) = self.read::<LidRow>(&key) else { return };
        let back = keys::lid_of(channel, known.phone.local());
        // Another LID may have the number by now.
        if self.read::<Address>(&back).is_some_and(|back| back == *lid) {
            self.state.delete(&back);
        }
        self.state.delete(&key);
    }

    /// Deletes the pointer to a row. False if the row has to stay, because its send is still in the outbox.
    fn expire_pointer(&mut self, row: &MessageRow) -> bool {
        let direction = row.direction;
        if direction == Direction::Inbound && self.format >= Format::THIRD {
            sameness::delete(self.state, row);
            return true;
        }
        let key = keys::message_id(row.channel, direction, &row.message_id);
        let Some(pointer) = self.read::<MessagePointer>(&key).filter(|pointer| pointer.row == row.id) else {
            return true;
        };
        let outbox = pointer.outbox.filter(|_| direction == Direction::Outbound);
        if outbox.is_some_and(|sequence| self.state.get(&keys::outbox(row.channel, sequence)).is_some()) {
            return false;
        }
        self.state.delete(&key);
        true
    }
}

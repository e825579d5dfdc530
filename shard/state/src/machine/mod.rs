//! The shard's state machine: applies the commands of its channels to its state. Pure; see `machine::Machine`.

mod delete_channel;
mod deliveries;
mod expire;
mod inbound;
mod lids;
mod project;
mod receipts;
mod reseal;
mod settings;
mod usage;

use bytes::Bytes;
use machine::{Machine, Position, State, View};
use model::format::{Foreign, Format};
use model::id::{ChannelId, CustomerId, MessageId, NodeId, RowId};
use model::msgpack;
use model::status::{OnSend, Status};
use model::time::Timestamp;
use model::webhook::DeliveryState;
use traffic::item::AuthWrite;

use crate::command::{Batch, BatchReply, Command, Effect, Move, NewEvent, NewMessage, ProjectedWrite, Reply, Verdict};
use crate::deliveries::Job;
use crate::history::Direction;
use crate::media::command::{MediaCommand, MediaRoom};
use crate::media::record::MediaRow;
use crate::projection::Entity;
use crate::projection::chats::{LastInbound, LastOutbound};
use crate::records::{
    ChannelRow, ChannelStanding, DeliveryRow, EventRow, MessagePointer, OutboxEntry, StatusChange, decode, encode,
};
use crate::stream::{Streamed, StreamedEvent, ring};
use crate::usage::Tally;
use crate::{keys, media};

/// The most sends that wait for a channel that is not connected.
pub const OFFLINE_QUEUE: usize = 1000;

/// The name of the row of a driver's state that shows that the channel can log in.
pub const CREDENTIALS: &str = "credentials";

/// The most rows of a driver's state that one log entry deletes.
const CREDENTIALS_AT_ONCE: usize = 500;

/// The next portion of a driver's state to delete before a transition wipes the rest; empty if there is little. The row
/// that shows that the channel can log in is never part of it.
pub fn credentials_to_thin(view: &dyn View, channel: ChannelId) -> Vec<AuthWrite> {
    let rows = view.scan_range(keys::auth_of(channel), CREDENTIALS_AT_ONCE + 1);
    if rows.len() <= CREDENTIALS_AT_ONCE {
        return Vec::new();
    }
    let names = rows.iter().filter_map(|(key, _)| keys::name_of_auth(key)).filter(|name| name != CREDENTIALS);
    names.take(CREDENTIALS_AT_ONCE).map(|key| AuthWrite { key, value: None }).collect()
}

/// The state machine. It keeps nothing in memory, but reads what it needs from the state.
#[derive(Default)]
pub struct ShardMachine;

impl Machine for ShardMachine {
    fn restore(&mut self, _state: &dyn View) {}

    fn apply(&mut self, at: Position, command: &[u8], state: &mut dyn State) -> Result<Bytes, Foreign> {
        let batch = Batch::read(command)?;
        let reply = if batch.epoch == at.term {
            let Batch { version: format, node, commands, .. } = batch;
            let (usage, effects) = (Tally::default(), Vec::new());
            let mut apply = Apply { state, at, format, node, place: 0, relayed: 0, usage, effects };
            let replies = commands.into_iter().map(|command| apply.command(command)).collect();
            apply.usage.write(apply.state);
            BatchReply::Replies(replies, apply.effects)
        } else {
            BatchReply::Fenced
        };
        Ok(Bytes::from(msgpack::to_vec(&reply).expect("a reply of plain fields is always written")))
    }
}

/// A batch that is being applied to the state.
struct Apply<'a> {
    state: &'a mut dyn State,
    at: Position,
    format: Format,
    node: NodeId,
    /// The number of the next outbox entry within this log entry.
    place: u64,
    /// The number of the next relayed event within this log entry.
    relayed: u64,
    /// The usage that the batch counts.
    usage: Tally,
    effects: Vec<Effect>,
}

impl Apply<'_> {
    fn command(&mut self, command: Command) -> Reply {
        match command {
            Command::AcceptSend { customer: _, message, outbox, media, projected, room } => {
                self.accept_send(&message, &outbox, media, room, projected)
            }
            Command::Send { message, projected } => self.accept_send(&message, &[], None, None, projected),
            Command::Sent { customer, channel, message, at, heard_at } => {
                let verdict = Verdict::Accepted { recipients: None };
                self.settle(channel, &message, verdict, at, Some((customer, heard_at)), Vec::new())
            }
            Command::Settle { channel, message, verdict, at, events, projected } => {
                let counted = events.first().map(|event| (event.customer, event.at));
                let reply = self.settle(channel, &message, verdict, at, counted, events);
                if reply == Reply::Done {
                    self.write_projected(channel, projected);
                }
                reply
            }
            Command::Receipt { channel, message, status, participant, at, event } => {
                self.receipt(channel, &message, status, participant, at, event)
            }
            Command::Receive { customer, message, event } => self.receive(customer, &message, event),
            Command::ReceiveOwn { customer: _, message, events } => self.receive_own(&message, events),
            Command::Recover { customer, message, event } => self.recover(customer, &message, event),
            Command::LearnLid { channel, lid, phone, at, event } => self.learn_lid(channel, &lid, phone, at, event),
            Command::Move(step) => self.step(step),
            Command::Emit(event) => {
                self.emit(event, None);
                Reply::Done
            }
            Command::Project { channel, customer: _, writes, events } => self.project(channel, writes, events),
            Command::ChangeSettings { channel, customer, expect, row } => {
                self.change_settings(channel, customer, expect, &row)
            }
            Command::Auth { channel, customer, writes } => self.auth(channel, customer, writes),
            Command::Reseal { channel, auth, proxy } => self.reseal(channel, auth, proxy),
            Command::Delivery(command) => self.delivery(command),
            Command::Media(command) => self.media(command),
            Command::DeleteChannel { channel, customer } => self.delete_channel(channel, customer),
            Command::Expire(expire) => self.expire(expire),
            Command::Release { home, upto } => ring::release(self.state, home, upto),
            Command::Gather { source, after, upto, at, events } => {
                ring::gather(self.state, source, after, upto, at, events)
            }
            Command::DropRing { customer } => ring::drop_ring(self.state, customer),
            Command::KeepTicket { customer, digest, ticket, at } => {
                ring::keep_ticket(self.state, customer, &digest, &ticket, at)
            }
            Command::UseTicket { customer, digest, at } => ring::use_ticket(self.state, customer, &digest, at),
        }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, key: &[u8]) -> Option<T> {
        self.state.get(key).map(|bytes| decode(&bytes))
    }

    fn channel(&self, id: ChannelId, customer: CustomerId) -> ChannelRow {
        self.read(&keys::channel(id)).unwrap_or_else(|| ChannelRow::new(id, customer))
    }

    fn standing(&self, id: ChannelId) -> ChannelStanding {
        self.read(&keys::channel(id)).unwrap_or(ChannelStanding::UNTOUCHED)
    }

    fn accept_send(
        &mut self,
        message: &NewMessage,
        outbox: &[u8],
        media: Option<Box<MediaRow>>,
        room: Option<MediaRoom>,
        projected: Vec<ProjectedWrite>,
    ) -> Reply {
        let channel = self.standing(message.channel);
        if channel.deleted {
            return Reply::ChannelDeleted;
        }
        let pointer_key = keys::message_id(message.channel, Direction::Outbound, &message.message_id);
        if self.state.get(&pointer_key).is_some() {
            return Reply::Unchanged;
        }
        match channel.status.on_send() {
            OnSend::Direct => {}
            OnSend::Queue => {
                if self.state.scan_range(keys::outbox_of(message.channel), OFFLINE_QUEUE).len() >= OFFLINE_QUEUE {
                    return Reply::QueueFull;
                }
            }
            OnSend::NotConnected | OnSend::Unavailable => return Reply::Refused(channel.status),
        }
        let over = media.as_ref().zip(room).and_then(|(row, room)| media::apply::over(&*self.state, row, room));
        if let Some(used) = over {
            return Reply::OverQuota { used };
        }
        let sequence = self.next_place();
        self.place += 1;
        let key = keys::outbox(message.channel, sequence);
        match outbox {
            [] => self.state.put(&key, &encode(&OutboxEntry::stored(message.message_id.clone()))),
            whole => self.state.put(&key, whole),
        }
        self.put_message(&pointer_key, message, Some(sequence));
        // The verdict follows soon and needs no read: a message with a new id has no state yet.
        self.state.note_absent(&keys::message_state(message.channel, message.id));
        self.said_by_channel(message);
        if let Some(row) = media {
            self.media(MediaCommand::Add(row));
        }
        self.write_projected(message.channel, projected);
        Reply::Done
    }

    /// The outbox position of the next send. Log positions are in the order of acceptance, so no counter is needed.
    fn next_place(&self) -> u64 {
        (self.at.index << 16) | self.place
    }

    fn put_message(&mut self, pointer_key: &[u8], message: &NewMessage, outbox: Option<u64>) {
        let pointer = MessagePointer { occurred_at: message.occurred_at, row: message.id, outbox };
        self.state.put(pointer_key, &encode(&pointer));
        self.state.put(&keys::message(message.channel, message.occurred_at, message.id), &message.row);
    }

    /// Moves the chat up in the list. Overwrites the row without reading it: a send must not cost a read.
    fn said_by_channel(&mut self, message: &NewMessage) {
        if let Some(chat) = message.chat.clone() {
            self.put_projected(message.channel, &LastOutbound { chat, at: message.occurred_at });
        }
    }

    fn said_to_channel(&mut self, message: &NewMessage) {
        if let Some(chat) = message.chat.clone() {
            self.put_projected(message.channel, &LastInbound { chat, at: message.occurred_at });
        }
    }

    fn put_projected<E: Entity>(&mut self, channel: ChannelId, entity: &E) {
        self.state.put(&keys::projected(channel, E::KIND, &entity.id()), &encode(entity));
    }

    /// Applies a verdict. `counted` is the customer of the send, and when the owner learned of the verdict.
    fn settle(
        &mut self,
        channel: ChannelId,
        message: &MessageId,
        verdict: Verdict,
        at: Timestamp,
        counted: Option<(CustomerId, Timestamp)>,
        events: Vec<NewEvent>,
    ) -> Reply {
        let pointer_key = keys::message_id(channel, Direction::Outbound, message);
        let Some(pointer) = self.read::<MessagePointer>(&pointer_key) else { return Reply::Unchanged };
        let Some(outbox_key) = pointer.outbox.map(|sequence| keys::outbox(channel, sequence)) else {
            return Reply::Unchanged;
        };
        if self.state.get(&outbox_key).is_none() {
            return Reply::Unchanged;
        }
        self.state.delete(&outbox_key);
        if let Some((customer, heard_at)) = counted {
            self.count_verdict(&verdict, (customer, channel), pointer.occurred_at, heard_at);
        }
        self.settle_row(channel, pointer.row, verdict, at);
        events.into_iter().for_each(|event| self.emit(event, Some(pointer.row)));
        Reply::Done
    }

    fn step(&mut self, step: Move) -> Reply {
        let mut row = self.channel(step.channel, step.customer);
        if row.deleted {
            return Reply::ChannelDeleted;
        }
        if row.version != step.expect {
            return Reply::LostRace;
        }
        let change = StatusChange {
            from: row.status,
            to: step.to,
            reason: step.reason,
            at: step.at,
            node_id: self.node,
            epoch: self.at.term,
            details: step.details.filter(|_| self.format >= Format::THIRD),
        };
        row.moved(&step);
        if self.format >= Format::THIRD {
            match (change.from, change.to) {
                (_, Status::Connected) => row.unwritten_from = None,
                (Status::Connected, _) => row.unwritten_from = Some(self.next_place()),
                _ => {}
            }
        }
        self.state.put(&keys::status_change(row.id, step.at, row.version), &encode(&change));
        self.bound_status_changes(&row);
        if step.wipe_credentials {
            self.delete_all(keys::auth_of(row.id), usize::MAX);
        }
        self.state.put(&keys::channel(row.id), &encode(&row));
        step.events.into_iter().for_each(|event| self.emit(event, None));
        Reply::Done
    }

    fn auth(&mut self, channel: ChannelId, customer: CustomerId, writes: Vec<AuthWrite>) -> Reply {
        let mut row = self.channel(channel, customer);
        if row.deleted {
            return Reply::ChannelDeleted;
        }
        for write in writes {
            let key = keys::auth(channel, &write.key);
            if write.key == CREDENTIALS && row.credentials != write.value.is_some() {
                row.credentials = write.value.is_some();
                self.state.put(&keys::channel(channel), &encode(&row));
            }
            match write.value {
                Some(value) => self.state.put(&key, &value),
                None => self.state.delete(&key),
            }
        }
        Reply::Done
    }

    fn media(&mut self, command: MediaCommand) -> Reply {
        let bytes = self.bytes_to_come(&command);
        let reply = media::apply::command(self.state, command);
        if let Some((row, size)) = bytes.filter(|_| reply == Reply::Done) {
            self.count_media(&row, size);
        }
        reply
    }

    /// Writes an event's deliveries, due at once, and relays it to its customer's streams. An event without recipients
    /// writes nothing.
    fn emit(&mut self, event: NewEvent, row: Option<RowId>) {
        if event.deliveries.is_empty() {
            return self.relay(&event);
        }
        let event_key = keys::event(event.id.as_str());
        if self.state.get(&event_key).is_some() {
            return;
        }
        self.relay(&event);
        let deliveries = u32::try_from(event.deliveries.len()).unwrap_or(u32::MAX);
        self.state.put(&event_key, &encode(&EventRow { body: event.body, deliveries }));
        for new in event.deliveries {
            let delivery = DeliveryRow {
                id: new.id,
                endpoint: new.endpoint,
                customer: event.customer,
                channel: event.channel,
                event: event.name,
                event_id: event.id.clone(),
                message_id: event.message.clone(),
                correlation_id: event.correlation_id.clone(),
                chat: event.chat.clone(),
                url: new.url,
                state: DeliveryState::Pending,
                attempt_count: 0,
                scheduled: 0,
                next_attempt_at: Some(event.at),
                delivered_at: None,
                created_at: event.at,
                last: None,
                manual: None,
            };
            if let Some(row) = row {
                let link = keys::message_delivery(event.channel, row, delivery.id);
                self.state.put(&link, delivery.endpoint.as_bytes());
            }
            self.create_delivery(&delivery, event.at);
            self.effects.push(Effect::Deliver(Job {
                endpoint: delivery.endpoint,
                delivery: delivery.id,
                due: event.at,
                chat: delivery.chat,
            }));
        }
    }

    /// Writes an event into the relay for its customer's coordinator, if its stream is watched.
    fn relay(&mut self, event: &NewEvent) {
        let Some(Streamed { home, chat }) = event.streamed else { return };
        // Even a full log entry of many channels has fewer than a million events.
        let place = (self.at.index << 20) | self.relayed;
        self.relayed += 1;
        let event = StreamedEvent {
            customer: event.customer,
            id: event.id.clone(),
            name: event.name,
            channel: event.channel,
            chat,
            at: event.at,
            body: event.body.clone(),
        };
        ring::relay(self.state, home, place, &event);
        let relayed = Effect::Relayed(home);
        if !self.effects.contains(&relayed) {
            self.effects.push(relayed);
        }
    }

    /// Deletes at most `limit` keys of a range, and returns how many.
    fn delete_all(&mut self, (from, to): keys::Range, limit: usize) -> usize {
        let found = self.state.scan(&from, &to, limit);
        found.iter().for_each(|(key, _)| self.state.delete(key));
        found.len()
    }
}

#[cfg(test)]
mod expire_tests;
#[cfg(test)]
mod receipt_tests;
#[cfg(test)]
pub(crate) mod tests;

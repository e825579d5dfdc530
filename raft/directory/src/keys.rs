//! The directory's keys: a prefix byte, then the record's own id, so that a prefix scan reads a table.

use model::id::{AuditId, CustomerId, NodeId, ShardId, TicketId, TicketMessageId};
use model::time::Timestamp;
use uuid::Uuid;

use super::records::AuditEntry;

pub const CLUSTER: &[u8] = b"0";
pub const AUTHORITY: &[u8] = b"1";
/// The latest change of the placement.
pub const LAYOUT: &[u8] = b"2";

const TICKET: u8 = b'h';
const TICKET_OF: u8 = b'i';
const TICKET_MESSAGE: u8 = b'j';
const TICKET_BOOK: u8 = b'l';
const APPLIED: u8 = b'r';
const APPLIED_ORDER: u8 = b'o';

/// A table of the directory.
#[derive(Clone, Copy)]
pub struct Table(u8);

/// Audit entries of all customers.
pub const AUDIT: Table = Table(b'a');
/// Messages of tickets that are to be forwarded to the support.
pub const TICKET_FORWARDS: Table = Table(b'f');
pub const NODES: Table = Table(b'n');
pub const REMOVED_NODES: Table = Table(b'd');
pub const JOIN_TOKENS: Table = Table(b'g');
pub const PLACEMENTS: Table = Table(b'p');
pub const CUSTOMERS: Table = Table(b'u');
pub const API_KEYS: Table = Table(b'k');
pub const ENDPOINTS: Table = Table(b'e');
pub const CHANNELS: Table = Table(b'c');
pub const USERS: Table = Table(b'm');
pub const SESSIONS: Table = Table(b's');
pub const STREAMED_CUSTOMERS: Table = Table(b't');

impl Table {
    /// The range of the whole table.
    pub fn range(self) -> (Vec<u8>, Vec<u8>) {
        (vec![self.0], vec![self.0 + 1])
    }

    pub fn key(self, id: &[u8]) -> Vec<u8> {
        [&[self.0], id].concat()
    }
}

pub fn node(id: NodeId) -> Vec<u8> {
    NODES.key(&id.to_be_bytes())
}

pub fn placement(shard: ShardId) -> Vec<u8> {
    PLACEMENTS.key(&shard.to_be_bytes())
}

/// Audit entries sort by customer, then time. Entries without a customer are under the nil UUID.
pub fn audit(customer: Option<CustomerId>, at: Timestamp, id: AuditId) -> Vec<u8> {
    let customer = customer.map_or(Uuid::nil(), |id| id.0);
    [&[AUDIT.0][..], customer.as_bytes(), &at.0.to_be_bytes(), id.as_bytes()].concat()
}

/// A customer's entries in `[since, until)`.
pub fn audit_range(customer: Option<CustomerId>, since: Timestamp, until: Timestamp) -> (Vec<u8>, Vec<u8>) {
    let customer = customer.map_or(Uuid::nil(), |id| id.0);
    let bound = |time: Timestamp| [&[AUDIT.0][..], customer.as_bytes(), &time.0.max(0).to_be_bytes()].concat();
    (bound(since), bound(until))
}

/// The minute of an entry in its customer's log.
pub fn audit_minute(entry: &AuditEntry) -> (Vec<u8>, Vec<u8>) {
    const MINUTE_MILLIS: i64 = 60_000;
    let begin = entry.created_at.begin_of(MINUTE_MILLIS);
    audit_range(entry.customer_id, begin, Timestamp(begin.0 + MINUTE_MILLIS))
}

/// For an audit key: the end of its customer's entries that are older than `before`, and the begin of the next
/// customer's, if there can be one. `None` for any other key.
pub fn audit_before(key: &[u8], before: Timestamp) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let customer = Uuid::from_slice(key.get(1..17)?).ok()?;
    let end = [&[AUDIT.0][..], customer.as_bytes(), &before.0.max(0).to_be_bytes()].concat();
    let next = customer.as_u128().checked_add(1).map(|next| [&[AUDIT.0][..], &next.to_be_bytes()].concat());
    Some((end, next))
}

/// Tickets sort by time, because their ids begin with it.
pub fn ticket(id: TicketId) -> Vec<u8> {
    [&[TICKET], &id.as_bytes()[..]].concat()
}

/// Tickets of all customers that are older than `before`.
pub fn tickets(before: Option<TicketId>) -> (Vec<u8>, Vec<u8>) {
    (vec![TICKET], before.map_or(vec![TICKET + 1], ticket))
}

/// A ticket in the index of its customer.
pub fn ticket_of(customer: CustomerId, id: TicketId) -> Vec<u8> {
    [&[TICKET_OF], &customer.as_bytes()[..], &id.as_bytes()[..]].concat()
}

/// Tickets of a customer that are older than `before`.
pub fn tickets_of(customer: CustomerId, before: Option<TicketId>) -> (Vec<u8>, Vec<u8>) {
    let prefix = [&[TICKET_OF], &customer.as_bytes()[..]].concat();
    let end = before.map_or_else(|| [prefix.as_slice(), &[u8::MAX; 17]].concat(), |id| ticket_of(customer, id));
    (prefix, end)
}

/// The ticket id at the end of a key.
pub fn ticket_at_end(key: &[u8]) -> Option<TicketId> {
    key.last_chunk().map(|bytes| TicketId::from_bytes(*bytes))
}

/// A message of a ticket; messages sort by time.
pub fn ticket_message(ticket: TicketId, id: TicketMessageId) -> Vec<u8> {
    [&[TICKET_MESSAGE], &ticket.as_bytes()[..], &id.as_bytes()[..]].concat()
}

pub fn ticket_messages(ticket: TicketId) -> (Vec<u8>, Vec<u8>) {
    let prefix = [&[TICKET_MESSAGE], &ticket.as_bytes()[..]].concat();
    let end = [prefix.as_slice(), &[u8::MAX; 17]].concat();
    (prefix, end)
}

/// The message id at the end of a key.
pub fn ticket_message_at_end(key: &[u8]) -> Option<TicketMessageId> {
    key.last_chunk().map(|bytes| TicketMessageId::from_bytes(*bytes))
}

/// A customer's count of tickets.
pub fn ticket_book(customer: CustomerId) -> Vec<u8> {
    [&[TICKET_BOOK], &customer.as_bytes()[..]].concat()
}

/// A message that is to be forwarded to the support; sorts by time.
pub fn ticket_forward(message: TicketMessageId, ticket: TicketId) -> Vec<u8> {
    [&[TICKET_FORWARDS.0], &message.as_bytes()[..], &ticket.as_bytes()[..]].concat()
}

/// The ids in a key of [`ticket_forward`].
pub fn parse_ticket_forward(key: &[u8]) -> Option<(TicketMessageId, TicketId)> {
    let message = TicketMessageId::from_bytes(key.get(1..17)?.try_into().ok()?);
    Some((message, TicketId::from_bytes(key.get(17..33)?.try_into().ok()?)))
}

/// The reply to an applied proposal, for repeats of it.
pub fn applied(id: Uuid) -> Vec<u8> {
    [&[APPLIED][..], id.as_bytes()].concat()
}

/// Applied proposals in order, so that the oldest can be removed.
pub fn applied_order(index: u64) -> Vec<u8> {
    [&[APPLIED_ORDER][..], &index.to_be_bytes()].concat()
}

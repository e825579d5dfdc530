//! The directory's keys: a prefix byte, then the record's own id, so that a prefix scan reads a table.

use model::id::{AuditId, CustomerId, NodeId, ShardId};
use model::time::Timestamp;
use uuid::Uuid;

use super::records::AuditEntry;

const CLUSTER: u8 = b'0';
const NODE: u8 = b'n';
const PLACEMENT: u8 = b'p';
const CUSTOMER: u8 = b'u';
const API_KEY: u8 = b'k';
const ENDPOINT: u8 = b'e';
const CHANNEL: u8 = b'c';
const USER: u8 = b'm';
const SESSION: u8 = b's';
const STREAMED: u8 = b't';
const AUDIT: u8 = b'a';
const APPLIED: u8 = b'r';
const APPLIED_ORDER: u8 = b'o';

/// A table of the directory.
#[derive(Clone, Copy)]
pub struct Table(u8);

pub const NODES: Table = Table(NODE);
pub const PLACEMENTS: Table = Table(PLACEMENT);
pub const CUSTOMERS: Table = Table(CUSTOMER);
pub const API_KEYS: Table = Table(API_KEY);
pub const ENDPOINTS: Table = Table(ENDPOINT);
pub const CHANNELS: Table = Table(CHANNEL);
pub const USERS: Table = Table(USER);
pub const SESSIONS: Table = Table(SESSION);
pub const STREAMED_CUSTOMERS: Table = Table(STREAMED);

impl Table {
    /// The whole table, as a range.
    pub fn range(self) -> ([u8; 1], [u8; 1]) {
        ([self.0], [self.0 + 1])
    }

    pub fn key(self, id: &[u8]) -> Vec<u8> {
        [&[self.0], id].concat()
    }
}

pub fn cluster() -> Vec<u8> {
    vec![CLUSTER]
}

pub fn node(id: NodeId) -> Vec<u8> {
    NODES.key(&id.to_be_bytes())
}

pub fn placement(shard: ShardId) -> Vec<u8> {
    PLACEMENTS.key(&shard.to_be_bytes())
}

/// Audit entries sort by customer, then time. Those of no customer stand under the nil uuid.
pub fn audit(customer: Option<CustomerId>, at: Timestamp, id: AuditId) -> Vec<u8> {
    let customer = customer.map_or(Uuid::nil(), |id| id.0);
    [&[AUDIT][..], customer.as_bytes(), &at.0.to_be_bytes(), id.as_bytes()].concat()
}

/// The entries of a customer in `[since, until)`.
pub fn audit_range(customer: Option<CustomerId>, since: Timestamp, until: Timestamp) -> (Vec<u8>, Vec<u8>) {
    let customer = customer.map_or(Uuid::nil(), |id| id.0);
    let bound = |time: Timestamp| [&[AUDIT][..], customer.as_bytes(), &time.0.max(0).to_be_bytes()].concat();
    (bound(since), bound(until))
}

/// The minute of an entry in its customer's log.
pub fn audit_minute(entry: &AuditEntry) -> (Vec<u8>, Vec<u8>) {
    const MINUTE_MILLIS: i64 = 60_000;
    let begin = entry.created_at.0 - entry.created_at.0.rem_euclid(MINUTE_MILLIS);
    audit_range(entry.customer_id, Timestamp(begin), Timestamp(begin + MINUTE_MILLIS))
}

/// All audit entries, of all customers.
pub fn audit_table() -> (Vec<u8>, Vec<u8>) {
    (vec![AUDIT], vec![AUDIT + 1])
}

/// Where the entries of the customer of an audit key that are older than `before` end, and where the next customer's
/// begin, if there can be one. `None` for what is no audit key.
pub fn audit_before(key: &[u8], before: Timestamp) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let customer = Uuid::from_slice(key.get(1..17)?).ok()?;
    let end = [&[AUDIT][..], customer.as_bytes(), &before.0.max(0).to_be_bytes()].concat();
    let next = customer.as_u128().checked_add(1).map(|next| [&[AUDIT][..], &next.to_be_bytes()].concat());
    Some((end, next))
}

/// The reply to an applied proposal, for repeats of it.
pub fn applied(id: Uuid) -> Vec<u8> {
    [&[APPLIED][..], id.as_bytes()].concat()
}

/// Applied proposals in order, so that the oldest can be forgotten.
pub fn applied_order(index: u64) -> Vec<u8> {
    [&[APPLIED_ORDER][..], &index.to_be_bytes()].concat()
}

pub fn applied_order_range() -> ([u8; 1], [u8; 1]) {
    ([APPLIED_ORDER], [APPLIED_ORDER + 1])
}

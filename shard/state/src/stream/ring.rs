//! The rings and relays in a shard's state: how the state machine changes them, and how they are read.
//!
//! A relay row waits until the customer's coordinator fetches it; its key is its position in the shard's log. A ring is
//! numbered from 1 without gaps, so that its length is known without reading it. Its oldest rows are dropped as new
//! ones come: those beyond [`RING_EVENTS`], and those older than [`RING_AGE`] except the youngest of them, after which
//! a client that has seen everything can still resume after a long silence.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use machine::{Pairs, State, View, scan_all, scan_in_order};
use model::event::EventId;
use model::id::{CustomerId, ShardId};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Filter, Gap, Pulled, Start, StreamEvent, StreamedEvent, Ticket};
use crate::keys;
use crate::records::{decode, encode};
use crate::reply::Reply;

/// The most events of an account that can be replayed.
pub const RING_EVENTS: u64 = 10_000;

/// The greatest age of an event that can be replayed.
pub const RING_AGE: Duration = Duration::from_secs(10 * 60);

/// The number of rows that are read at a time to find old ones, and that one command deletes from a relay.
const CHUNK: usize = 64;
const RELEASE_AT_ONCE: usize = 512;

/// The most rows that are examined for one part, so that a filter that matches few events does not delay its caller.
const PART_ROWS: usize = 8 * CHUNK;

/// The most bytes of a part of a ring or a relay, unless one event is larger. A gathered part fits into one log entry.
const PART_BYTES: usize = 512 * 1024;

/// The number of a customer's tickets that are checked for expiry when one is stored.
const TICKETS_SWEPT: usize = 32;

/// The numbers of a ring: from `first` up to, but not including, `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingExtent {
    pub first: u64,
    pub next: u64,
}

impl Default for RingExtent {
    fn default() -> Self {
        Self { first: 1, next: 1 }
    }
}

impl RingExtent {
    pub fn read(view: &dyn View, customer: CustomerId) -> Self {
        view.get(&keys::ring_extent(customer)).map(|bytes| decode(&bytes)).unwrap_or_default()
    }

    fn write(self, state: &mut dyn State, customer: CustomerId) {
        state.put(&keys::ring_extent(customer), &encode(&self));
    }
}

/// Writes an event into the relay, at its position in the log.
pub fn relay(state: &mut dyn State, home: ShardId, place: u64, event: &StreamedEvent) {
    state.put(&keys::relay(home, place), &encode(event));
}

/// Deletes the relay rows that a coordinator has fetched, in steps.
pub fn release(state: &mut dyn State, home: ShardId, upto: u64) -> Reply {
    let found = state.scan_range((keys::relay(home, 0), keys::relay(home, upto.saturating_add(1))), RELEASE_AT_ONCE);
    found.iter().for_each(|(key, _)| state.delete(key));
    if found.len() == RELEASE_AT_ONCE { Reply::More } else { Reply::Done }
}

/// Appends a part of a shard's relay to the rings of its customers, exactly once: the part must begin where the
/// previous part of that shard ended.
pub fn gather(
    state: &mut dyn State,
    source: ShardId,
    after: u64,
    upto: u64,
    now: Timestamp,
    events: Vec<StreamedEvent>,
) -> Reply {
    if gathered(state, source) != after {
        return Reply::Unchanged;
    }
    state.put(&keys::gathered(source), &encode(&upto));
    let mut extents = BTreeMap::<CustomerId, RingExtent>::new();
    for event in events {
        let customer = event.customer;
        let extent = extents.entry(customer).or_insert_with(|| RingExtent::read(state, customer));
        state.put(&keys::ring(customer, extent.next), &encode(&event));
        extent.next += 1;
    }
    for (customer, mut extent) in extents {
        expire(state, customer, &mut extent, now);
        extent.write(state, customer);
    }
    Reply::Done
}

/// The position up to which the coordinators in this shard have fetched a shard's relay.
pub fn gathered(view: &dyn View, source: ShardId) -> u64 {
    view.get(&keys::gathered(source)).map_or(0, |bytes| decode(&bytes))
}

/// Drops events beyond the number and the age that a ring keeps.
fn expire(state: &mut dyn State, customer: CustomerId, extent: &mut RingExtent, now: Timestamp) {
    while extent.next - extent.first > RING_EVENTS {
        state.delete(&keys::ring(customer, extent.first));
        extent.first += 1;
    }
    let oldest = now.minus(RING_AGE);
    loop {
        let (from, to) = (keys::ring(customer, extent.first), keys::ring(customer, extent.next));
        // The second row tells whether the first may be dropped; usually it may not.
        let looked = state.scan(&from, &to, 2);
        let aged = |row: &(Vec<u8>, Vec<u8>)| decode::<StreamedEvent>(&row.1).at < oldest;
        if looked.len() < 2 || !aged(&looked[1]) {
            return;
        }
        let rows = state.scan(&from, &to, CHUNK);
        let old = rows.windows(2).take_while(|pair| aged(&pair[1])).count();
        for (key, _) in &rows[..old] {
            state.delete(key);
            extent.first += 1;
        }
    }
}

/// Deletes a ring that nobody can resume any more. Its numbers are not reused.
pub fn drop_ring(state: &mut dyn State, customer: CustomerId) -> Reply {
    let extent = RingExtent::read(state, customer);
    let (from, to) = (keys::ring(customer, extent.first), keys::ring(customer, extent.next));
    let found = state.scan(&from, &to, RELEASE_AT_ONCE);
    found.iter().for_each(|(key, _)| state.delete(key));
    let first = extent.first + found.len() as u64;
    RingExtent { first, ..extent }.write(state, customer);
    if first < extent.next { Reply::More } else { Reply::Done }
}

/// Stores a ticket, and deletes some expired tickets of the customer.
pub fn keep_ticket(
    state: &mut dyn State,
    customer: CustomerId,
    digest: &[u8],
    ticket: &Ticket,
    now: Timestamp,
) -> Reply {
    for (key, row) in state.scan_range(keys::tickets_of(customer), TICKETS_SWEPT) {
        if decode::<Ticket>(&row).expires_at <= now {
            state.delete(&key);
        }
    }
    state.put(&keys::ticket(customer, digest), &encode(ticket));
    Reply::Done
}

/// Takes a ticket: `Done` for the caller that gets it.
pub fn use_ticket(state: &mut dyn State, customer: CustomerId, digest: &[u8], now: Timestamp) -> Reply {
    let key = keys::ticket(customer, digest);
    let Some(row) = state.get(&key) else { return Reply::Unchanged };
    state.delete(&key);
    if decode::<Ticket>(&row).expires_at > now { Reply::Done } else { Reply::Unchanged }
}

/// The positions of the first and the last event in the relay for a coordinator's shard; `None` if it is empty.
pub fn relay_extent(view: &dyn View, home: ShardId) -> Option<(u64, u64)> {
    let (from, to) = keys::relays_after(home, 0);
    let place = |rows: Pairs| rows.first().and_then(|(key, _)| keys::place_of_relay(key));
    Some((place(view.scan(&from, &to, 1))?, place(view.scan_back(&from, &to, 1))?))
}

/// A part of the relay for a coordinator's shard, with the positions of its events.
pub fn relayed(view: &dyn View, home: ShardId, after: u64) -> Vec<(u64, StreamedEvent)> {
    let mut part = Vec::new();
    let mut bytes = 0;
    for (key, row) in scan_all(view, keys::relays_after(home, after), CHUNK).take(PART_ROWS) {
        let Some(place) = keys::place_of_relay(&key) else { continue };
        bytes += row.len();
        if bytes > PART_BYTES && !part.is_empty() {
            break;
        }
        part.push((place, decode(&row)));
    }
    part
}

/// Where a stream begins that resumes after an event, or with the next event.
pub fn start(view: &dyn View, customer: CustomerId, resume: Option<&EventId>) -> Start {
    let extent = RingExtent::read(view, customer);
    let Some(resume) = resume else { return Start { after: extent.next - 1, gap: None } };
    // Clients that resume were connected a moment ago, so the event is searched from the end.
    let (from, to) = (keys::ring(customer, extent.first), keys::ring(customer, extent.next));
    let id_of = |row: &[u8]| decode::<StreamedEvent>(row).id;
    if let Some((key, _)) = scan_in_order(view, (from.clone(), to), CHUNK, false).find(|(_, row)| id_of(row) == *resume)
    {
        return Start { after: keys::number_in_ring(&key), gap: None };
    }
    let oldest = view.get(&from).map(|row| id_of(&row));
    Start { after: extent.first - 1, gap: Some(Gap { oldest }) }
}

/// The next events of a ring that match a filter: at most `most`, or a little over [`PART_BYTES`].
pub fn part(view: &dyn View, customer: CustomerId, after: u64, most: usize, filter: &Filter) -> Pulled {
    let extent = RingExtent::read(view, customer);
    let missed = after.saturating_add(1) < extent.first;
    let mut pulled = Pulled { after: after.clamp(extent.first - 1, extent.next - 1), missed, ..Pulled::default() };
    let mut bytes = 0;
    // Rows that expire during the scan are not found; the next call sees the ring as it then is.
    let range = (keys::ring(customer, pulled.after + 1), keys::ring(customer, extent.next));
    for (key, row) in scan_all(view, range, CHUNK).take(PART_ROWS) {
        if pulled.events.len() >= most || bytes >= PART_BYTES {
            break;
        }
        let event: StreamedEvent = decode(&row);
        pulled.after = keys::number_in_ring(&key);
        if filter.passes(&event) {
            bytes += event.body.len();
            pulled.events.push(StreamEvent { id: event.id, name: event.name, body: event.body });
        }
    }
    pulled.caught_up = pulled.after + 1 >= extent.next;
    pulled
}

/// The digests of expired tickets among the next few after a key. Unused tickets remain stored, and [`keep_ticket`]
/// checks only the first ones. Digests are random, so a caller that checks after each new digest reaches all tickets in
/// time.
pub fn expired_tickets(view: &dyn View, customer: CustomerId, behind: &[u8], now: Timestamp) -> Vec<Bytes> {
    let (_, to) = keys::tickets_of(customer);
    let rows = view.scan(&keys::ticket(customer, behind), &to, TICKETS_SWEPT);
    let over = rows.iter().filter(|(_, row)| decode::<Ticket>(row).expires_at <= now);
    over.filter_map(|(key, _)| keys::digest_of_ticket(key).map(Bytes::copy_from_slice)).collect()
}

/// A stored ticket.
pub fn ticket(view: &dyn View, customer: CustomerId, digest: &Bytes) -> Option<Ticket> {
    view.get(&keys::ticket(customer, digest)).map(|row| decode(&row))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
#[path = "ring_tests.rs"]
mod tests;

//! Turns what happened into events, with one delivery for each endpoint that wants them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use model::address::Address;
use model::event::{Event, EventName};
use model::id::{ChannelId, CustomerId, DeliveryId, MessageId, Slot};
use model::payload::Payload;
use model::time::Timestamp;
use raft::directory::Directory;
use raft::directory::records::EndpointRecord;

use crate::command::{MOST_DELIVERY_BYTES, NewDelivery, NewEvent, weight_to};
use crate::stream::Streamed;

/// What an event refers to besides its payload.
#[derive(Clone, Debug, Default)]
pub struct About {
    pub message: Option<MessageId>,
    /// `X-Gateway-Correlation-Id`.
    pub correlation_id: Option<String>,
    pub chat: Option<Address>,
}

/// Makes the log's form of an event that happened now.
pub fn make(directory: &Directory, customer: CustomerId, event: Event, about: About) -> NewEvent {
    let streamed = streamed(directory, customer, &event.payload);
    let (deliveries, outdated) = deliveries(directory, customer, &event);
    let wanted = !deliveries.is_empty() || streamed.is_some();
    // References go into the rows of deliveries and nowhere else, so the log carries them only if there are deliveries.
    let about = if deliveries.is_empty() { About::default() } else { about };
    NewEvent {
        id: event.id.clone(),
        name: event.name(),
        channel: event.channel,
        customer,
        message: about.message,
        correlation_id: about.correlation_id,
        chat: about.chat,
        // An event that nobody wants is not stored, so its envelope is not encoded.
        body: if wanted { Bytes::from(event.to_bytes()) } else { Bytes::new() },
        at: event.occurred_at,
        deliveries,
        streamed,
        outdated,
    }
}

/// Where to relay the event, if somebody watches the customer's stream.
fn streamed(directory: &Directory, customer: CustomerId, payload: &Payload) -> Option<Streamed> {
    if !directory.is_streamed(customer) {
        return None;
    }
    let home = directory.read(|state| state.shard_of(Slot::of_customer(customer)))?;
    Some(Streamed { home, chat: payload.chat_type() })
}

/// Whether any endpoint wants an event that is costly to make. Filters by chat are not considered.
pub fn is_wanted(directory: &Directory, customer: CustomerId, channel: ChannelId, name: EventName) -> bool {
    let is_wanted = |endpoint: &Arc<EndpointRecord>| hears_of(endpoint, channel, name);
    directory.is_streamed(customer) || directory.read(|state| state.endpoints_of(customer).iter().any(is_wanted))
}

/// Whether certainly nobody wants events of these names, so that none has to be made. An old copy gives no certainty.
pub fn are_unheard(directory: &Directory, customer: CustomerId, channel: ChannelId, names: &[EventName]) -> bool {
    let hears = |endpoint: &Arc<EndpointRecord>| names.iter().any(|name| hears_of(endpoint, channel, *name));
    !directory.is_streamed(customer)
        && directory.read(|state| !state.endpoints_of(customer).iter().any(hears) && directory.is_fresh())
}

/// Whether an endpoint wants a channel's events of a name, apart from its filter by chat.
fn hears_of(endpoint: &EndpointRecord, channel: ChannelId, name: EventName) -> bool {
    endpoint.enabled && endpoint.channel_id.is_none_or(|only| only == channel) && endpoint.events.includes(name)
}

/// A delivery for each endpoint that wants the event, and whether the copy is too old to name them all. The age is read
/// while the copy cannot change: an endpoint whose creation was answered is in every copy that counts as fresh.
fn deliveries(directory: &Directory, customer: CustomerId, event: &Event) -> (Vec<NewDelivery>, bool) {
    let (name, chat_type) = (event.name(), event.payload.chat_type());
    directory.read(|state| {
        let endpoints = state
            .endpoints_of(customer)
            .into_iter()
            .filter(|endpoint| hears_of(endpoint, event.channel, name) && endpoint.chat_type_filter.passes(chat_type));
        (delivered_to(endpoints, event.occurred_at), !directory.is_fresh())
    })
}

/// One delivery per endpoint, as long as a log entry can hold them. The total length of an account's URLs is bounded
/// when they are set, so deliveries are left out only for accounts that had more before the third format.
fn delivered_to(endpoints: impl Iterator<Item = Arc<EndpointRecord>>, now: Timestamp) -> Vec<NewDelivery> {
    let mut room = MOST_DELIVERY_BYTES;
    let fits = |endpoint: &Arc<EndpointRecord>| {
        let left = room.checked_sub(weight_to(&endpoint.url));
        if let Some(left) = left {
            room = left;
        } else {
            tracing::error!(endpoint = %endpoint.id, "the account's URLs are too long together: a delivery is left out");
            metrics::counter!("gateway_deliveries_left_out_total").increment(1);
        }
        left.is_some()
    };
    let deliveries = endpoints.filter(fits).map(|endpoint| NewDelivery {
        id: DeliveryId::made_at(now, in_order()),
        endpoint: endpoint.id,
        url: endpoint.url.clone(),
    });
    deliveries.collect()
}

/// Distinguishes deliveries of one millisecond: random bytes after a counter, so that they sort in the order of
/// creation. The first attempts of a chat run in that order.
fn in_order() -> [u8; 10] {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let count = MADE.fetch_add(1, Ordering::Relaxed);
    let mut bytes: [u8; 10] = rand::random();
    // A version 7 id has room for 4, 8 and 6 bits in these three bytes.
    bytes[0] = (count >> 14) as u8;
    bytes[1] = (count >> 6) as u8;
    bytes[2] = (count & 0x3f) as u8;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_of_one_millisecond_sort_as_they_were_made() {
        let ids: Vec<DeliveryId> =
            (0..200).map(|_| DeliveryId::made_at(Timestamp(1_767_225_600_118), in_order())).collect();
        assert!(ids.is_sorted());
    }
}

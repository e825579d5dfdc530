//! The deliveries of one message.

use std::collections::BTreeMap;

use machine::{View, just_after};
use model::id::{ChannelId, DeliveryId, EndpointId, MessageId, RowId};
use model::page::{Room, json_bytes};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::page::places_of;
use crate::deliveries::running::Running;
use crate::deliveries::view::DeliveryRecord;
use crate::keys;
use crate::records::{DeliveryRow, MessageRow, decode};

/// The most deliveries in one response. Large ones reach the limit in bytes first.
const MOST_AT_ONCE: usize = 4096;

/// A message that a channel has stored, with its deliveries, oldest first: as many as fit one response.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessageDeliveries {
    pub channel: ChannelId,
    pub deliveries: Vec<DeliveryRecord>,
    /// Set if there are more deliveries after this one. Earlier releases do not set it, and return all at once.
    #[serde(default)]
    pub stopped_at: Option<DeliveryId>,
}

/// The deliveries, after `after`, of the message with a network id, in the channels that have stored it. Two such
/// channels are enough, because the caller then has to name one. An id may exist in several channels, as both ends of a
/// conversation may be channels of the gateway, and at several messages of one channel, as the sender chooses it.
/// `None` if the caller has given up.
pub fn of_message(
    view: &dyn View,
    channels: &[ChannelId],
    id: &MessageId,
    after: Option<DeliveryId>,
    oldest: impl Fn(ChannelId) -> Option<Timestamp>,
    running: &Running,
    is_given_up: &dyn Fn() -> bool,
) -> Option<Vec<MessageDeliveries>> {
    let mut found = Vec::new();
    for channel in channels {
        if is_given_up() {
            return None;
        }
        let Some(oldest) = oldest(*channel) else { continue };
        let mut is_stored = false;
        // The first deliveries of all rows with the id, and one more if there are more.
        let mut first: BTreeMap<DeliveryId, EndpointId> = BTreeMap::new();
        for (at, row) in places_of(view, *channel, id).filter(|(at, _)| *at >= oldest) {
            if is_given_up() {
                return None;
            }
            let stored = view.get(&keys::message(*channel, at, row)).map(|row| decode::<MessageRow>(&row));
            if stored.is_some_and(|stored| stored.message_id == *id) {
                is_stored = true;
                first.extend(links_of(view, *channel, row, after, MOST_AT_ONCE + 1));
                while first.len() > MOST_AT_ONCE + 1 {
                    first.pop_last();
                }
            }
        }
        if is_stored {
            found.push(MessageDeliveries::read(view, *channel, first, running));
        }
        if found.len() == 2 {
            break;
        }
    }
    Some(found)
}

impl MessageDeliveries {
    fn read(view: &dyn View, channel: ChannelId, first: BTreeMap<DeliveryId, EndpointId>, running: &Running) -> Self {
        let is_cut = first.len() > MOST_AT_ONCE;
        let mut room = Room::of_page();
        let mut deliveries = Vec::new();
        let mut upto = None;
        for (id, endpoint) in first.into_iter().take(MOST_AT_ONCE) {
            let row = view.get(&keys::delivery(endpoint, id)).map(|row| decode::<DeliveryRow>(&row));
            if let Some(record) = row.map(|row| DeliveryRecord::of(&row, running)) {
                if !room.take(json_bytes(&record)) {
                    return Self { channel, deliveries, stopped_at: upto };
                }
                deliveries.push(record);
            }
            upto = Some(id);
        }
        Self { channel, deliveries, stopped_at: upto.filter(|_| is_cut) }
    }
}

/// The deliveries that carried a stored message, oldest first.
pub(super) fn deliveries_of(view: &dyn View, row: &MessageRow) -> Vec<DeliveryRow> {
    /// More deliveries of one message than an account can have endpoints, for every event of the message.
    const MOST: usize = 1024;
    let links = links_of(view, row.channel, row.id, None, MOST).into_iter();
    let rows = links.filter_map(|(id, endpoint)| view.get(&keys::delivery(endpoint, id)));
    rows.map(|row| decode(&row)).collect()
}

/// The links of a stored message to its deliveries after `after`, at most `most`.
fn links_of(
    view: &dyn View,
    channel: ChannelId,
    row: RowId,
    after: Option<DeliveryId>,
    most: usize,
) -> Vec<(DeliveryId, EndpointId)> {
    let (first, to) = keys::message_deliveries(channel, row);
    let from = after.map_or(first, |after| just_after(&keys::message_delivery(channel, row, after)));
    let link = |(key, endpoint): (Vec<u8>, Vec<u8>)| {
        let endpoint = EndpointId::from_bytes(endpoint.try_into().ok()?);
        Some((keys::delivery_at_end(&key)?, endpoint))
    };
    view.scan(&from, &to, most).into_iter().filter_map(link).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use machine::{MemoryState, State};
    use model::event::{EventId, EventName};
    use model::id::CustomerId;
    use model::webhook::DeliveryState;

    use super::*;
    use crate::history::page::tests::{channel, row};
    use crate::records::{MessagePointer, encode};

    const NEVER: &dyn Fn() -> bool = &|| false;

    fn put_row(state: &mut MemoryState, key: &[u8], row: &MessageRow) {
        let pointer = MessagePointer { occurred_at: row.occurred_at, row: row.id, outbox: None };
        state.put(&keys::message(row.channel, row.occurred_at, row.id), &encode(row));
        state.put(key, &encode(&pointer));
    }

    /// An outbound message, and its deliveries to URLs of a given length.
    fn with_deliveries(count: usize, url: usize) -> (MemoryState, MessageRow, Vec<DeliveryId>) {
        let (mut state, row) = (MemoryState::new(), row(1, 100, 1));
        put_row(&mut state, &keys::message_id(row.channel, row.direction, &row.message_id), &row);
        let ids = (0..count).map(|n| put_delivery(&mut state, &row, n, url)).collect();
        (state, row, ids)
    }

    fn put_delivery(state: &mut MemoryState, row: &MessageRow, n: usize, url: usize) -> DeliveryId {
        let (created_at, endpoint) = (Timestamp(i64::try_from(n).unwrap()), EndpointId::random());
        let id = DeliveryId::made_at(created_at, [7; 10]);
        let delivery = DeliveryRow {
            id,
            endpoint,
            customer: CustomerId::random(),
            channel: row.channel,
            event: EventName::MessageStatus,
            event_id: EventId::mint(created_at, [7; 10]),
            message_id: Some(row.message_id.clone()),
            correlation_id: None,
            chat: None,
            url: "u".repeat(url),
            state: DeliveryState::Pending,
            attempt_count: 0,
            scheduled: 0,
            next_attempt_at: None,
            delivered_at: None,
            created_at,
            last: None,
            manual: None,
        };
        state.put(&keys::delivery(endpoint, id), &encode(&delivery));
        state.put(&keys::message_delivery(row.channel, row.id, id), endpoint.as_bytes());
        id
    }

    fn answer(state: &MemoryState, row: &MessageRow, after: Option<DeliveryId>) -> MessageDeliveries {
        let oldest = |_| Some(Timestamp(0));
        let found = of_message(state, &[row.channel], &row.message_id, after, oldest, &Running::new(14), NEVER);
        found.unwrap().pop().unwrap()
    }

    fn ids(answer: &MessageDeliveries) -> Vec<DeliveryId> {
        answer.deliveries.iter().map(|delivery| delivery.id).collect()
    }

    #[test]
    fn as_many_deliveries_as_one_answer_takes_are_all_and_one_more_comes_with_the_next() {
        let (mut state, row, mut all) = with_deliveries(MOST_AT_ONCE, 0);
        let whole = answer(&state, &row, None);
        assert_eq!((ids(&whole), whole.stopped_at), (all.clone(), None));
        all.push(put_delivery(&mut state, &row, MOST_AT_ONCE, 0));
        let first = answer(&state, &row, None);
        assert_eq!((ids(&first), first.stopped_at), (all[..MOST_AT_ONCE].to_vec(), Some(all[MOST_AT_ONCE - 1])));
        let rest = answer(&state, &row, first.stopped_at);
        assert_eq!((ids(&rest), rest.stopped_at), (all[MOST_AT_ONCE..].to_vec(), None));
        let beyond = answer(&state, &row, all.last().copied());
        assert!(beyond.deliveries.is_empty(), "the message is there, and has no more");
    }

    #[test]
    fn an_answer_ends_at_its_bytes_and_the_next_one_goes_on() {
        let (state, row, all) = with_deliveries(3_000, 2_048);
        let (mut found, mut after, mut answers) = (Vec::new(), None, 0);
        loop {
            let part = answer(&state, &row, after);
            assert!(json_bytes(&part.deliveries) <= model::page::LARGEST_PAGE);
            found.extend(ids(&part));
            answers += 1;
            after = part.stopped_at;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((found, answers), (all, 2));
    }

    #[test]
    fn deliveries_of_all_messages_of_an_id_come_in_one_order_however_many_they_are() {
        let (mut state, first, _) = with_deliveries(0, 0);
        let mut all = Vec::new();
        for n in 0..100_u8 {
            let stranger = MessageRow { message_id: first.message_id.clone(), ..row(1, 100, n) };
            let key = match n {
                0 => keys::message_id(stranger.channel, keys::Direction::Inbound, &stranger.message_id),
                _ => keys::namesake(stranger.channel, &stranger.message_id, None, &stranger.from),
            };
            put_row(&mut state, &key, &stranger);
            all.push(put_delivery(&mut state, &stranger, usize::from(100 - n), 0));
        }
        all.reverse();
        assert_eq!(ids(&answer(&state, &first, None)), all);
    }

    #[test]
    fn who_has_given_up_is_told_nothing_and_two_channels_are_enough() {
        let (mut state, first, _) = with_deliveries(1, 0);
        for n in 2..5 {
            let other = MessageRow { message_id: first.message_id.clone(), ..row(n, 100, 1) };
            put_row(&mut state, &keys::message_id(other.channel, other.direction, &other.message_id), &other);
        }
        let channels = [1, 2, 3, 4].map(channel);
        let found = |is_given_up: &dyn Fn() -> bool| {
            let (oldest, running) = (|_| Some(Timestamp(0)), Running::new(14));
            of_message(&state, &channels, &first.message_id, None, oldest, &running, is_given_up)
        };
        assert_eq!(found(NEVER).unwrap().len(), 2);
        assert!(found(&|| true).is_none());
    }
}

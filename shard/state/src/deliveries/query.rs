//! Lists and figures of a customer's deliveries in one shard.

use std::collections::BTreeMap;

use machine::{View, just_after, scan_all, scan_in_order};
use model::event::EventName;
use model::id::{ChannelId, CustomerId, DeliveryId, EndpointId, MessageId};
use model::time::Timestamp;
use model::webhook::{DeliveryState, Outcome};
use serde::{Deserialize, Serialize};

use super::running::Running;
use super::view::{DeliveryDetail, DeliveryRecord};
use crate::keys;
use crate::records::{DeliveryRow, decode};

/// Rows that are read from disk at a time.
const CHUNK: usize = 256;

/// The most rows that a page examines, over all endpoints. The next page continues where this one stopped.
const BUDGET: usize = 20_000;

/// A query for a page of deliveries. All fields except the order are filters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeliveryQuery {
    pub endpoint: Option<EndpointId>,
    pub channel: Option<ChannelId>,
    /// Empty means every event.
    pub events: Vec<EventName>,
    pub event_id: Option<String>,
    pub message_id: Option<MessageId>,
    /// Empty means every state.
    pub states: Vec<DeliveryState>,
    pub http_status: Option<StatusFilter>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub limit: usize,
    /// Oldest first.
    pub ascending: bool,
    /// Only deliveries after this one, in the direction of the order.
    pub after: Option<DeliveryId>,
}

/// A filter by the response to the last attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatusFilter {
    /// A class such as `4xx`, given by its first digit.
    Class(u16),
    Exactly(u16),
    /// No response was received, or no attempt was made.
    NoAnswer,
}

impl StatusFilter {
    /// Parses `2xx`, `none` or a number.
    pub fn parse(text: &str) -> Option<Self> {
        match text.as_bytes() {
            b"none" => Some(Self::NoAnswer),
            [class @ b'1'..=b'5', b'x', b'x'] => Some(Self::Class(u16::from(class - b'0'))),
            _ => text.parse().ok().filter(|status| (100..=599).contains(status)).map(Self::Exactly),
        }
    }

    fn passes(self, status: Option<u16>) -> bool {
        match self {
            Self::Class(class) => status.is_some_and(|status| status / 100 == class),
            Self::Exactly(wanted) => status == Some(wanted),
            Self::NoAnswer => status.is_none(),
        }
    }
}

/// Rows in order, and where the search stopped if it reached its budget.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeliveryPage {
    pub rows: Vec<DeliveryRecord>,
    /// Nothing after this delivery was examined.
    pub stopped_at: Option<DeliveryId>,
}

impl DeliveryPage {
    /// Merges pages. Rows after the first position at which a page stopped are left for the next page, for the order.
    pub fn merge(pages: impl IntoIterator<Item = Self>, limit: usize, ascending: bool) -> Self {
        let mut merged = Self::default();
        for page in pages {
            merged.rows.extend(page.rows);
            merged.stopped_at = match (merged.stopped_at, page.stopped_at) {
                (Some(a), Some(b)) => Some(if ascending { a.min(b) } else { a.max(b) }),
                (a, b) => a.or(b),
            };
        }
        if let Some(stopped_at) = merged.stopped_at {
            merged.rows.retain(|row| if ascending { row.id <= stopped_at } else { row.id >= stopped_at });
        }
        merged.rows.sort_by(|a, b| if ascending { a.id.cmp(&b.id) } else { b.id.cmp(&a.id) });
        merged.rows.truncate(limit);
        merged
    }
}

impl DeliveryQuery {
    fn passes(&self, row: &DeliveryRow, running: &Running) -> bool {
        self.channel.is_none_or(|channel| row.channel == channel)
            && (self.events.is_empty() || self.events.contains(&row.event))
            && self.event_id.as_ref().is_none_or(|id| row.event_id.as_str() == id)
            && self.message_id.as_ref().is_none_or(|id| row.message_id.as_ref() == Some(id))
            && (self.states.is_empty() || self.states.contains(&running.state_of(row)))
            && self.http_status.is_none_or(|filter| filter.passes(row.last.and_then(|last| last.http_status)))
    }
}

/// Reads a page of a customer's deliveries.
pub fn page(view: &dyn View, customer: CustomerId, query: &DeliveryQuery, running: &Running) -> DeliveryPage {
    let endpoints = match query.endpoint {
        Some(endpoint) if view.get(&keys::customer_endpoint(customer, endpoint)).is_some() => vec![endpoint],
        Some(_) => Vec::new(),
        None => endpoints_of(view, customer),
    };
    // At least something of each endpoint is examined, so that every page advances.
    let budget = BUDGET / endpoints.len().max(1);
    let pages = endpoints.into_iter().map(|endpoint| of_endpoint(view, endpoint, query, running, budget));
    DeliveryPage::merge(pages, query.limit, query.ascending)
}

/// The endpoints for which a customer has had deliveries in this shard.
fn endpoints_of(view: &dyn View, customer: CustomerId) -> Vec<EndpointId> {
    let (from, to) = keys::endpoints_of(customer);
    view.scan(&from, &to, usize::MAX).iter().filter_map(|(key, _)| keys::endpoint_at_end(key)).collect()
}

fn of_endpoint(
    view: &dyn View,
    endpoint: EndpointId,
    query: &DeliveryQuery,
    running: &Running,
    budget: usize,
) -> DeliveryPage {
    let (mut from, mut to) = keys::deliveries_of(endpoint, query.since, query.until);
    if let Some(after) = query.after {
        let place = keys::delivery(endpoint, after);
        if query.ascending {
            from = from.max(just_after(&place));
        } else {
            to = to.min(place);
        }
    }
    let mut page = DeliveryPage::default();
    for (seen, (key, row)) in (1..).zip(scan_in_order(view, (from, to), CHUNK, query.ascending)) {
        let row: DeliveryRow = decode(&row);
        if query.passes(&row, running) {
            page.rows.push(DeliveryRecord::of(&row, running));
            if page.rows.len() == query.limit {
                break;
            }
        }
        if seen >= budget {
            page.stopped_at = keys::delivery_at_end(&key);
            break;
        }
    }
    page
}

/// Finds a customer's delivery.
pub fn find(view: &dyn View, customer: CustomerId, id: DeliveryId) -> Option<DeliveryRow> {
    let found = endpoints_of(view, customer).into_iter().find_map(|endpoint| view.get(&keys::delivery(endpoint, id)));
    found.map(|row| decode(&row))
}

/// A customer's delivery with its attempts and its body.
pub fn detail(view: &dyn View, customer: CustomerId, id: DeliveryId, running: &Running) -> Option<DeliveryDetail> {
    find(view, customer, id).map(|row| DeliveryDetail::read(view, &row, running))
}

/// Counts and latencies of an endpoint's deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// By state, in the order of [`DeliveryState::ALL`].
    counts: [u64; DeliveryState::ALL.len()],
    /// The number of deliveries by latency in milliseconds.
    latencies: BTreeMap<u64, u64>,
}

impl Figures {
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, more)| *own += more);
        other.latencies.iter().for_each(|(latency, count)| *self.latencies.entry(*latency).or_default() += count);
    }

    fn count_one(&mut self, state: DeliveryState, row: &DeliveryRow) {
        if let Some(index) = DeliveryState::ALL.iter().position(|known| *known == state) {
            self.counts[index] += 1;
        }
        if let Some(last) = row.last.filter(|last| last.outcome == Outcome::Success) {
            *self.latencies.entry(last.latency_ms).or_default() += 1;
        }
    }

    pub fn count(&self, state: DeliveryState) -> u64 {
        DeliveryState::ALL.iter().position(|known| *known == state).map_or(0, |index| self.counts[index])
    }

    /// The fraction of the ended deliveries that reached their endpoint.
    pub fn success_rate(&self) -> Option<f64> {
        let (delivered, exhausted) = (self.count(DeliveryState::Delivered), self.count(DeliveryState::Exhausted));
        let ended = delivered + exhausted;
        (ended > 0).then(|| delivered as f64 / ended as f64)
    }

    /// The quantile `part` of the latencies in milliseconds.
    pub fn latency(&self, part: f64) -> Option<u64> {
        let all: u64 = self.latencies.values().sum();
        let rank = ((all as f64 * part).ceil() as u64).max(1);
        let mut below = 0;
        self.latencies.iter().find_map(|(latency, count)| {
            below += count;
            (below >= rank).then_some(*latency)
        })
    }
}

/// The figures of an endpoint's deliveries that were created at `since` or later.
pub fn figures(view: &dyn View, customer: CustomerId, id: EndpointId, since: Timestamp, running: &Running) -> Figures {
    let mut figures = Figures::default();
    if view.get(&keys::customer_endpoint(customer, id)).is_none() {
        return figures;
    }
    for (_, row) in scan_all(view, keys::deliveries_of(id, Some(since), None), CHUNK) {
        let row: DeliveryRow = decode(&row);
        figures.count_one(running.state_of(&row), &row);
    }
    figures
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::cell::Cell;

    use super::*;
    use machine::{MemoryState, Pairs, State};
    use model::event::EventId;
    use proptest::prelude::*;

    use crate::records::{LastAttempt, encode};

    const CUSTOMER: CustomerId = CustomerId(uuid::Uuid::from_u128(1));

    /// A view that counts the rows that are read.
    struct Counting<'a> {
        view: &'a MemoryState,
        rows: Cell<usize>,
    }

    impl Counting<'_> {
        fn counted(&self, pairs: Pairs) -> Pairs {
            self.rows.set(self.rows.get() + pairs.len());
            pairs
        }
    }

    impl View for Counting<'_> {
        fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
            self.view.get(key)
        }

        fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
            self.counted(self.view.scan(from, to, limit))
        }

        fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
            self.counted(self.view.scan_back(from, to, limit))
        }
    }

    fn put(state: &mut MemoryState, endpoint: EndpointId, at: i64, status: Option<u16>) -> DeliveryId {
        let created_at = Timestamp(at);
        let id = DeliveryId::made_at(created_at, rand::random());
        let outcome = if status == Some(200) { Outcome::Success } else { Outcome::Http };
        let last = status.map(|status| LastAttempt {
            started_at: created_at,
            outcome,
            http_status: Some(status),
            latency_ms: u64::try_from(at).unwrap(),
        });
        let row = DeliveryRow {
            id,
            endpoint,
            customer: CUSTOMER,
            channel: ChannelId(uuid::Uuid::nil()),
            event: EventName::MessageSent,
            event_id: EventId::mint(created_at, rand::random()),
            message_id: None,
            correlation_id: None,
            chat: None,
            url: String::new(),
            state: if status == Some(200) { DeliveryState::Delivered } else { DeliveryState::Pending },
            attempt_count: 0,
            scheduled: 0,
            next_attempt_at: None,
            delivered_at: None,
            created_at,
            last,
            manual: None,
        };
        state.put(&keys::customer_endpoint(CUSTOMER, endpoint), &[]);
        state.put(&keys::delivery(endpoint, id), &encode(&row));
        id
    }

    #[test]
    fn a_status_filter_is_a_class_a_number_or_none() {
        let table = [
            ("2xx", Some(StatusFilter::Class(2))),
            ("none", Some(StatusFilter::NoAnswer)),
            ("404", Some(StatusFilter::Exactly(404))),
            ("6xx", None),
            ("99", None),
            ("2XX", None),
            ("", None),
        ];
        for (text, filter) in table {
            assert_eq!(StatusFilter::parse(text), filter, "{text}");
        }
        assert!(StatusFilter::Class(4).passes(Some(410)) && !StatusFilter::Class(4).passes(None));
        assert!(StatusFilter::NoAnswer.passes(None));
    }

    #[test]
    fn a_search_that_looked_at_enough_says_where_it_stopped() {
        let mut state = MemoryState::new();
        let (busy, quiet) = (EndpointId::random(), EndpointId::random());
        let old = put(&mut state, quiet, 5, Some(404));
        let wanted = put(&mut state, busy, 10, Some(404));
        for at in 0..(BUDGET + CHUNK) as i64 {
            put(&mut state, busy, 100 + at, Some(200));
        }
        let mut query =
            DeliveryQuery { limit: 10, http_status: Some(StatusFilter::Exactly(404)), ..DeliveryQuery::default() };
        let running = Running::new(14);
        let mut found = Vec::new();
        loop {
            let counting = Counting { view: &state, rows: Cell::default() };
            let page = page(&counting, CUSTOMER, &query, &running);
            assert!(counting.rows.get() <= BUDGET + 2 * CHUNK, "{} rows for one page", counting.rows.get());
            found.push(page.rows.iter().map(|row| row.id).collect::<Vec<_>>());
            query.after = page.stopped_at;
            if query.after.is_none() {
                break;
            }
        }
        assert!(found[0].is_empty(), "what lies further back waits for its turn");
        assert_eq!(found.concat(), [wanted, old]);
    }

    #[test]
    fn figures_count_states_and_rank_latencies() {
        let mut state = MemoryState::new();
        let endpoint = EndpointId::random();
        for at in 1..=100 {
            put(&mut state, endpoint, at, Some(200));
        }
        for at in 1..=5 {
            put(&mut state, endpoint, at, Some(500));
        }
        let running = Running::new(14);
        let whole = figures(&state, CUSTOMER, endpoint, Timestamp(0), &running);
        assert_eq!((whole.count(DeliveryState::Delivered), whole.count(DeliveryState::Pending)), (100, 5));
        assert_eq!((whole.latency(0.5), whole.latency(0.95)), (Some(50), Some(95)));
        assert_eq!(whole.success_rate(), Some(1.0));
        let late = figures(&state, CUSTOMER, endpoint, Timestamp(91), &running);
        assert_eq!(late.count(DeliveryState::Delivered), 10);
        let nobody = figures(&state, CustomerId(uuid::Uuid::nil()), endpoint, Timestamp(0), &running);
        assert_eq!((nobody.success_rate(), nobody.latency(0.5)), (None, None));
    }

    proptest! {
        #[test]
        fn pages_show_every_delivery_once_in_order(
            made in prop::collection::vec((0_usize..3, 0_i64..50), 0..60),
            limit in 1_usize..10,
            ascending: bool,
        ) {
            let mut state = MemoryState::new();
            let endpoints = [EndpointId::random(), EndpointId::random(), EndpointId::random()];
            let mut expected: Vec<_> =
                made.iter().map(|(endpoint, at)| put(&mut state, endpoints[*endpoint], *at, None)).collect();
            expected.sort();
            if !ascending {
                expected.reverse();
            }
            let running = Running::new(14);
            let mut query = DeliveryQuery { limit, ascending, ..DeliveryQuery::default() };
            let mut seen = Vec::new();
            loop {
                let page = page(&state, CUSTOMER, &query, &running);
                let Some(last) = page.rows.last() else { break };
                query.after = Some(last.id);
                seen.extend(page.rows.iter().map(|row| row.id));
            }
            prop_assert_eq!(seen, expected);
        }
    }
}

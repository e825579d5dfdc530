#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::collections::BTreeSet;

use machine::{MemoryState, State};
use model::address::Suffixes;
use model::id::{MessageId, RowId};
use model::message::Content;
use proptest::prelude::*;
use traffic::item::ReceiptStatus;
use uuid::Uuid;

use super::*;
use crate::history::Source;
use crate::records::{LidRow, MessagePointer, ReceiptRow, encode};

pub(in crate::history) fn channel(n: u8) -> ChannelId {
    ChannelId(Uuid::from_u128(u128::from(n)))
}

pub(in crate::history) fn row(channel_n: u8, at: i64, chat: u8) -> MessageRow {
    let chat = Suffixes::simulated().phone_address(&format!("155512300{chat:02}"));
    MessageRow {
        id: RowId::new(),
        message_id: MessageId(format!("M{}", Uuid::new_v4())),
        channel: channel(channel_n),
        direction: Direction::Outbound,
        source: Source::Api,
        chat: chat.clone(),
        is_group: false,
        from: chat.clone(),
        from_resolved: true,
        from_lid: None,
        from_phone: None,
        to: chat,
        participant: None,
        push_name: None,
        content: Content::Text { text: "hi".into() },
        around: Default::default(),
        client_ref: None,
        request_id: None,
        correlation_id: "cor".into(),
        occurred_at: Timestamp(at),
        created_at: Timestamp(at),
    }
}

/// A budget of `rows` rows without a time limit.
fn unhurried(rows: usize) -> Budget<'static> {
    Budget { rows, is_over: &|| false, is_given_up: &|| false }
}

/// Rows of several channels, assigned to shards by the channel's number.
struct Store {
    shards: Vec<MemoryState>,
    rows: Vec<MessageRow>,
}

impl Store {
    fn new(rows: Vec<MessageRow>, shards: usize) -> Self {
        let mut store = Self { shards: vec![MemoryState::new(); shards], rows: Vec::new() };
        rows.into_iter().for_each(|row| store.put(row));
        store
    }

    fn put(&mut self, row: MessageRow) {
        let shard = row.channel.as_bytes()[15] as usize % self.shards.len();
        self.shards[shard].put(&keys::message(row.channel, row.occurred_at, row.id), &encode(&row));
        let pointer = MessagePointer { occurred_at: row.occurred_at, row: row.id, outbox: None };
        self.shards[shard].put(&keys::message_id(row.channel, row.direction, &row.message_id), &encode(&pointer));
        self.rows.push(row);
    }

    fn page(&self, query: &HistoryQuery, rows: usize) -> Page {
        let pages = self.shards.iter().enumerate().map(|(n, state)| {
            let here = |id: &ChannelId| id.as_bytes()[15] as usize % self.shards.len() == n;
            let channels = query.channels.iter().copied().filter(here).collect();
            let query = HistoryQuery { channels, ..query.clone() };
            page(state, &query, |_| Some(Timestamp(0)), unhurried(rows)).unwrap()
        });
        merge(pages.collect(), query)
    }

    /// Reads all pages, as a client that follows `next_cursor` does. `between` runs before each page.
    fn read(&mut self, query: &HistoryQuery, rows: usize, mut between: impl FnMut(&mut Self)) -> Vec<StoredMessage> {
        let mut found = Vec::new();
        let mut query = HistoryQuery { limit: query.limit + 1, ..query.clone() };
        loop {
            between(self);
            let mut page = self.page(&query, rows);
            let more = page.rows.len() == query.limit;
            page.rows.truncate(query.limit - 1);
            let last = page.rows.last().filter(|_| more).map(|row| (row.occurred_at, row.id));
            found.append(&mut page.rows);
            match last.or(page.frontier) {
                Some(place) => query.after = Some(place),
                None => return found,
            }
        }
    }

    /// The rows that a query should return, computed from the rows themselves.
    fn expected(&self, query: &HistoryQuery) -> Vec<RowId> {
        let mut rows: Vec<&MessageRow> = self
            .rows
            .iter()
            .filter(|row| query.channels.contains(&row.channel))
            .filter(|row| query.chat_id.as_ref().is_none_or(|chat| row.chat == *chat))
            .collect();
        rows.sort_by_key(|row| (row.occurred_at, row.id));
        if !query.ascending {
            rows.reverse();
        }
        rows.into_iter().map(|row| row.id).collect()
    }
}

fn ids(rows: &[StoredMessage]) -> Vec<RowId> {
    rows.iter().map(|row| row.id).collect()
}

#[test]
fn a_filter_that_matches_nothing_stops_at_its_budget_and_goes_on_from_there() {
    let rows = (0..1000).map(|at| row(1, at, 1)).collect();
    let mut store = Store::new(rows, 1);
    let nobody = Suffixes::simulated().phone_address("4999");
    let query =
        HistoryQuery { channels: vec![channel(1)], limit: 10, chat_id: Some(nobody), ..HistoryQuery::default() };
    let page = store.page(&query, 100);
    assert!(page.rows.is_empty());
    assert_eq!(page.frontier.unwrap().0, Timestamp(900));
    let mut pages = 0;
    assert!(store.read(&query, 100, |_| pages += 1).is_empty());
    assert_eq!(pages, 10);
}

#[test]
fn a_walk_whose_time_is_up_stops_and_still_moves() {
    let mut store = Store::new((0..500).map(|at| row(1, at, 1)).collect(), 1);
    let query = HistoryQuery { channels: vec![channel(1)], limit: 1000, ..HistoryQuery::default() };
    let late = Budget { is_over: &|| true, ..unhurried(1000) };
    let first = page(&store.shards[0], &query, |_| Some(Timestamp(0)), late).unwrap();
    assert_eq!(first.rows.len(), 64);
    assert_eq!(first.frontier.unwrap().0, Timestamp(500 - 64));
    assert_eq!(store.read(&query, 77, |_| ()).len(), 500);
}

#[test]
fn rows_beyond_their_retention_are_not_shown() {
    let store = Store::new((0..100).map(|at| row(1, at, 1)).collect(), 1);
    for ascending in [false, true] {
        let query = HistoryQuery { channels: vec![channel(1)], limit: 500, ascending, ..HistoryQuery::default() };
        let shown = |oldest| page(&store.shards[0], &query, |_| oldest, unhurried(1000)).unwrap().rows.len();
        assert_eq!(shown(Some(Timestamp(90))), 10);
        assert_eq!(shown(None), 0);
        let early = HistoryQuery { since: Some(Timestamp(50)), ..query.clone() };
        let shown = page(&store.shards[0], &early, |_| Some(Timestamp(90)), unhurried(1000)).unwrap();
        assert_eq!(shown.rows.len(), 10);
    }
}

#[test]
fn a_page_of_large_rows_ends_at_its_bytes_and_the_next_one_goes_on() {
    let large = |n: u8| {
        let mut row = row(n % 3 + 1, i64::from(n), 1);
        row.content = Content::Text { text: "x".repeat(1_000_000) };
        row
    };
    let mut store = Store::new((0..12).map(large).collect(), 2);
    let message_ids: Vec<MessageId> = store.rows.iter().map(|row| row.message_id.clone()).collect();
    for (ascending, message_ids) in [(false, Vec::new()), (true, Vec::new()), (false, message_ids)] {
        let channels = vec![channel(1), channel(2), channel(3)];
        let query = HistoryQuery { channels, limit: 100, ascending, message_ids, ..HistoryQuery::default() };
        let first = store.page(&query, 1000);
        assert!(json_bytes(&first.rows) <= model::page::LARGEST_PAGE);
        assert!(first.rows.len() >= 3, "{}", first.rows.len());
        assert_eq!(first.frontier, first.rows.last().map(|row| (row.occurred_at, row.id)));
        for state in &store.shards {
            let answer = page(state, &query, |_| Some(Timestamp(0)), unhurried(1000)).unwrap();
            assert!(json_bytes(&answer.rows) <= model::page::LARGEST_PAGE, "one node's answer to another");
        }
        let found = store.read(&query, 1000, |_| ());
        assert_eq!(ids(&found), store.expected(&query));
    }
}

#[test]
fn a_page_whose_caller_gives_up_ends_before_the_next_channel() {
    let store = Store::new((0..20).map(|n| row(n, i64::from(n), 1)).collect(), 1);
    let channels: Vec<ChannelId> = (0..20).map(channel).collect();
    let named = store.rows.iter().map(|row| row.message_id.clone()).collect();
    for message_ids in [Vec::new(), named] {
        let query = HistoryQuery { channels: channels.clone(), limit: 10, message_ids, ..HistoryQuery::default() };
        // The caller gives up at the first check, while the channels' retention is read, and while their rows are.
        for patience in [0, 10, 30] {
            let looks = Cell::new(0);
            let is_given_up = || looks.replace(looks.get() + 1) >= patience;
            let budget = Budget { is_given_up: &is_given_up, ..unhurried(1000) };
            assert!(page(&store.shards[0], &query, |_| Some(Timestamp(0)), budget).is_none());
            assert_eq!(looks.get(), patience + 1);
        }
    }
}

#[test]
fn all_messages_of_one_id_are_paged_however_many_wrote_under_it() {
    let of_id = |n: u8| MessageRow {
        message_id: MessageId("A".into()),
        direction: Direction::Inbound,
        ..row(1, i64::from(n) / 3, n)
    };
    let mut store = Store::new(Vec::new(), 1);
    for row in (0..100).map(of_id) {
        let pointer = MessagePointer { occurred_at: row.occurred_at, row: row.id, outbox: None };
        if store.rows.is_empty() {
            store.put(row);
            continue;
        }
        let namesake = keys::namesake(row.channel, &row.message_id, None, &row.from);
        store.shards[0].put(&namesake, &encode(&pointer));
        store.shards[0].put(&keys::message(row.channel, row.occurred_at, row.id), &encode(&row));
        store.rows.push(row);
    }
    for ascending in [false, true] {
        let message_ids = vec![MessageId("A".into())];
        let query =
            HistoryQuery { channels: vec![channel(1)], limit: 7, ascending, message_ids, ..HistoryQuery::default() };
        // Budgets larger than the number of positions, equal to it, and too small for a page.
        for budget in [1000, 100, 99, 5] {
            let found = store.read(&query, budget, |_| ());
            assert_eq!(ids(&found), store.expected(&query), "{budget}");
        }
    }
}

proptest! {
    /// Equal times, filters, small budgets and several shards: each row is returned once, in order.
    #[test]
    fn pages_follow_each_other_without_a_gap_or_a_repeat(
        written in prop::collection::vec((1_u8..6, 0_i64..20, 1_u8..4), 0..60),
        ascending: bool,
        chat in prop::option::of(1_u8..4),
        limit in 1_usize..8,
        budget in 1_usize..30,
        shards in 1_usize..4,
    ) {
        let rows = written.into_iter().map(|(channel, at, chat)| row(channel, at, chat)).collect();
        let mut store = Store::new(rows, shards);
        let query = HistoryQuery {
            channels: vec![channel(1), channel(2), channel(3)],
            limit,
            ascending,
            chat_id: chat.map(|chat| Suffixes::simulated().phone_address(&format!("155512300{chat:02}"))),
            ..HistoryQuery::default()
        };
        let found = store.read(&query, budget, |_| ());
        prop_assert_eq!(ids(&found), store.expected(&query));
    }

    /// Rows that are written while a client pages neither repeat nor hide earlier rows.
    #[test]
    fn inserts_do_not_shift_the_pages(
        written in prop::collection::vec(0_i64..40, 1..40),
        later in prop::collection::vec(0_i64..40, 0..20),
        ascending: bool,
        limit in 1_usize..6,
    ) {
        let mut store = Store::new(written.into_iter().map(|at| row(1, at, 1)).collect(), 1);
        let query = HistoryQuery { channels: vec![channel(1)], limit, ascending, ..HistoryQuery::default() };
        let before = store.expected(&query);
        let mut later = later.into_iter();
        let found = store.read(&query, 1000, |store| store.rows.extend(later.next().map(|at| {
            let row = row(1, at, 1);
            store.shards[0].put(&keys::message(row.channel, row.occurred_at, row.id), &encode(&row));
            row
        })));
        let unique: BTreeSet<RowId> = ids(&found).into_iter().collect();
        prop_assert_eq!(unique.len(), found.len());
        let of_before: Vec<RowId> = ids(&found).into_iter().filter(|id| before.contains(id)).collect();
        prop_assert_eq!(of_before, before);
    }
}

#[test]
fn a_conversation_that_began_under_a_lid_is_one_once_the_phone_number_is_known() {
    let (lid, phone) = (Address::lid("251556368777322"), Suffixes::simulated().phone_address("15551230001"));
    let under = |at, chat: &Address| MessageRow { chat: chat.clone(), from: chat.clone(), ..row(1, at, 1) };
    let mut store = Store::new(vec![under(1, &lid), under(2, &phone)], 1);
    let query = |chat: &Address| HistoryQuery {
        channels: vec![channel(1)],
        limit: 10,
        ascending: true,
        chat_id: Some(chat.clone()),
        ..HistoryQuery::default()
    };
    let chats = |store: &Store, chat: &Address| -> Vec<Address> {
        store.page(&query(chat), 100).rows.into_iter().map(|row| row.chat_id).collect()
    };
    assert_eq!((chats(&store, &lid), chats(&store, &phone)), (vec![lid.clone()], vec![phone.clone()]));
    let known = LidRow { phone: phone.clone(), first_seen_at: Timestamp(3) };
    store.shards[0].put(&keys::lid(channel(1), lid.local()), &encode(&known));
    assert_eq!(chats(&store, &lid), [phone.clone(), phone.clone()]);
    assert_eq!(chats(&store, &phone), [phone.clone(), phone.clone()]);
    let first = store.page(&query(&lid), 100).rows.remove(0);
    assert_eq!((first.from, first.from_resolved), (phone.clone(), true));
    assert_eq!((first.from_lid, first.from_phone), (Some(lid), Some(phone)));
}

#[test]
fn people_who_are_stored_under_a_lid_are_found_and_shown_by_their_number_too() {
    let (lid, phone) = (Address::lid("251556368777322"), Suffixes::simulated().phone_address("15551230001"));
    let everywhere = MessageRow { from: lid.clone(), to: lid.clone(), participant: Some(lid.clone()), ..row(1, 1, 2) };
    let mut store = Store::new(vec![everywhere, row(1, 2, 3)], 1);
    let base = HistoryQuery { channels: vec![channel(1)], limit: 10, ..HistoryQuery::default() };
    let queries = |who: &Address| {
        let who = Some(who.clone());
        [
            HistoryQuery { from: who.clone(), ..base.clone() },
            HistoryQuery { to: who.clone(), ..base.clone() },
            HistoryQuery { participant: who, ..base.clone() },
        ]
    };
    let found = |store: &Store, who: &Address| queries(who).map(|query| store.page(&query, 100).rows.len());
    assert_eq!((found(&store, &lid), found(&store, &phone)), ([1; 3], [0; 3]), "nobody knows the number yet");
    let known = LidRow { phone: phone.clone(), first_seen_at: Timestamp(3) };
    store.shards[0].put(&keys::lid(channel(1), lid.local()), &encode(&known));
    assert_eq!((found(&store, &lid), found(&store, &phone)), ([1; 3], [1; 3]));
    let [query, ..] = queries(&lid);
    let shown = store.page(&query, 100).rows.remove(0);
    assert_eq!((shown.from, shown.to, shown.participant), (phone.clone(), phone.clone(), Some(phone)));
}

#[test]
fn a_member_is_named_in_the_receipts_of_a_message_as_in_their_events() {
    let (lid, phone) = (Address::lid("251556368777322"), Suffixes::simulated().phone_address("15551230001"));
    let sent = MessageRow { is_group: true, ..row(1, 1, 2) };
    let receipt = ReceiptRow { member: lid.clone(), status: ReceiptStatus::Delivered, at: Timestamp(2) };
    let mut store = Store::new(vec![sent.clone()], 1);
    store.shards[0].put(&keys::receipt(channel(1), sent.id, &lid), &encode(&receipt));
    let query = HistoryQuery { channels: vec![channel(1)], limit: 10, ..HistoryQuery::default() };
    let named = |store: &Store| {
        let content = store.page(&query, 100).rows.remove(0).content.unwrap();
        content["receipts"][0]["participant"].clone()
    };
    assert_eq!(named(&store), lid.as_str(), "nobody knows the number yet");
    let known = LidRow { phone: phone.clone(), first_seen_at: Timestamp(3) };
    store.shards[0].put(&keys::lid(channel(1), lid.local()), &encode(&known));
    assert_eq!(named(&store), phone.as_str());
}

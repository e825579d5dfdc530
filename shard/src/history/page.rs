//! Pages of stored messages: a shard's rows that pass a query's filters, in order.
//!
//! A page reads the rows of all its channels in one walk, newest or oldest first, and no further than a [`Budget`]
//! allows: there is no index for most filters, and one that matches nothing must not read a million rows at once. A
//! walk that stops early says how far it came, so that the next page goes on from there.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use model::address::Address;
use model::id::ChannelId;
use model::time::Timestamp;
use raft::machine::View;

use super::show::{best, show};
use super::{Direction, HistoryQuery, Page, Place, StoredMessage};
use crate::records::{MessagePointer, MessageRow, MessageState, decode};
use crate::{keys, sameness};

/// What one page may cost.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Rows that are looked at.
    pub rows: usize,
    /// When the walk stops, wherever it is.
    pub until: Instant,
}

impl Budget {
    /// Rows that one page looks at in a shard: well below a second of reading.
    const ROWS: usize = 25_000;

    /// How long one page reads.
    const TIME: Duration = Duration::from_secs(1);

    /// The budget of a call that is to be answered by `deadline`.
    pub fn before(deadline: Instant) -> Self {
        let now = Instant::now();
        let patience = deadline.saturating_duration_since(now) / 2;
        Self { rows: Self::ROWS, until: now + patience.min(Self::TIME) }
    }
}

/// Reads a page. `oldest` says from when on a channel's rows are shown; `None` shows none of them.
pub fn page(
    view: &dyn View,
    query: &HistoryQuery,
    oldest: impl Fn(ChannelId) -> Option<Timestamp>,
    budget: Budget,
) -> Page {
    let channels = query.channels.iter().filter_map(|id| Some((*id, oldest(*id)?)));
    let (rows, frontier) = if query.message_ids.is_empty() {
        walk(view, query, channels.collect(), budget)
    } else {
        (by_message_id(view, query, channels.collect()), None)
    };
    Page { rows: rows.into_iter().map(|row| show(view, row, query.without_deliveries)).collect(), frontier }
}

/// Brings pages of several shards into one: as far as every one of them reaches, and no more than the query's limit.
pub fn merge(pages: Vec<Page>, query: &HistoryQuery) -> Page {
    let nearer = |a: Place, b: Place| if query.ascending { a.min(b) } else { a.max(b) };
    let frontier = pages.iter().filter_map(|page| page.frontier).reduce(nearer);
    let mut rows: Vec<StoredMessage> = pages.into_iter().flat_map(|page| page.rows).collect();
    let place = |row: &StoredMessage| (row.occurred_at, row.id);
    rows.retain(|row| frontier.is_none_or(|frontier| nearer(place(row), frontier) == place(row)));
    sort(&mut rows, query.ascending, place);
    rows.truncate(query.limit);
    Page { rows, frontier }
}

fn sort<T>(rows: &mut [T], ascending: bool, place: impl Fn(&T) -> Place) {
    rows.sort_by(|a, b| {
        let order = place(a).cmp(&place(b));
        if ascending { order } else { order.reverse() }
    });
}

/// Walks over all rows of the channels in order until the page is full, the budget is used up, or there are no more.
/// The frontier is the last row that was looked at, unless all were.
fn walk(
    view: &dyn View,
    query: &HistoryQuery,
    channels: Vec<(ChannelId, Timestamp)>,
    budget: Budget,
) -> (Vec<MessageRow>, Option<Place>) {
    let first_chunk = if channels.len() > 8 { 4 } else { 32 };
    let mut runs: Vec<Run> = channels.into_iter().map(|(id, from)| Run::new(query, id, from, first_chunk)).collect();
    // The next row of each run, by its place.
    let mut heads: BTreeSet<(Place, usize)> = BTreeSet::new();
    for (n, run) in runs.iter_mut().enumerate() {
        heads.extend(run.head(view).map(|place| (place, n)));
    }
    let mut found = Vec::new();
    let mut looked_at = 0;
    while let Some((place, n)) = if query.ascending { heads.pop_first() } else { heads.pop_last() } {
        if let Some(row) = runs[n].rows.pop_front()
            && query.passes(view, &row)
        {
            found.push(row);
        }
        heads.extend(runs[n].head(view).map(|place| (place, n)));
        looked_at += 1;
        let is_late = looked_at % 64 == 0 && Instant::now() >= budget.until;
        if (found.len() == query.limit || looked_at >= budget.rows || is_late) && !heads.is_empty() {
            return (found, Some(place));
        }
        if found.len() == query.limit {
            break;
        }
    }
    (found, None)
}

/// The rows of one channel, read in chunks that grow: many channels need few rows each, one needs many.
struct Run {
    ascending: bool,
    /// What is not read yet; empty when all is.
    from: Vec<u8>,
    to: Vec<u8>,
    chunk: usize,
    rows: VecDeque<MessageRow>,
}

impl Run {
    /// Rows read from disk at a time, at most.
    const LARGEST_CHUNK: usize = 256;

    fn new(query: &HistoryQuery, channel: ChannelId, oldest: Timestamp, chunk: usize) -> Self {
        // What is older is being deleted: reading it would show rows beyond their time, and walk over their remains.
        let since = query.since.map_or(oldest, |since| since.max(oldest));
        let (mut from, mut to) = keys::messages(channel, Some(since), query.until);
        if let Some((at, row)) = query.after {
            let place = keys::message(channel, at, row);
            if query.ascending {
                from = from.max(just_after(&place));
            } else {
                to = to.min(place);
            }
        }
        Self { ascending: query.ascending, from, to, chunk, rows: VecDeque::new() }
    }

    /// The place of the next row.
    fn head(&mut self, view: &dyn View) -> Option<Place> {
        if self.rows.is_empty() && self.from < self.to {
            let pairs = if self.ascending {
                view.scan(&self.from, &self.to, self.chunk)
            } else {
                view.scan_back(&self.from, &self.to, self.chunk)
            };
            match pairs.last() {
                Some((last, _)) if pairs.len() == self.chunk && self.ascending => self.from = just_after(last),
                Some((last, _)) if pairs.len() == self.chunk => self.to.clone_from(last),
                _ => self.from.clone_from(&self.to),
            }
            self.chunk = (self.chunk * 4).min(Self::LARGEST_CHUNK);
            self.rows = pairs.iter().map(|(_, row)| decode(row)).collect();
        }
        self.rows.front().map(|row| (row.occurred_at, row.id))
    }
}

fn by_message_id(view: &dyn View, query: &HistoryQuery, channels: Vec<(ChannelId, Timestamp)>) -> Vec<MessageRow> {
    let of_channel = |(channel, oldest): (ChannelId, Timestamp)| {
        let rows = query.message_ids.iter().flat_map(move |id| rows_of(view, channel, id));
        rows.filter(move |row| row.occurred_at >= oldest)
    };
    let rows = channels.into_iter().flat_map(of_channel);
    let mut rows: Vec<MessageRow> =
        rows.filter(|row| query.within_time(row) && query.beyond_cursor(row) && query.passes(view, row)).collect();
    sort(&mut rows, query.ascending, |row| (row.occurred_at, row.id));
    rows.truncate(query.limit);
    rows
}

/// The rows of a network id in a channel: those that came in, and the one that went out.
pub(super) fn rows_of(view: &dyn View, channel: ChannelId, id: &model::id::MessageId) -> Vec<MessageRow> {
    let sent = || {
        let pointer: MessagePointer = decode(&view.get(&keys::message_id(channel, Direction::Outbound, id))?);
        Some(decode(&view.get(&keys::message(channel, pointer.occurred_at, pointer.row))?))
    };
    sameness::all(view, channel, id).into_iter().chain(sent()).collect()
}

fn just_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl HistoryQuery {
    fn within_time(&self, row: &MessageRow) -> bool {
        self.since.is_none_or(|since| row.occurred_at >= since)
            && self.until.is_none_or(|until| row.occurred_at < until)
    }

    fn beyond_cursor(&self, row: &MessageRow) -> bool {
        let place = (row.occurred_at, row.id);
        self.after.is_none_or(|after| if self.ascending { place > after } else { place < after })
    }

    /// Every filter but time and cursor, which are the range that is read.
    fn passes(&self, view: &dyn View, row: &MessageRow) -> bool {
        let is = |wanted: &Option<Address>, got: &Address| wanted.as_ref().is_none_or(|wanted| wanted == got);
        // Who wrote under a LID may be asked for by either address.
        let author = |wanted: &Address| {
            *wanted == row.from || row.from_lid.as_ref() == Some(wanted) || row.from_phone.as_ref() == Some(wanted)
        };
        if row.content.is_story() {
            return false;
        }
        let chat = |wanted: &Address| {
            *wanted == row.chat || best(view, row.channel, wanted) == best(view, row.channel, &row.chat)
        };
        let has_media = row.content.media().is_some();
        self.direction.is_none_or(|direction| row.direction == direction)
            && self.chat_id.as_ref().is_none_or(chat)
            && self.from.as_ref().is_none_or(author)
            && is(&self.to, &row.to)
            && self.participant.as_ref().is_none_or(|wanted| row.participant.as_ref() == Some(wanted))
            && (self.types.is_empty() || self.types.iter().any(|kind| kind == row.type_name()))
            && self.client_ref.as_ref().is_none_or(|wanted| row.client_ref.as_ref() == Some(wanted))
            && self.has_media.is_none_or(|wanted| wanted == has_media)
            && (self.statuses.is_empty() || self.statuses.contains(&MessageState::read(view, row).status))
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;

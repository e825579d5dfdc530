//! Pages of stored messages: the rows of a shard that match a query, in order.
//!
//! A page reads the rows of all its channels in one scan, newest or oldest first, within a [`Budget`]: most filters
//! have no index, and a filter that matches nothing must not read a million rows at once. A scan that stops early
//! reports how far it came, so that the next page continues from there.

use std::collections::{BTreeSet, VecDeque};

use machine::{View, just_after};
use model::address::Address;
use model::id::{ChannelId, MessageId};
use model::page::{Room, json_bytes};
use model::time::Timestamp;

use super::show::{best, show};
use super::{Direction, HistoryQuery, Page, Place, StoredMessage};
use crate::records::{MessagePointer, MessageRow, MessageState, decode};
use crate::{keys, sameness};

/// The bounds of one page.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// The most rows that are examined.
    pub rows: usize,
    /// Whether the time is up: the scan stops where it is.
    pub is_over: &'a dyn Fn() -> bool,
    /// Whether nobody waits for the page any more.
    pub is_given_up: &'a dyn Fn() -> bool,
}

/// The number of rows between two checks of the time.
const ROWS_BETWEEN_LOOKS: usize = 64;

/// Reads a page. `oldest` returns the time from which on a channel's rows are shown; `None` shows none of them. To
/// report how far a page reaches, something of every channel has to be read; `None` if its caller gives up before that.
pub fn page(
    view: &dyn View,
    query: &HistoryQuery,
    oldest: impl Fn(ChannelId) -> Option<Timestamp>,
    budget: Budget<'_>,
) -> Option<Page> {
    let mut channels = Vec::new();
    for id in &query.channels {
        if (budget.is_given_up)() {
            return None;
        }
        channels.extend(oldest(*id).map(|oldest| (*id, oldest)));
    }
    let filling = Filling::new(view, query);
    if query.message_ids.is_empty() {
        walk(filling, channels, budget)
    } else {
        by_message_id(filling, &channels, budget)
    }
}

/// A page that is being filled, up to the requested number of rows and the size limit of a page.
struct Filling<'a> {
    view: &'a dyn View,
    query: &'a HistoryQuery,
    room: Room,
    rows: Vec<StoredMessage>,
}

impl<'a> Filling<'a> {
    fn new(view: &'a dyn View, query: &'a HistoryQuery) -> Self {
        Self { view, query, room: Room::of_page(), rows: Vec::new() }
    }

    /// Adds a row, if it matches; `false` if the page has no space for it.
    fn add(&mut self, row: MessageRow) -> bool {
        if !self.query.passes(self.view, &row) {
            return true;
        }
        let shown = show(self.view, row, self.query.without_deliveries);
        let fits = self.room.take(json_bytes(&shown));
        if fits {
            self.rows.push(shown);
        }
        fits
    }

    fn is_full(&self) -> bool {
        self.rows.len() == self.query.limit
    }

    fn up_to(self, frontier: Option<Place>) -> Page {
        Page { rows: self.rows, frontier }
    }
}

/// Merges pages of several shards, as far as all of them reach, up to the query's limit and the size limit of a page.
pub fn merge(pages: Vec<Page>, query: &HistoryQuery) -> Page {
    let nearer = |a: Place, b: Place| if query.ascending { a.min(b) } else { a.max(b) };
    let frontier = pages.iter().filter_map(|page| page.frontier).reduce(nearer);
    let mut rows: Vec<StoredMessage> = pages.into_iter().flat_map(|page| page.rows).collect();
    let place = |row: &StoredMessage| (row.occurred_at, row.id);
    rows.retain(|row| frontier.is_none_or(|frontier| nearer(place(row), frontier) == place(row)));
    rows.sort_by_key(place);
    if !query.ascending {
        rows.reverse();
    }
    rows.truncate(query.limit);
    let fitting = Room::of_page().rows(&rows);
    if fitting < rows.len() {
        rows.truncate(fitting);
        return Page { frontier: rows.last().map(place), rows };
    }
    Page { rows, frontier }
}

/// Scans all rows of the channels in order until the page is full, the budget is used up, or there are no more. The
/// frontier is the last row that was examined, unless all were.
fn walk(mut filling: Filling<'_>, channels: Vec<(ChannelId, Timestamp)>, budget: Budget<'_>) -> Option<Page> {
    let (view, query) = (filling.view, filling.query);
    let first_chunk = if channels.len() > 8 { 4 } else { 16 };
    let most_bytes = RUNS_BYTES / channels.len().max(1);
    let mut runs: Vec<Run> =
        channels.into_iter().map(|(id, from)| Run::new(query, id, from, first_chunk, most_bytes)).collect();
    // The next row of each run, by its position.
    let mut heads: BTreeSet<(Place, usize)> = BTreeSet::new();
    for (n, run) in runs.iter_mut().enumerate() {
        if (budget.is_given_up)() {
            return None;
        }
        heads.extend(run.head(view).map(|place| (place, n)));
    }
    let mut behind = None;
    let mut looked_at = 0;
    while let Some((place, n)) = if query.ascending { heads.pop_first() } else { heads.pop_last() } {
        if let Some(row) = runs[n].rows.pop_front()
            && !filling.add(row)
        {
            return Some(filling.up_to(behind));
        }
        behind = Some(place);
        heads.extend(runs[n].head(view).map(|place| (place, n)));
        looked_at += 1;
        let is_late = looked_at % ROWS_BETWEEN_LOOKS == 0 && (budget.is_over)();
        if (filling.is_full() || looked_at >= budget.rows || is_late) && !heads.is_empty() {
            return Some(filling.up_to(behind));
        }
        if filling.is_full() {
            break;
        }
    }
    Some(filling.up_to(None))
}

/// The most bytes of rows that one scan holds in memory over all its channels, in addition to one row of each.
const RUNS_BYTES: usize = 16 * 1024 * 1024;

/// The rows of one channel, read in growing chunks: the more channels, the fewer rows of each are needed.
struct Run {
    ascending: bool,
    /// The key range that has not been read yet; empty when all has been.
    from: Vec<u8>,
    to: Vec<u8>,
    chunk: usize,
    /// The most bytes of rows that are held at a time.
    most_bytes: usize,
    rows: VecDeque<MessageRow>,
}

impl Run {
    /// The most rows that are read from disk at a time.
    const LARGEST_CHUNK: usize = 256;

    fn new(query: &HistoryQuery, channel: ChannelId, oldest: Timestamp, chunk: usize, most_bytes: usize) -> Self {
        // Older rows are being deleted: reading them would show expired rows, and scan over tombstones.
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
        Self { ascending: query.ascending, from, to, chunk, most_bytes, rows: VecDeque::new() }
    }

    /// The position of the next row.
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
            let bytes: usize = pairs.iter().map(|(_, row)| row.len()).sum();
            let each = bytes / pairs.len().max(1);
            let by_bytes = self.most_bytes / each.max(1);
            self.chunk = (self.chunk * 4).min(Self::LARGEST_CHUNK).min(by_bytes).max(1);
            self.rows = pairs.iter().map(|(_, row)| decode(row)).collect();
        }
        self.rows.front().map(|row| (row.occurred_at, row.id))
    }
}

/// The rows of given ids. Their positions are known without reading them, so no row after the page is read, and of more
/// positions than the budget has rows, only the nearest ones are kept.
fn by_message_id(mut filling: Filling<'_>, channels: &[(ChannelId, Timestamp)], budget: Budget<'_>) -> Option<Page> {
    let (view, query) = (filling.view, filling.query);
    let mut places: BTreeSet<(Place, ChannelId)> = BTreeSet::new();
    let mut are_all = true;
    for (channel, oldest) in channels {
        if (budget.is_given_up)() {
            return None;
        }
        for place in query.message_ids.iter().flat_map(|id| places_of(view, *channel, id)) {
            if (budget.is_given_up)() {
                return None;
            }
            if place.0 >= *oldest && query.within_time(place) && query.beyond_cursor(place) {
                places.insert((place, *channel));
            }
            if places.len() > budget.rows {
                let farthest = if query.ascending { places.pop_last() } else { places.pop_first() };
                are_all &= farthest.is_none();
            }
        }
    }
    let mut behind = None;
    let mut looked_at = 0;
    while let Some((place, channel)) = if query.ascending { places.pop_first() } else { places.pop_last() } {
        let row = view.get(&keys::message(channel, place.0, place.1)).map(|row| decode::<MessageRow>(&row));
        let row = row.filter(|row| query.message_ids.contains(&row.message_id));
        if filling.is_full() || row.is_some_and(|row| !filling.add(row)) {
            return Some(filling.up_to(behind));
        }
        behind = Some(place);
        looked_at += 1;
        if looked_at % ROWS_BETWEEN_LOOKS == 0 && !places.is_empty() && (budget.is_over)() {
            return Some(filling.up_to(behind));
        }
    }
    Some(filling.up_to(behind.filter(|_| !are_all)))
}

/// The positions at which a channel may hold rows with a network id: any number of inbound ones, and one outbound one.
/// The caller has to compare the ids of the rows.
pub(super) fn places_of<'a>(
    view: &'a dyn View,
    channel: ChannelId,
    id: &MessageId,
) -> impl Iterator<Item = Place> + use<'a> {
    let sent = view.get(&keys::message_id(channel, Direction::Outbound, id));
    let sent = sent.map(|pointer| decode::<MessagePointer>(&pointer));
    let pointers = sameness::pointers(view, channel, id).chain(sent);
    pointers.map(|pointer| (pointer.occurred_at, pointer.row))
}

impl HistoryQuery {
    fn within_time(&self, (at, _): Place) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }

    fn beyond_cursor(&self, place: Place) -> bool {
        self.after.is_none_or(|after| if self.ascending { place > after } else { place < after })
    }

    /// Every filter except time and cursor, which determine the scanned range.
    fn passes(&self, view: &dyn View, row: &MessageRow) -> bool {
        // A person stored under a LID matches either address, once the phone number is known.
        let same = |wanted: &Address, got: &Address| {
            wanted == got || best(view, row.channel, wanted) == best(view, row.channel, got)
        };
        let is = |wanted: &Option<Address>, got: &Address| wanted.as_ref().is_none_or(|wanted| same(wanted, got));
        let author = |wanted: &Address| {
            same(wanted, &row.from) || row.from_lid.as_ref() == Some(wanted) || row.from_phone.as_ref() == Some(wanted)
        };
        if row.content.is_story() {
            return false;
        }
        let has_media = row.content.media().is_some();
        self.direction.is_none_or(|direction| row.direction == direction)
            && is(&self.chat_id, &row.chat)
            && self.from.as_ref().is_none_or(author)
            && is(&self.to, &row.to)
            && (self.participant.is_none() || row.participant.as_ref().is_some_and(|got| is(&self.participant, got)))
            && (self.types.is_empty() || self.types.iter().any(|kind| kind == row.type_name()))
            && self.client_ref.as_ref().is_none_or(|wanted| row.client_ref.as_ref() == Some(wanted))
            && self.has_media.is_none_or(|wanted| wanted == has_media)
            && (self.statuses.is_empty() || self.statuses.contains(&MessageState::read(view, row).status))
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
pub(super) mod tests;

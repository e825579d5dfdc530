//! Pages of stored messages: a shard's rows that pass a query's filters, in order.

use model::address::Address;
use model::id::{ChannelId, RowId};
use model::time::Timestamp;
use raft::machine::View;

use super::show::show;
use super::{Direction, HistoryQuery, StoredMessage};
use crate::keys;
use crate::records::{MessagePointer, MessageRow, MessageState, decode};

/// Reads a page: the rows of the query's channels that pass its filters, in order.
pub fn page(view: &dyn View, query: &HistoryQuery) -> Vec<StoredMessage> {
    let mut rows: Vec<MessageRow> =
        query.channels.iter().flat_map(|channel| channel_page(view, query, *channel)).collect();
    sort(&mut rows, query.ascending, |row| (row.occurred_at, row.id));
    rows.truncate(query.limit);
    rows.into_iter().map(|row| show(view, row, query.without_deliveries)).collect()
}

/// Brings pages of several shards into one.
pub fn merge(pages: Vec<Vec<StoredMessage>>, query: &HistoryQuery) -> Vec<StoredMessage> {
    let mut rows: Vec<StoredMessage> = pages.into_iter().flatten().collect();
    sort(&mut rows, query.ascending, |row| (row.occurred_at, row.id));
    rows.truncate(query.limit);
    rows
}

fn sort<T>(rows: &mut [T], ascending: bool, place: impl Fn(&T) -> (Timestamp, RowId)) {
    rows.sort_by(|a, b| {
        let order = place(a).cmp(&place(b));
        if ascending { order } else { order.reverse() }
    });
}

fn channel_page(view: &dyn View, query: &HistoryQuery, channel: ChannelId) -> Vec<MessageRow> {
    /// Rows read from disk at a time.
    const CHUNK: usize = 256;
    if !query.message_ids.is_empty() {
        return by_message_id(view, query, channel);
    }
    let (mut from, mut to) = keys::messages(channel, query.since, query.until);
    if let Some((at, row)) = query.after {
        let place = keys::message(channel, at, row);
        if query.ascending {
            from = from.max(just_after(&place));
        } else {
            to = to.min(place);
        }
    }
    let mut found = Vec::new();
    loop {
        let rows = if query.ascending { view.scan(&from, &to, CHUNK) } else { view.scan_back(&from, &to, CHUNK) };
        let Some((last, _)) = rows.last() else { return found };
        if query.ascending {
            from = just_after(last);
        } else {
            to.clone_from(last);
        }
        for (_, row) in &rows {
            let row: MessageRow = decode(row);
            if query.passes(view, &row) {
                found.push(row);
                if found.len() == query.limit {
                    return found;
                }
            }
        }
    }
}

fn by_message_id(view: &dyn View, query: &HistoryQuery, channel: ChannelId) -> Vec<MessageRow> {
    let both = [Direction::Inbound, Direction::Outbound];
    let pointers = query.message_ids.iter().flat_map(|id| both.map(|side| keys::message_id(channel, side, id)));
    let rows = pointers.filter_map(|key| {
        let pointer: MessagePointer = decode(&view.get(&key)?);
        Some(decode::<MessageRow>(&view.get(&keys::message(channel, pointer.occurred_at, pointer.row))?))
    });
    rows.filter(|row| query.within_time(row) && query.beyond_cursor(row) && query.passes(view, row)).collect()
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
        let has_media = row.content.media().is_some();
        self.direction.is_none_or(|direction| row.direction == direction)
            && is(&self.chat_id, &row.chat)
            && is(&self.from, &row.from)
            && is(&self.to, &row.to)
            && self.participant.as_ref().is_none_or(|wanted| row.participant.as_ref() == Some(wanted))
            && (self.types.is_empty() || self.types.iter().any(|kind| kind == row.content.type_name()))
            && (self.statuses.is_empty() || self.statuses.contains(&MessageState::read(view, row).status))
            && self.client_ref.as_ref().is_none_or(|wanted| row.client_ref.as_ref() == Some(wanted))
            && self.has_media.is_none_or(|wanted| wanted == has_media)
    }
}

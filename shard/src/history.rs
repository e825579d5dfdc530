//! Stored messages: the query, the row as the interface shows it (supplement 5.3 and 5.4).

use model::address::Address;
use model::id::{ChannelId, DeliveryId, MessageId, RowId};
use model::time::Timestamp;
use raft::machine::View;
use serde::{Deserialize, Serialize};

use crate::call::DeliveryView;
use crate::keys;
use crate::records::{DeliveryRow, MessagePointer, MessageRow, MessageState, decode};

/// What a page of history is cut from. Everything but the order narrows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HistoryQuery {
    /// The channels asked for; never empty.
    pub channels: Vec<ChannelId>,
    pub limit: usize,
    /// Ascending by `(occurred_at, id)`; descending when false.
    pub ascending: bool,
    /// Only rows beyond this one, in the direction of the order.
    pub after: Option<(Timestamp, RowId)>,
    pub direction: Option<Direction>,
    pub chat_id: Option<Address>,
    pub from: Option<Address>,
    pub to: Option<Address>,
    pub participant: Option<Address>,
    /// Type names; empty is every type.
    pub types: Vec<String>,
    pub statuses: Vec<MessageStatus>,
    pub message_ids: Vec<MessageId>,
    pub client_ref: Option<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub has_media: Option<bool>,
    /// Leave the deliveries out.
    pub without_deliveries: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Inbound,
    Outbound,
}

/// Where a row came from (supplement 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Api,
    Device,
    Network,
}

/// The status of a stored message (supplement 5.3); an outbound one only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    Queued,
    Sent,
    Delivered,
    Read,
    Played,
    Failed,
    Received,
}

impl MessageStatus {
    pub const ALL: [Self; 7] =
        [Self::Queued, Self::Sent, Self::Delivered, Self::Read, Self::Played, Self::Failed, Self::Received];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Played => "played",
            Self::Failed => "failed",
            Self::Received => "received",
        }
    }
}

/// Why a message failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageError {
    pub code: String,
    pub message: String,
}

/// A row as the interface shows it: every field always present (supplement 5.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredMessage {
    pub id: RowId,
    pub message_id: MessageId,
    pub channel_id: ChannelId,
    pub direction: Direction,
    pub source: Source,
    pub chat_id: Address,
    pub is_group: bool,
    pub from: Address,
    pub from_resolved: bool,
    pub from_lid: Option<Address>,
    pub from_phone: Option<Address>,
    pub to: Address,
    pub participant: Option<Address>,
    pub push_name: Option<String>,
    #[serde(rename = "type")]
    pub kind: String,
    pub text: Option<String>,
    pub media: Option<serde_json::Value>,
    pub message_key: Option<serde_json::Value>,
    pub emoji: Option<String>,
    pub quoted_message_id: Option<String>,
    pub content: Option<serde_json::Value>,
    pub client_ref: Option<String>,
    pub status: MessageStatus,
    pub status_at: Timestamp,
    pub error: Option<MessageError>,
    pub request_id: Option<String>,
    pub correlation_id: String,
    pub occurred_at: Timestamp,
    pub created_at: Timestamp,
    pub webhook_deliveries: Vec<DeliveryView>,
}

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

fn show(view: &dyn View, row: MessageRow, without_deliveries: bool) -> StoredMessage {
    let webhook_deliveries = if without_deliveries { Vec::new() } else { deliveries_of(view, &row) };
    let state = MessageState::read(view, &row);
    let kind = row.content.type_name().to_owned();
    let text = row.content.text().map(str::to_owned);
    StoredMessage {
        id: row.id,
        message_id: row.message_id,
        channel_id: row.channel,
        direction: row.direction,
        source: row.source,
        chat_id: row.chat,
        is_group: row.is_group,
        from: row.from,
        from_resolved: row.from_resolved,
        from_lid: row.from_lid,
        from_phone: row.from_phone,
        to: row.to,
        participant: row.participant,
        push_name: row.push_name,
        kind,
        text,
        media: None,
        message_key: None,
        emoji: None,
        quoted_message_id: None,
        content: None,
        client_ref: row.client_ref,
        status: state.status,
        status_at: state.status_at,
        error: state.error,
        request_id: row.request_id,
        correlation_id: row.correlation_id,
        occurred_at: row.occurred_at,
        created_at: row.created_at,
        webhook_deliveries,
    }
}

fn deliveries_of(view: &dyn View, row: &MessageRow) -> Vec<DeliveryView> {
    /// More deliveries of one message than an account can have endpoints, for every event of its life.
    const MOST: usize = 1024;
    let (from, to) = keys::message_deliveries(row.channel, row.id);
    let ids = view.scan(&from, &to, MOST).into_iter();
    let ids = ids.filter_map(|(key, _)| key.get(key.len().checked_sub(16)?..)?.try_into().ok());
    let rows = ids.filter_map(|id| view.get(&keys::delivery(DeliveryId::from_bytes(id))));
    rows.map(|row| DeliveryView::of(&decode::<DeliveryRow>(&row))).collect()
}

//! `GET /v1/messages` and `GET /v1/channels/{id}/messages` (supplement 5.3).

use model::address::Address;
use model::error::ApiError;
use model::id::{ChannelId, MessageId, RowId};
use model::page::{Cursor, DEFAULT_LIMIT};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use shard::history::{Direction, HistoryQuery, MessageStatus};

use crate::exchange::{AccountCall, ChannelCall};
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};

/// How often `channel_id` may be repeated.
const MOST_CHANNELS: usize = 20;
/// How often `message_id` may be repeated.
const MOST_MESSAGE_IDS: usize = 50;

/// The types that a row can have (supplement 5.3).
const TYPES: [&str; 14] = [
    "text", "image", "video", "audio", "document", "sticker", "reaction", "edit", "delete", "location", "contact",
    "poll", "order", "unknown",
];

/// The last row of a page.
#[derive(Serialize, Deserialize)]
struct MessageCursor {
    occurred_at: Timestamp,
    id: RowId,
}

impl Cursor for MessageCursor {
    const KIND: &'static str = "messages.1";
}

pub async fn of_channel(call: &mut ChannelCall) -> Outcome {
    let channels = vec![call.channel.id];
    let (query, limit) = parse(call, call.query(), channels)?;
    call.settle().await?;
    page(call, query, limit).await
}

pub async fn of_account(call: &mut AccountCall) -> Outcome {
    let query = call.query();
    let asked: Vec<ChannelId> = query.ids("channel_id", MOST_CHANNELS);
    let own: Vec<ChannelId> = asked.iter().copied().filter(|id| call.find_channel(*id).is_some()).collect();
    if let Some(bound) = call.bound_channel() {
        // A bound key must name its channel, and no other (supplement 21.4).
        match asked.first() {
            None => return Err(ApiError::channel_scoped_key(bound)),
            Some(_) if own.len() < asked.len() => return Err(ApiError::channel_not_found()),
            Some(_) if own.iter().any(|id| *id != bound) => return Err(ApiError::channel_access_denied(bound)),
            Some(_) => {}
        }
    }
    // An unknown channel in a filter matches nothing (supplement 31, row 31).
    let channels = if asked.is_empty() { all_channels(call) } else { own };
    let (query, limit) = parse(call, query, channels)?;
    if query.channels.is_empty() {
        return Ok(Reply::ok(&List::<()>::page(Vec::new(), None)));
    }
    page(call, query, limit).await
}

fn all_channels(call: &AccountCall) -> Vec<ChannelId> {
    let channels = call.cluster().directory().read(|state| state.channels_of(call.customer_id(), None, usize::MAX));
    channels.iter().map(|channel| channel.id).collect()
}

/// Reads the filters; the page gets one row more than asked for, to know whether there is a next one.
fn parse(call: &AccountCall, query: Query<'_>, channels: Vec<ChannelId>) -> Result<(HistoryQuery, usize), ApiError> {
    let suffixes = &call.app.config.suffixes;
    let address = |name: &str| {
        query.parsed(name, "must be an address or the digits of a number", |text| {
            Address::parse_or_digits(text, suffixes).ok()
        })
    };
    let limit = query.limit().unwrap_or(DEFAULT_LIMIT);
    let message_ids = query.texts("message_id", MOST_MESSAGE_IDS);
    let asked = HistoryQuery {
        channels,
        limit: limit + 1,
        ascending: query
            .word("order", "asc or desc", |word| match word {
                "asc" => Some(true),
                "desc" => Some(false),
                _ => None,
            })
            .unwrap_or(false),
        after: query.cursor::<MessageCursor>().map(|cursor| (cursor.occurred_at, cursor.id)),
        direction: query.word("direction", "inbound or outbound", |word| match word {
            "inbound" => Some(Direction::Inbound),
            "outbound" => Some(Direction::Outbound),
            _ => None,
        }),
        chat_id: address("chat_id"),
        from: address("from"),
        to: address("to"),
        participant: address("participant"),
        types: query.words("type", &TYPES.join(","), |word| TYPES.contains(&word).then(|| word.to_owned())),
        statuses: query.words("status", "queued,sent,delivered,read,played,failed,received", |word| {
            MessageStatus::ALL.into_iter().find(|status| status.as_str() == word)
        }),
        message_ids: message_ids.into_iter().map(|id| MessageId(id.to_owned())).collect(),
        client_ref: query.text("client_ref").map(str::to_owned),
        since: query.time("since"),
        until: query.time("until"),
        has_media: query.flag("has_media"),
        without_deliveries: query.word("deliveries", "none", |word| (word == "none").then_some(true)).unwrap_or(false),
    };
    query.finish((asked, limit))
}

async fn page(call: &AccountCall, query: HistoryQuery, limit: usize) -> Outcome {
    let mut rows = call.cluster().history(call.customer_id(), query, &call.context()).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| more);
    let next = last.map(|row| MessageCursor { occurred_at: row.occurred_at, id: row.id }.encode());
    Ok(Reply::ok(&List::page(rows, next)))
}

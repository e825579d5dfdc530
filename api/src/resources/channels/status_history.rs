//! `GET /v1/channels/{id}/status-history`: newest first.

use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::time::Timestamp;
use shard::call::request::StatusHistory;

use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::ChannelCall;

model::cursor! {
    /// The position of a page's last change: its time, and the channel's version after it.
    ChangeCursor("status-history.2") { before: Timestamp, version: u64 }
}

/// Reads the page size, and where the previous page ended.
pub fn asked(query: &Query<'_>, list: ListId) -> (usize, Option<(Timestamp, u64)>) {
    let limit = query.limit().unwrap_or(DEFAULT_LIMIT);
    (limit, query.cursor::<ChangeCursor>(list).map(|cursor| (cursor.before, cursor.version)))
}

pub async fn status_history(call: &mut ChannelCall) -> Outcome {
    let list = call.list(Some(call.channel.id.0), false);
    let (limit, before) = call.asked(|query| asked(query, list))?;
    let changes = call.ask(StatusHistory { limit: limit + 1, before }).await?;
    let page = List::first(changes, limit, |(version, change)| {
        ChangeCursor { before: change.at, version: *version }.encode(list)
    });
    Ok(Reply::ok(&page.map(|(_, change)| change)))
}

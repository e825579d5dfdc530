//! `GET /v1/channels`: newest first; the live parts come from all shards that hold one of the channels.

use model::error::CallError;
use model::id::ChannelId;
use model::page::{Cursor, LARGEST_PAGE, ListId, json_bytes};
use model::status::Status;
use model::time::Timestamp;

use super::view::ChannelView;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::AccountCall;

/// Channels that are looked up at a time.
const CHUNK: usize = 500;

model::cursor! {
    /// The last channel of a page.
    ChannelCursor("channels.1") { created_at: Timestamp, id: ChannelId }
}

pub struct Filter {
    status: Option<Status>,
    /// A prefix.
    name: Option<String>,
    limit: Option<usize>,
    after: Option<(Timestamp, ChannelId)>,
}

impl Filter {
    pub fn parse(query: Query<'_>, list: ListId) -> Result<Self, CallError> {
        let filter = Self {
            status: query.word("status", Status::WORDS, Status::parse),
            name: query.text("name").map(str::to_owned),
            limit: query.limit(),
            after: query.cursor::<ChannelCursor>(list).map(|cursor| (cursor.created_at, cursor.id)),
        };
        query.finish(filter)
    }
}

pub async fn list(call: &mut AccountCall) -> Outcome {
    let of = call.list(None, false);
    let filter = Filter::parse(call.query(), of)?;
    let wanted = filter.limit;
    let mut rows = find(call, filter).await?;
    let cursor = |row: &ChannelView| ChannelCursor { created_at: row.created_at, id: row.id }.encode(of);
    let Some(limit) = wanted else { return Ok(Reply::ok(&List::cut(rows, cursor))) };
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(cursor);
    Ok(Reply::ok(&List::page(rows, next)))
}

/// The channels that match, and one more than the limit when there are more; without a limit, as many as one answer
/// holds, and some more when there are more.
async fn find(call: &AccountCall, filter: Filter) -> Result<Vec<ChannelView>, CallError> {
    let enough = filter.limit.map_or(usize::MAX, |limit| limit + 1);
    let mut after = filter.after;
    let mut rows = Vec::new();
    let mut bytes = 0;
    loop {
        // Without a filter by status, nothing that is looked up is thrown away.
        let chunk = if filter.status.is_none() { CHUNK.min(enough) } else { CHUNK };
        let page = call.cluster().directory().read(|state| state.channels_of(call.customer_id(), after, chunk));
        let at_end = page.len() < chunk;
        after = page.last().map(|channel| (channel.created_at, channel.id));

        let named = |name: &str| filter.name.as_deref().is_none_or(|prefix| name.starts_with(prefix));
        let candidates: Vec<_> = page.into_iter().filter(|channel| named(&channel.name)).collect();
        let ids: Vec<ChannelId> = candidates.iter().map(|channel| channel.id).collect();
        let lives = call.cluster().lives(&ids, &call.context()).await?;
        let views = candidates.iter().map(|channel| ChannelView::new(channel, lives.get(&channel.id)));
        let wanted = views.filter(|view| filter.status.is_none_or(|status| view.status == status));
        rows.extend(wanted.inspect(|view| bytes += json_bytes(view)));
        if at_end || rows.len() >= enough || bytes > LARGEST_PAGE {
            rows.truncate(enough);
            return Ok(rows);
        }
    }
}

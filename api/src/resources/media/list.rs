//! `GET /v1/channels/{id}/media`: newest first.

use model::id::MediaId;
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use shard::call::request::ListMedia;
use shard::media::record::MediaDirection;

use super::MediaUpload;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::ChannelCall;

model::cursor! {
    /// The last row of a page; ids sort by time of creation.
    MediaCursor("media.1") { before: MediaId }
}

/// Reads the page size, where the previous page ended, and the direction of the media.
pub fn asked(query: &Query<'_>, list: ListId) -> (usize, Option<MediaId>, Option<MediaDirection>) {
    let limit = query.limit().unwrap_or(DEFAULT_LIMIT);
    let before = query.cursor::<MediaCursor>(list).map(|cursor| cursor.before);
    (limit, before, query.word("direction", MediaDirection::WORDS, MediaDirection::parse))
}

pub async fn list(call: &mut ChannelCall) -> Outcome {
    let of = call.list(Some(call.channel.id.0), false);
    let (limit, before, direction) = call.asked(|query| asked(query, of))?;
    // One row more tells whether there is a next page.
    let page = call.ask(ListMedia { limit: limit + 1, before, direction }).await?;
    let cursor = |before: MediaId| MediaCursor { before }.encode(of);
    let List { data, next_cursor } = List::first_of(page.rows, limit, page.next.map(cursor), |row| cursor(row.id));
    let media = call.cluster().media();
    let data: Result<Vec<MediaUpload>, _> = data.into_iter().map(|row| MediaUpload::of(media, row)).collect();
    Ok(Reply::ok(&List { data: data?, next_cursor }))
}

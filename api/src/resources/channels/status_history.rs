//! `GET /v1/channels/{id}/status-history`: newest first.

use model::page::{Cursor, DEFAULT_LIMIT};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use shard::call::{Done, Work};

use crate::exchange::ChannelCall;
use crate::failure;
use crate::reply::{List, Outcome, Reply};

/// The time of the last change of a page. One channel does not change twice in a millisecond.
#[derive(Serialize, Deserialize)]
struct ChangeCursor {
    before: Timestamp,
}

impl Cursor for ChangeCursor {
    const KIND: &'static str = "status-history.1";
}

pub async fn status_history(call: &mut ChannelCall) -> Outcome {
    let query = call.query();
    let limit = query.limit().unwrap_or(DEFAULT_LIMIT);
    let before = query.cursor::<ChangeCursor>().map(|cursor| cursor.before);
    let (limit, before) = query.finish((limit, before))?;

    let Done::StatusHistory(mut changes) = call.work(Work::StatusHistory { limit: limit + 1, before }).await? else {
        return Err(failure::unexpected_answer());
    };
    let more = changes.len() > limit;
    changes.truncate(limit);
    let next = changes.last().filter(|_| more).map(|change| ChangeCursor { before: change.at }.encode());
    Ok(Reply::ok(&List::page(changes, next)))
}

//! `GET /v1/channels`: newest first. The live parts are collected from all shards that hold one of the channels.

use std::time::Duration;

use model::error::CallError;
use model::id::ChannelId;
use model::page::{Cursor, LARGEST_PAGE, ListId, json_bytes};
use model::status::Status;
use model::time::Timestamp;

use super::view::ChannelView;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply, cut};
use crate::request_context::AccountCall;

/// How many channels are looked up at a time, and for one response. A page for a filter that few channels match may be
/// short, and still have a next page.
const CHUNK: usize = 500;
const LOOKED_AT: usize = 20_000;

/// After this time a response looks up no more channels: each look-up waits for shards, and forty slow ones add up.
const LONG_ENOUGH: Duration = Duration::from_secs(5);

model::cursor! {
    /// The last channel of a page.
    ChannelCursor("channels.1") { created_at: Timestamp, id: ChannelId }
}

pub struct Filter {
    status: Option<Status>,
    /// A prefix of the name.
    name: Option<String>,
    part: Option<Part>,
    reasons: bool,
    limit: Option<usize>,
    after: Option<(Timestamp, ChannelId)>,
}

/// A part of a name (ignoring case), or digits of a phone number.
struct Part {
    text: String,
    /// The digits, if the text is a phone number as people write it.
    digits: Option<String>,
}

/// Fewer digits would match most numbers.
const FEWEST_DIGITS: usize = 3;

impl Part {
    fn new(text: &str) -> Self {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let is_number = text.chars().all(|c| c.is_ascii_digit() || " +-()".contains(c));
        let digits = (is_number && digits.len() >= FEWEST_DIGITS).then_some(digits);
        Self { text: text.to_lowercase(), digits }
    }

    fn is_in(&self, view: &ChannelView) -> bool {
        let of_number = self.digits.as_deref().zip(view.phone_number.as_deref());
        view.name.to_lowercase().contains(&self.text) || of_number.is_some_and(|(part, number)| number.contains(part))
    }
}

impl Filter {
    /// Whether matching needs only the directory's record, without the live part.
    fn is_of_record(&self) -> bool {
        self.status.is_none() && self.part.is_none()
    }

    fn matches(&self, view: &ChannelView) -> bool {
        self.status.is_none_or(|status| view.status == status) && self.part.as_ref().is_none_or(|part| part.is_in(view))
    }

    pub fn read(query: &Query<'_>, list: ListId) -> Self {
        Self {
            status: query.word("status", Status::WORDS, Status::parse),
            name: query.text("name").map(str::to_owned),
            part: query.text("q").map(Part::new),
            reasons: query.flag("reasons").unwrap_or(false),
            limit: query.limit(),
            after: query.cursor::<ChannelCursor>(list).map(|cursor| (cursor.created_at, cursor.id)),
        }
    }
}

pub async fn list(call: &mut AccountCall) -> Outcome {
    let of = call.list(None, false);
    let filter = call.asked(|query| Filter::read(query, of))?;
    let wanted = filter.limit;
    let (mut rows, stopped_at) = find(call, filter).await?;
    let cursor = |row: &ChannelView| ChannelCursor { created_at: row.created_at, id: row.id }.encode(of);
    let stopped_at = stopped_at.map(|(created_at, id)| ChannelCursor { created_at, id }.encode(of));
    let Some(limit) = wanted else {
        let next = cut(&mut rows, usize::MAX, false, cursor).or(stopped_at);
        return Ok(Reply::ok(&List { data: rows, next_cursor: next.map(Some) }));
    };
    Ok(Reply::ok(&List::first_of(rows, limit, stopped_at, cursor)))
}

/// Channels of a list, and the position of the last channel that was examined if the search ended before the end.
type Found = (Vec<ChannelView>, Option<(Timestamp, ChannelId)>);

/// Whether the search ends after this many examined channels, or this long after the request.
fn is_enough(looked_at: usize, since: Duration) -> bool {
    looked_at >= LOOKED_AT || since >= LONG_ENOUGH
}

/// The channels that match, with one more than the limit if there are more. Without a limit, as many as one response
/// holds, with some more if there are more.
async fn find(call: &AccountCall, filter: Filter) -> Result<Found, CallError> {
    let enough = filter.limit.map_or(usize::MAX, |limit| limit + 1);
    let mut after = filter.after;
    let mut rows = Vec::new();
    let (mut bytes, mut looked_at) = (0, 0);
    loop {
        // Without a filter on the live part, every looked up channel is used.
        let chunk = if filter.is_of_record() { CHUNK.min(enough) } else { CHUNK };
        let page = call.directory().read(|state| state.channels_of(call.customer_id(), after, chunk));
        let at_end = page.len() < chunk;
        looked_at += page.len();
        after = page.last().map(|channel| (channel.created_at, channel.id));

        let named = |name: &str| filter.name.as_deref().is_none_or(|prefix| name.starts_with(prefix));
        let candidates: Vec<_> = page.into_iter().filter(|channel| named(&channel.name)).collect();
        let ids: Vec<ChannelId> = candidates.iter().map(|channel| channel.id).collect();
        let statuses = call.cluster().channel_statuses(&ids, &call.context()).await?;
        let views = candidates.iter().map(|channel| {
            let live = statuses.get(&channel.id);
            let view = ChannelView::new(channel, live);
            if filter.reasons { view.with_reason(live) } else { view }
        });
        rows.extend(views.filter(|view| filter.matches(view)).inspect(|view| bytes += json_bytes(view)));
        if at_end || rows.len() >= enough || bytes > LARGEST_PAGE {
            rows.truncate(enough);
            return Ok((rows, None));
        }
        if is_enough(looked_at, call.arrived.elapsed()) {
            return Ok((rows, after));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::CustomerId;
    use raft::directory::records::ChannelRecord;

    #[test]
    fn an_answer_looks_up_so_many_channels_at_most_and_for_five_seconds() {
        const SHORT: Duration = Duration::from_millis(4_999);
        let table = [
            (LOOKED_AT - 1, SHORT, false),
            (LOOKED_AT, Duration::ZERO, true),
            (CHUNK, Duration::from_secs(5), true),
            (LOOKED_AT + CHUNK, Duration::from_secs(60), true),
        ];
        for (looked_at, since, enough) in table {
            assert_eq!(is_enough(looked_at, since), enough, "{looked_at} in {since:?}");
        }
    }

    #[test]
    fn a_part_of_a_name_or_of_a_number_finds_a_channel() {
        let record = ChannelRecord {
            id: ChannelId::new(),
            customer_id: CustomerId::new(),
            name: "Sales EMEA 24".into(),
            metadata: "{}".into(),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            deleted_at: None,
        };
        let view = ChannelView { phone_number: Some("4915550001234".into()), ..ChannelView::new(&record, None) };
        let table = [
            ("emea", true),
            ("SALES e", true),
            ("24", true),
            ("1555 000", true),
            ("+49 (1555)", true),
            ("12", false),
            ("4915559", false),
            ("x1555", false),
        ];
        for (text, found) in table {
            assert_eq!(Part::new(text).is_in(&view), found, "{text}");
        }
    }
}

//! `GET /v1/account/usage` (supplement 25). Days are those of UTC.

use model::error::ApiError;
use model::id::ChannelId;
use model::issue::{Fault, IssueCode};
use model::time::{Day, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use shard::usage::{Counts, DayUsage};

use crate::exchange::AccountCall;
use crate::openapi::Doc;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};

/// The longest range, in days with both ends.
const LONGEST: u32 = 93;

/// The range when `from` is not given.
const DEFAULT_DAYS: u32 = 30;

/// Rows of one answer; the list has no pages.
const MOST_ROWS: usize = 20_000;

/// A day of the account, or of one of its channels.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Usage")]
pub struct UsageView {
    date: Day,
    channel_id: Option<ChannelId>,
    sent: u64,
    received: u64,
    failed: u64,
    media_bytes: u64,
    /// Those that reached their endpoint.
    webhook_deliveries: u64,
}

pub fn doc() -> Doc {
    Doc::new("get_account_usage", "Get what the account has used, by day or by day and channel")
        .about(
            "Days are those of UTC, both ends included, 93 at most; without `from` and `to` the last 30. By day, each day of \
             the range has a row; by channel, only those on which the channel was used. Deleted channels count.",
        )
        .query(|query| Asked::read(query, Day::of(Timestamp::now())))
        .list::<UsageView>()
}

impl From<DayUsage> for UsageView {
    fn from(usage: DayUsage) -> Self {
        let DayUsage { day, channel, counts } = usage;
        Self {
            date: day,
            channel_id: channel,
            sent: counts.sent,
            received: counts.received,
            failed: counts.failed,
            media_bytes: counts.media_bytes,
            webhook_deliveries: counts.delivered,
        }
    }
}

/// What is asked for: the first and the last day, and whether by channel.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    from: Day,
    to: Day,
    by_channel: bool,
}

impl Asked {
    pub fn read(query: Query<'_>, today: Day) -> Result<Self, ApiError> {
        let date = || json!({ "type": "string", "format": "date", "maxLength": 10, "pattern": "^(19[7-9]|[2-9][0-9]{2})[0-9]-" });
        let day = |name| query.parsed(name, date, "must be a date such as 2026-01-31", Day::parse);
        let (from, to) = (day("from"), day("to").unwrap_or(today));
        let from = from.unwrap_or(to.minus(DEFAULT_DAYS - 1));
        if from > to {
            query.refuse("from", IssueCode::Conflict, "must not be after `to`");
        } else if to.0 - from.0 >= LONGEST {
            query.refuse("from", IssueCode::TooBig, &format!("at most {LONGEST} days from `from` to `to`"));
        }
        let by_channel = query.word("group_by", &["day", "channel"], |word| match word {
            "day" => Some(false),
            "channel" => Some(true),
            _ => None,
        });
        query.finish(Self { from, to, by_channel: by_channel.unwrap_or(false) })
    }
}

/// By day, every day of the range has its row; by channel, a day has a row for each channel that was used on it.
pub async fn show(call: &mut AccountCall) -> Outcome {
    let Asked { from, to, by_channel } = Asked::read(call.query(), Day::of(call.now))?;
    let days = (from, Day(to.0 + 1));
    let used = call.cluster().usage(call.customer_id(), days, by_channel, MOST_ROWS, &call.context()).await?;
    let Some(used) = used else {
        let fault = Fault::new(IssueCode::TooBig, format!("these are more than {MOST_ROWS} rows: ask for fewer days"));
        return Err(fault.at(&["from"]));
    };
    let rows = if by_channel { used } else { every_day(from, to, used) };
    Ok(Reply::ok(&List::whole(rows.into_iter().map(UsageView::from).collect())))
}

/// Puts the days in between on which nothing was used.
fn every_day(from: Day, to: Day, used: Vec<DayUsage>) -> Vec<DayUsage> {
    let mut used = used.into_iter().peekable();
    let days = (from.0..=to.0).map(Day);
    days.map(|day| {
        let none = DayUsage { day, channel: None, counts: Counts::default() };
        used.next_if(|usage| usage.day == day).unwrap_or(none)
    })
    .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use salvo::Request;

    const TODAY: Day = Day(20_000);

    fn ask(query: &str) -> Result<Asked, ApiError> {
        let mut request = Request::new();
        request.set_uri(format!("http://gateway.example/v1/account/usage?{query}").parse().unwrap());
        Asked::read(Query::of(&request), TODAY)
    }

    #[test]
    fn a_range_ends_today_and_has_thirty_days_unless_it_is_told_otherwise() {
        let asked = |from, to, by_channel| Asked { from: Day(from), to: Day(to), by_channel };
        assert_eq!(ask("").unwrap(), asked(19_971, 20_000, false));
        assert_eq!(ask("to=2024-01-31&group_by=channel").unwrap(), asked(19_724, 19_753, true));
        assert_eq!(ask("from=2024-07-01&to=2024-10-01").unwrap(), asked(19_905, 19_997, false));
    }

    #[test]
    fn wrong_ranges_say_what_is_wrong_with_them() {
        let table = [
            ("from=yesterday", "from", "format"),
            ("to=2024-02-30", "to", "format"),
            ("from=2024-02-02&to=2024-02-01", "from", "conflict"),
            ("from=2024-07-01&to=2024-10-02", "from", "too_big"),
            ("group_by=hour", "group_by", "enum"),
        ];
        for (query, path, code) in table {
            let details = ask(query).unwrap_err().details.unwrap();
            assert_eq!((&details[0]["path"][0], &details[0]["code"]), (&path.into(), &code.into()), "{query}");
        }
    }

    #[test]
    fn days_without_use_are_shown_too() {
        let used = |day| DayUsage { day: Day(day), channel: None, counts: Counts { sent: 1, ..Counts::default() } };
        let days = every_day(Day(1), Day(4), vec![used(2), used(4)]);
        let sent: Vec<(u32, u64)> = days.iter().map(|usage| (usage.day.0, usage.counts.sent)).collect();
        assert_eq!(sent, [(1, 0), (2, 1), (3, 0), (4, 1)]);
    }
}

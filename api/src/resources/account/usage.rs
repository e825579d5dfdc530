//! `GET /v1/account/usage`. Days are days in UTC.

use model::id::ChannelId;
use model::issue::{IssueCode, Violation};
use model::time::{Day, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use shard::call::usage::DayUsage;
use shard::usage::{Counts, Hour};

use crate::query::Query;
use crate::reply::{List, Outcome, Reply, view_of};
use crate::request_context::AccountCall;
use crate::route::Route;

/// The longest range in days, both ends included.
const LONGEST: u32 = 93;

/// The longest range by hour, in days, and the default when `from` is missing.
const LONGEST_BY_HOUR: u32 = 7;

/// The default range in days when `from` is missing.
const DEFAULT_DAYS: u32 = 30;

/// The most rows of a response; the list has no pages.
const MOST_ROWS: usize = 20_000;

/// Usage of the account in a day or an hour, or of one of its channels in a day.
#[derive(Serialize, JsonSchema)]
pub struct Usage {
    /// The day in UTC.
    date: Day,
    /// Start of the hour; absent unless rows are grouped by hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    hour: Option<Timestamp>,
    /// The channel; `null` unless rows are grouped by channel.
    channel_id: Option<ChannelId>,
    /// Sends that the network accepted.
    sent: u64,
    /// Messages received.
    received: u64,
    /// Sends that failed.
    failed: u64,
    media_bytes: u64,
    /// Webhook deliveries that reached their endpoint.
    webhook_deliveries: u64,
}

/// The route's documentation.
pub fn described(route: Route) -> Route {
    route
        .doc("get_account_usage", "Get the account's usage by day, by day and channel, or by hour")
        .about(
            "Days are those of UTC, both ends included, 93 at most; without `from` and `to` the last 30. By day, each \
             day of the range has a row; by channel, only those on which the channel was used. By hour, each hour of \
             the range until now, of 7 days at most and without `from` and `to` of the last 7. Deleted channels count.",
        )
        .query(|query| UsageParameters::read(query, Day::of(Timestamp::now())))
        .list::<Usage>()
}

impl Usage {
    fn of(date: Day, hour: Option<Timestamp>, channel_id: Option<ChannelId>, counts: &Counts) -> Self {
        let webhook_deliveries = counts.delivered;
        view_of!(counts => sent, received, failed, media_bytes; date, hour, channel_id, webhook_deliveries)
    }
}

model::words! {
    /// What a row covers.
    Grouping {
        Day = "day",
        Channel = "channel",
        Hour = "hour",
    }
}

/// The parameters of a request: the first and the last day, and what a row covers.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageParameters {
    from: Day,
    to: Day,
    by: Grouping,
}

impl UsageParameters {
    pub fn read(query: &Query<'_>, today: Day) -> Self {
        let date = || json!({ "type": "string", "format": "date", "maxLength": 10, "pattern": "^(19[7-9]|[2-9][0-9]{2})[0-9]-" });
        let day = |name| query.parsed(name, date, "must be a date such as 2026-01-31", Day::parse);
        let (from, to) = (day("from"), day("to").unwrap_or(today));
        let by = query.word("group_by", Grouping::WORDS, Grouping::parse).unwrap_or(Grouping::Day);
        let (days, longest) = match by {
            Grouping::Day | Grouping::Channel => (DEFAULT_DAYS, LONGEST),
            Grouping::Hour => (LONGEST_BY_HOUR, LONGEST_BY_HOUR),
        };
        let from = from.unwrap_or(to.minus(days - 1));
        if from > to {
            query.refuse("from", IssueCode::Conflict, "must not be after `to`");
        } else if to.0 - from.0 >= longest {
            query.refuse("from", IssueCode::TooBig, &format!("at most {longest} days from `from` to `to`"));
        }
        Self { from, to, by }
    }
}

/// Shows usage. By day, every day of the range has a row; by channel, a day has one for each used channel.
pub async fn show(call: &mut AccountCall) -> Outcome {
    let UsageParameters { from, to, by } = call.asked(|query| UsageParameters::read(query, Day::of(call.now)))?;
    if by == Grouping::Hour {
        return by_hour(call, from, to).await;
    }
    let by_channel = by == Grouping::Channel;
    let days = (from, Day(to.0 + 1));
    let used = call.cluster().usage(call.customer_id(), days, by_channel, MOST_ROWS, &call.context()).await?;
    let Some(used) = used else {
        let violation =
            Violation::new(IssueCode::TooBig, format!("the result has more than {MOST_ROWS} rows: ask for fewer days"));
        return Err(violation.at(&["from"]));
    };
    let rows = if by_channel { used } else { every_day(from, to, used) };
    let views = rows.iter().map(|row| Usage::of(row.day, None, row.channel, &row.counts));
    Ok(Reply::ok(&List::whole(views.collect())))
}

/// Usage by hour. Every hour of the range has a row, except future hours.
async fn by_hour(call: &AccountCall, from: Day, to: Day) -> Outcome {
    let (first, end) = (Hour::first_of(from), Hour::first_of(Day(to.0 + 1)).min(Hour::of(call.now).next()));
    let used = call.cluster().usage_by_hour(call.customer_id(), (first, end), &call.context()).await?;
    let hours = (first.0..end.0).map(Hour);
    let rows = hours.map(|hour| {
        let counts = used.get(&hour).copied().unwrap_or_default();
        Usage::of(hour.day(), Some(hour.start()), None, &counts)
    });
    Ok(Reply::ok(&List::whole(rows.collect())))
}

/// Adds rows for days without usage.
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
    use model::error::CallError;
    use salvo::Request;

    const TODAY: Day = Day(20_000);

    fn ask(query: &str) -> Result<UsageParameters, CallError> {
        let mut request = Request::new();
        request.set_uri(format!("http://gateway.example/v1/account/usage?{query}").parse().unwrap());
        let query = Query::of(&request);
        let asked = UsageParameters::read(&query, TODAY);
        query.finish(asked)
    }

    #[test]
    fn a_range_ends_today_and_has_thirty_days_unless_it_is_told_otherwise() {
        let asked = |from, to, by| UsageParameters { from: Day(from), to: Day(to), by };
        assert_eq!(ask("").unwrap(), asked(19_971, 20_000, Grouping::Day));
        assert_eq!(ask("to=2024-01-31&group_by=channel").unwrap(), asked(19_724, 19_753, Grouping::Channel));
        assert_eq!(ask("from=2024-07-01&to=2024-10-01").unwrap(), asked(19_905, 19_997, Grouping::Day));
        assert_eq!(ask("group_by=hour").unwrap(), asked(19_994, 20_000, Grouping::Hour));
    }

    #[test]
    fn wrong_ranges_say_what_is_wrong_with_them() {
        let table = [
            ("from=yesterday", "from", "format"),
            ("to=2024-02-30", "to", "format"),
            ("from=2024-02-02&to=2024-02-01", "from", "conflict"),
            ("from=2024-07-01&to=2024-10-02", "from", "too_big"),
            ("group_by=hour&from=2024-01-01&to=2024-01-08", "from", "too_big"),
            ("group_by=week", "group_by", "enum"),
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

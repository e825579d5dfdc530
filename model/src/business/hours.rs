//! Opening hours of a business.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::field::{Fields, Judged, rule};
use crate::issue::{IssueCode, Violation};

/// The days of a week.
const MOST_DAYS: usize = 7;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hours {
    /// Time zone, such as `Europe/Berlin`.
    pub timezone: String,
    /// Each day at most once; a day that is missing is closed.
    pub days: Vec<DayHours>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DayHours {
    pub day: Day,
    pub mode: Mode,
    /// Opening time as `HH:MM`; `null` unless the mode is `specific`.
    pub open: Option<String>,
    /// Closing time as `HH:MM`, on the next day if not after `open`; `null` unless the mode is `specific`.
    pub close: Option<String>,
}

crate::words! {
    #[derive(JsonSchema)]
    Day {
        Mon = "mon",
        Tue = "tue",
        Wed = "wed",
        Thu = "thu",
        Fri = "fri",
        Sat = "sat",
        Sun = "sun",
    }

    #[derive(JsonSchema)]
    Mode {
        Open24h = "open_24h",
        Specific = "specific",
        Appointment = "appointment",
    }
}

/// Parses `{ timezone, days }`.
pub(super) fn read(fields: &Fields<'_>) -> Option<Hours> {
    let timezone = fields.required("timezone", timezone);
    // All days are read before the list is rejected, so that all issues are reported.
    let days: Vec<Option<DayHours>> = fields.required_objects("days", MOST_DAYS)?.iter().map(read_day).collect();
    let days: Vec<DayHours> = days.into_iter().collect::<Option<_>>()?;
    if days.iter().enumerate().any(|(at, day)| days[..at].iter().any(|other| other.day == day.day)) {
        fields.refuse("days", Violation::new(IssueCode::Conflict, "name each day once"));
    }
    fields.between(|| {
        let once = |day: &&str| {
            let named = json!({ "properties": { "day": { "const": day } }, "required": ["day"] });
            json!({ "properties": { "days": { "contains": named, "minContains": 0, "maxContains": 1 } } })
        };
        json!({ "dependentSchemas": { "days": { "allOf": Day::WORDS.iter().map(once).collect::<Vec<_>>() } } })
    });
    Some(Hours { timezone: timezone?, days })
}

fn read_day(fields: &Fields<'_>) -> Option<DayHours> {
    let day = fields.required("day", rule::one_of(Day::WORDS, Day::parse));
    let mode = fields.required("mode", rule::one_of(Mode::WORDS, Mode::parse));
    let open = fields.nullable("open", time_of_day).flatten();
    let close = fields.nullable("close", time_of_day).flatten();
    for (key, time) in [("open", &open), ("close", &close)] {
        match mode {
            Some(Mode::Specific) if fields.get(key).is_none_or(Value::is_null) => {
                fields.refuse(key, Violation::new(IssueCode::Required, "is required with the mode specific"));
            }
            Some(Mode::Open24h | Mode::Appointment) if time.is_some() => {
                fields.refuse(key, Violation::new(IssueCode::Conflict, "only with the mode specific"));
            }
            _ => {}
        }
    }
    fields.between(|| {
        let times = |kind| json!({ "open": { "type": kind }, "close": { "type": kind } });
        json!({
            "if": { "properties": { "mode": { "const": "specific" } }, "required": ["mode"] },
            "then": { "properties": times("string"), "required": ["open", "close"] },
            "else": { "properties": times("null") },
        })
    });
    Some(DayHours { day: day?, mode: mode?, open, close })
}

/// `HH:MM`
fn time_of_day(value: &Value) -> Judged<String> {
    let text = rule::string(value, || json!({ "maxLength": 5, "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$" }))?;
    let two_digits = |part: &str, below: u8| {
        let digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        digits && part.parse::<u8>().is_ok_and(|number| number < below)
    };
    match text.split_once(':') {
        Some((hour, minute)) if two_digits(hour, 24) && two_digits(minute, 60) => Ok(text.to_owned()),
        _ => Err(Violation::new(IssueCode::Format, "must be a time of day such as 09:30")),
    }
}

/// A name in the form of the time zone database; the network decides whether it exists.
fn timezone(value: &Value) -> Judged<String> {
    let text = rule::described(
        || json!({ "pattern": "^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*)*$" }),
        rule::text(1..=64),
    )(value)?;
    let named = text.split('/').all(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()));
    let letters = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+/-".contains(&byte));
    if named && letters {
        return Ok(text);
    }
    Err(Violation::new(IssueCode::Format, "must be a time zone such as Europe/Berlin"))
}

//! Points in time: milliseconds since 1970, shown as ISO 8601 with milliseconds, stored as an integer.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Days, NaiveDate, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds since the Unix epoch, UTC.
///
/// JSON shows `2026-01-01T00:00:00.000Z`; binary records hold the integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl From<Timestamp> for SystemTime {
    fn from(at: Timestamp) -> Self {
        Self::UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
    }
}

impl Timestamp {
    /// Reads the wall clock. Only the edge calls this; state machines get their times from commands.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    pub fn now() -> Self {
        Self(Utc::now().timestamp_millis())
    }

    /// The wall-clock time at the first call in this process, plus the monotonic time that has passed since. Use it to
    /// measure elapsed time where steps of the wall clock must not matter. Meaningless to another process.
    pub fn steady() -> Self {
        static BEGINNING: OnceLock<(Timestamp, Instant)> = OnceLock::new();
        let (shown, moment) = BEGINNING.get_or_init(|| (Self::now(), Instant::now()));
        shown.plus(moment.elapsed())
    }

    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The start of the period of `millis` milliseconds, such as a minute or an hour, that contains this time.
    pub fn begin_of(self, millis: i64) -> Self {
        Self(self.0 - self.0.rem_euclid(millis))
    }

    /// The duration from `earlier` to this time; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Parses ISO 8601 with any UTC offset.
    pub fn parse_iso(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text).ok().map(|time| Self(time.timestamp_millis()))
    }

    /// `2026-01-01T00:00:00.000Z`.
    pub fn to_iso(self) -> String {
        DateTime::<Utc>::from_timestamp_millis(self.0).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
    }
}

crate::words::schema_of!(Day: { "type": "string", "format": "date" });

crate::words::schema_of!(Timestamp: { "type": "string", "format": "date-time" });

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_iso())
    }
}

/// Serializes a type as text, which `$parse` reads, in human-readable formats, and as an integer in binary records.
macro_rules! text_or_integer {
    ($name:ident($integer:ty), $parse:ident, $wrong:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() { serializer.collect_str(self) } else { self.0.serialize(serializer) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    let text = String::deserialize(deserializer)?;
                    Self::$parse(&text).ok_or_else(|| de::Error::custom($wrong))
                } else {
                    <$integer>::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

text_or_integer!(Timestamp(i64), parse_iso, "not an ISO 8601 date-time");
text_or_integer!(Day(u32), parse, "not an ISO 8601 date");

/// A day in UTC, counted from 1970. JSON shows `2026-01-01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u32);

impl Day {
    /// The day that contains `at`.
    pub fn of(at: Timestamp) -> Self {
        Self(u32::try_from(at.unix_seconds().div_euclid(86_400)).unwrap_or(0))
    }

    /// Parses `2026-01-01`. Days before 1970 are refused.
    pub fn parse(text: &str) -> Option<Self> {
        // Chrono accepts months and days of one digit as well, hence the check of the length.
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().filter(|_| text.len() == 10)?;
        u32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok().map(Self)
    }

    pub fn minus(self, days: u32) -> Self {
        Self(self.0.saturating_sub(days))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = NaiveDate::default().checked_add_days(Days::new(u64::from(self.0))).unwrap_or(NaiveDate::MAX);
        f.write_str(&date.format("%Y-%m-%d").to_string())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_day_reads_as_it_is_written() {
        let day = Day::of(Timestamp(1_767_225_600_118));
        assert_eq!(serde_json::to_string(&day).unwrap(), "\"2026-01-01\"");
        assert_eq!(Day::parse("2026-01-01"), Some(day));
        assert_eq!(day.minus(1).to_string(), "2025-12-31");
        for wrong in ["2026-1-1", "2026-02-30", "1969-12-31", "2026-01-01T00:00:00Z", "", "today"] {
            assert_eq!(Day::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn json_shows_milliseconds_and_utc() {
        let time = Timestamp(1_767_225_600_118);
        assert_eq!(serde_json::to_string(&time).unwrap(), "\"2026-01-01T00:00:00.118Z\"");
        let back: Timestamp = serde_json::from_str("\"2026-01-01T01:00:00.118+01:00\"").unwrap();
        assert_eq!(back, time);
    }
}

//! The life cycle of a delivery: states, outcomes of attempts, and the retry schedule.

use std::time::Duration;

use chrono::DateTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

crate::words! {
    /// State of a delivery. `exhausted`: no attempts are left. `paused`: due while its endpoint was disabled.
    #[derive(JsonSchema)]
    DeliveryState {
        /// Stored, and not attempted yet.
        Pending = "pending",
        /// The owner is attempting it.
        InFlight = "in_flight",
        /// The last attempt failed; the next one is scheduled.
        Retrying = "retrying",
        Delivered = "delivered",
        /// No attempts are left.
        Exhausted = "exhausted",
        /// Became due while its endpoint was disabled.
        Paused = "paused",
    }
}

impl DeliveryState {
    /// Whether the delivery stays in this state unless somebody recovers it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Delivered | Self::Exhausted)
    }
}

crate::words! {
    /// How an attempt ended.
    #[derive(JsonSchema)]
    Outcome {
        Success = "success",
        /// A response with a status other than success.
        Http = "http",
        Timeout = "timeout",
        Dns = "dns",
        Connect = "connect",
        Tls = "tls",
        /// The address may not be called.
        Blocked = "blocked",
        Redirect = "redirect",
        /// No request was made, since the endpoint was deleted.
        EndpointDeleted = "endpoint_deleted",
        /// The owner was lost during the attempt.
        Interrupted = "interrupted",
    }
}

/// What the HTTP status of a response means for the delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The receiver accepted the delivery.
    Delivered,
    /// Retry on schedule; `heeds_retry_after` applies the receiver's `Retry-After` within the schedule's bounds.
    Retry { heeds_retry_after: bool },
    /// The receiver is gone permanently: disable the endpoint and end the delivery.
    Gone,
}

impl Verdict {
    pub fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Delivered,
            410 => Self::Gone,
            408 | 425 | 429 | 500..=599 => Self::Retry { heeds_retry_after: true },
            _ => Self::Retry { heeds_retry_after: false },
        }
    }
}

/// The outcome to record for a response with this HTTP status.
pub fn outcome_of_status(status: u16) -> Outcome {
    match status {
        200..=299 => Outcome::Success,
        300..=399 => Outcome::Redirect,
        _ => Outcome::Http,
    }
}

/// Seconds before each attempt, counted from the one before. 14 attempts over 3 days: frequent at first, for bots that
/// answer people, and long enough for a receiver that is down over a weekend.
pub const DEFAULT_DELAYS_SECONDS: [u64; 14] =
    [0, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 72_000, 86_400];

/// Jitter shortens or lengthens a delay by up to this fraction.
const JITTER: f64 = 0.2;

/// The delays between attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetrySchedule {
    delays: Vec<Duration>,
}

impl Default for RetrySchedule {
    fn default() -> Self {
        Self { delays: DEFAULT_DELAYS_SECONDS.into_iter().map(Duration::from_secs).collect() }
    }
}

impl RetrySchedule {
    /// `delays` precede the first and each later attempt. An empty list would never attempt anything, so it becomes a
    /// single attempt without delay.
    pub fn new(delays: Vec<Duration>) -> Self {
        Self { delays: if delays.is_empty() { vec![Duration::ZERO] } else { delays } }
    }

    pub fn max_attempts(&self) -> u32 {
        u32::try_from(self.delays.len()).unwrap_or(u32::MAX)
    }

    /// The delay from the last attempt to the next one; `None` when all attempts were made.
    ///
    /// `jitter` is a random number from 0 to 1, which varies the delay by ±20 %. `Retry-After` replaces the planned
    /// delay, clamped between it and twice its length, without jitter.
    pub fn delay_after(&self, attempts_made: u32, jitter: f64, retry_after: Option<Duration>) -> Option<Duration> {
        let planned = *self.delays.get(usize::try_from(attempts_made).ok()?)?;
        Some(match retry_after {
            Some(asked) => asked.clamp(planned, planned.saturating_mul(2)),
            None => planned.mul_f64(1.0 - JITTER + 2.0 * JITTER * jitter.clamp(0.0, 1.0)),
        })
    }
}

/// Parses a `Retry-After` header: seconds or a date.
pub fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs);
    }
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    Some(Timestamp(date.timestamp_millis()).since(now))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_default_schedule_is_14_attempts_over_three_days() {
        let schedule = RetrySchedule::default();
        assert_eq!(schedule.max_attempts(), 14);
        let since_first = [
            "0:00:00", "0:00:05", "0:00:20", "0:01:20", "0:06:20", "0:21:20", "0:51:20", "1:51:20", "3:51:20",
            "7:51:20", "15:51:20", "27:51:20", "47:51:20", "71:51:20",
        ];
        let mut total = 0;
        for (attempts_made, expected) in (0_u32..).zip(since_first) {
            total += schedule.delay_after(attempts_made, 0.5, None).unwrap().as_secs();
            assert_eq!(format!("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60), expected);
        }
        assert_eq!(schedule.delay_after(14, 0.5, None), None);
    }

    #[test]
    fn a_receivers_wish_counts_up_to_twice_the_plan() {
        let schedule = RetrySchedule::default();
        let asked = |seconds| schedule.delay_after(3, 0.9, Some(Duration::from_secs(seconds))).unwrap().as_secs();
        assert_eq!([asked(1), asked(90), asked(9999)], [60, 90, 120]);
    }

    #[test]
    fn a_status_delivers_ends_or_retries() {
        let retry = |heeds_retry_after| Verdict::Retry { heeds_retry_after };
        let table = [
            (200, Verdict::Delivered, Outcome::Success),
            (299, Verdict::Delivered, Outcome::Success),
            (301, retry(false), Outcome::Redirect),
            (400, retry(false), Outcome::Http),
            (401, retry(false), Outcome::Http),
            (404, retry(false), Outcome::Http),
            (408, retry(true), Outcome::Http),
            (410, Verdict::Gone, Outcome::Http),
            (425, retry(true), Outcome::Http),
            (429, retry(true), Outcome::Http),
            (500, retry(true), Outcome::Http),
            (599, retry(true), Outcome::Http),
        ];
        for (status, verdict, outcome) in table {
            assert_eq!((Verdict::of_status(status), outcome_of_status(status)), (verdict, outcome), "{status}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = Timestamp::parse_iso("2015-10-21T07:27:00Z").unwrap();
        let table = [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(60)),
            ("Wed, 21 Oct 2015 07:00:00 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
            ("99999999999999999999999", None),
        ];
        for (text, seconds) in table {
            assert_eq!(parse_retry_after(text, now), seconds.map(Duration::from_secs), "{text:?}");
        }
        assert_eq!(parse_retry_after("", now), None);
    }

    #[test]
    fn words_are_shown_as_they_are_stored() {
        for state in DeliveryState::ALL {
            assert_eq!(DeliveryState::parse(state.as_str()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::parse(outcome.as_str()), Some(outcome));
        }
    }

    proptest! {
        #[test]
        fn jitter_stays_within_a_fifth(attempts_made in 0_u32..14, jitter in -1.0_f64..2.0) {
            let planned = DEFAULT_DELAYS_SECONDS[attempts_made as usize] as f64;
            let delay = RetrySchedule::default().delay_after(attempts_made, jitter, None).unwrap().as_secs_f64();
            prop_assert!(delay >= planned * 0.8 - 1e-6 && delay <= planned * 1.2 + 1e-6);
        }
    }
}

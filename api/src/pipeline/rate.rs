//! The rate limit headers of a response.

use model::error::{CallError, ErrorCode};
use model::limit::{BucketLevel, LimitScope};
use salvo::http::{HeaderName, HeaderValue};
use serde::Deserialize;

use crate::reply::Reply;
use crate::request_context::Charged;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const SCOPE: HeaderName = HeaderName::from_static("x-ratelimit-scope");

/// The three rate limit headers of every authenticated response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateHeaders {
    pub scope: LimitScope,
    limit: u32,
    remaining: u32,
}

impl RateHeaders {
    pub fn new(scope: LimitScope, level: &BucketLevel) -> Self {
        Self { scope, limit: level.limit, remaining: level.remaining }
    }

    /// The headers of the bucket with the fewest tokens left. On a tie, `charged` wins, which every call pays.
    pub fn deciding(charged: &Charged, channel: Option<&BucketLevel>) -> Self {
        match channel {
            Some(channel) if channel.remaining < charged.level.remaining => Self::new(LimitScope::Channel, channel),
            _ => Self::new(charged.scope, &charged.level),
        }
    }

    /// The headers of a refusal. They name the limit that refused, which may be no bucket (as for pair codes).
    pub fn refused_by(error: &CallError) -> Option<Self> {
        let details = error.details.as_ref().filter(|_| error.code == ErrorCode::RateLimited)?;
        let scope = LimitScope::deserialize(&details["scope"]).ok()?;
        let limit = u32::deserialize(&details["limit"]).ok()?;
        Some(Self { scope, limit, remaining: 0 })
    }

    pub fn write(&self, reply: Reply) -> Reply {
        reply
            .with(LIMIT, self.limit.into())
            .with(REMAINING, self.remaining.into())
            .with(SCOPE, HeaderValue::from_static(self.scope.as_str()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use model::time::Timestamp;

    fn level(limit: u32, remaining: u32) -> BucketLevel {
        BucketLevel { limit, remaining, reset_at: Timestamp(0), retry_after: 0 }
    }

    #[test]
    fn the_emptiest_bucket_decides_and_the_customer_wins_a_tie() {
        let table = [
            (level(60, 10), None, LimitScope::Customer, 10),
            (level(60, 10), Some(level(60, 9)), LimitScope::Channel, 9),
            (level(60, 10), Some(level(60, 10)), LimitScope::Customer, 10),
            (level(60, 10), Some(level(9, 8)), LimitScope::Channel, 8),
            (level(60, 0), Some(level(60, 59)), LimitScope::Customer, 0),
        ];
        for (customer, channel, scope, remaining) in table {
            let headers =
                RateHeaders::deciding(&Charged { scope: LimitScope::Customer, level: customer }, channel.as_ref());
            assert_eq!((headers.scope, headers.remaining), (scope, remaining));
        }
    }

    #[test]
    fn a_limit_beside_the_buckets_is_named_when_it_refuses() {
        let pair_codes = CallError::rate_limited(LimitScope::Channel, 1, 40);
        let headers = RateHeaders::refused_by(&pair_codes).unwrap();
        assert_eq!(headers, RateHeaders { scope: LimitScope::Channel, limit: 1, remaining: 0 });
        assert_eq!(RateHeaders::refused_by(&CallError::channel_not_found()), None);
    }

    #[test]
    fn a_refusal_names_the_bucket_and_waits_at_least_a_second() {
        let error = crate::failure::empty_bucket(LimitScope::Channel, &level(60, 0));
        assert_eq!(error.details.unwrap(), serde_json::json!({ "scope": "channel", "limit": 60 }));
        assert_eq!(error.retry_after, Some(1));
    }
}

//! Describes this crate's metrics, and registers them at 0 from the start, so that the rate of something that has not
//! happened yet is 0 and not unknown. Also limits how many failed requests are logged.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use model::error::ErrorCode;
use model::limit::{BucketRule, LimitScope, TokenBucket};
use model::time::Timestamp;
use parking_lot::Mutex;

use crate::audit::Port;

/// Rate limit of log lines about a port's failed requests. While a shard has no owner, all of its requests fail as fast
/// as they come. Failures without a line are still counted (`gateway_http_requests_total`).
const FAILURE_LINES: BucketRule = BucketRule { burst: 100, refill_per_second: 5 };

/// Limits the log lines about failed requests.
pub struct FailureLines(Mutex<TokenBucket>);

impl Default for FailureLines {
    fn default() -> Self {
        Self(Mutex::new(TokenBucket::full(FAILURE_LINES, Timestamp::steady())))
    }
}

impl FailureLines {
    /// Whether a request that fails at `now`, a steady time, gets a log line.
    pub fn has_one(&self, now: Timestamp) -> bool {
        self.0.lock().try_take(now)
    }
}

/// Gives every metric its help text.
pub fn describe() {
    describe_counter!("gateway_http_requests_total", "Requests answered, by method, route and status.");
    describe_histogram!(
        "gateway_http_request_seconds",
        Unit::Seconds,
        "From a request's head to its answer, by route."
    );
    describe_counter!("gateway_rate_limited_total", "Requests refused by a token bucket, by its scope.");
    describe_gauge!("gateway_sse_streams", "Event streams that are open on this node.");
    describe_counter!("gateway_mails_total", "Messages to members and to the support, by outcome.");
    describe_counter!("gateway_ticket_forwards_total", "Messages of tickets brought to the helpdesk, by outcome.");
    describe_counter!("gateway_auth_failures_total", "Credentials that were refused, by port and code.");
    describe_counter!("gateway_audit_dropped_total", "Failed authentications that the audit log had no room for.");
    for scope in [LimitScope::Ip, LimitScope::Customer, LimitScope::Channel, LimitScope::Session] {
        counter!("gateway_rate_limited_total", "scope" => scope.as_str()).increment(0);
    }
    for port in [Port::Customers, Port::Operators] {
        for code in [ErrorCode::AuthMissing, ErrorCode::AuthMalformed, ErrorCode::AuthInvalid, ErrorCode::RateLimited] {
            let labels = [("port", port.as_str()), ("code", code.as_str())];
            counter!("gateway_auth_failures_total", &labels).increment(0);
        }
    }
    for outcome in ["sent", "failed", "dropped"] {
        counter!("gateway_mails_total", "outcome" => outcome).increment(0);
    }
    for outcome in ["taken", "failed"] {
        counter!("gateway_ticket_forwards_total", "outcome" => outcome).increment(0);
    }
    counter!("gateway_audit_dropped_total").increment(0);
    gauge!("gateway_sse_streams").set(0.0);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_of_failures_has_a_hundred_lines_and_five_a_second_after_them() {
        let (lines, now) = (FailureLines::default(), Timestamp::steady());
        let told_at = |now| (0..10_000).filter(|_| lines.has_one(now)).count();
        let later = now.plus(Duration::from_secs(3_600));
        assert_eq!((told_at(later), told_at(later.plus(Duration::from_secs(2)))), (100, 10));
    }
}

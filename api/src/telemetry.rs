//! The metrics of this crate, described for those who read them, and there from the start: a rate of what has not
//! happened yet is 0 and not unknown.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use model::error::ErrorCode;
use model::limit::LimitScope;

use crate::audit::Port;

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

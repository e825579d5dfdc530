//! The error codes of the interface, and an answer made of one.
//!
//! [`ApiError`] is what every refusal becomes, wherever it is found: it crosses nodes inside forwarded calls, and only
//! the HTTP layer turns it into a response.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::address::Undeliverable;
use crate::id::ChannelId;
use crate::limit::LimitScope;
use crate::status::{Reason, Status};
use crate::time::Timestamp;

/// The largest JSON body that a route reads.
pub const JSON_LIMIT_BYTES: u64 = 1024 * 1024;

/// The largest JSON body of a send.
pub const SEND_LIMIT_BYTES: u64 = 256 * 1024;

/// Concurrent event streams of one account.
pub const STREAM_LIMIT: u32 = 10;

/// Declares the codes: name, text, HTTP status, default `Retry-After` in seconds (0: none is sent).
macro_rules! error_codes {
    ($($name:ident $text:literal $status:literal $retry:literal;)*) => {
        /// Every stable error code with its one HTTP status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $(#[serde(rename = $text)] $name,)*
        }

        impl ErrorCode {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The HTTP status; `other` is 502 here, and 422 where [`ApiError::upstream_refused`] says so.
            pub fn http_status(self) -> u16 {
                match self {
                    $(Self::$name => $status,)*
                }
            }

            /// The `Retry-After` sent when nothing better is known.
            pub fn default_retry_after(self) -> Option<u32> {
                let seconds = match self {
                    $(Self::$name => $retry,)*
                };
                (seconds > 0).then_some(seconds)
            }
        }
    };
}

error_codes! {
    AuthMissing "auth_missing" 401 0;
    AuthMalformed "auth_malformed" 401 0;
    AuthInvalid "auth_invalid" 401 0;
    AuthExpired "auth_expired" 401 0;
    AuthRevoked "auth_revoked" 401 0;
    AuthNoEmail "auth_no_email" 403 0;
    AuthBackendUnavailable "auth_backend_unavailable" 503 2;
    ChannelNotFound "channel_not_found" 404 0;
    ChannelAccessDenied "channel_access_denied" 403 0;
    ChannelScopedKey "channel_scoped_key" 403 0;
    InsufficientScope "insufficient_scope" 403 0;
    ChannelUnavailable "channel_unavailable" 409 0;
    InvalidLifecycleTransition "invalid_lifecycle_transition" 409 0;
    PairCodeUnavailable "pair_code_unavailable" 409 0;
    PairCodeFailed "pair_code_failed" 502 0;
    NoQr "no_qr" 409 2;
    NotDisabled "not_disabled" 409 0;
    ConcurrentModification "concurrent_modification" 409 1;
    NotConnected "not_connected" 409 0;
    PlanChannelLimit "plan_channel_limit" 403 0;
    PlanLimit "plan_limit" 409 0;
    RateLimited "rate_limited" 429 1;
    WorkerAtCapacity "worker_at_capacity" 503 5;
    StorageFull "storage_full" 503 60;
    TrialExpired "trial_expired" 402 0;
    PaymentOverdue "payment_overdue" 402 0;
    SseConnectionLimit "sse_connection_limit" 429 5;
    WebhookEndpointNotFound "webhook_endpoint_not_found" 404 0;
    MediaGone "media_gone" 410 0;
    MediaTokenExpired "media_token_expired" 401 0;
    MediaTokenTampered "media_token_tampered" 401 0;
    MediaTokenMalformed "media_token_malformed" 401 0;
    MediaTooLarge "media_too_large" 413 0;
    MediaFetchFailed "media_fetch_failed" 400 0;
    MediaFetchBlocked "media_fetch_blocked" 400 0;
    MessageNotFound "message_not_found" 404 0;
    ChatNotFound "chat_not_found" 404 0;
    ContactNotFound "contact_not_found" 404 0;
    InvalidRequest "invalid_request" 400 0;
    NotFound "not_found" 404 0;
    BadRequest "bad_request" 400 0;
    NoOp "no_op" 409 0;
    Other "other" 502 0;
    InternalError "internal_error" 500 0;
    UndeliverableRecipient "undeliverable_recipient" 400 0;
    NotImplemented "not_implemented" 501 0;
    PayloadTooLarge "payload_too_large" 413 0;
    UriTooLong "uri_too_long" 414 0;
    HeadersTooLarge "headers_too_large" 431 0;
    OutcomeUnknown "outcome_unknown" 502 0;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refused request: the code, a text for people, and what goes with the code.
///
/// No field is skipped when serialised: forwarded calls carry it in a format without field names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    pub code: ErrorCode,
    /// Says what to change, where the caller can change something.
    pub message: String,
    /// The facts that belong to the code, such as the issues of `invalid_request`.
    pub details: Option<Value>,
    /// Whole seconds of the `Retry-After` header.
    pub retry_after: Option<u32>,
    /// Set where the code has more than one status: `other` is 502 or 422.
    status: Option<u16>,
}

impl ApiError {
    /// An error without details, with the code's own `Retry-After`. The named constructors below read better.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, retry_after: code.default_retry_after(), status: None }
    }

    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }

    /// Sets `Retry-After`; at least one second, because zero invites a hot loop.
    pub fn with_retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds.max(1)), ..self }
    }

    pub fn http_status(&self) -> u16 {
        self.status.unwrap_or_else(|| self.code.http_status())
    }

    /// The body of the response.
    pub fn envelope(&self, request_id: &str) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(details) = &self.details {
            error["details"] = details.clone();
        }
        json!({ "error": error, "request_id": request_id })
    }
}

/// Authentication and scopes.
impl ApiError {
    pub fn auth_missing() -> Self {
        Self::new(ErrorCode::AuthMissing, "send the header Authorization: Bearer <API key>")
    }

    pub fn auth_malformed() -> Self {
        Self::new(
            ErrorCode::AuthMalformed,
            "the Authorization header is not Bearer followed by an API key or a session token",
        )
    }

    pub fn auth_invalid() -> Self {
        Self::new(ErrorCode::AuthInvalid, "the key or token matches no active key or session")
    }

    pub fn auth_expired(expired_at: Timestamp) -> Self {
        Self::new(ErrorCode::AuthExpired, "the key or token has expired; get a new one")
            .with_details(json!({ "expired_at": expired_at }))
    }

    pub fn auth_revoked(revoked_at: Timestamp) -> Self {
        Self::new(ErrorCode::AuthRevoked, "the key or session was revoked; use another one")
            .with_details(json!({ "revoked_at": revoked_at }))
    }

    pub fn auth_backend_unavailable() -> Self {
        Self::new(ErrorCode::AuthBackendUnavailable, "keys and sessions cannot be checked right now; try again")
    }

    /// A session whose member has not confirmed the e-mail address.
    pub fn auth_no_email() -> Self {
        Self::new(ErrorCode::AuthNoEmail, "confirm your e-mail address first: see the message that was sent to you")
    }

    /// `required` and `granted` are lists of scope strings.
    pub fn insufficient_scope(required: &[String], granted: &[String]) -> Self {
        Self::new(ErrorCode::InsufficientScope, format!("the key lacks the scope {}", required.join(", ")))
            .with_details(json!({ "required": required, "granted": granted }))
    }

    pub fn channel_access_denied(key_channel: ChannelId) -> Self {
        Self::new(ErrorCode::ChannelAccessDenied, "the key is bound to another channel")
            .with_details(json!({ "key_channel_id": key_channel }))
    }

    pub fn channel_scoped_key(key_channel: ChannelId) -> Self {
        Self::new(ErrorCode::ChannelScopedKey, "this route needs a key that is not bound to a channel")
            .with_details(json!({ "key_channel_id": key_channel }))
    }
}

/// Channels.
impl ApiError {
    pub fn channel_not_found() -> Self {
        Self::new(ErrorCode::ChannelNotFound, "no such channel")
    }

    pub fn channel_unavailable(status: Status, reason: Reason) -> Self {
        Self::new(
            ErrorCode::ChannelUnavailable,
            format!("the channel is {status}; it stays so until it is started again"),
        )
        .with_details(json!({ "status": status, "reason": reason }))
    }

    /// `action` is the last part of the route, such as `connect`.
    pub fn invalid_lifecycle_transition(status: Status, action: &str, allowed_from: &[Status]) -> Self {
        Self::new(
            ErrorCode::InvalidLifecycleTransition,
            format!("{action} is not possible while the channel is {status}"),
        )
        .with_details(json!({ "status": status, "action": action, "allowed_from": allowed_from }))
    }

    pub fn pair_code_unavailable(status: Status) -> Self {
        Self::new(ErrorCode::PairCodeUnavailable, format!("no pair code can be made while the channel is {status}"))
            .with_details(json!({ "status": status }))
    }

    /// `upstream_code` is absent when the network did not answer.
    pub fn pair_code_failed(upstream_code: Option<u32>) -> Self {
        Self::new(ErrorCode::PairCodeFailed, "the network refused or did not answer the request for a pair code")
            .with_details(json!({ "upstream_code": upstream_code }))
    }

    pub fn no_qr(status: Status) -> Self {
        Self::new(ErrorCode::NoQr, "no QR code is ready").with_details(json!({ "status": status }))
    }

    pub fn not_disabled(status: Status) -> Self {
        Self::new(ErrorCode::NotDisabled, format!("the channel is {status}, not disabled_by_admin"))
            .with_details(json!({ "status": status }))
    }

    pub fn concurrent_modification(resource: &str) -> Self {
        Self::new(ErrorCode::ConcurrentModification, format!("the {resource} was changed at the same time; try again"))
            .with_details(json!({ "resource": resource }))
    }

    pub fn not_connected(status: Status) -> Self {
        Self::new(ErrorCode::NotConnected, format!("the channel is {status}; connect it first"))
            .with_details(json!({ "status": status }))
    }
}

/// Plans and limits.
impl ApiError {
    pub fn plan_channel_limit(limit: u32, current: u32) -> Self {
        Self::new(ErrorCode::PlanChannelLimit, format!("the plan allows {limit} channels"))
            .with_details(json!({ "limit": limit, "current": current }))
    }

    /// `limit` is the capacity of the bucket that refused.
    pub fn rate_limited(scope: LimitScope, limit: u32, retry_after: u32) -> Self {
        Self::new(ErrorCode::RateLimited, format!("too many requests for this {}", scope.noun()))
            .with_details(json!({ "scope": scope, "limit": limit }))
            .with_retry_after(retry_after)
    }

    /// No node has a free slot, or a queue is full.
    pub fn worker_at_capacity() -> Self {
        Self::new(ErrorCode::WorkerAtCapacity, "no capacity is free right now; try again")
    }

    /// The disks of the nodes concerned have no room left for this.
    pub fn storage_full() -> Self {
        Self::new(ErrorCode::StorageFull, "the gateway's disks have no room for this right now; try again later")
    }

    /// Nobody can change the directory, or say what is in it now.
    pub fn no_majority() -> Self {
        let message = "most of the cluster's voting nodes do not answer each other right now; try again";
        Self::new(ErrorCode::WorkerAtCapacity, message).with_retry_after(1)
    }

    /// The channel's shard has no leader yet.
    pub fn no_leader() -> Self {
        Self::new(ErrorCode::WorkerAtCapacity, "the channel is moving to another node; try again").with_retry_after(1)
    }

    pub fn trial_expired(trial_ends_at: Timestamp) -> Self {
        Self::new(ErrorCode::TrialExpired, "the trial is over; choose a plan")
            .with_details(json!({ "trial_ends_at": trial_ends_at }))
    }

    pub fn payment_overdue(overdue_since: Timestamp) -> Self {
        Self::new(ErrorCode::PaymentOverdue, "a payment is overdue; settle it first")
            .with_details(json!({ "overdue_since": overdue_since }))
    }

    pub fn sse_connection_limit(open: u32) -> Self {
        Self::new(ErrorCode::SseConnectionLimit, format!("at most {STREAM_LIMIT} event streams may be open"))
            .with_details(json!({ "limit": STREAM_LIMIT, "open": open }))
    }
}

/// What is missing.
impl ApiError {
    pub fn webhook_endpoint_not_found() -> Self {
        Self::new(ErrorCode::WebhookEndpointNotFound, "no such webhook endpoint")
    }

    pub fn message_not_found(message_id: &str) -> Self {
        Self::new(ErrorCode::MessageNotFound, "no such message").with_details(json!({ "message_id": message_id }))
    }

    pub fn chat_not_found(chat_id: &str) -> Self {
        Self::new(ErrorCode::ChatNotFound, "no such chat").with_details(json!({ "chat_id": chat_id }))
    }

    pub fn contact_not_found(contact_id: &str) -> Self {
        Self::new(ErrorCode::ContactNotFound, "no such contact").with_details(json!({ "contact_id": contact_id }))
    }

    /// For resources without a code of their own: group, delivery, key and so on.
    pub fn not_found(resource: &str, id: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("no such {resource}"))
            .with_details(json!({ "resource": resource, "id": id }))
    }

    pub fn route_not_found() -> Self {
        Self::new(ErrorCode::NotFound, "no such route")
    }
}

/// The request itself.
impl ApiError {
    /// Unreadable JSON, a wrong content type, and what no narrower code fits.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    pub fn no_op(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NoOp, message)
    }

    /// The recipient as the caller named it, and why nothing can be sent there.
    pub fn undeliverable_recipient(to: &str, reason: Undeliverable) -> Self {
        let why = match reason {
            Undeliverable::UnknownLid => "the phone number behind this linked-device address is not known yet",
            Undeliverable::TooLong => "a number has at most 15 digits",
            Undeliverable::NotNumeric => "a number consists of digits",
            Undeliverable::UnknownSuffix => "the network does not know this kind of address",
            Undeliverable::NotRegistered => "the number is not registered with the network",
            Undeliverable::Blacklisted => "the recipient is on the block list",
        };
        Self::new(ErrorCode::UndeliverableRecipient, why).with_details(json!({ "to": to, "reason": reason }))
    }

    /// A declared stub, or a feature that is still to be built; `feature` such as `messages.image`.
    pub fn not_implemented(feature: &str) -> Self {
        Self::new(ErrorCode::NotImplemented, format!("{feature} is not available"))
            .with_details(json!({ "feature": feature }))
    }

    /// `limit_bytes` is what the route takes.
    pub fn payload_too_large_over(limit_bytes: u64) -> Self {
        Self::new(ErrorCode::PayloadTooLarge, format!("the body may have at most {limit_bytes} bytes"))
            .with_details(json!({ "limit_bytes": limit_bytes }))
    }
}

/// The network, and the gateway itself.
impl ApiError {
    /// No answer of the network in time: 502.
    pub fn upstream_timeout() -> Self {
        Self::new(ErrorCode::Other, "the network did not answer in time").with_details(json!({ "upstream": "timeout" }))
    }

    /// A definitive refusal by the network: the one use of 422.
    pub fn upstream_refused(upstream_code: u32, upstream_text: &str) -> Self {
        let refused = Self::new(ErrorCode::Other, format!("the network refused: {upstream_text}"))
            .with_details(json!({ "upstream_code": upstream_code, "upstream_text": upstream_text }));
        Self { status: Some(422), ..refused }
    }

    /// What went wrong is for the log, not for the caller.
    pub fn internal_error() -> Self {
        Self::new(ErrorCode::InternalError, "something went wrong inside the gateway")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_text_and_an_error_status() {
        let mut texts: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            assert!((400..600).contains(&code.http_status()), "{code}");
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn every_429_and_503_says_when_to_come_back() {
        for code in ErrorCode::ALL {
            if matches!(code.http_status(), 429 | 503) {
                assert!(code.default_retry_after().is_some(), "{code}");
            }
        }
    }

    #[test]
    fn a_refusal_by_the_network_is_422_and_a_silence_502() {
        assert_eq!(ApiError::upstream_refused(403, "not-authorized").http_status(), 422);
        assert_eq!(ApiError::upstream_timeout().http_status(), 502);
        assert_eq!(ApiError::upstream_timeout().code, ErrorCode::Other);
    }

    #[test]
    fn the_envelope_leaves_out_missing_details() {
        let body = ApiError::channel_not_found().envelope("req_1");
        assert_eq!(
            body,
            json!({ "error": { "code": "channel_not_found", "message": "no such channel" }, "request_id": "req_1" })
        );
        let body = ApiError::not_connected(Status::Qr).envelope("req_1");
        assert_eq!(body["error"]["details"], json!({ "status": "qr" }));
    }

    #[test]
    fn an_error_survives_the_way_to_another_node() {
        let error = ApiError::rate_limited(LimitScope::Channel, 60, 0);
        assert_eq!(error.retry_after, Some(1));
        let there: ApiError = serde_json::from_slice(&serde_json::to_vec(&error).unwrap()).unwrap();
        assert_eq!(there, error);
        let error = ApiError::upstream_refused(463, "unknown");
        let there: ApiError = serde_json::from_slice(&serde_json::to_vec(&error).unwrap()).unwrap();
        assert_eq!(there.http_status(), 422);
    }
}

//! The error codes of the interface, and the error of a refused call.
//!
//! Every refusal becomes a [`CallError`], wherever it occurs. It crosses nodes inside forwarded calls and knows nothing
//! of HTTP; only `api` maps it to a status.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::address::Undeliverable;
use crate::id::ChannelId;
use crate::limit::LimitScope;
use crate::status::{Reason, Status};
use crate::time::Timestamp;

/// Largest JSON body of a route, in bytes.
pub const JSON_LIMIT_BYTES: u64 = 1024 * 1024;

/// Largest JSON body of a send, in bytes.
pub const SEND_LIMIT_BYTES: u64 = 256 * 1024;

/// Maximum number of concurrent event streams per account.
pub const STREAM_LIMIT: u32 = 10;

crate::words! {
    /// Every stable error code.
    ErrorCode {
        AuthMissing = "auth_missing",
        AuthMalformed = "auth_malformed",
        AuthInvalid = "auth_invalid",
        AuthExpired = "auth_expired",
        AuthRevoked = "auth_revoked",
        AuthNoEmail = "auth_no_email",
        AuthBackendUnavailable = "auth_backend_unavailable",
        ChannelNotFound = "channel_not_found",
        ChannelAccessDenied = "channel_access_denied",
        ChannelScopedKey = "channel_scoped_key",
        InsufficientScope = "insufficient_scope",
        ChannelUnavailable = "channel_unavailable",
        InvalidLifecycleTransition = "invalid_lifecycle_transition",
        PairCodeUnavailable = "pair_code_unavailable",
        PairCodeFailed = "pair_code_failed",
        NoQr = "no_qr",
        NotDisabled = "not_disabled",
        ConcurrentModification = "concurrent_modification",
        NotConnected = "not_connected",
        PlanChannelLimit = "plan_channel_limit",
        PlanLimit = "plan_limit",
        RateLimited = "rate_limited",
        WorkerAtCapacity = "worker_at_capacity",
        StorageFull = "storage_full",
        TrialExpired = "trial_expired",
        PaymentOverdue = "payment_overdue",
        SseConnectionLimit = "sse_connection_limit",
        WebhookEndpointNotFound = "webhook_endpoint_not_found",
        MediaGone = "media_gone",
        MediaTokenExpired = "media_token_expired",
        MediaTokenTampered = "media_token_tampered",
        MediaTokenMalformed = "media_token_malformed",
        MediaTooLarge = "media_too_large",
        MediaFetchFailed = "media_fetch_failed",
        MediaFetchBlocked = "media_fetch_blocked",
        MessageNotFound = "message_not_found",
        ChatNotFound = "chat_not_found",
        ContactNotFound = "contact_not_found",
        InvalidRequest = "invalid_request",
        NotFound = "not_found",
        BadRequest = "bad_request",
        NoOp = "no_op",
        Other = "other",
        InternalError = "internal_error",
        UndeliverableRecipient = "undeliverable_recipient",
        NotImplemented = "not_implemented",
        PayloadTooLarge = "payload_too_large",
        UriTooLong = "uri_too_long",
        HeadersTooLarge = "headers_too_large",
        OutcomeUnknown = "outcome_unknown",
    }
}

impl ErrorCode {
    /// Default seconds until a retry may succeed; `None` if the same call can never succeed.
    pub fn default_retry_after(self) -> Option<u32> {
        match self {
            Self::ConcurrentModification | Self::RateLimited => Some(1),
            Self::AuthBackendUnavailable | Self::NoQr => Some(2),
            Self::WorkerAtCapacity | Self::SseConnectionLimit => Some(5),
            Self::StorageFull => Some(60),
            _ => None,
        }
    }
}

/// A refused request: code, message for people, and details.
///
/// No field may be skipped in serialization: forwarded calls carry it in a format without field names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct CallError {
    pub code: ErrorCode,
    /// Says what to change, if the caller can change something.
    pub message: String,
    /// Facts that belong to the code, such as the issues of `invalid_request`.
    pub details: Option<Value>,
    /// Seconds after which the same call may succeed.
    pub retry_after: Option<u32>,
    /// Whether the network refused, in which case a retry of the same call is refused again.
    #[serde(rename = "status", with = "by_network")]
    pub by_network: bool,
}

/// Nodes of 0.2.0 send an optional HTTP status in the place of this flag.
mod by_network {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    const STATUS: u16 = 422;

    pub fn serialize<S: Serializer>(by_network: &bool, to: S) -> Result<S::Ok, S::Error> {
        by_network.then_some(STATUS).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
        Ok(Option::<u16>::deserialize(from)?.is_some())
    }
}

impl CallError {
    /// An error without details, with the code's default retry time. Prefer the named constructors below.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let (message, retry_after) = (message.into(), code.default_retry_after());
        Self { code, message, details: None, retry_after, by_network: false }
    }

    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }

    /// Sets the retry time; at least one second, because zero would invite a busy loop.
    pub fn with_retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds.max(1)), ..self }
    }
}

/// Declares constructors: arguments, code, message, and the arguments that become details under their own names.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident($($given:ident: $type:ty),*) = $code:ident, $text:expr $(, { $($fact:ident),* })?;)*) => {
        impl CallError {$(
            $(#[$doc])*
            pub fn $name($($given: $type),*) -> Self {
                Self::new(ErrorCode::$code, $text)$(.with_details(json!({ $(stringify!($fact): $fact),* })))?
            }
        )*}
    };
}

pub(crate) use errors;

// Authentication and scopes.
errors! {
    auth_missing() = AuthMissing, "send the header Authorization: Bearer <API key>";
    auth_malformed()
        = AuthMalformed, "the Authorization header is not Bearer followed by an API key or a session token";
    auth_invalid() = AuthInvalid, "the key or token matches no active key or session";
    auth_expired(expired_at: Timestamp)
        = AuthExpired, "the key or token has expired; get a new one", { expired_at };
    auth_revoked(revoked_at: Timestamp)
        = AuthRevoked, "the key or session was revoked; use another one", { revoked_at };
    auth_backend_unavailable()
        = AuthBackendUnavailable, "keys and sessions cannot be checked right now; try again";
    /// The member of the session has not confirmed the e-mail address.
    auth_no_email() = AuthNoEmail, "confirm your e-mail address first: see the message that was sent to you";
    /// `required` and `granted` are lists of scope strings.
    insufficient_scope(required: &[String], granted: &[String])
        = InsufficientScope, format!("the key lacks the scope {}", required.join(", ")), { required, granted };
    channel_access_denied(key_channel_id: ChannelId)
        = ChannelAccessDenied, "the key is bound to another channel", { key_channel_id };
    channel_scoped_key(key_channel_id: ChannelId)
        = ChannelScopedKey, "this route needs a key that is not bound to a channel", { key_channel_id };
}

// Channels.
errors! {
    channel_not_found() = ChannelNotFound, "no such channel";
    channel_unavailable(status: Status, reason: Reason)
        = ChannelUnavailable, format!("the channel is {status}; it stays so until it is started again"), { status, reason };
    /// `action` is the last part of the route, such as `connect`.
    invalid_lifecycle_transition(status: Status, action: &str, allowed_from: &[Status])
        = InvalidLifecycleTransition, format!("{action} is not possible while the channel is {status}"),
        { status, action, allowed_from };
    pair_code_unavailable(status: Status)
        = PairCodeUnavailable, format!("no pair code can be made while the channel is {status}"), { status };
    /// `upstream_code` is absent when the network did not answer.
    pair_code_failed(upstream_code: Option<u32>)
        = PairCodeFailed, "the network refused or did not answer the request for a pair code", { upstream_code };
    no_qr(status: Status) = NoQr, "no QR code is ready", { status };
    not_disabled(status: Status) = NotDisabled, format!("the channel is {status}, not disabled_by_admin"), { status };
    concurrent_modification(resource: &str)
        = ConcurrentModification, format!("the {resource} was changed at the same time; try again"), { resource };
    not_connected(status: Status) = NotConnected, format!("the channel is {status}; {}", help_to_connect(status)), { status };
}

fn help_to_connect(status: Status) -> &'static str {
    match status {
        Status::Pending | Status::Qr => "pair it with a phone first",
        Status::Connecting | Status::Reconnecting => "try again once it is connected",
        _ => "connect it first",
    }
}

// Plans and limits.
errors! {
    plan_channel_limit(limit: u32, current: u32)
        = PlanChannelLimit, format!("the plan allows {limit} channels"), { limit, current };
    /// No node has a free slot, or a queue is full.
    worker_at_capacity() = WorkerAtCapacity, "no capacity is free right now; try again";
    /// The disks of the nodes involved have no room left for this.
    storage_full() = StorageFull, "the gateway's disks have no space for this right now; try again later";
    trial_expired(trial_ends_at: Timestamp) = TrialExpired, "the trial is over; choose a plan", { trial_ends_at };
    payment_overdue(overdue_since: Timestamp)
        = PaymentOverdue, "a payment is overdue; settle it first", { overdue_since };
}

impl CallError {
    /// `limit` is the capacity of the bucket that refused the request.
    pub fn rate_limited(scope: LimitScope, limit: u32, retry_after: u32) -> Self {
        Self::new(ErrorCode::RateLimited, format!("too many requests for this {}", scope.noun()))
            .with_details(json!({ "scope": scope, "limit": limit }))
            .with_retry_after(retry_after)
    }

    /// The directory has no quorum: it can be neither changed nor read reliably.
    pub fn no_majority() -> Self {
        let message = "most of the cluster's voting nodes do not answer each other right now; try again";
        Self::new(ErrorCode::WorkerAtCapacity, message).with_retry_after(1)
    }

    /// The channel's shard has no leader yet.
    pub fn no_leader() -> Self {
        Self::new(ErrorCode::WorkerAtCapacity, "the channel is moving to another node; try again").with_retry_after(1)
    }

    pub fn sse_connection_limit(open: u32) -> Self {
        Self::new(ErrorCode::SseConnectionLimit, format!("at most {STREAM_LIMIT} event streams may be open"))
            .with_details(json!({ "limit": STREAM_LIMIT, "open": open }))
    }
}

// Resources that do not exist.
errors! {
    webhook_endpoint_not_found() = WebhookEndpointNotFound, "no such webhook endpoint";
    message_not_found(message_id: &str) = MessageNotFound, "no such message", { message_id };
    chat_not_found(chat_id: &str) = ChatNotFound, "no such chat", { chat_id };
    contact_not_found(contact_id: &str) = ContactNotFound, "no such contact", { contact_id };
    /// For resources without a code of their own: group, delivery, key and so on.
    not_found(resource: &str, id: &str) = NotFound, format!("no such {resource}"), { resource, id };
    route_not_found() = NotFound, "no such route";
}

// Faults of the request itself.
errors! {
    /// A stub, or a feature that is not built yet; `feature` is a name such as `messages.image`.
    not_implemented(feature: &str) = NotImplemented, format!("{feature} is not available"), { feature };
    /// `limit_bytes` is the limit of the route.
    payload_too_large_over(limit_bytes: u64)
        = PayloadTooLarge, format!("the body may have at most {limit_bytes} bytes"), { limit_bytes };
}

impl CallError {
    /// Unreadable JSON, a wrong content type, and errors that no narrower code fits.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    pub fn no_op(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NoOp, message)
    }

    /// `to` is the recipient as the caller named it; `reason` says why nothing can be sent there.
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

    /// The network of this cluster, or the driver for it, does not support the feature.
    pub fn not_on_this_network(feature: &str) -> Self {
        Self::new(ErrorCode::NotImplemented, format!("{feature} is not available on the network of this cluster"))
            .with_details(json!({ "feature": feature, "network": "whatsapp" }))
    }
}

/// Errors of the network and of the gateway itself.
impl CallError {
    /// The network did not answer in time.
    pub fn upstream_timeout() -> Self {
        Self::new(ErrorCode::Other, "the network did not answer in time").with_details(json!({ "upstream": "timeout" }))
    }

    /// The network refused definitively.
    pub fn upstream_refused(upstream_code: u32, upstream_text: &str) -> Self {
        let refused = Self::new(ErrorCode::Other, format!("the network refused: {upstream_text}"))
            .with_details(json!({ "upstream_code": upstream_code, "upstream_text": upstream_text }));
        Self { by_network: true, ..refused }
    }

    /// An internal error; its cause goes to the log, not to the caller.
    pub fn internal_error() -> Self {
        Self::new(ErrorCode::InternalError, "something went wrong inside the gateway")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_text() {
        let mut texts: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn whoever_waits_for_a_channel_is_told_what_helps() {
        let told = |status| CallError::not_connected(status).message;
        assert_eq!(told(Status::Qr), "the channel is qr; pair it with a phone first");
        assert_eq!(told(Status::Reconnecting), "the channel is reconnecting; try again once it is connected");
        assert_eq!(told(Status::Disconnected), "the channel is disconnected; connect it first");
    }

    #[test]
    fn an_error_survives_the_way_to_another_node() {
        let error = CallError::rate_limited(LimitScope::Channel, 60, 0);
        assert_eq!(error.retry_after, Some(1));
        let there: CallError = serde_json::from_slice(&serde_json::to_vec(&error).unwrap()).unwrap();
        assert_eq!(there, error);
        let error = CallError::upstream_refused(463, "unknown");
        let sent = serde_json::to_value(&error).unwrap();
        assert_eq!(sent["status"], 422);
        assert_eq!(serde_json::from_value::<CallError>(sent).unwrap(), error);
    }
}

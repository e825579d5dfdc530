//! Maps errors of the lower crates to the interface's codes.

use model::error::CallError;
use model::issue::{IssueCode, Violation};
use model::limit::{BucketLevel, LimitScope};
use model::time::{Day, Timestamp};
use model::webhook::endpoint::{too_many_endpoints, urls_too_long};
use raft::directory::UpdateError;
use raft::directory::command::Rejection;
use raft::group::MAX_COMMAND;

/// The `Retry-After` when the directory has no leader, in seconds: about the duration of an election.
const ELECTION_SECONDS: u32 = 1;

/// The error for a failed update of the directory.
pub fn of_update(error: UpdateError) -> CallError {
    match error {
        UpdateError::Rejected(rejection) => of_rejection(rejection),
        error @ UpdateError::Format { .. } => CallError::bad_request(error.to_string()),
        UpdateError::TooLarge { .. } => CallError::payload_too_large_over(MAX_COMMAND as u64),
        UpdateError::Unavailable => CallError::no_majority(),
    }
}

/// The error for a command that the directory rejected.
pub fn of_rejection(rejection: Rejection) -> CallError {
    match rejection {
        Rejection::CustomerNotFound => CallError::not_found("customer", ""),
        Rejection::KeyNotFound => CallError::not_found("api_key", ""),
        Rejection::ChannelNotFound => CallError::channel_not_found(),
        Rejection::EndpointNotFound => CallError::webhook_endpoint_not_found(),
        Rejection::ChannelLimit { limit, current } => CallError::plan_channel_limit(limit, current),
        Rejection::EndpointLimit { .. } => too_many_endpoints(),
        Rejection::UrlsTooLong => urls_too_long(),
        Rejection::Quota { quota, limit, used } => CallError::plan_limit(quota, limit, used),
        Rejection::UserNotFound => CallError::not_found("member", ""),
        Rejection::EmailTaken => email_taken(),
        Rejection::VerificationUnknown | Rejection::SessionNotFound => CallError::auth_invalid(),
        // Only reached when a concurrent request ended the session; otherwise the refusal has the session's own time.
        Rejection::SessionOver | Rejection::SessionMoved => CallError::auth_revoked(Timestamp::now()),
        Rejection::TicketNotFound => CallError::not_found("ticket", ""),
        Rejection::TicketLimit { limit } => {
            let now = Timestamp::now();
            let tomorrow = Timestamp::from_unix_seconds(i64::from(Day::of(now).0 + 1) * 86_400);
            let seconds = u32::try_from(tomorrow.since(now).as_secs() + 1).unwrap_or(u32::MAX);
            CallError::rate_limited(LimitScope::Customer, limit, seconds)
        }
        Rejection::NodeUnknown(node) => CallError::not_found("node", &node.to_string()),
        Rejection::LastOwner
        | Rejection::UserLimit { .. }
        | Rejection::TicketClosed
        | Rejection::TicketFull { .. }
        | Rejection::LastNode(_)
        | Rejection::NodeState { .. }
        | Rejection::NodeLimit { .. }
        | Rejection::LayoutRuns
        | Rejection::LayoutOver
        | Rejection::ExchangeRuns
        | Rejection::NoAuthority
        | Rejection::AuthorityRotates
        | Rejection::DataKeysRotate
        | Rejection::SessionKeyOverlaps(_)
        | Rejection::NotSealed(_) => CallError::bad_request(rejection.to_string()),
        // An exchange of the master key began a moment ago. A retry seals with the new key.
        Rejection::OtherMasterKey(_) => CallError::worker_at_capacity().with_retry_after(ELECTION_SECONDS),
        Rejection::KeyRevoked | Rejection::TicketUnchanged | Rejection::ExchangeOver => {
            CallError::no_op(rejection.to_string())
        }
        Rejection::LayoutStale => CallError::concurrent_modification("layout"),
        Rejection::AlreadyFormed
        | Rejection::NodeRemoved(_)
        | Rejection::AddressTaken { .. }
        | Rejection::TokenUnknown
        | Rejection::TokenUsed
        | Rejection::TokenExpired(_)
        | Rejection::NotFormed
        | Rejection::CustomerLives
        | Rejection::NotDeleted
        | Rejection::AuthorityStep
        | Rejection::DataKeysStep
        | Rejection::NodeBehind(_)
        | Rejection::EndpointDisabled
        | Rejection::ForeignStorage { .. }
        | Rejection::UnknownVersion(_)
        | Rejection::Unreadable => internal("the directory refused an update", &rejection),
    }
}

/// The `rate_limited` error of an empty bucket.
pub fn empty_bucket(scope: LimitScope, level: &BucketLevel) -> CallError {
    CallError::rate_limited(scope, level.limit, level.retry_after)
}

/// E-mail addresses are unique over all customers, since a login names only the address.
pub fn email_taken() -> CallError {
    Violation::new(IssueCode::Conflict, "belongs to a member already").at(&["email"])
}

/// The error for a reply of the wrong kind, which is a bug. Details are only logged.
pub fn unexpected(answer: &dyn std::fmt::Debug) -> CallError {
    internal("an answer is of another kind than was asked for", &format!("{answer:?}"))
}

/// Unwraps a reply of the expected kind, or fails with [`unexpected`].
macro_rules! of_kind {
    ($answer:expr, $kind:pat => $got:expr) => {
        match $answer {
            $kind => Ok($got),
            other => Err($crate::failure::unexpected(&other)),
        }
    };
}

pub(crate) use of_kind;

/// Logs the cause, and returns an `internal_error` without it.
pub fn internal(what: &str, error: &dyn std::fmt::Display) -> CallError {
    tracing::error!(%error, "{what}");
    CallError::internal_error()
}

//! HTTP statuses and the error envelope of refused calls.

use model::error::{CallError, ErrorCode};
use serde_json::{Value, json};

/// The status of `other` when the network refused, where a retry does not help; no response from the network is 502.
pub const REFUSED_BY_NETWORK: u16 = 422;

/// The status of a refused call.
pub fn status_of(error: &CallError) -> u16 {
    if error.by_network { REFUSED_BY_NETWORK } else { http_status(error.code) }
}

/// The body of the response to a refused call.
pub fn envelope(error: &CallError, request_id: &str) -> Value {
    let mut told = json!({ "code": error.code, "message": error.message });
    if let Some(details) = &error.details {
        told["details"] = details.clone();
    }
    json!({ "error": told, "request_id": request_id })
}

/// The status of a code. `other` can also have [`REFUSED_BY_NETWORK`] instead.
pub fn http_status(code: ErrorCode) -> u16 {
    use ErrorCode::*;
    match code {
        MediaFetchFailed | MediaFetchBlocked | InvalidRequest | BadRequest | UndeliverableRecipient => 400,
        AuthMissing | AuthMalformed | AuthInvalid | AuthExpired | AuthRevoked | MediaTokenExpired
        | MediaTokenTampered | MediaTokenMalformed => 401,
        TrialExpired | PaymentOverdue => 402,
        AuthNoEmail | ChannelAccessDenied | ChannelScopedKey | InsufficientScope | PlanChannelLimit => 403,
        ChannelNotFound | WebhookEndpointNotFound | MessageNotFound | ChatNotFound | ContactNotFound | NotFound => 404,
        ChannelUnavailable
        | InvalidLifecycleTransition
        | PairCodeUnavailable
        | NoQr
        | NotDisabled
        | ConcurrentModification
        | NotConnected
        | PlanLimit
        | NoOp => 409,
        MediaGone => 410,
        MediaTooLarge | PayloadTooLarge => 413,
        UriTooLong => 414,
        RateLimited | SseConnectionLimit => 429,
        HeadersTooLarge => 431,
        InternalError => 500,
        NotImplemented => 501,
        PairCodeFailed | Other | OutcomeUnknown => 502,
        AuthBackendUnavailable | WorkerAtCapacity | StorageFull => 503,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use model::status::Status;

    #[test]
    fn every_code_is_an_error_and_every_429_and_503_says_when_to_come_back() {
        for code in ErrorCode::ALL {
            assert!((400..600).contains(&http_status(code)), "{code}");
            if matches!(http_status(code), 429 | 503) {
                assert!(code.default_retry_after().is_some(), "{code}");
            }
        }
    }

    #[test]
    fn a_refusal_by_the_network_is_422_and_a_silence_502() {
        assert_eq!(status_of(&CallError::upstream_refused(403, "not-authorized")), 422);
        assert_eq!(status_of(&CallError::upstream_timeout()), 502);
        assert_eq!(CallError::upstream_timeout().code, ErrorCode::Other);
    }

    #[test]
    fn the_envelope_leaves_out_missing_details() {
        let body = envelope(&CallError::channel_not_found(), "req_1");
        assert_eq!(
            body,
            json!({ "error": { "code": "channel_not_found", "message": "no such channel" }, "request_id": "req_1" })
        );
        let body = envelope(&CallError::not_connected(Status::Qr), "req_1");
        assert_eq!(body["error"]["details"], json!({ "status": "qr" }));
    }
}

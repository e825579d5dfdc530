//! Refused calls as HTTP tells them: statuses and the envelope.

use model::error::{CallError, ErrorCode};
use serde_json::{Value, json};

/// The status of `other` where the network refused, which trying again does not help; silence of the network is 502.
pub const REFUSED_BY_NETWORK: u16 = 422;

/// A refused call as a response.
pub struct ApiError(CallError);

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        Self(error)
    }
}

impl ApiError {
    pub fn http_status(&self) -> u16 {
        if self.0.by_network { REFUSED_BY_NETWORK } else { http_status(self.0.code) }
    }

    /// Whole seconds of the `Retry-After` header.
    pub fn retry_after(&self) -> Option<u32> {
        self.0.retry_after
    }

    /// The body of the response.
    pub fn envelope(&self, request_id: &str) -> Value {
        let mut error = json!({ "code": self.0.code, "message": self.0.message });
        if let Some(details) = &self.0.details {
            error["details"] = details.clone();
        }
        json!({ "error": error, "request_id": request_id })
    }
}

/// The one status of a code; `other` has [`REFUSED_BY_NETWORK`] besides.
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
        assert_eq!(ApiError::from(CallError::upstream_refused(403, "not-authorized")).http_status(), 422);
        assert_eq!(ApiError::from(CallError::upstream_timeout()).http_status(), 502);
        assert_eq!(CallError::upstream_timeout().code, ErrorCode::Other);
    }

    #[test]
    fn the_envelope_leaves_out_missing_details() {
        let body = ApiError::from(CallError::channel_not_found()).envelope("req_1");
        assert_eq!(
            body,
            json!({ "error": { "code": "channel_not_found", "message": "no such channel" }, "request_id": "req_1" })
        );
        let body = ApiError::from(CallError::not_connected(Status::Qr)).envelope("req_1");
        assert_eq!(body["error"]["details"], json!({ "status": "qr" }));
    }
}

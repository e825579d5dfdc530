//! From a header to a caller (interface 5; design section 6, "Fresh enough").

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::api_key::ApiKey;
use model::error::{ApiError, ErrorCode};
use model::scope::{Scope, Scopes};
use model::time::Timestamp;
use raft::directory::records::KeyRecord;
use raft::directory::state::DirectoryState;
use salvo::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

use crate::exchange::{Caller, Exchange};

/// How long a request waits for a copy of the directory that is fresh enough to judge keys by.
const REFRESH_PATIENCE: Duration = Duration::from_secs(3);

/// Authenticates by API key. A failure is noted for the audit log.
///
/// # Errors
/// One of the `auth_*` codes.
pub async fn key(exchange: &Exchange) -> Result<Caller, ApiError> {
    let token = match bearer(exchange) {
        Ok(token) => token,
        Err(error) => {
            exchange.app.failures.note(exchange, None, None, error.code);
            return Err(error);
        }
    };
    let verdict = judge_freshly(exchange, &token).await;
    match verdict {
        Verdict::Valid(caller) => {
            exchange.app.key_use.note(&caller.key, exchange.now);
            Ok(caller)
        }
        Verdict::Refused(known, error) => {
            // That keys cannot be checked is not the caller's failure.
            if error.code != ErrorCode::AuthBackendUnavailable {
                exchange.app.failures.note(exchange, Some(token.prefix()), known.as_deref(), error.code);
            }
            Err(error)
        }
        Verdict::Unknown => {
            exchange.app.failures.note(exchange, Some(token.prefix()), None, ErrorCode::AuthInvalid);
            Err(ApiError::auth_invalid())
        }
    }
}

/// Authenticates by the operator's token.
///
/// # Errors
/// `auth_missing`, `auth_malformed` or `auth_invalid`.
pub fn operator(exchange: &Exchange) -> Result<(), ApiError> {
    let header = authorization(exchange)?;
    let token = header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let (_, token) = token.ok_or_else(ApiError::auth_malformed)?;
    let expected = exchange.app.config.operator_token.as_bytes();
    let same: bool = token.trim().as_bytes().ct_eq(expected).into();
    // An empty token in the configuration opens nothing.
    if same && !expected.is_empty() { Ok(()) } else { Err(ApiError::auth_invalid()) }
}

fn authorization(exchange: &Exchange) -> Result<&str, ApiError> {
    let mut values = exchange.http.headers().get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or_else(ApiError::auth_missing)?;
    if values.next().is_some() {
        return Err(ApiError::auth_malformed());
    }
    value.to_str().map_err(|_| ApiError::auth_malformed())
}

fn bearer(exchange: &Exchange) -> Result<ApiKey, ApiError> {
    ApiKey::from_authorization(authorization(exchange)?).ok_or_else(ApiError::auth_malformed)
}

/// Judges the key by a copy of the directory that is fresh enough; a key that the copy does not know is looked up once
/// more after the copy was confirmed, since it may have been issued a moment ago.
async fn judge_freshly(exchange: &Exchange, token: &ApiKey) -> Verdict {
    let directory = exchange.cluster().directory();
    let judge = || directory.read(|state| judge(state, token, exchange.now));
    if directory.is_fresh() {
        match judge() {
            Verdict::Unknown => {}
            known => return known,
        }
    }
    match directory.refresh(Instant::now() + REFRESH_PATIENCE).await {
        Ok(()) => judge(),
        Err(_) => Verdict::Refused(None, ApiError::auth_backend_unavailable()),
    }
}

/// What the directory says of a key.
enum Verdict {
    Valid(Caller),
    /// With the record, when the key is known.
    Refused(Option<Arc<KeyRecord>>, ApiError),
    Unknown,
}

fn judge(state: &DirectoryState, token: &ApiKey, now: Timestamp) -> Verdict {
    let (prefix, hash) = (token.prefix(), token.hash());
    let same = |key: &&Arc<KeyRecord>| bool::from(key.hash.ct_eq(hash.as_bytes()));
    let Some(key) = state.keys_with_prefix(prefix.as_str()).find(same).cloned() else { return Verdict::Unknown };
    let Some(customer) = state.customers.get(&key.customer_id).cloned() else { return Verdict::Unknown };
    if let Some(revoked_at) = key.revoked_at.or(customer.deleted_at) {
        return Verdict::Refused(Some(key), ApiError::auth_revoked(revoked_at));
    }
    if let Some(expired_at) = key.expires_at.filter(|end| *end <= now) {
        return Verdict::Refused(Some(key), ApiError::auth_expired(expired_at));
    }
    // A scope that this release cannot read grants nothing: a key whose scopes are all unreadable must not end up with
    // the empty list, which is unrestricted.
    let scopes: Option<Vec<Scope>> = key.scopes.iter().map(|text| Scope::parse(text)).collect();
    match scopes {
        Some(scopes) => Verdict::Valid(Caller { scopes: Scopes::new(scopes), key, customer }),
        None => Verdict::Refused(Some(key), ApiError::auth_invalid()),
    }
}

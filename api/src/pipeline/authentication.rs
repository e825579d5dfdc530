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

use crate::caller::{Caller, Credential};
use crate::exchange::Exchange;
use crate::failure;

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
            if let Some(key) = caller.key() {
                exchange.app.key_use.note(key, exchange.now);
            }
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

/// Authenticates by the operator's token, and sees to it that what the operator reads is not old.
///
/// # Errors
/// `auth_missing`, `auth_malformed` or `auth_invalid`; 503 while the directory has no leader.
pub async fn operator(exchange: &Exchange) -> Result<(), ApiError> {
    check_operator_token(exchange)?;
    let directory = exchange.cluster().directory();
    if directory.is_fresh() {
        return Ok(());
    }
    directory.refresh(Instant::now() + REFRESH_PATIENCE).await.map_err(failure::of_update)
}

fn check_operator_token(exchange: &Exchange) -> Result<(), ApiError> {
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
        Some(scopes) => {
            Verdict::Valid(Caller { scopes: Scopes::new(scopes), credential: Credential::Key(key), customer })
        }
        None => Verdict::Refused(Some(key), ApiError::auth_invalid()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::resources::{test_caller, test_key};
    use model::id::ChannelId;
    use raft::directory::command::{Command, PROPOSAL_VERSION, Proposal};
    use raft::machine::MemoryState;
    use uuid::Uuid;

    const NOW: Timestamp = Timestamp(1_767_225_600_000);

    /// A directory with one customer and its key, changed by `with` first.
    fn directory(with: impl FnOnce(&mut KeyRecord)) -> (DirectoryState, ApiKey) {
        let customer = (*test_caller(&[], None).customer).clone();
        let (mut key, secret) = test_key(customer.id, &["messages.read"], None::<ChannelId>, NOW);
        with(&mut key);
        let mut store = MemoryState::new();
        let mut state = DirectoryState::load(&store);
        let command = Command::CreateCustomer { customer, key };
        let proposal = Proposal { version: PROPOSAL_VERSION, id: Uuid::nil(), at: NOW, command, audit: Vec::new() };
        state.apply(proposal, &mut store).0.unwrap();
        (state, secret)
    }

    fn refusal(verdict: Verdict) -> ErrorCode {
        match verdict {
            Verdict::Refused(Some(_), error) => error.code,
            _ => panic!("expected a refusal of a known key"),
        }
    }

    #[test]
    fn a_valid_key_brings_its_customer_and_scopes() {
        let (state, secret) = directory(|_| {});
        let Verdict::Valid(caller) = judge(&state, &secret, NOW) else { panic!("expected a caller") };
        assert_eq!(caller.key().unwrap().customer_id, caller.customer.id);
        assert_eq!(caller.scopes.to_strings(), ["messages.read"]);
    }

    #[test]
    fn a_key_is_known_by_all_of_it_and_not_by_its_prefix() {
        let (state, secret) = directory(|_| {});
        let mut other = secret.reveal().to_owned();
        let last = if other.pop() == Some('A') { 'B' } else { 'A' };
        other.push(last);
        let other = ApiKey::parse(&other).unwrap();
        assert_eq!(other.prefix(), secret.prefix());
        assert!(matches!(judge(&state, &other, NOW), Verdict::Unknown));
    }

    #[test]
    fn a_known_key_is_refused_with_the_reason() {
        let (state, secret) = directory(|key| key.expires_at = Some(NOW));
        assert_eq!(refusal(judge(&state, &secret, NOW)), ErrorCode::AuthExpired);
        assert!(matches!(judge(&state, &secret, Timestamp(NOW.0 - 1)), Verdict::Valid(_)));
        let (state, secret) = directory(|key| key.revoked_at = Some(NOW));
        assert_eq!(refusal(judge(&state, &secret, NOW)), ErrorCode::AuthRevoked);
    }

    #[test]
    fn a_key_with_a_scope_that_cannot_be_read_grants_nothing() {
        let (state, secret) = directory(|key| key.scopes = vec!["orders.read".into()]);
        assert_eq!(refusal(judge(&state, &secret, NOW)), ErrorCode::AuthInvalid);
    }
}

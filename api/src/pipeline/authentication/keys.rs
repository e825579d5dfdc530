//! Judges API keys by the directory.

use model::api_key::{ApiKey, KeyPrefix};
use model::error::CallError;
use model::scope::{Scope, Scopes};
use model::time::Timestamp;
use raft::directory::records::KeyRecord;
use raft::directory::state::DirectoryState;
use std::sync::Arc;
use subtle::ConstantTimeEq;

use super::Verdict;
use crate::audit::Suspect;
use crate::caller::{Caller, Credential};

pub(super) fn judge(state: &DirectoryState, token: &ApiKey, now: Timestamp) -> Verdict {
    let (prefix, hash) = (token.prefix(), token.hash());
    let same = |key: &&Arc<KeyRecord>| bool::from(key.hash.ct_eq(hash.as_bytes()));
    let Some(key) = state.keys_with_prefix(prefix.as_str()).find(same).cloned() else { return Verdict::Unknown };
    judge_record(state, key, now)
}

/// Judges a known key, whether the key itself was shown or a ticket that stands for it.
pub(super) fn judge_record(state: &DirectoryState, key: Arc<KeyRecord>, now: Timestamp) -> Verdict {
    let Some(customer) = state.customers.get(&key.customer_id).cloned() else { return Verdict::Unknown };
    if let Some(revoked_at) = state.ended_at(&key) {
        return Verdict::Refused(Suspect::Key(key), CallError::auth_revoked(revoked_at));
    }
    if let Some(expired_at) = key.expires_at.filter(|end| *end <= now) {
        return Verdict::Refused(Suspect::Key(key), CallError::auth_expired(expired_at));
    }
    // A scope that this release cannot read grants nothing. If it were skipped, a key with only unreadable scopes would
    // get the empty list, which is unrestricted.
    let scopes: Option<Vec<Scope>> = key.scopes.iter().map(|text| Scope::parse(text)).collect();
    match scopes {
        Some(scopes) => {
            Verdict::Valid(Caller { scopes: Scopes::new(scopes), credential: Credential::Key(key), customer })
        }
        None => Verdict::Refused(Suspect::Key(key), CallError::auth_invalid()),
    }
}

/// Attributes an unknown secret to the customer of the keys with the same prefix.
pub(super) fn suspect(state: &DirectoryState, prefix: KeyPrefix) -> Suspect {
    let like = state.keys_with_prefix(prefix.as_str()).find(|key| state.customers.contains_key(&key.customer_id));
    match like.map(|key| key.customer_id) {
        Some(customer) => Suspect::Guess { customer, prefix },
        None => Suspect::Unknown(Some(prefix)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::resources::{test_caller, test_key};
    use model::error::ErrorCode;
    use model::id::ChannelId;
    use raft::directory::command::{Command, Proposal};
    use raft::machine::MemoryState;

    const NOW: Timestamp = Timestamp(1_767_225_600_000);

    /// A directory with one customer and its key, changed by `with` first.
    fn directory(with: impl FnOnce(&mut KeyRecord)) -> (DirectoryState, ApiKey) {
        let customer = (*test_caller(&[], None).customer).clone();
        let (mut key, secret) = test_key(customer.id, &["messages.read"], None::<ChannelId>, NOW);
        with(&mut key);
        let mut store = MemoryState::new();
        let mut state = DirectoryState::load(&store);
        let command = Command::CreateCustomer { customer: Box::new(customer), key };
        let proposal = Proposal::new(command, NOW, Vec::new());
        state.apply(proposal, &mut store).0.unwrap();
        (state, secret)
    }

    fn refusal(verdict: Verdict) -> ErrorCode {
        match verdict {
            Verdict::Refused(Suspect::Key(_), error) => error.code,
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
        // A wrong secret is noted as a guess for the account of keys with its prefix, or else for no account.
        assert!(
            matches!(suspect(&state, other.prefix()), Suspect::Guess { customer, .. } if state.customers.contains_key(&customer))
        );
        let unlike = ApiKey::parse(&format!("zpk_{}", "-".repeat(24))).unwrap();
        assert!(matches!(suspect(&state, unlike.prefix()), Suspect::Unknown(Some(_))));
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

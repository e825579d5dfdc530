//! Authenticates operators by named tokens with roles, which are known by their hashes, and throttles wrong tokens.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::error::CallError;
use model::limit::{BucketRule, LimitScope};
use model::scope::Access;
use model::time::Timestamp;
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use crate::ip_bucket::IpBuckets;

/// Rate limit of wrong tokens per client address, on each node.
const WRONG: BucketRule = BucketRule { burst: 20, refill_per_second: 5 };

/// The most requests that may wait because their address has used up its tries.
const WAITING: usize = 32;

/// How long such a request waits at most, and how often it looks for a free try.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A token for the operators' port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorToken {
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    pub operator: Operator,
}

/// The owner of a token, and what the token allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// `None` for the token that all nodes and operators share.
    pub name: Option<String>,
    /// Write access includes read access.
    pub access: Access,
}

impl OperatorToken {
    /// The shared token, which has write access.
    pub fn shared(text: &str) -> Self {
        Self { hash: hash(text), operator: Operator { name: None, access: Access::Write } }
    }

    pub fn named(name: String, hash: [u8; 32], access: Access) -> Self {
        Self { hash, operator: Operator { name: Some(name), access } }
    }
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// The tokens of a deployment. Those from a file may be replaced while the port is open.
#[derive(Clone, Default)]
pub struct OperatorTokens(Arc<RwLock<Vec<OperatorToken>>>);

impl OperatorTokens {
    pub fn new(tokens: Vec<OperatorToken>) -> Self {
        Self(Arc::new(RwLock::new(tokens)))
    }

    /// Replaces the tokens; removed ones stop working at once.
    pub fn replace(&self, tokens: Vec<OperatorToken>) {
        *self.0.write() = tokens;
    }

    /// The current tokens.
    pub fn known(&self) -> Vec<OperatorToken> {
        self.0.read().clone()
    }

    /// Finds the operator of a token. Compares all tokens, even after a match, to take constant time.
    fn find(&self, text: &str) -> Option<Operator> {
        let shown = hash(text);
        let tokens = self.0.read();
        let mut found = None;
        for token in tokens.iter() {
            if bool::from(token.hash.ct_eq(&shown)) {
                found = Some(token.operator.clone());
            }
        }
        // An empty token in the configuration must not authenticate anybody.
        found.filter(|_| !text.is_empty())
    }
}

/// Authenticates operators by their tokens. Wrong tokens are counted by client address. Once an address has used up its
/// tries, its requests are throttled: wrong tokens cannot be tried faster, and the right token still gets in.
pub struct OperatorAuthenticator {
    tokens: OperatorTokens,
    wrong: IpBuckets,
    waiting: Semaphore,
}

impl OperatorAuthenticator {
    pub fn new(tokens: OperatorTokens) -> Self {
        Self { tokens, wrong: IpBuckets::new(WRONG), waiting: Semaphore::new(WAITING) }
    }

    /// # Errors
    /// `auth_invalid` for a wrong token; `rate_limited` after too many from the address.
    pub async fn authenticate(&self, from: IpAddr, text: &str) -> Result<Operator, CallError> {
        // The try is taken before the token is checked, so that concurrent requests cannot exceed the limit.
        let Err(level) = self.wrong.take(from, Timestamp::steady()) else {
            return self.look(from, text).ok_or_else(CallError::auth_invalid);
        };
        let refused = || CallError::rate_limited(LimitScope::Ip, WRONG.burst, level.retry_after.max(1));
        let _place = self.waiting.try_acquire().map_err(|_| refused())?;
        let deadline = Instant::now() + PATIENCE;
        while self.wrong.take(from, Timestamp::steady()).is_err() {
            if Instant::now() >= deadline {
                return Err(refused());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.look(from, text).ok_or_else(refused)
    }

    fn look(&self, from: IpAddr, text: &str) -> Option<Operator> {
        let operator = self.tokens.find(text)?;
        self.wrong.give_back(from);
        Some(operator)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use model::error::ErrorCode;

    fn tokens() -> OperatorTokens {
        let reader = OperatorToken::named("ann".to_owned(), hash("the token of ann"), Access::Read);
        OperatorTokens::new(vec![OperatorToken::shared("the shared token"), reader])
    }

    #[test]
    fn a_token_is_its_operators_and_what_is_taken_out_opens_nothing() {
        let tokens = tokens();
        assert_eq!(tokens.find("the shared token"), Some(Operator { name: None, access: Access::Write }));
        assert_eq!(tokens.find("the token of ann").unwrap().name.as_deref(), Some("ann"));
        for wrong in ["the token of bob", "the token of an", ""] {
            assert_eq!(tokens.find(wrong), None, "{wrong:?}");
        }
        tokens.replace(vec![OperatorToken::shared("")]);
        for wrong in ["the shared token", "the token of ann", ""] {
            assert_eq!(tokens.find(wrong), None, "{wrong:?}");
        }
    }

    fn code(judged: Result<Operator, CallError>) -> Option<ErrorCode> {
        judged.err().map(|error| error.code)
    }

    /// Tries wrong tokens until the address has used up its tries. Returns how many were checked before.
    async fn use_up(authenticator: &OperatorAuthenticator, from: IpAddr) -> u32 {
        for tried in 0..1_000 {
            match code(authenticator.authenticate(from, "wrong").await) {
                Some(ErrorCode::AuthInvalid) => {}
                Some(ErrorCode::RateLimited) => return tried,
                other => panic!("{other:?}"),
            }
        }
        panic!("wrong tokens pass without end");
    }

    #[tokio::test]
    async fn wrong_tokens_are_limited_by_address_and_right_ones_get_in() {
        let authenticator = OperatorAuthenticator::new(tokens());
        let (here, there) = (IpAddr::from([198, 51, 100, 1]), IpAddr::from([198, 51, 100, 2]));
        for _ in 0..3 * WRONG.burst {
            authenticator.authenticate(here, "the shared token").await.unwrap();
        }
        assert!(use_up(&authenticator, here).await >= WRONG.burst, "right tokens use up nothing");
        assert_eq!(
            code(authenticator.authenticate(there, "wrong").await),
            Some(ErrorCode::AuthInvalid),
            "another address"
        );
        authenticator.authenticate(here, "the token of ann").await.unwrap();
    }

    #[tokio::test]
    async fn no_more_wait_than_there_is_room_for() {
        let authenticator = OperatorAuthenticator::new(tokens());
        let here = IpAddr::from([198, 51, 100, 1]);
        let _all = authenticator.waiting.try_acquire_many(u32::try_from(WAITING).unwrap()).unwrap();
        // Repeated, since on a slow machine a try may have been refilled, and the right token then gets in.
        for _ in 0..1_000 {
            use_up(&authenticator, here).await;
            if code(authenticator.authenticate(here, "the shared token").await) == Some(ErrorCode::RateLimited) {
                return;
            }
        }
        panic!("it always gets in");
    }
}

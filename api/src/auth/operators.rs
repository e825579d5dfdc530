//! Who operates the cluster: tokens with names and roles, known by their hashes, and how often wrong ones may be tried.

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

/// Wrong tokens from one address, on one node.
const WRONG: BucketRule = BucketRule { burst: 20, refill_per_second: 5 };

/// Requests from addresses that have used up their tries which may wait for the next one.
const WAITING: usize = 32;

/// How long such a request waits, and between two looks.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A token that opens the operators' port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorToken {
    /// SHA-256 of it.
    pub hash: [u8; 32],
    pub operator: Operator,
}

/// Who has a token, and what it opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// `None` for the token that all nodes and operators share.
    pub name: Option<String>,
    /// Who may write may read.
    pub access: Access,
}

impl OperatorToken {
    /// The token that all share: it opens everything.
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

/// The tokens of a deployment; those of a file may be exchanged while the port is open.
#[derive(Clone, Default)]
pub struct OperatorTokens(Arc<RwLock<Vec<OperatorToken>>>);

impl OperatorTokens {
    pub fn new(tokens: Vec<OperatorToken>) -> Self {
        Self(Arc::new(RwLock::new(tokens)))
    }

    /// From now on these are the tokens: one that is not among them opens nothing any more.
    pub fn replace(&self, tokens: Vec<OperatorToken>) {
        *self.0.write() = tokens;
    }

    /// Those that open the port now.
    pub fn known(&self) -> Vec<OperatorToken> {
        self.0.read().clone()
    }

    /// Whose token it is. All are compared, whichever fits.
    fn find(&self, text: &str) -> Option<Operator> {
        let shown = hash(text);
        let tokens = self.0.read();
        let mut found = None;
        for token in tokens.iter() {
            if bool::from(token.hash.ct_eq(&shown)) {
                found = Some(token.operator.clone());
            }
        }
        // An empty token in a configuration opens nothing.
        found.filter(|_| !text.is_empty())
    }
}

/// Authenticates operators by their tokens. Wrong ones are counted by address: beyond a number, requests from there wait
/// for each other, so that tokens cannot be tried faster, and whoever has a right one gets in all the same.
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
        // A try is taken before the token is looked at, so that many at once are not more than allowed.
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

    /// Tries wrong tokens until the address has used up its tries. Says how many were looked at before.
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
        // A try may have come back on a slow machine; a right token would wait for one otherwise, and get in.
        for _ in 0..1_000 {
            use_up(&authenticator, here).await;
            if code(authenticator.authenticate(here, "the shared token").await) == Some(ErrorCode::RateLimited) {
                return;
            }
        }
        panic!("it always gets in");
    }
}

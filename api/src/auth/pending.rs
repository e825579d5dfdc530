//! Sign-ups whose address is not confirmed yet. They are not stored: the token in the e-mail holds all of it, sealed.
//! So strangers cannot fill a table with other people's addresses, and reading the e-mail reveals no password hash.

use model::session_token::EMAIL_MARK;
use model::time::Timestamp;
use raft::directory::users::PasswordHash;
use serde::{Deserialize, Serialize};

use super::sealed_token::Sealed;

/// What a person entered to sign up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    pub email: String,
    pub password: PasswordHash,
    pub name: String,
    pub expires_at: Timestamp,
}

impl Sealed for Pending {
    const MARK: &str = EMAIL_MARK;
    const PURPOSE: &[u8] = b"sign-up.1";
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::session_token::EmailToken;

    use super::*;
    use crate::auth::sealed_token::TokenKey;

    #[test]
    fn a_sign_up_comes_back_out_of_its_own_token_alone() {
        let key = TokenKey::<Pending>::new([1; 32]);
        let pending = Pending {
            email: format!("{}@example.com", "a".repeat(64)),
            password: PasswordHash("$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA".into()),
            name: "ä".repeat(120),
            expires_at: Timestamp(7),
        };
        let token = key.seal(&pending, [3; 24]);
        assert_eq!(key.open(&token), Some(pending));
        assert!(token.len() <= crate::auth::LONGEST_EMAIL_TOKEN, "{}", token.len());
        assert!(!token.contains("argon2id") && EmailToken::parse(&token).is_none());
        let mut other = token.clone();
        other.pop();
        for wrong in [other.as_str(), "zev_", "zev_x", &token[4..], ""] {
            assert_eq!(key.open(wrong), None, "{wrong}");
        }
        assert_eq!(TokenKey::<Pending>::new([2; 32]).open(&token), None);
    }
}

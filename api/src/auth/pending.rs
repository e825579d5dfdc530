//! Sign-ups whose address is not confirmed yet. Nothing is stored of them: the token in the message holds all of it, sealed,
//! so strangers fill no table with addresses of others, and whoever only reads the message learns no password's hash.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::seal::{DataKey, Nonce};
use model::session_token::EMAIL_MARK;
use model::time::Timestamp;
use raft::directory::users::PasswordHash;
use serde::{Deserialize, Serialize};

/// What is sealed, so that nothing else that the key has sealed opens as a sign-up.
const PURPOSE: &[u8] = b"sign-up.1";

/// What somebody signed up with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    pub email: String,
    pub password: PasswordHash,
    pub name: String,
    pub expires_at: Timestamp,
}

/// Seals sign-ups. The same on every node.
pub struct PendingKey(DataKey);

impl PendingKey {
    pub fn new(secret: [u8; 32]) -> Self {
        Self(DataKey::new(secret))
    }

    /// The token for the message to the address.
    pub fn seal(&self, pending: &Pending, nonce: Nonce) -> String {
        let text = serde_json::to_vec(pending).expect("plain fields are always written");
        format!("{EMAIL_MARK}{}", URL_SAFE_NO_PAD.encode(self.0.seal(&text, PURPOSE, nonce)))
    }

    /// What a token holds, whether it has expired or not; `None` when it was not made with this key.
    pub fn open(&self, token: &str) -> Option<Pending> {
        let sealed = URL_SAFE_NO_PAD.decode(token.trim().strip_prefix(EMAIL_MARK)?).ok()?;
        serde_json::from_slice(&self.0.open(&sealed, PURPOSE).ok()?).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use model::session_token::EmailToken;

    #[test]
    fn a_sign_up_comes_back_out_of_its_own_token_alone() {
        let key = PendingKey::new([1; 32]);
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
        assert_eq!(PendingKey::new([2; 32]).open(&token), None);
    }
}

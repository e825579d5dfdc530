//! Tokens with which a member sets a password: those of invitations, and of members who forgot theirs.
//!
//! They are not stored. A token holds, sealed, its member and a fingerprint of the password that it replaces. So it is
//! valid until the password changes: once, and not after a newer invitation, another password, or the member's removal.

use std::time::Duration;

use model::id::UserId;
use model::time::Timestamp;
use raft::directory::users::{PasswordHash, UserRecord};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::sealed_token::Sealed;

/// The longest text that is parsed as a token, in characters.
pub const LONGEST: usize = 512;

/// How long an invitation is valid.
pub const INVITATION_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a token for a forgotten password is valid.
pub const RESET_LIFE: Duration = Duration::from_secs(3600);

/// The sealed content of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordToken {
    pub user: UserId,
    /// SHA-256 of the hash of the password that the token replaces.
    former: [u8; 32],
    pub expires_at: Timestamp,
}

impl PasswordToken {
    pub fn of(user: &UserRecord, expires_at: Timestamp) -> Self {
        Self { user: user.id, former: fingerprint(&user.password), expires_at }
    }

    /// Whether the member's password is still the one that the token was made to replace.
    pub fn fits(&self, user: &UserRecord) -> bool {
        self.user == user.id && self.former == fingerprint(&user.password)
    }
}

fn fingerprint(hash: &PasswordHash) -> [u8; 32] {
    Sha256::digest(hash.0.as_bytes()).into()
}

impl Sealed for PasswordToken {
    const MARK: &str = "zpw_";
    const PURPOSE: &[u8] = b"password.1";
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::id::CustomerId;

    use super::*;
    use crate::auth::sealed_token::TokenKey;

    #[test]
    fn a_token_is_good_for_the_password_that_it_was_made_for() {
        let key = TokenKey::<PasswordToken>::new([1; 32]);
        let user = crate::auth::access::tests::test_user(CustomerId::new());
        let invited = UserRecord { password: PasswordHash::unset(1), ..user.clone() };
        let text = key.seal(&PasswordToken::of(&invited, Timestamp(7)), [3; 24]);
        assert!(text.len() <= LONGEST, "{}", text.len());
        let token = key.open(&format!(" {text}\n")).unwrap();
        assert!(token.fits(&invited) && token.expires_at == Timestamp(7));
        for password in [PasswordHash::unset(2), user.password.clone()] {
            assert!(!token.fits(&UserRecord { password, ..invited.clone() }));
        }
        assert!(!token.fits(&UserRecord { id: UserId::new(), ..invited.clone() }));
        assert_eq!(TokenKey::<PasswordToken>::new([2; 32]).open(&text), None);
        let short = &text[..text.len() - 1];
        for wrong in [short, "zpw_", "zpw_x", &text[4..], "", "zev_x"] {
            assert_eq!(key.open(wrong), None, "{wrong}");
        }
    }
}

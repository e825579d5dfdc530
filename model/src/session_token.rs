//! Tokens of members: to refresh a session, and to confirm an e-mail address.
//!
//! A token contains the id of its session or member, so that it is found without a search, and random bytes, of which
//! only a SHA-256 hash is stored. It is shown once and never logged.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::id::{SessionId, UserId};

const REFRESH_MARK: &str = "zrt_";
/// Prefix of tokens that confirm an e-mail address.
pub const EMAIL_MARK: &str = "zev_";

const ID_BYTES: usize = 16;
const FAMILY_BYTES: usize = 16;
const SECRET_BYTES: usize = 24;

/// `zrt_` and 56 bytes: the session, a secret shared by all tokens of the session, and a secret of its own.
///
/// The shared secret distinguishes a used token from a forged one: use of a used token means that two parties hold the
/// session's tokens, which ends the session.
#[derive(Clone, PartialEq, Eq)]
pub struct RefreshToken {
    session: SessionId,
    family: [u8; FAMILY_BYTES],
    secret: [u8; SECRET_BYTES],
}

impl RefreshToken {
    /// The first token of a session.
    pub fn first(session: SessionId, family: [u8; FAMILY_BYTES], secret: [u8; SECRET_BYTES]) -> Self {
        Self { session, family, secret }
    }

    /// The token that replaces this one.
    pub fn next(&self, secret: [u8; SECRET_BYTES]) -> Self {
        Self { secret, ..self.clone() }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(REFRESH_MARK)?).ok()?;
        let (session, rest) = bytes.split_first_chunk::<ID_BYTES>()?;
        let (family, secret) = rest.split_first_chunk::<FAMILY_BYTES>()?;
        Some(Self { session: SessionId::from_bytes(*session), family: *family, secret: secret.try_into().ok()? })
    }

    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Hash of what all tokens of the session have in common.
    pub fn family_hash(&self) -> [u8; 32] {
        Sha256::new()
            .chain_update(b"family")
            .chain_update(self.session.as_bytes())
            .chain_update(self.family)
            .finalize()
            .into()
    }

    /// Hash of this token alone.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.reveal().as_bytes()).into()
    }

    /// The token itself, for the one response that shows it.
    pub fn reveal(&self) -> String {
        let bytes = [&self.session.as_bytes()[..], &self.family, &self.secret].concat();
        format!("{REFRESH_MARK}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

crate::words::hidden!(RefreshToken, this => "RefreshToken({})", this.session);

/// `zev_` and 40 bytes: the member, and a secret that only a reader of the member's mail knows.
#[derive(Clone, PartialEq, Eq)]
pub struct EmailToken {
    user: UserId,
    secret: [u8; SECRET_BYTES],
}

impl EmailToken {
    pub fn new(user: UserId, secret: [u8; SECRET_BYTES]) -> Self {
        Self { user, secret }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim().strip_prefix(EMAIL_MARK)?).ok()?;
        let (user, secret) = bytes.split_first_chunk::<ID_BYTES>()?;
        Some(Self { user: UserId::from_bytes(*user), secret: secret.try_into().ok()? })
    }

    pub fn user(&self) -> UserId {
        self.user
    }

    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.reveal().as_bytes()).into()
    }

    /// The token itself, for the e-mail to the member.
    pub fn reveal(&self) -> String {
        format!("{EMAIL_MARK}{}", URL_SAFE_NO_PAD.encode([&self.user.as_bytes()[..], &self.secret].concat()))
    }
}

crate::words::hidden!(EmailToken, this => "EmailToken({})", this.user);

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_token_knows_its_family_and_not_its_successor() {
        let first = RefreshToken::first(SessionId::new(), [1; 16], [2; 24]);
        assert_eq!(RefreshToken::parse(&first.reveal()).unwrap(), first);
        let next = first.next([3; 24]);
        assert_eq!((next.session(), next.family_hash()), (first.session(), first.family_hash()));
        assert_ne!(next.hash(), first.hash());
        let foreign = RefreshToken::first(first.session(), [9; 16], [2; 24]);
        assert_ne!(foreign.family_hash(), first.family_hash());
    }

    #[test]
    fn only_the_exact_form_is_a_token() {
        let token = EmailToken::new(UserId::new(), [7; 24]);
        assert_eq!(EmailToken::parse(&format!(" {}\n", token.reveal())).unwrap(), token);
        let refresh = RefreshToken::first(SessionId::new(), [1; 16], [2; 24]).reveal();
        for text in ["", "zev_", "zev_AAAA", &refresh, &token.reveal()[1..], &format!("{}A", token.reveal())] {
            assert!(EmailToken::parse(text).is_none(), "{text:?}");
        }
        for text in ["", "zrt_", &token.reveal(), &refresh[..refresh.len() - 4]] {
            assert!(RefreshToken::parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn tokens_are_not_shown_by_debug() {
        let token = EmailToken::new(UserId::new(), [7; 24]);
        assert!(!format!("{token:?}").contains(&token.reveal()[30..]));
    }
}

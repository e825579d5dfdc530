//! The token with which one node may join a cluster, once: `gwj_<secret>.<authority>`.
//!
//! The second part is the hash of the cluster's certificate authority, by which the holder of the token can verify that
//! it talks to the cluster.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

const PREFIX: &str = "gwj_";
const SECRET_BYTES: usize = 24;

/// A token as the operator gets it. The cluster stores only its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    secret: [u8; SECRET_BYTES],
    authority: [u8; 32],
}

/// The text is not a join token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a join token begins with gwj_ and has two parts with a dot between them")]
pub struct NotAJoinToken;

impl JoinToken {
    /// A new token with a random secret.
    pub fn new(secret: [u8; SECRET_BYTES], authority: [u8; 32]) -> Self {
        Self { secret, authority }
    }

    /// The hash by which the directory identifies the token.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::new().chain_update(b"gateway join token").chain_update(self.secret).finalize().into()
    }

    /// The text itself, for the one response that shows it.
    pub fn reveal(&self) -> String {
        let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
        format!("{PREFIX}{}.{}", encode(&self.secret), encode(&self.authority))
    }

    /// SHA-256 of the certificate of the cluster's authority.
    pub fn authority(&self) -> [u8; 32] {
        self.authority
    }
}

impl FromStr for JoinToken {
    type Err = NotAJoinToken;

    fn from_str(text: &str) -> Result<Self, NotAJoinToken> {
        let rest = text.trim().strip_prefix(PREFIX).ok_or(NotAJoinToken)?;
        let (secret, authority) = rest.split_once('.').ok_or(NotAJoinToken)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| NotAJoinToken);
        Ok(Self {
            secret: decode(secret)?.try_into().map_err(|_| NotAJoinToken)?,
            authority: decode(authority)?.try_into().map_err(|_| NotAJoinToken)?,
        })
    }
}

// Hidden from logs: whoever reads the token could join the cluster.
crate::words::hidden!(JoinToken, _this => "JoinToken(***)");

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_nothing_else_is_one() {
        let token = JoinToken::new([7; SECRET_BYTES], [9; 32]);
        assert_eq!(token.reveal().parse(), Ok(token.clone()));
        assert_eq!(format!(" {}\n", token.reveal()).parse(), Ok(token.clone()));
        assert_ne!(token.hash(), JoinToken::new([8; SECRET_BYTES], [9; 32]).hash());
        for wrong in ["", "gwj_", "gwj_a.b", "zpk_live", &token.reveal()[..50]] {
            assert_eq!(wrong.parse::<JoinToken>(), Err(NotAJoinToken), "{wrong}");
        }
        assert!(!format!("{token:?}").contains("gwj_"));
    }
}

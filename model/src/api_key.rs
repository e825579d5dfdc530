//! API keys: their format, and the hash that is stored in their place.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Prefix of every key.
pub const KEY_MARK: &str = "zpk_";

/// Length of the display prefix, which is safe to log and to list.
pub const PREFIX_LENGTH: usize = 12;

const KEY_LENGTH: usize = 28;

/// A complete key: `zpk_` and 24 URL-safe base64 characters. Shown once when issued; never stored or logged.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A new key made of 144 random bits.
    pub fn generate(random: [u8; 18]) -> Self {
        Self(format!("{KEY_MARK}{}", URL_SAFE_NO_PAD.encode(random)))
    }

    /// Checks the format; `None` means `auth_malformed`.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(KEY_MARK)?;
        let url_safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (text.len() == KEY_LENGTH && rest.bytes().all(url_safe)).then(|| Self(text.to_owned()))
    }

    pub fn prefix(&self) -> KeyPrefix {
        KeyPrefix(self.0[..PREFIX_LENGTH].to_owned())
    }

    /// SHA-256 of the complete key. With 144 random bits, no slow hash is needed.
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(self.0.as_bytes()).into())
    }

    /// The secret itself, for the one response that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

crate::words::hidden!(ApiKey, this => "ApiKey({}...)", this.prefix());

/// The first 12 characters of a key. Keys are looked up by it; it need not be unique.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyPrefix(String);

crate::words::texts!(KeyPrefix);

/// The stored hash of a key. It deliberately has no `PartialEq`: compare in constant time with [`Self::matches`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Whether both are hashes of the same key, compared in constant time.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_exact_form_is_a_key() {
        let table = [
            ("zpk_9fK2mQ7bW1xYt0Zr4LqS8uVd", true),
            ("zpk_-_K2mQ7bW1xYt0Zr4LqS8uVd", true),
            ("zpk_9fK2mQ7bW1xYt0Zr4LqS8uV", false),
            ("zpk_9fK2mQ7bW1xYt0Zr4LqS8uVdd", false),
            ("zpk_9fK2mQ7bW1xYt0Zr4LqS8uV+", false),
            ("ZPK_9fK2mQ7bW1xYt0Zr4LqS8uVd", false),
            ("zpk-9fK2mQ7bW1xYt0Zr4LqS8uVd", false),
            ("zpk_9fK2mQ7bW1xYt0Zr4LqS8uä", false),
            ("", false),
        ];
        for (text, expected) in table {
            assert_eq!(ApiKey::parse(text).is_some(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_key_in_a_log_is_its_prefix() {
        let key = ApiKey::parse("zpk_9fK2mQ7bW1xYt0Zr4LqS8uVd").unwrap();
        assert_eq!(format!("{key:?}"), "ApiKey(zpk_9fK2mQ7b...)");
    }

    proptest! {
        #[test]
        fn generated_keys_have_the_form_and_match_themselves_only(a in any::<[u8; 18]>(), b in any::<[u8; 18]>()) {
            let (first, second) = (ApiKey::generate(a), ApiKey::generate(b));
            prop_assert_eq!(&ApiKey::parse(first.reveal()).unwrap(), &first);
            prop_assert_eq!(first.reveal().len(), 28);
            prop_assert!(first.hash().matches(&first.hash()));
            prop_assert_eq!(first.hash().matches(&second.hash()), a == b);
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            let _ = ApiKey::parse(&text);
        }
    }
}

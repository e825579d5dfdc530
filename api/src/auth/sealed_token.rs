//! Sealed tokens: they hold their content encrypted, are not stored anywhere, and reveal nothing to a reader.

use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::seal::{DataKey, Nonce};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The content of a sealed token.
pub trait Sealed: Serialize + DeserializeOwned {
    /// The prefix of the tokens.
    const MARK: &str;
    /// Associated data of the seal, so that nothing else sealed with the same key opens as a token.
    const PURPOSE: &[u8];
}

/// Seals and opens tokens of one kind. The key is the same on every node.
pub struct TokenKey<T>(DataKey, PhantomData<fn() -> T>);

impl<T: Sealed> TokenKey<T> {
    pub fn new(secret: [u8; 32]) -> Self {
        Self(DataKey::new(secret), PhantomData)
    }

    pub fn seal(&self, says: &T, nonce: Nonce) -> String {
        let text = serde_json::to_vec(says).expect("plain fields are always written");
        format!("{}{}", T::MARK, URL_SAFE_NO_PAD.encode(self.0.seal(&text, T::PURPOSE, nonce)))
    }

    /// Opens a token, expired or not; `None` when it was not made with this key.
    pub fn open(&self, text: &str) -> Option<T> {
        let sealed = URL_SAFE_NO_PAD.decode(text.trim().strip_prefix(T::MARK)?).ok()?;
        serde_json::from_slice(&self.0.open(&sealed, T::PURPOSE).ok()?).ok()
    }
}

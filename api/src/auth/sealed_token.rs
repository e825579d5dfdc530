//! Tokens that hold what they say, sealed: nothing is stored of them, and whoever only reads one learns nothing.

use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::seal::{DataKey, Nonce};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a token says.
pub trait Sealed: Serialize + DeserializeOwned {
    /// How the tokens begin.
    const MARK: &str;
    /// What is sealed, so that nothing else that a key has sealed opens as a token.
    const PURPOSE: &[u8];
}

/// Seals tokens of one kind. The same on every node.
pub struct TokenKey<T>(DataKey, PhantomData<fn() -> T>);

impl<T: Sealed> TokenKey<T> {
    pub fn new(secret: [u8; 32]) -> Self {
        Self(DataKey::new(secret), PhantomData)
    }

    pub fn seal(&self, says: &T, nonce: Nonce) -> String {
        let text = serde_json::to_vec(says).expect("plain fields are always written");
        format!("{}{}", T::MARK, URL_SAFE_NO_PAD.encode(self.0.seal(&text, T::PURPOSE, nonce)))
    }

    /// What a token says, whether it has expired or not; `None` when it was not made with this key.
    pub fn open(&self, text: &str) -> Option<T> {
        let sealed = URL_SAFE_NO_PAD.decode(text.trim().strip_prefix(T::MARK)?).ok()?;
        serde_json::from_slice(&self.0.open(&sealed, T::PURPOSE).ok()?).ok()
    }
}

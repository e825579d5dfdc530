//! Encrypts what must not be readable on disk: webhook secrets, session credentials, proxy passwords.
//!
//! A master key, which never leaves the operator's file or environment, wraps one data key per customer; data keys seal
//! the secrets. So the master key can be rotated by wrapping the data keys again, without touching what they sealed.
//! The cipher is XChaCha20-Poly1305, whose nonces are long enough to be random. Callers provide the randomness.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::derived_key;
use crate::id::CustomerId;

/// Format version, the first byte of every sealed value.
const VERSION: u8 = 1;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const ID_BYTES: usize = 4;

/// Length of the prefix, version and nonce, that identifies a sealed value uniquely.
pub const TOLD_BY: usize = 1 + NONCE_BYTES;

/// How many bytes sealing adds: version, nonce and authentication tag.
pub const SEAL_BYTES: usize = TOLD_BY + 16;

/// 24 random bytes, drawn for each sealing. Reusing a nonce under the same key would reveal both plaintexts.
pub type Nonce = [u8; NONCE_BYTES];

/// Why something cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("a master key is 32 bytes, written as 64 hex digits or in base64")]
    NotAKey,
    #[error("encrypted with an unknown version of the format")]
    Version,
    #[error("encrypted under another master key")]
    OtherMasterKey,
    #[error("damaged, or encrypted for another purpose")]
    Damaged,
}

/// Identifies the master key that wrapped a data key. Derived from the key itself, so that the two cannot be mixed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MasterKeyId([u8; ID_BYTES]);

impl fmt::Display for MasterKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// The operator's master key.
#[derive(Clone)]
pub struct MasterKey {
    id: MasterKeyId,
    key: [u8; KEY_BYTES],
}

impl MasterKey {
    pub fn new(key: [u8; KEY_BYTES]) -> Self {
        let digest = Sha256::new().chain_update(b"gateway master key id").chain_update(key).finalize();
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&digest[..ID_BYTES]);
        Self { id: MasterKeyId(id), key }
    }

    /// Parses 64 hex digits, or base64 in either alphabet, padded or not. Surrounding white space is ignored.
    pub fn parse(text: &str) -> Result<Self, SealError> {
        let text = text.trim();
        let base64 = || [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD].iter().find_map(|e| e.decode(text).ok());
        let bytes = hex::decode(text).ok().or_else(base64).ok_or(SealError::NotAKey)?;
        bytes.try_into().map(Self::new).map_err(|_| SealError::NotAKey)
    }

    pub fn id(&self) -> MasterKeyId {
        self.id
    }

    /// The raw key, for deriving default secrets.
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }

    /// Wraps a customer's data key; the directory stores the result.
    pub fn wrap(&self, key: &DataKey, customer: CustomerId, nonce: Nonce) -> WrappedKey {
        WrappedKey { master: self.id, sealed: seal(&self.key, &key.0, customer.as_bytes(), nonce) }
    }

    /// Unwraps what [`wrap`](Self::wrap) made for the same customer.
    pub fn unwrap(&self, wrapped: &WrappedKey, customer: CustomerId) -> Result<DataKey, SealError> {
        if wrapped.master != self.id {
            return Err(SealError::OtherMasterKey);
        }
        let key = open(&self.key, &wrapped.sealed, customer.as_bytes())?;
        key.try_into().map(DataKey).map_err(|_| SealError::Damaged)
    }
}

crate::words::hidden!(MasterKey, this => "MasterKey({})", this.id);

/// The node's master key, and the previous one during a rotation.
#[derive(Clone, Debug)]
pub struct Keyring {
    pub current: MasterKey,
    pub previous: Option<MasterKey>,
}

impl Keyring {
    pub fn of(current: MasterKey) -> Self {
        Self { current, previous: None }
    }

    /// All keys, the current one first.
    pub fn keys(&self) -> impl Iterator<Item = &MasterKey> {
        std::iter::once(&self.current).chain(&self.previous)
    }

    /// The master key with this id.
    ///
    /// # Errors
    /// [`SealError::OtherMasterKey`] when the keyring does not hold it.
    pub fn key(&self, id: MasterKeyId) -> Result<&MasterKey, SealError> {
        self.keys().find(|key| key.id == id).ok_or(SealError::OtherMasterKey)
    }

    /// Unwraps a data key with the master key that wrapped it.
    pub fn unwrap(&self, wrapped: &WrappedKey, customer: CustomerId) -> Result<DataKey, SealError> {
        self.key(wrapped.master)?.unwrap(wrapped, customer)
    }

    /// Wraps the data key under another master key. Secrets that the data key sealed stay as they are.
    pub fn rewrap(
        &self,
        wrapped: &WrappedKey,
        customer: CustomerId,
        to: MasterKeyId,
        nonce: Nonce,
    ) -> Result<WrappedKey, SealError> {
        Ok(self.key(to)?.wrap(&self.unwrap(wrapped, customer)?, customer, nonce))
    }
}

/// A customer's data key, encrypted under a master key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrappedKey {
    pub master: MasterKeyId,
    sealed: Vec<u8>,
}

/// A customer's data key. Kept in memory only.
#[derive(Clone)]
pub struct DataKey([u8; KEY_BYTES]);

impl DataKey {
    /// A new data key made of 32 random bytes.
    pub fn new(random: [u8; KEY_BYTES]) -> Self {
        Self(random)
    }

    /// Seals `plaintext`. `purpose` names what it is and whose, such as the kind and the id of its record, and must be
    /// given again to open it: a sealed secret that is moved to another record does not open.
    pub fn seal(&self, plaintext: &[u8], purpose: &[u8], nonce: Nonce) -> Vec<u8> {
        seal(&self.0, plaintext, purpose, nonce)
    }

    pub fn open(&self, sealed: &[u8], purpose: &[u8]) -> Result<Vec<u8>, SealError> {
        open(&self.0, sealed, purpose)
    }
}

crate::words::hidden!(DataKey, _this => "DataKey(..)");

/// Derives a key for one purpose. It reveals neither the secret nor the keys of other purposes.
pub fn derive_key(secret: &[u8], purpose: &str) -> [u8; KEY_BYTES] {
    derived_key(b"gateway-derived-v1", secret, purpose.as_bytes())
}

/// The layout is `version | nonce | ciphertext and tag`.
fn seal(key: &[u8; KEY_BYTES], plaintext: &[u8], aad: &[u8], nonce: Nonce) -> Vec<u8> {
    let ciphertext = XChaCha20Poly1305::new(key.into())
        .encrypt(&XNonce::from(nonce), Payload { msg: plaintext, aad })
        .expect("only a text beyond 256 GiB cannot be sealed");
    let mut sealed = Vec::with_capacity(1 + NONCE_BYTES + ciphertext.len());
    sealed.push(VERSION);
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(&ciphertext);
    sealed
}

fn open(key: &[u8; KEY_BYTES], sealed: &[u8], aad: &[u8]) -> Result<Vec<u8>, SealError> {
    let (version, rest) = sealed.split_first().ok_or(SealError::Damaged)?;
    if *version != VERSION {
        return Err(SealError::Version);
    }
    let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Damaged)?;
    XChaCha20Poly1305::new(key.into())
        .decrypt(&XNonce::from(*nonce), Payload { msg: ciphertext, aad })
        .map_err(|_| SealError::Damaged)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    #[test]
    fn a_master_key_is_read_from_hex_and_base64() {
        let key = [0xFB; 32];
        let id = MasterKey::new(key).id();
        for text in [
            hex::encode(key),
            hex::encode_upper(key),
            STANDARD.encode(key),
            STANDARD_NO_PAD.encode(key),
            URL_SAFE.encode(key),
            format!(" {}\n", URL_SAFE_NO_PAD.encode(key)),
        ] {
            assert_eq!(MasterKey::parse(&text).unwrap().id(), id, "{text}");
        }
        for text in ["", "secret", &hex::encode([1; 31]), &hex::encode([1; 33]), &STANDARD.encode([1; 16])] {
            assert_eq!(MasterKey::parse(text).unwrap_err(), SealError::NotAKey, "{text}");
        }
    }

    #[test]
    fn keys_are_not_shown_by_debug() {
        assert!(!format!("{:?}", MasterKey::new([0xAB; 32])).contains("171"));
        assert_eq!(format!("{:?}", DataKey::new([0xAB; 32])), "DataKey(..)");
    }

    #[test]
    fn a_data_key_is_wrapped_again_when_the_master_key_changes() {
        let customer = CustomerId(Uuid::from_u128(1));
        let (old, new) = (MasterKey::new([1; 32]), MasterKey::new([2; 32]));
        let data = DataKey::new([3; 32]);
        let sealed = data.seal(b"whsec", b"endpoint", [4; 24]);
        let wrapped = old.wrap(&data, customer, [5; 24]);
        assert_eq!(new.unwrap(&wrapped, customer).unwrap_err(), SealError::OtherMasterKey);
        let ring = Keyring { current: new.clone(), previous: Some(old) };
        let again = ring.rewrap(&wrapped, customer, new.id(), [6; 24]).unwrap();
        assert_eq!(
            ring.rewrap(&wrapped, customer, MasterKey::new([7; 32]).id(), [6; 24]),
            Err(SealError::OtherMasterKey)
        );
        let opened = Keyring::of(new.clone()).unwrap(&again, customer).unwrap();
        assert_eq!(opened.open(&sealed, b"endpoint").unwrap(), b"whsec");
        assert_eq!(new.unwrap(&again, CustomerId(Uuid::from_u128(2))).unwrap_err(), SealError::Damaged);
    }

    #[test]
    fn another_version_and_a_stump_are_refused() {
        let key = DataKey::new([3; 32]);
        let mut sealed = key.seal(b"x", b"", [0; 24]);
        sealed[0] = 9;
        assert_eq!(key.open(&sealed, b"").unwrap_err(), SealError::Version);
        assert_eq!(key.open(&[], b"").unwrap_err(), SealError::Damaged);
        assert_eq!(key.open(&[1; 20], b"").unwrap_err(), SealError::Damaged);
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_for_its_purpose_only(
            key: [u8; 32],
            nonce: [u8; 24],
            plaintext in prop::collection::vec(any::<u8>(), 0..200),
            purpose in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let key = DataKey::new(key);
            let sealed = key.seal(&plaintext, &purpose, nonce);
            prop_assert_eq!(key.open(&sealed, &purpose).unwrap(), plaintext);
            let other = [&purpose[..], b"x"].concat();
            prop_assert_eq!(key.open(&sealed, &other).unwrap_err(), SealError::Damaged);
        }

        #[test]
        fn one_flipped_bit_is_noticed(position: prop::sample::Index, bit in 0_u8..8) {
            let key = DataKey::new([7; 32]);
            let mut sealed = key.seal(b"a secret of a webhook", b"endpoint", [9; 24]);
            let at = position.index(sealed.len());
            sealed[at] ^= 1 << bit;
            prop_assert!(key.open(&sealed, b"endpoint").is_err());
        }
    }
}

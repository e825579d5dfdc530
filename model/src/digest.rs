//! Digests and key derivation on which all nodes and releases must agree.

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// HMAC-SHA256 over the concatenated parts.
pub fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Derives a key for one purpose by HKDF-SHA256.
pub fn derived_key(salt: &[u8], secret: &[u8], purpose: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    Hkdf::<Sha256>::new(Some(salt), secret).expand(purpose, &mut key).expect("32 bytes are one block of SHA-256");
    key
}

/// FNV-1a. Its result is stable across releases and platforms, unlike that of a `Hasher`.
pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

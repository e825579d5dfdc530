//! A channel's session as a file that reveals nothing and cannot be changed without the passphrase.
//!
//! The layout is `magic | version | salt | length | sealed`. Everything before the sealed part is authenticated with
//! it, so that no byte of a bundle can be changed. The key is derived from the passphrase by argon2id with high cost,
//! because a file can be attacked offline for any time.

use argon2::{Algorithm, Argon2, Params, Version};
use model::id::ChannelId;
use model::seal::{DataKey, Nonce, SEAL_BYTES};
use model::time::Timestamp;
use network::driver::Identity;
use raft::record;
use serde::{Deserialize, Serialize};
use shard::call::bundle::{LidPair, StateRow};

/// The largest bundle, in bytes: up to 32 MiB of a channel's state, and the encoding of its rows and LIDs.
pub const LARGEST_BUNDLE: u64 = 48 << 20;

const MAGIC: &[u8; 16] = b"gateway channel\n";

/// The version of the format, which includes the parameters of argon2id.
const VERSION: u8 = 1;

const SALT_BYTES: usize = 16;
const LENGTH_BYTES: usize = 8;
const HEAD_BYTES: usize = MAGIC.len() + 1 + SALT_BYTES + LENGTH_BYTES;

/// The parameters of RFC 9106 for little memory, on one lane; they take some tenths of a second.
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
const LANES: u32 = 1;

/// 16 random bytes, new for each bundle.
pub type Salt = [u8; SALT_BYTES];

/// The content of a bundle.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// The driver of the session.
    pub driver: String,
    /// The channel that was exported.
    pub channel: ChannelId,
    pub made_at: Timestamp,
    pub identity: Identity,
    pub rows: Vec<StateRow>,
    pub lids: Vec<LidPair>,
}

/// Why a bundle cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    #[error("this is not a bundle of a channel: send the file that the export returned")]
    Foreign,
    #[error("the bundle has version {0}, this release reads version {own}: import it with a later release", own = VERSION)]
    Newer(u8),
    #[error("the bundle is incomplete, or has extra bytes at its end: copy the file again")]
    NotWhole,
    #[error("the passphrase is wrong, or the bundle was changed")]
    Locked,
    #[error("the bundle was decrypted, but this release cannot read its content")]
    Unreadable,
    #[error("the channel's session is too large for a bundle, which has at most {most} bytes", most = LARGEST_BUNDLE)]
    TooLarge,
}

/// Seals a bundle. Slow by design.
///
/// # Errors
/// [`BundleError::TooLarge`].
pub fn seal(content: &Content, passphrase: &str, salt: Salt, nonce: Nonce) -> Result<Vec<u8>, BundleError> {
    lock(content, &key_of(passphrase, &salt), salt, nonce)
}

/// Opens a bundle that [`seal`] made. Slow by design.
///
/// # Errors
/// Those of [`BundleError`].
pub fn open(bundle: &[u8], passphrase: &str) -> Result<Content, BundleError> {
    let parts = Parts::of(bundle)?;
    parts.unlock(&key_of(passphrase, parts.salt))
}

fn key_of(passphrase: &str, salt: &Salt) -> DataKey {
    let mut key = [0; 32];
    let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(key.len())).expect("they are within argon2's bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.as_bytes(), salt, &mut key)
        .expect("the lengths are within argon2's bounds");
    DataKey::new(key)
}

fn lock(content: &Content, key: &DataKey, salt: Salt, nonce: Nonce) -> Result<Vec<u8>, BundleError> {
    let plain = record::encode(content);
    let length = (plain.len() + SEAL_BYTES) as u64;
    if HEAD_BYTES as u64 + length > LARGEST_BUNDLE {
        return Err(BundleError::TooLarge);
    }
    let head = [&MAGIC[..], &[VERSION], &salt, &length.to_be_bytes()].concat();
    let sealed = key.seal(&plain, &head, nonce);
    Ok([head, sealed].concat())
}

/// The parts of a bundle.
struct Parts<'a> {
    head: &'a [u8],
    salt: &'a Salt,
    sealed: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(bundle: &'a [u8]) -> Result<Self, BundleError> {
        let Some(rest) = bundle.strip_prefix(MAGIC) else {
            let is_cut = !bundle.is_empty() && MAGIC.starts_with(bundle);
            return Err(if is_cut { BundleError::NotWhole } else { BundleError::Foreign });
        };
        let (version, rest) = rest.split_first().ok_or(BundleError::NotWhole)?;
        match *version {
            VERSION => {}
            newer if newer > VERSION => return Err(BundleError::Newer(newer)),
            _ => return Err(BundleError::Foreign),
        }
        let (salt, rest) = rest.split_first_chunk::<SALT_BYTES>().ok_or(BundleError::NotWhole)?;
        let (length, sealed) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or(BundleError::NotWhole)?;
        if u64::from_be_bytes(*length) != sealed.len() as u64 {
            return Err(BundleError::NotWhole);
        }
        Ok(Self { head: &bundle[..HEAD_BYTES], salt, sealed })
    }

    fn unlock(&self, key: &DataKey) -> Result<Content, BundleError> {
        let plain = key.open(self.sealed, self.head).map_err(|_| BundleError::Locked)?;
        record::read(&plain).map_err(|_| BundleError::Unreadable)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const SALT: Salt = [3; SALT_BYTES];
    const NONCE: Nonce = [5; 24];

    fn content(rows: Vec<StateRow>) -> Content {
        Content {
            driver: "simulated".to_owned(),
            channel: ChannelId::random(),
            made_at: Timestamp(1_767_225_600_000),
            identity: Identity { phone_number: "15551230001".to_owned(), lid: None, push_name: Some("Ann".to_owned()) },
            rows,
            lids: vec![LidPair { lid: "77".to_owned(), phone: "15551230002".to_owned(), first_seen_at: Timestamp(9) }],
        }
    }

    fn row(name: &str, value: &[u8]) -> StateRow {
        StateRow { name: name.to_owned(), value: value.to_vec().into() }
    }

    fn key() -> DataKey {
        DataKey::new([7; 32])
    }

    /// Opens a bundle that was sealed with [`key`].
    fn unlocked(bundle: &[u8]) -> Result<Content, BundleError> {
        Parts::of(bundle)?.unlock(&key())
    }

    #[test]
    fn a_bundle_opens_by_its_passphrase_alone_and_holds_nothing_in_the_open() {
        let content = content(vec![row("credentials", b"a secret of the session"), row("s/1", &[])]);
        let bundle = seal(&content, "correct horse battery staple", SALT, NONCE).unwrap();
        for open in [&b"a secret"[..], b"15551230001", b"credentials", b"simulated"] {
            assert!(!bundle.windows(open.len()).any(|window| window == open));
        }
        assert_eq!(super::open(&bundle, "correct horse battery staple").unwrap(), content);
        assert_eq!(super::open(&bundle, "correct horse battery stable"), Err(BundleError::Locked));
        assert!(!format!("{content:?}").contains("secret"), "what is shown of it has no secrets");
    }

    #[test]
    fn a_bundle_of_which_any_byte_is_another_does_not_open() {
        let whole = lock(&content(vec![row("credentials", b"secret")]), &key(), SALT, NONCE).unwrap();
        assert!(unlocked(&whole).is_ok());
        let length_at = MAGIC.len() + 1 + SALT_BYTES;
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let expected = match at {
                _ if at < MAGIC.len() => BundleError::Foreign,
                // Version 1 becomes 0, which no release writes.
                _ if at == MAGIC.len() => BundleError::Foreign,
                _ if at < length_at => BundleError::Locked,
                _ if at < HEAD_BYTES => BundleError::NotWhole,
                _ => BundleError::Locked,
            };
            assert_eq!(unlocked(&changed), Err(expected), "byte {at}");
        }
        let mut newer = whole;
        newer[MAGIC.len()] = VERSION + 1;
        assert_eq!(unlocked(&newer), Err(BundleError::Newer(VERSION + 1)));
    }

    #[test]
    fn a_bundle_that_was_cut_off_or_that_something_follows_is_told_from_another_file() {
        let whole = lock(&content(vec![row("credentials", b"secret")]), &key(), SALT, NONCE).unwrap();
        for length in 1..whole.len() {
            assert_eq!(unlocked(&whole[..length]), Err(BundleError::NotWhole), "{length} bytes");
        }
        assert_eq!(unlocked(&[&whole[..], b"\n"].concat()), Err(BundleError::NotWhole));
        for other in [&b""[..], b"{}", b"gateway customer\n and more"] {
            assert_eq!(unlocked(other), Err(BundleError::Foreign));
        }
    }

    #[test]
    fn a_bundle_of_another_kind_of_content_is_not_guessed_at() {
        let head = |sealed: usize| [&MAGIC[..], &[VERSION], &SALT, &(sealed as u64).to_be_bytes()].concat();
        let plain = record::encode(&("another", 1));
        let head = head(key().seal(&plain, b"", NONCE).len());
        let bundle = [head.clone(), key().seal(&plain, &head, NONCE)].concat();
        assert_eq!(unlocked(&bundle), Err(BundleError::Unreadable));
    }

    #[test]
    fn a_bundle_has_no_more_bytes_than_are_taken() {
        let of = |bytes: u64| content(vec![row("m/1", &vec![1; usize::try_from(bytes).unwrap()])]);
        let head = lock(&of(1 << 20), &key(), SALT, NONCE).unwrap().len() as u64 - (1 << 20);
        let most = LARGEST_BUNDLE - head;
        assert_eq!(lock(&of(most), &key(), SALT, NONCE).unwrap().len() as u64, LARGEST_BUNDLE);
        assert_eq!(lock(&of(most + 1), &key(), SALT, NONCE), Err(BundleError::TooLarge));
    }
}

//! Links to media: signed tokens, with which anybody who holds one may read.
//!
//! `b64url(payload) "." b64url(hmac_sha256(key, b64url(payload)))`. The keys are derived from the deployment's key and
//! change every thirty days by themselves, so that all nodes have the same without communication; the previous one
//! verifies for 48 hours more.

use std::time::Duration;

use base64::engine::DecodePaddingMode::RequireNone;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use hmac::{Hmac, KeyInit, Mac};
use model::error::CallError;
use model::id::{ChannelId, CustomerId, MediaId};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// How long a token is valid, unless the operator sets it.
pub const LIFE: Duration = Duration::from_secs(24 * 3600);

/// The longest validity that an operator may set: a key verifies for this long after the last token that it signed.
pub const LONGEST_LIFE: Duration = Duration::from_secs(48 * 3600);

/// Maximum length of a token that is read.
const LONGEST: usize = 512;

/// How long a key signs.
const KEY_LIFE_SECONDS: i64 = 30 * 86_400;

/// How long a key verifies after that.
const OVERLAP_SECONDS: i64 = LONGEST_LIFE.as_secs() as i64;

/// How far another node's clock may be ahead when keys change.
const SKEW_SECONDS: i64 = 600;

/// The format of the payload.
const VERSION: u8 = 1;

/// The payload of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    v: u8,
    /// The number of the key that signed it.
    k: i64,
    #[serde(rename = "m")]
    pub media: MediaId,
    #[serde(rename = "c")]
    pub customer: CustomerId,
    /// The channel, so that any node finds the shard.
    #[serde(rename = "h")]
    pub channel: ChannelId,
    /// When it expires, in seconds since 1970.
    #[serde(rename = "e")]
    expires: i64,
}

impl Token {
    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.expires)
    }
}

/// Signs and verifies tokens.
#[derive(Clone)]
pub struct TokenKeys {
    deployment_key: Vec<u8>,
}

impl TokenKeys {
    pub fn new(deployment_key: Vec<u8>) -> Self {
        Self { deployment_key }
    }

    /// A token for media that expires at `until`, which is no further off than [`LONGEST_LIFE`].
    pub fn sign(
        &self,
        media: MediaId,
        customer: CustomerId,
        channel: ChannelId,
        now: Timestamp,
        until: Timestamp,
    ) -> String {
        let k = key_at(now.unix_seconds());
        let token = Token { v: VERSION, k, media, customer, channel, expires: until.unix_seconds() };
        let payload = serde_json::to_vec(&token).expect("plain fields are always written");
        let payload = URL_SAFE_NO_PAD.encode(payload);
        let signature = URL_SAFE_NO_PAD.encode(self.mac(k, &payload).finalize().into_bytes());
        format!("{payload}.{signature}")
    }

    /// Reads a token: checks first its shape, then its signature, then its time.
    ///
    /// # Errors
    /// `media_token_malformed`, `media_token_tampered`, `media_token_expired`.
    pub fn verify(&self, text: &str, now: Timestamp) -> Result<Token, CallError> {
        let (token, payload, signature) = parse(text).ok_or_else(CallError::media_token_malformed)?;
        let seconds = now.unix_seconds();
        let known = token.k <= key_at(seconds.saturating_add(SKEW_SECONDS));
        // A key that is no longer valid only serves to tell an honest link of long ago from a forged one.
        let retired = token.k < key_at(seconds.saturating_sub(OVERLAP_SECONDS));
        let expired = token.expires <= seconds;
        if !known || self.mac(token.k, payload).verify_slice(&signature).is_err() || (retired && !expired) {
            return Err(CallError::media_token_tampered());
        }
        if expired { Err(CallError::media_token_expired(token.expires_at())) } else { Ok(token) }
    }

    /// The signature of a payload, to be verified in constant time.
    fn mac(&self, key_id: i64, payload: &str) -> Hmac<Sha256> {
        let key = model::digest::mac(&self.deployment_key, &[b"media token key ", &key_id.to_be_bytes()]);
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key of any length will do");
        mac.update(payload.as_bytes());
        mac
    }
}

fn key_at(seconds: i64) -> i64 {
    seconds.div_euclid(KEY_LIFE_SECONDS)
}

/// Accepts any value of the unused bits of a last character, so that a token that was changed there is tampered rather
/// than malformed, as if it was changed elsewhere.
const LENIENT: GeneralPurpose = {
    let padding = GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(RequireNone);
    GeneralPurpose::new(&alphabet::URL_SAFE, padding.with_decode_allow_trailing_bits(true))
};

fn parse(text: &str) -> Option<(Token, &str, Vec<u8>)> {
    if text.len() > LONGEST {
        return None;
    }
    let (payload, signature) = text.split_once('.')?;
    let token: Token = serde_json::from_slice(&LENIENT.decode(payload).ok()?).ok()?;
    let mut bytes = LENIENT.decode(signature).ok()?;
    if URL_SAFE_NO_PAD.encode(&bytes) != signature {
        // This gateway does not write signatures like this, so it must not verify.
        bytes.truncate(bytes.len().saturating_sub(1));
    }
    (token.v == VERSION && !signature.is_empty()).then_some((token, payload, bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::error::ErrorCode;
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp(1_767_225_600_000);

    fn keys() -> TokenKeys {
        TokenKeys::new(b"deployment".to_vec())
    }

    fn sign(now: Timestamp) -> String {
        keys().sign(MediaId::new(), CustomerId::random(), ChannelId::random(), now, now.plus(LIFE))
    }

    fn refusal(text: &str, now: Timestamp) -> Option<ErrorCode> {
        keys().verify(text, now).err().map(|error| error.code)
    }

    #[test]
    fn a_token_verifies_for_a_day() {
        let (media, customer, channel) = (MediaId::new(), CustomerId::random(), ChannelId::random());
        let text = keys().sign(media, customer, channel, NOW, NOW.plus(LIFE));
        assert!(text.len() <= LONGEST);
        let token = keys().verify(&text, NOW).unwrap();
        assert_eq!((token.media, token.customer, token.channel), (media, customer, channel));
        assert_eq!(token.expires_at(), NOW.plus(LIFE));
        assert_eq!(refusal(&text, Timestamp(NOW.plus(LIFE).0 - 1000)), None);
        assert_eq!(refusal(&text, NOW.plus(LIFE)), Some(ErrorCode::MediaTokenExpired));
        assert_eq!(refusal(&text, NOW.plus(LIFE * 400)), Some(ErrorCode::MediaTokenExpired));
    }

    #[test]
    fn the_shape_is_judged_before_the_signature_and_that_before_the_time() {
        let text = sign(NOW);
        let (payload, signature) = text.split_once('.').unwrap();
        let other = sign(NOW);
        let later = NOW.plus(LIFE);
        let malformed = Some(ErrorCode::MediaTokenMalformed);
        let tampered = Some(ErrorCode::MediaTokenTampered);
        assert_eq!(refusal("", NOW), malformed);
        assert_eq!(refusal("abc", NOW), malformed);
        assert_eq!(refusal(payload, NOW), malformed);
        assert_eq!(refusal(&format!("{payload}."), NOW), malformed);
        assert_eq!(refusal(&format!("{payload}.!"), NOW), malformed);
        assert_eq!(refusal(&format!("e30.{signature}"), NOW), malformed);
        assert_eq!(refusal(&format!("{text}{}", "A".repeat(512)), NOW), malformed);
        assert_eq!(refusal(&format!("{}.{signature}", other.split_once('.').unwrap().0), later), tampered);
        assert_eq!(refusal(&format!("{payload}.AAAA"), later), tampered);
        // 43 characters hold 258 bits, of which a signature has 256.
        for last in ["A", "B", "C", "D", "E", "w", "8", "_"] {
            let changed = format!("{}{last}", &text[..text.len() - 1]);
            let expected = if changed == text { None } else { tampered };
            assert_eq!(refusal(&changed, NOW), expected, "{last}");
        }
        let strangers = TokenKeys::new(b"another".to_vec());
        assert_eq!(strangers.verify(&text, NOW).unwrap_err().code, ErrorCode::MediaTokenTampered);
    }

    #[test]
    fn the_key_before_verifies_for_two_days() {
        let change = Timestamp::from_unix_seconds(KEY_LIFE_SECONDS * 700);
        let before = Timestamp(change.0 - 1000);
        let (media, customer, channel) = (MediaId::new(), CustomerId::random(), ChannelId::random());
        let long = keys().sign(media, customer, channel, before, change.plus(LIFE * 10));
        assert_eq!(refusal(&long, change.plus(LIFE)), None);
        assert_eq!(refusal(&long, Timestamp(change.plus(LIFE * 2).0 - 1000)), None);
        assert_eq!(refusal(&long, change.plus(LIFE * 2)), Some(ErrorCode::MediaTokenTampered));
        // A node whose clock is a little behind accepts the token.
        assert_eq!(refusal(&sign(change), Timestamp(change.0 - 5000)), None);
        assert_eq!(refusal(&sign(change), Timestamp(change.0 - 3_600_000)), Some(ErrorCode::MediaTokenTampered));
    }

    proptest! {
        #[test]
        fn garbage_is_refused_and_never_panics(text in "\\PC{0,80}") {
            prop_assert_eq!(refusal(&text, NOW), Some(ErrorCode::MediaTokenMalformed));
        }

        #[test]
        fn one_changed_character_is_noticed(at: prop::sample::Index, to in "[A-Za-z0-9_-]") {
            let text = sign(NOW);
            let at = at.index(text.len());
            prop_assume!(text[at..=at] != to && &text[at..=at] != ".");
            let changed = format!("{}{to}{}", &text[..at], &text[at + 1..]);
            prop_assert!(refusal(&changed, NOW).is_some());
        }
    }
}

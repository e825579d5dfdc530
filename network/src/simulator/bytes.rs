//! The media bytes that a phone sends: given ones, or generated ones of a given size.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::media::{LARGEST_MEDIA, Media, Sha256Hex};
use sha2::{Digest as _, Sha256};

use super::answers::ControlError;
use super::answers::writing::{PhoneBody, PhoneMessage};
use crate::wire::transfer::Digest;

/// Magic bytes by MIME type, so that detection by content recognizes generated files.
const BEGINNINGS: [(&str, &[u8]); 9] = [
    ("image/jpeg", b"\xFF\xD8\xFF\xE0\x00\x10JFIF\x00\x01"),
    ("image/png", b"\x89PNG\r\n\x1A\n\x00\x00\x00\x0DIHDR\x00\x00\x02\x80\x00\x00\x01\xE0\x08\x06\x00\x00\x00"),
    ("image/gif", b"GIF89a\x80\x02\xE0\x01"),
    ("image/webp", b"RIFF\x24\x00\x00\x00WEBPVP8 "),
    ("video/mp4", b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"),
    ("audio/ogg", b"OggS\x00\x02"),
    ("audio/mpeg", b"ID3\x04\x00"),
    ("application/pdf", b"%PDF-1.7\n"),
    ("application/zip", b"PK\x03\x04"),
];

/// Media that a phone is about to send: its description in the message, and its bytes.
pub struct Prepared {
    pub media: Media,
    pub sha256: Digest,
    pub bytes: Bytes,
}

/// Prepares the media of a message; `None` if its type has none.
///
/// # Errors
/// The media is missing, too large or not base64.
pub fn prepare(message: &PhoneMessage) -> Result<Option<Prepared>, ControlError> {
    let Some(default) = message.body.default_mime_type() else { return Ok(None) };
    let invalid = |text: String| ControlError::Invalid(text);
    let given = message.media.as_ref();
    let given = given.ok_or_else(|| invalid("media must say what is sent: { mime_type, size | base64 }".into()))?;
    let mime_type = given.mime_type.as_deref().or(message.mime_type.as_deref()).unwrap_or(default);
    let bytes = match (&given.base64, given.size) {
        (Some(text), None) => {
            let bytes = STANDARD.decode(text).map_err(|error| invalid(format!("media.base64: {error}")))?;
            Bytes::from(bytes)
        }
        (None, Some(size)) if size <= LARGEST_MEDIA => made(mime_type, size as usize),
        (None, Some(_)) => return Err(invalid(format!("media.size must be at most {LARGEST_MEDIA}"))),
        _ => return Err(invalid("media must have either size or base64".into())),
    };
    if bytes.len() as u64 > LARGEST_MEDIA {
        return Err(invalid(format!("media may have {LARGEST_MEDIA} bytes")));
    }
    let sha256: Digest = Sha256::digest(&bytes).into();
    let spoken = matches!(message.body, PhoneBody::Voice | PhoneBody::Audio { ptt: true });
    let media = Media {
        size_bytes: Some(bytes.len() as u64),
        filename: given.filename.clone().or_else(|| message.filename.clone()),
        sha256: Some(Sha256Hex(hex::encode(sha256))),
        width: given.width,
        height: given.height,
        duration_seconds: given.duration_seconds,
        voice: given.voice || spoken,
        view_once: given.view_once || message.view_once,
        ..Media::of_type(mime_type)
    };
    Ok(Some(Prepared { media, sha256, bytes }))
}

/// Generates bytes of a type and a size. The result is deterministic, so that equal files are stored once.
fn made(mime_type: &str, size: usize) -> Bytes {
    let beginning = BEGINNINGS.iter().find(|(known, _)| mime_type.starts_with(known)).map_or(&b""[..], |(_, b)| b);
    let mut bytes: Vec<u8> = beginning.iter().copied().take(size).collect();
    bytes.extend((bytes.len()..size).map(|n| (n * 31 + n / 251) as u8));
    Bytes::from(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn prepared(media: &str) -> Result<Option<Prepared>, ControlError> {
        let json = format!(r#"{{ "to": "15551234567", "type": "image", "media": {media} }}"#);
        prepare(&serde_json::from_str(&json).unwrap())
    }

    #[test]
    fn bytes_are_made_or_decoded() {
        let made = prepared(r#"{ "mime_type": "image/png", "size": 1000 }"#).unwrap().unwrap();
        assert_eq!((made.bytes.len(), made.media.size_bytes), (1000, Some(1000)));
        assert!(made.bytes.starts_with(b"\x89PNG"));
        let given = prepared(r#"{ "base64": "aGVsbG8=", "filename": "hello.txt" }"#).unwrap().unwrap();
        assert_eq!(&given.bytes[..], b"hello");
        assert_eq!(
            (given.media.mime_type.as_str(), given.media.filename.as_deref()),
            ("image/jpeg", Some("hello.txt"))
        );
        let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(given.media.sha256, Some(Sha256Hex(sha256.into())));
    }

    #[test]
    fn media_that_makes_no_sense_is_refused() {
        for wrong in ["{}", r#"{ "size": 1, "base64": "" }"#, r#"{ "base64": "?" }"#, r#"{ "size": 26214401 }"#] {
            assert!(prepared(wrong).is_err(), "{wrong}");
        }
    }
}

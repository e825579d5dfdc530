//! Media of a phone's messages: encrypted and uploaded when sent, downloaded and decrypted when received.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use buffa::MessageField;
use bytes::Bytes;
use network::simulator::answers::PhoneMessage;
use network::simulator::answers::writing::PhoneBody;
use sha2::{Digest, Sha256};
use wacore::download::{DownloadUtils, MediaType};
use wacore::upload::encrypt_media;
use waproto::whatsapp as wa;
use waproto::whatsapp::message;

use crate::control::{Refused, invalid};
use crate::media::Files;

/// Size limit of media that a phone sends.
const MAX_MEDIA: usize = 25 * 1024 * 1024;

/// A message's reference to its media.
struct Attachment<'a> {
    path: &'a str,
    key: &'a [u8],
    sha256: &'a [u8],
    kind: MediaType,
}

fn attachment(message: &wa::Message) -> Option<Attachment<'_>> {
    macro_rules! of {
        ($field:ident, $kind:ident) => {
            if let Some(media) = message.$field.as_option() {
                return Some(Attachment {
                    path: media.direct_path.as_deref()?,
                    key: media.media_key.as_deref()?,
                    sha256: media.file_sha256.as_deref()?,
                    kind: MediaType::$kind,
                });
            }
        };
    }
    of!(image_message, Image);
    of!(video_message, Video);
    of!(ptv_message, Video);
    of!(audio_message, Audio);
    of!(document_message, Document);
    of!(sticker_message, Sticker);
    None
}

/// The key and path of a message's media.
pub fn key_and_path(message: &wa::Message) -> Option<(&[u8], &str)> {
    attachment(message).map(|attachment| (attachment.key, attachment.path))
}

/// Whether a message's media exists and matches its hash; `None` for a message without media.
pub fn is_intact(files: &Files, message: &wa::Message) -> Option<bool> {
    let attachment = attachment(message)?;
    let path = attachment.path.split('?').next().unwrap_or_default();
    let opened = files
        .file(path)
        .and_then(|file| DownloadUtils::verify_and_decrypt(&file, attachment.key, attachment.kind).ok());
    Some(opened.is_some_and(|opened| Sha256::digest(&opened).as_slice() == attachment.sha256))
}

/// Uploaded media, with the fields that a message needs.
struct Uploaded {
    mime_type: String,
    length: u64,
    sha256: Vec<u8>,
    enc_sha256: Vec<u8>,
    key: Vec<u8>,
    path: String,
}

/// Builds the message for a body with media; `None` for a body without.
pub(crate) fn compose_media(
    files: &mut Files,
    body: &PhoneMessage,
    context: MessageField<wa::ContextInfo>,
) -> Result<Option<wa::Message>, Refused> {
    let (kind, mime_type) = match &body.body {
        PhoneBody::Image { .. } => (MediaType::Image, "image/jpeg"),
        PhoneBody::Video { .. } => (MediaType::Video, "video/mp4"),
        PhoneBody::Audio { .. } | PhoneBody::Voice => (MediaType::Audio, "audio/ogg"),
        PhoneBody::Document { .. } => (MediaType::Document, "application/octet-stream"),
        PhoneBody::Sticker { .. } => (MediaType::Sticker, "image/webp"),
        _ => return Ok(None),
    };
    let given = body.media.clone().unwrap_or_default();
    let mime_type = given.mime_type.clone().or_else(|| body.mime_type.clone()).unwrap_or_else(|| mime_type.to_owned());
    let bytes = bytes_of(&given.base64, given.size, &mime_type)?;
    let sealed = encrypt_media(&bytes, kind).map_err(|error| invalid(format!("the media: {error}")))?;
    let media = Uploaded {
        mime_type,
        length: bytes.len() as u64,
        sha256: sealed.file_sha256.to_vec(),
        enc_sha256: sealed.file_enc_sha256.to_vec(),
        key: sealed.media_key.to_vec(),
        path: files.keep(Bytes::from(sealed.data_to_upload)),
    };
    let view_once = (given.view_once || body.view_once).then_some(true);
    let filename = given.filename.clone().or_else(|| body.filename.clone());
    let mut made = wa::Message::default();
    macro_rules! filled {
        ($kind:ident { $($field:ident: $value:expr),* $(,)? }) => {
            MessageField::some(message::$kind {
                mimetype: Some(media.mime_type),
                file_sha256: Some(media.sha256),
                file_enc_sha256: Some(media.enc_sha256),
                file_length: Some(media.length),
                media_key: Some(media.key),
                direct_path: Some(media.path),
                context_info: context,
                $($field: $value,)*
                ..Default::default()
            })
        };
    }
    match &body.body {
        PhoneBody::Image { caption } => {
            made.image_message = filled!(ImageMessage { caption: caption.clone(), view_once: view_once });
        }
        PhoneBody::Video { caption, gif, ptv } => {
            let video = filled!(VideoMessage {
                caption: caption.clone(),
                gif_playback: gif.then_some(true),
                view_once: view_once,
                seconds: given.duration_seconds,
            });
            if *ptv { made.ptv_message = video } else { made.video_message = video }
        }
        PhoneBody::Audio { .. } | PhoneBody::Voice => {
            let voice = given.voice || matches!(&body.body, PhoneBody::Voice | PhoneBody::Audio { ptt: true });
            made.audio_message =
                filled!(AudioMessage { ptt: Some(voice), view_once: view_once, seconds: given.duration_seconds });
        }
        PhoneBody::Document { caption } => {
            made.document_message = filled!(DocumentMessage { caption: caption.clone(), file_name: filename });
        }
        PhoneBody::Sticker { animated } => {
            made.sticker_message = filled!(StickerMessage { is_animated: Some(*animated) });
        }
        _ => return Ok(None),
    }
    Ok(Some(made))
}

/// The given bytes, or `size` generated ones that start with the file type's signature.
fn bytes_of(base64: &Option<String>, size: Option<u64>, mime_type: &str) -> Result<Vec<u8>, Refused> {
    if let Some(base64) = base64 {
        let bytes = BASE64_STANDARD.decode(base64).map_err(|error| invalid(format!("media.base64: {error}")))?;
        return if bytes.len() > MAX_MEDIA { Err(invalid("media.base64 must be at most 25 MiB")) } else { Ok(bytes) };
    }
    let size = usize::try_from(size.unwrap_or(1_024)).unwrap_or(usize::MAX);
    if size > MAX_MEDIA {
        return Err(invalid("media.size must be at most 25 MiB"));
    }
    let head: &[u8] = match mime_type.split(';').next().unwrap_or_default() {
        "image/jpeg" => b"\xFF\xD8\xFF\xE0\x00\x10JFIF\x00",
        "image/png" => b"\x89PNG\r\n\x1A\n",
        "image/webp" => b"RIFF\x00\x00\x00\x00WEBPVP8 ",
        "image/gif" => b"GIF89a",
        "video/mp4" => b"\x00\x00\x00\x18ftypmp42",
        "audio/ogg" => b"OggS\x00\x02",
        "audio/mpeg" => b"ID3\x03\x00",
        "application/pdf" => b"%PDF-1.4\n",
        _ => b"",
    };
    let mut bytes = head.to_vec();
    bytes.resize(size, b'.');
    Ok(bytes)
}

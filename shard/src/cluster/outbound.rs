//! The bytes of a send: fetched at the node that took the request, judged, and kept before the owner hears of them.

use model::error::CallError;
use model::id::{ChannelId, CustomerId, MediaId};
use model::issue::{IssueCode, Violation};
use model::media::Media;
use model::send::{MediaKind, MediaSend};
use model::time::Timestamp;

use super::{CallContext, Cluster};
use crate::call::SendBody;
use crate::media::command::MediaRoom;
use crate::media::fetch::{FetchError, Fetched};
use crate::media::record::{MediaDirection, MediaRow};
use crate::media::sniff;
use crate::media::spool::For;

/// The type of a sticker's bytes.
const WEBP: &str = "image/webp";

/// The type of a voice note's bytes.
const OPUS: &str = "audio/ogg; codecs=opus";

impl Cluster {
    /// Makes a send of what a URL names, with what the account's quota leaves for it. The bytes are on a quorum of the
    /// channel's shard when this returns; the row that refers to them comes to be with the message, which is when the quota is
    /// judged for good. `field` is the path of the URL in the caller's body.
    ///
    /// # Errors
    /// The codes of media, `plan_limit`, and `invalid_request` for bytes that cannot be sent as what they are said to
    /// be; then nothing is left behind.
    pub async fn send_media(
        &self,
        customer: CustomerId,
        channel: ChannelId,
        send: &MediaSend,
        field: &[&str],
        context: &CallContext,
    ) -> Result<(SendBody, Option<MediaRoom>), CallError> {
        // An account without room is not worth a fetch.
        self.media_room(customer, channel, None, context).await?;
        let url = &send.source.url;
        let Fetched { spooled, filename, .. } =
            self.fetch_media(customer, url, context).await.map_err(|error| match error {
                FetchError::Url(violation) => violation.at(field),
                error => error.told(url, "media_url"),
            })?;
        let Judged { mime_type, animated, convert } =
            judge(send, &spooled.head).map_err(|violation| violation.at(field))?;
        let media = self.media();
        let (spooled, filename, duration_seconds) = if convert {
            let voice = media.converter.convert(customer, &spooled, media.spool(For::Account(customer)).await?).await;
            let voice = voice.map_err(|error| error.told(field))?;
            (voice.spooled, filename.map(as_opus), Some(voice.seconds))
        } else {
            (spooled, filename, None)
        };
        let room = self.media_room(customer, channel, Some(spooled.size), context).await?;
        let retention = media.retention();
        let row = MediaRow::new(
            MediaId::new(),
            customer,
            channel,
            MediaDirection::Outbound,
            mime_type,
            Timestamp::now(),
            retention,
        )
        .with_bytes(spooled.stored(None));
        let row = MediaRow { duration_seconds, ..row };
        media.keep(channel, spooled).await?;
        let content = send.content(Media { filename, ..facts(&row) }, animated);
        let row = match content.media() {
            // What the caller said of the bytes belongs to them.
            Some(said) => {
                MediaRow { filename: said.filename.clone(), voice: said.voice, view_once: said.view_once, ..row }
            }
            None => row,
        };
        Ok((SendBody::Media { content, media: Box::new(row) }, room))
    }
}

/// What is known of a row's bytes, as a message names them.
fn facts(row: &MediaRow) -> Media {
    Media {
        id: Some(row.id),
        size_bytes: row.size,
        sha256: row.sha256.clone(),
        width: row.width,
        height: row.height,
        duration_seconds: row.duration_seconds,
        ..Media::of_type(&row.mime_type)
    }
}

/// The name of a file after its conversion.
fn as_opus(filename: String) -> String {
    match filename.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => format!("{stem}.ogg"),
        _ => filename,
    }
}

/// What bytes go out as.
#[derive(Debug, PartialEq, Eq)]
struct Judged {
    mime_type: String,
    animated: bool,
    /// They are to be converted to it first.
    convert: bool,
}

impl Judged {
    fn as_they_are(mime_type: impl Into<String>) -> Self {
        Self { mime_type: mime_type.into(), animated: false, convert: false }
    }
}

/// The bytes win for pictures, videos and stickers, the declaration for documents and sound. What is Opus already needs
/// no conversion to it.
fn judge(send: &MediaSend, head: &[u8]) -> Result<Judged, Violation> {
    let declared = &send.source.mime_type;
    match send.kind {
        MediaKind::Sticker => match sniff::webp_is_animated(head) {
            Some(animated) => Ok(Judged { animated, ..Judged::as_they_are(WEBP) }),
            None => Err(Violation::new(IssueCode::Format, "a sticker must be a WebP picture")),
        },
        MediaKind::Image { .. } | MediaKind::Video { .. } => {
            Ok(Judged::as_they_are(sniff::settle(head, Some(declared))))
        }
        MediaKind::Audio { convert: true, .. } => Ok(Judged { convert: !is_opus(head), ..Judged::as_they_are(OPUS) }),
        MediaKind::Document { .. } | MediaKind::Audio { .. } => Ok(Judged::as_they_are(declared)),
    }
}

/// Opus in Ogg: its first page holds one packet, which begins so (RFC 7845).
fn is_opus(head: &[u8]) -> bool {
    head.starts_with(b"OggS") && head.get(28..36) == Some(b"OpusHead")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::send::MediaSource;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const STILL: &[u8] = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0";
    const MOVING: &[u8] = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\x02";

    fn send(kind: MediaKind, declared: &str) -> MediaSend {
        let source = MediaSource { url: "https://example.com/a".into(), mime_type: declared.into(), filename: None };
        MediaSend { source, kind, view_once: false }
    }

    #[test]
    fn bytes_win_for_pictures_and_the_declaration_for_documents() {
        let image = || MediaKind::Image { caption: None };
        let video = || MediaKind::Video { caption: None, gif: false, note: false };
        let audio = || MediaKind::Audio { voice: false, convert: false };
        let document = || MediaKind::Document { caption: None };
        let table: [(MediaKind, &str, &[u8], &str); 6] = [
            (image(), "image/jpeg", PNG, "image/png"),
            (image(), "image/heic", b"nothing known", "image/heic"),
            (video(), "video/mp4", PNG, "image/png"),
            (audio(), "audio/mpeg", PNG, "audio/mpeg"),
            (document(), "application/pdf", PNG, "application/pdf"),
            (MediaKind::Sticker, "image/png", STILL, "image/webp"),
        ];
        for (kind, declared, head, expected) in table {
            assert_eq!(judge(&send(kind, declared), head).unwrap().mime_type, expected);
        }
    }

    #[test]
    fn a_sticker_is_webp_and_says_whether_it_moves() {
        let judged = |head| judge(&send(MediaKind::Sticker, "image/webp"), head);
        assert!(!judged(STILL).unwrap().animated);
        assert!(judged(MOVING).unwrap().animated);
        assert!(judged(PNG).is_err_and(|violation| violation.code == IssueCode::Format));
    }

    #[test]
    fn what_is_opus_already_needs_no_conversion() {
        let judged = |head| judge(&send(MediaKind::Audio { voice: true, convert: true }, "audio/ogg"), head);
        let mut page = b"OggS\0\x02".to_vec();
        page.resize(28, 0);
        page.extend_from_slice(b"OpusHead\x01\x01");
        let opus = |head, convert| assert_eq!(judged(head), Ok(Judged { convert, ..Judged::as_they_are(OPUS) }));
        opus(&page[..], false);
        opus(b"OggS\0\x02 and something else", true);
        opus(b"ID3\x04\0", true);
        assert_eq!(as_opus("a.b.wav".into()), "a.b.ogg");
        assert_eq!(as_opus("sound".into()), "sound");
    }
}

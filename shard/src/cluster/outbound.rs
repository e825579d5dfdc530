//! The bytes of a send: the node that received the request fetches, checks and stores them before it calls the owner.

use futures::future::BoxFuture;
use model::error::CallError;
use model::id::{ChannelId, CustomerId, MediaId};
use model::issue::{IssueCode, Violation};
use model::media::Media;
use model::message::Content;
use model::send::MediaSend;
use model::time::Timestamp;

use super::{CallContext, Cluster};
use crate::call::SendBody;
use crate::media::command::MediaRoom;
use crate::media::fetch::{FetchError, Fetched};
use crate::media::record::{MediaDirection, MediaRow};
use crate::media::sniff;
use crate::media::spool::For;
use crate::media::voice;

/// The MIME type of stickers.
const WEBP: &str = "image/webp";

/// The MIME type of voice notes.
const OPUS: &str = "audio/ogg; codecs=opus";

impl Cluster {
    /// Makes a send of the media at a URL, with the space that the account's quota leaves for it. When this returns,
    /// the bytes are on a quorum of the channel's shard. The row that refers to them is committed with the message,
    /// which is also when the quota is finally checked. `field` is the path of the URL in the caller's body.
    ///
    /// # Errors
    /// The codes of media, `plan_limit`, and `invalid_request` for bytes that do not fit the declared type; no bytes
    /// are kept.
    pub fn send_media<'a>(
        &'a self,
        customer: CustomerId,
        channel: ChannelId,
        send: &'a MediaSend,
        field: &'a [&'a str],
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<(SendBody, Option<MediaRoom>), CallError>> {
        Box::pin(async move {
            // Checked first, so that nothing is fetched for an account without space.
            self.media_room(customer, channel, None, context).await?;
            let url = &send.url;
            let Fetched { spooled, filename, .. } =
                self.fetch_media(customer, url, context).await.map_err(|error| match error {
                    FetchError::Url(violation) => violation.at(field),
                    error => error.told(url, "media_url"),
                })?;
            let Judged { mime_type, animated, convert } =
                judge(send, &spooled.head).map_err(|violation| violation.at(field))?;
            let media = self.media();
            let (spooled, filename, duration_seconds) = if convert {
                let made =
                    media.converter.convert(customer, &spooled, media.spool(For::Account(customer)).await?).await;
                let made = made.map_err(|error| error.told(field))?;
                (made.spooled, filename.map(as_opus), Some(made.seconds))
            } else {
                let is_sound = matches!(send.said, Content::Audio { .. }) && is_opus(&spooled.head);
                let seconds = if is_sound { voice::length_of(&spooled).await } else { None };
                (spooled, filename, seconds)
            };
            let room = self.media_room(customer, channel, Some(spooled.size), context).await?;
            let (id, now) = (MediaId::new(), Timestamp::now());
            let row = MediaRow::new(id, customer, channel, MediaDirection::Outbound, mime_type, now, media.retention());
            let mut row = MediaRow { duration_seconds, ..row.with_bytes(spooled.stored(None)) };
            media.keep(channel, spooled).await?;
            let content = send.content(Media { filename, ..facts(&row) }, animated);
            // The caller's description of the bytes belongs in their row.
            if let Some(said) = content.media() {
                row.filename.clone_from(&said.filename);
                (row.voice, row.view_once) = (said.voice, said.view_once);
            }
            Ok((SendBody::Media { content, media: Box::new(row) }, room))
        })
    }
}

/// The known properties of a row's bytes, as a message names them.
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

/// The file name after the conversion to Opus.
fn as_opus(filename: String) -> String {
    match filename.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => format!("{stem}.ogg"),
        _ => filename,
    }
}

/// The type as which bytes are sent.
#[derive(Debug, PartialEq, Eq)]
struct Judged {
    mime_type: String,
    animated: bool,
    /// Whether the bytes have to be converted to that type first.
    convert: bool,
}

impl Judged {
    fn as_they_are(mime_type: impl Into<String>) -> Self {
        Self { mime_type: mime_type.into(), animated: false, convert: false }
    }
}

/// Decides the type: by the bytes for pictures, videos and stickers, by the declaration for documents and audio. Bytes
/// that are Opus already are not converted.
fn judge(send: &MediaSend, head: &[u8]) -> Result<Judged, Violation> {
    let declared = send.said.media().map_or("", |media| media.mime_type.as_str());
    match &send.said {
        Content::Sticker { .. } => match sniff::webp_is_animated(head) {
            Some(animated) => Ok(Judged { animated, ..Judged::as_they_are(WEBP) }),
            None => Err(Violation::new(IssueCode::Format, "a sticker must be a WebP picture")),
        },
        Content::Image { .. } | Content::Video { .. } => Ok(Judged::as_they_are(sniff::settle(head, Some(declared)))),
        _ if send.convert => Ok(Judged { convert: !is_opus(head), ..Judged::as_they_are(OPUS) }),
        _ => Ok(Judged::as_they_are(declared)),
    }
}

/// Whether the bytes are Opus in Ogg: the first page holds a single packet, which begins with `OpusHead` (RFC 7845).
fn is_opus(head: &[u8]) -> bool {
    head.starts_with(b"OggS") && head.get(28..36) == Some(b"OpusHead")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const STILL: &[u8] = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0";
    const MOVING: &[u8] = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\x02";

    fn send(said: impl FnOnce(Media) -> Content, declared: &str) -> MediaSend {
        MediaSend { url: "https://example.com/a".into(), said: said(Media::of_type(declared)), convert: false }
    }

    fn sticker(media: Media) -> Content {
        Content::Sticker { media, animated: false }
    }

    #[test]
    fn bytes_win_for_pictures_and_the_declaration_for_documents() {
        let image = |media| Content::Image { media, caption: None };
        let video = |media| Content::Video { media, caption: None, gif: false, note: false };
        let audio = |media| Content::Audio { media };
        let document = |media| Content::Document { media, caption: None };
        let table: [(MediaSend, &[u8], &str); 6] = [
            (send(image, "image/jpeg"), PNG, "image/png"),
            (send(image, "image/heic"), b"nothing known", "image/heic"),
            (send(video, "video/mp4"), PNG, "image/png"),
            (send(audio, "audio/mpeg"), PNG, "audio/mpeg"),
            (send(document, "application/pdf"), PNG, "application/pdf"),
            (send(sticker, "image/png"), STILL, "image/webp"),
        ];
        for (send, head, expected) in table {
            assert_eq!(judge(&send, head).unwrap().mime_type, expected);
        }
    }

    #[test]
    fn a_sticker_is_webp_and_says_whether_it_moves() {
        let judged = |head| judge(&send(sticker, "image/webp"), head);
        assert!(!judged(STILL).unwrap().animated);
        assert!(judged(MOVING).unwrap().animated);
        assert!(judged(PNG).is_err_and(|violation| violation.code == IssueCode::Format));
    }

    #[test]
    fn what_is_opus_already_needs_no_conversion() {
        let voice = MediaSend { convert: true, ..send(|media| Content::Audio { media }, "audio/ogg") };
        let judged = |head| judge(&voice, head);
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

//! Sends with media, before the media is fetched.

use super::LONGEST_CAPTION;
use crate::field::{Fields, rule};
use crate::media::Media;
use crate::message::Content;

/// MIME type of a sticker for which the caller names none.
const STICKER_TYPE: &str = "image/webp";

/// A send whose media is still to be fetched.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaSend {
    /// An `http` or `https` URL, possibly one of this gateway's own media links. Whether it may be called has not been
    /// checked yet.
    pub url: String,
    /// The content with the media as the caller described it. The described MIME type counts for documents and audio;
    /// otherwise the type is detected from the bytes.
    pub said: Content,
    /// Whether the audio is to be converted to Opus.
    pub convert: bool,
}

impl MediaSend {
    /// The content with the fetched `media` and the attributes that the caller requested. `animated` tells whether a
    /// sticker's bytes are animated.
    pub fn content(&self, media: Media, animated: bool) -> Content {
        let mut content = self.said.clone();
        if let Content::Sticker { animated: moves, .. } = &mut content {
            *moves = animated;
        }
        if let Some(said) = content.media_mut() {
            let filename = said.filename.take().or(media.filename);
            *said = Media { filename, voice: said.voice, view_once: said.view_once, ..media };
        }
        content
    }
}

/// The content that the fields of a type describe, and whether its bytes are to be converted; `None` for a type without
/// media. An invalid field adds an issue and reads as absent.
pub fn said(kind: &str, fields: &Fields<'_>) -> Option<(Content, bool)> {
    let caption = || fields.optional("caption", rule::text(0..=LONGEST_CAPTION));
    let flag = |name| fields.optional(name, rule::boolean).unwrap_or(false);
    let media = Media::of_type("");
    let sound = |voice| Content::Audio { media: Media { voice, ..Media::of_type("") } };
    let content = match kind {
        "image" => Content::Image { media, caption: caption() },
        "video" => Content::Video { media, caption: caption(), gif: flag("gif"), note: flag("ptv") },
        "audio" => sound(flag("ptt")),
        "voice" => return Some((sound(true), flag("convert"))),
        "document" => Content::Document { media, caption: caption() },
        "sticker" => Content::Sticker { media, animated: false },
        _ => return None,
    };
    Some((content, false))
}

pub fn read((mut said, convert): (Content, bool), fields: &Fields<'_>) -> Option<MediaSend> {
    let url = fields.required("media_url", rule::web_url);
    let declared = rule::text(1..=255);
    let mime_type = if matches!(said, Content::Sticker { .. }) {
        let given = fields.optional("mime_type", declared);
        if fields.has("mime_type") { given } else { Some(STICKER_TYPE.to_owned()) }
    } else {
        fields.required("mime_type", declared)
    };
    let mut filename = None;
    if matches!(said, Content::Document { .. }) {
        filename = fields.optional("filename", rule::text(1..=255));
    }
    let has_view_once = matches!(said, Content::Image { .. } | Content::Video { .. } | Content::Audio { .. });
    let view_once = has_view_once && fields.optional("view_once", rule::boolean).unwrap_or(false);
    if let Some(media) = said.media_mut() {
        *media = Media { filename, voice: media.voice, view_once, ..Media::of_type(&mime_type?) };
    }
    Some(MediaSend { url: url?, said, convert })
}

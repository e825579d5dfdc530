//! Sends with bytes: what is asked for, before the bytes are there.

use super::LONGEST_CAPTION;
use crate::field::{Fields, rule};
use crate::media::Media;
use crate::message::Content;

/// The type of a sticker that does not name one.
const STICKER_TYPE: &str = "image/webp";

/// A send whose bytes are still to be fetched.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaSend {
    pub source: MediaSource,
    pub kind: MediaKind,
    pub view_once: bool,
}

/// Where the bytes are, and what the caller says of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaSource {
    /// An `http` or `https` URL; it may be one of this gateway's own media links. Whether it may be called is not
    /// judged yet.
    pub url: String,
    /// As declared: it counts for `document` and `audio`, elsewhere what the bytes say.
    pub mime_type: String,
    pub filename: Option<String>,
}

/// What becomes of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaKind {
    Image {
        caption: Option<String>,
    },
    Video {
        caption: Option<String>,
        /// Plays in a loop and without sound.
        gif: bool,
        /// A round video note (`ptv`).
        note: bool,
    },
    Audio {
        /// A voice note (`ptt`, or the type `voice`).
        voice: bool,
        /// The bytes are to be converted to Opus.
        convert: bool,
    },
    Document {
        caption: Option<String>,
    },
    Sticker,
}

impl MediaKind {
    /// The type of the message that it makes.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Image { .. } => "image",
            Self::Video { .. } => "video",
            Self::Audio { .. } => "audio",
            Self::Document { .. } => "document",
            Self::Sticker => "sticker",
        }
    }
}

impl MediaSend {
    /// The content, once the bytes are known. `media` says what they are; what the caller asked for is put in here.
    /// `animated` is what a sticker's bytes say.
    pub fn content(&self, media: Media, animated: bool) -> Content {
        let media = Media {
            filename: self.source.filename.clone().or(media.filename),
            voice: matches!(self.kind, MediaKind::Audio { voice: true, .. }),
            view_once: self.view_once,
            ..media
        };
        match self.kind.clone() {
            MediaKind::Image { caption } => Content::Image { media, caption },
            MediaKind::Video { caption, gif, note } => Content::Video { media, caption, gif, note },
            MediaKind::Audio { .. } => Content::Audio { media },
            MediaKind::Document { caption } => Content::Document { media, caption },
            MediaKind::Sticker => Content::Sticker { media, animated },
        }
    }
}

/// The kind that a type's fields ask for; `None` for a type without bytes. A broken field is noted, and reads as absent.
pub fn kind(kind: &str, fields: &Fields<'_>) -> Option<MediaKind> {
    let caption = || fields.optional("caption", rule::text(0..=LONGEST_CAPTION));
    let flag = |name| fields.optional(name, rule::boolean).unwrap_or(false);
    Some(match kind {
        "image" => MediaKind::Image { caption: caption() },
        "video" => MediaKind::Video { caption: caption(), gif: flag("gif"), note: flag("ptv") },
        "audio" => MediaKind::Audio { voice: flag("ptt"), convert: false },
        "voice" => MediaKind::Audio { voice: true, convert: flag("convert") },
        "document" => MediaKind::Document { caption: caption() },
        "sticker" => MediaKind::Sticker,
        _ => return None,
    })
}

pub fn read(kind: MediaKind, fields: &Fields<'_>) -> Option<MediaSend> {
    let url = fields.required("media_url", rule::web_url);
    let declared = rule::text(1..=255);
    let mime_type = if kind == MediaKind::Sticker {
        let given = fields.optional("mime_type", declared);
        if fields.has("mime_type") { given } else { Some(STICKER_TYPE.to_owned()) }
    } else {
        fields.required("mime_type", declared)
    };
    let mut filename = None;
    if matches!(kind, MediaKind::Document { .. }) {
        filename = fields.optional("filename", rule::text(1..=255));
    }
    let has_view_once = matches!(kind, MediaKind::Image { .. } | MediaKind::Video { .. } | MediaKind::Audio { .. });
    let view_once = has_view_once && fields.optional("view_once", rule::boolean).unwrap_or(false);
    let source = MediaSource { url: url?, mime_type: mime_type?, filename };
    Some(MediaSend { source, kind, view_once })
}

//! Media: files that come with a message, or that were uploaded to be sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{CallError, ErrorCode, errors};
use crate::id::MediaId;
use crate::time::Timestamp;

/// Largest upload, fetched URL or received file: 25 MiB.
pub const LARGEST_MEDIA: u64 = 25 * 1024 * 1024;

/// Largest picture of a profile, a group or a newsletter: 5 MiB.
pub const LARGEST_PICTURE: u64 = 5 * 1024 * 1024;

/// The media of a message, as described there. Whether and where its bytes are stored is in the media's own record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Media {
    /// The gateway's id of the media. `None` only inside the network simulator.
    pub id: Option<MediaId>,
    pub mime_type: String,
    pub size_bytes: Option<u64>,
    pub filename: Option<String>,
    /// SHA-256 of the bytes.
    pub sha256: Option<Sha256Hex>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub duration_seconds: Option<u32>,
    /// Whether it is a voice note.
    pub voice: bool,
    pub view_once: bool,
    /// How to fetch the bytes from the network, where they expire.
    pub handle: Option<MediaHandle>,
}

crate::words! {
    /// The kind under which a message shows its media. A network may store the same bytes once per kind.
    #[derive(PartialOrd, Ord, JsonSchema)]
    #[schemars(rename = "DownloadType", description = "A kind of media that may be fetched when it is received.")]
    MediaKind {
        Image = "image",
        Video = "video",
        Audio = "audio",
        Document = "document",
        Sticker = "sticker",
    }
}

impl Media {
    pub fn of_type(mime_type: &str) -> Self {
        Self { mime_type: mime_type.to_owned(), ..Self::default() }
    }
}

/// SHA-256 as 64 lower-case hex characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("pattern" = "^[0-9a-f]{64}$"))]
pub struct Sha256Hex(pub String);

impl Sha256Hex {
    /// Whether it is a valid hash. Remote parties send arbitrary text, and the hash becomes a file name.
    pub fn is_well_formed(&self) -> bool {
        self.0.len() == 64 && self.0.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }
}

/// The network's identifier of uploaded media.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MediaHandle(pub String);

/// Whether the bytes are available. `gone`: retention has ended. `skipped`: not downloaded automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MediaState {
    Ready,
    /// Not downloaded yet; readers wait for it.
    Pending,
    Failed,
    /// The retention period has ended.
    Gone,
    /// The channel does not download it automatically.
    Skipped,
}

/// Media of a message. Every field is always present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MediaRef {
    pub id: Option<MediaId>,
    /// Signed link to the bytes.
    pub url: Option<String>,
    pub mime_type: String,
    /// Size in bytes; `null` if unknown.
    pub size_bytes: Option<u64>,
    pub filename: Option<String>,
    pub sha256: Option<Sha256Hex>,
    /// Width in pixels; `null` if unknown.
    pub width: Option<u32>,
    /// Height in pixels; `null` if unknown.
    pub height: Option<u32>,
    /// Duration in seconds; `null` if unknown.
    pub duration_seconds: Option<u32>,
    /// Whether the media is a voice note.
    pub voice: bool,
    pub view_once: bool,
    pub state: MediaState,
    pub expires_at: Option<Timestamp>,
}

/// Why a URL given by the caller could not be fetched; part of `media_fetch_failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FetchReason {
    Dns,
    Timeout,
    Tls,
    /// The status was not 2xx, or there were too many redirects.
    HttpStatus,
    Connect,
}

errors! {
    /// `expired_at` is absent if the bytes were deleted before their expiry, by themselves or with their channel.
    media_gone(expired_at: Option<Timestamp>) = MediaGone, "the media is no longer stored", { expired_at };
    media_token_expired(expired_at: Timestamp)
        = MediaTokenExpired, "the link has expired; ask for the media again to get a fresh one", { expired_at };
    media_token_tampered() = MediaTokenTampered, "the link's signature does not verify";
    media_token_malformed() = MediaTokenMalformed, "the link is not one of this gateway's; use it as it was given";
    /// Like [`CallError::media_too_large`], with another limit.
    media_too_large_over(limit_bytes: u64, size_bytes: u64)
        = MediaTooLarge, format!("media may have at most {limit_bytes} bytes here"), { limit_bytes, size_bytes };
    media_fetch_blocked(url: &str)
        = MediaFetchBlocked, "the URL must name a host on the public internet", { url };
}

impl CallError {
    /// `size_bytes` is the announced size, or as many bytes as were read.
    pub fn media_too_large(size_bytes: u64) -> Self {
        Self::media_too_large_over(LARGEST_MEDIA, size_bytes)
    }

    /// `http_status` accompanies [`FetchReason::HttpStatus`].
    pub fn media_fetch_failed(url: &str, reason: FetchReason, http_status: Option<u16>) -> Self {
        let why = match reason {
            FetchReason::Dns => "its host does not resolve",
            FetchReason::Timeout => "it took too long",
            FetchReason::Tls => "its TLS failed",
            FetchReason::HttpStatus => "it was not answered with a file",
            FetchReason::Connect => "the connection failed",
        };
        let mut details = json!({ "url": url, "reason": reason });
        if let Some(status) = http_status {
            details["http_status"] = json!(status);
        }
        Self::new(ErrorCode::MediaFetchFailed, format!("the URL could not be fetched: {why}")).with_details(details)
    }
}

impl MediaRef {
    /// A reference from what the message says of its media, for media without a record here.
    pub fn not_here(media: &Media) -> Self {
        Self {
            id: media.id,
            url: None,
            mime_type: media.mime_type.clone(),
            size_bytes: media.size_bytes,
            filename: media.filename.clone(),
            sha256: media.sha256.clone(),
            width: media.width,
            height: media.height,
            duration_seconds: media.duration_seconds,
            voice: media.voice,
            view_once: media.view_once,
            state: MediaState::Pending,
            expires_at: None,
        }
    }
}

//! Media: the bytes that come with a message, or were uploaded to be sent (supplement 8).

use serde::{Deserialize, Serialize};

use crate::id::MediaId;
use crate::time::Timestamp;

/// The most bytes that an upload, a fetched URL or a received file has: 25 MB (interface 8.2).
pub const LARGEST_MEDIA: u64 = 25 * 1024 * 1024;

/// The bytes of a message, as the message names them. Whether they are stored, and where, is the media's own record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Media {
    /// The gateway's own name of the bytes. `None` only inside the network simulator.
    pub id: Option<MediaId>,
    pub mime_type: String,
    pub size_bytes: Option<u64>,
    pub filename: Option<String>,
    /// SHA-256 of the bytes.
    pub sha256: Option<Sha256Hex>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub duration_seconds: Option<u32>,
    /// A voice note.
    pub voice: bool,
    pub view_once: bool,
    /// Where the network keeps the bytes; it expires there.
    pub handle: Option<MediaHandle>,
}

impl Media {
    pub fn of_type(mime_type: &str) -> Self {
        Self {
            id: None,
            mime_type: mime_type.to_owned(),
            size_bytes: None,
            filename: None,
            sha256: None,
            width: None,
            height: None,
            duration_seconds: None,
            voice: false,
            view_once: false,
            handle: None,
        }
    }
}

/// A SHA-256 in 64 lower-case hex characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sha256Hex(pub String);

/// The network's name of uploaded bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MediaHandle(pub String);

/// Whether the bytes can be had (supplement 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaState {
    Ready,
    /// Not downloaded yet; a reader waits for it.
    Pending,
    Failed,
    /// Its retention has passed.
    Gone,
    /// The channel does not store it.
    Skipped,
}

/// Media as events and history show it (supplement 8.4); every field always present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MediaRef {
    pub id: Option<MediaId>,
    /// A signed link.
    pub url: Option<String>,
    pub mime_type: String,
    pub size_bytes: Option<u64>,
    pub filename: Option<String>,
    pub sha256: Option<Sha256Hex>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub duration_seconds: Option<u32>,
    pub voice: bool,
    pub view_once: bool,
    pub state: MediaState,
    pub expires_at: Option<Timestamp>,
}

//! A shard's row of media: its properties, whether its bytes are stored, and until when.

use std::time::Duration;

use model::id::{ChannelId, CustomerId, MediaId};
use model::media::{LARGEST_MEDIA, MediaHandle, MediaRef, MediaState, Sha256Hex};
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long the row of media is kept after its retention ended, to answer `media_gone`; after that, it is not found.
pub const GONE_KEPT: Duration = Duration::from_secs(365 * 86_400);

/// How long the row of deleted media answers `media_gone` to holders of a link: longer than links are valid.
pub const DELETED_KEPT: Duration = Duration::from_secs(48 * 3600);

model::words! {
    /// Origin of media.
    #[derive(JsonSchema)]
    MediaDirection {
        /// Uploaded, or fetched from a URL, to be sent later.
        Upload = "upload",
        /// Received with a message.
        Inbound = "inbound",
        /// Fetched for one send; listed only on request.
        Outbound = "outbound",
    }
}

/// One piece of media of a channel. Its bytes are stored elsewhere, under their hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MediaRow {
    pub id: MediaId,
    pub customer: CustomerId,
    pub channel: ChannelId,
    pub direction: MediaDirection,
    pub mime_type: String,
    pub size: Option<u64>,
    /// The key of the bytes; set while `state` is `ready`, and kept as information afterwards.
    pub sha256: Option<Sha256Hex>,
    pub filename: Option<String>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub duration_seconds: Option<u32>,
    pub voice: bool,
    pub view_once: bool,
    pub state: MediaState,
    /// Where the network stores the bytes, until [`handle_expires_at`](Self::handle_expires_at).
    pub handle: Option<MediaHandle>,
    pub handle_expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// When the retention ends.
    pub expires_at: Timestamp,
    /// Whether the customer deleted it: the row is kept for a while so that old links answer `media_gone`.
    pub deleted: bool,
    /// When the owner next has to act on it: at first [`expires_at`](Self::expires_at).
    pub due_at: Timestamp,
    /// Whether its bytes count towards its account's quota: true for all rows of a cluster whose format has quotas.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
}

impl MediaRow {
    /// A row whose bytes are not stored yet: `pending`, with only its type known.
    pub fn new(
        id: MediaId,
        customer: CustomerId,
        channel: ChannelId,
        direction: MediaDirection,
        mime_type: impl Into<String>,
        now: Timestamp,
        retention: Duration,
    ) -> Self {
        let expires_at = now.plus(retention);
        Self {
            id,
            customer,
            channel,
            direction,
            mime_type: mime_type.into(),
            size: None,
            sha256: None,
            filename: None,
            width: None,
            height: None,
            duration_seconds: None,
            voice: false,
            view_once: false,
            state: MediaState::Pending,
            handle: None,
            handle_expires_at: None,
            created_at: now,
            expires_at,
            deleted: false,
            due_at: expires_at,
            counted: false,
        }
    }

    /// Whether its bytes are stored and count towards its account's quota.
    pub fn is_counted(&self) -> bool {
        self.counted && self.kept().is_some()
    }

    /// The bytes that it counts towards its account's quota, while they are stored.
    pub fn counted_bytes(&self) -> u64 {
        if self.is_counted() { self.size.unwrap_or(0) } else { 0 }
    }

    /// Limits the retention, counted from its creation.
    pub fn kept_for_at_most(&mut self, retention: Duration) {
        self.expires_at = self.expires_at.min(self.created_at.plus(retention));
        self.due_at = self.due_at.min(self.expires_at);
    }

    /// Whether missing bytes can still arrive on request: they are being fetched, or not fetched automatically.
    pub fn may_come(&self) -> bool {
        let skipped = self.state == MediaState::Skipped && self.handle.is_some();
        self.state == MediaState::Pending || (skipped && self.size.is_none_or(|size| size <= LARGEST_MEDIA))
    }

    /// The row with stored bytes.
    pub fn with_bytes(mut self, stored: StoredBytes) -> Self {
        self.state = MediaState::Ready;
        self.size = Some(stored.size);
        self.sha256 = Some(stored.sha256);
        self.width = stored.width.or(self.width);
        self.height = stored.height.or(self.height);
        if let Some(mime_type) = stored.mime_type {
            self.mime_type = mime_type;
        }
        self
    }

    /// The media as events and history show it, without the link.
    pub fn shown(&self) -> MediaRef {
        MediaRef {
            id: Some(self.id),
            url: None,
            mime_type: self.mime_type.clone(),
            size_bytes: self.size,
            filename: self.filename.clone(),
            sha256: self.sha256.clone(),
            width: self.width,
            height: self.height,
            duration_seconds: self.duration_seconds,
            voice: self.voice,
            view_once: self.view_once,
            state: self.state,
            expires_at: Some(self.expires_at),
        }
    }

    /// The handle, while the network stores the bytes under it.
    pub fn live_handle(&self, now: Timestamp) -> Option<&MediaHandle> {
        self.handle.as_ref().filter(|_| self.handle_expires_at.is_none_or(|until| now < until))
    }

    /// The hash of its bytes, if it refers to stored ones.
    pub fn kept(&self) -> Option<&Sha256Hex> {
        self.sha256.as_ref().filter(|_| self.state == MediaState::Ready)
    }
}

/// The properties of bytes, determined when they were stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredBytes {
    pub sha256: Sha256Hex,
    pub size: u64,
    pub width: Option<u32>,
    pub height: Option<u32>,
    /// Set if it corrects the announced type.
    pub mime_type: Option<String>,
}

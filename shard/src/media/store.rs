//! Media for the layers above and for owners: bytes in and out, links, retention.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use model::error::CallError;
use model::format::Format;
use model::id::{ChannelId, CustomerId, MediaId, ShardId, Slot};
use model::media::{LARGEST_MEDIA, MediaRef, MediaState, Sha256Hex};
use model::settings::Settings;
use model::time::Timestamp;
use raft::directory::Directory;

use super::blobs::{BlobError, Blobs, BlobsConfig, Opened};
use super::fetch::Fetcher;
use super::picture::Cutter;
use super::record::MediaRow;
use super::spool::{For, Spool, SpoolError, Spooled};
use super::token::{Token, TokenKeys};
use super::voice::Converter;
use crate::secrets::Secrets;

const DAY: Duration = Duration::from_secs(86_400);

/// The path under which links are served.
pub const LINK_PATH: &str = "/v1/media/";

/// How a node keeps media.
#[derive(Clone, Debug)]
pub struct MediaConfig {
    pub blobs: BlobsConfig,
    /// How long bytes are kept after their receipt.
    pub retention: Duration,
    /// How long links are valid; at most `token::LONGEST_LIFE`.
    pub link_life: Duration,
    /// The beginning of links, without a trailing slash.
    pub base_url: String,
}

/// Everything that a node does with media, except for what goes to a channel's owner: see `Cluster::media`.
pub struct MediaStore {
    pub blobs: Arc<Blobs>,
    pub fetcher: Fetcher,
    pub(crate) converter: Converter,
    pub(crate) cutter: Cutter,
    directory: Arc<Directory>,
    secrets: Arc<Secrets>,
    /// Set once the cluster is formed.
    keys: OnceLock<TokenKeys>,
    retention: Duration,
    link_life: Duration,
    base_url: String,
}

impl MediaStore {
    pub fn new(
        config: MediaConfig,
        blobs: Arc<Blobs>,
        fetcher: Fetcher,
        directory: Arc<Directory>,
        secrets: Arc<Secrets>,
    ) -> Self {
        let MediaConfig { retention, link_life, base_url, .. } = config;
        let (converter, cutter, keys) = (Converter::new(), Cutter::new(), OnceLock::new());
        Self { blobs, fetcher, converter, cutter, directory, secrets, keys, retention, link_life, base_url }
    }

    /// How long media is kept, unless its channel keeps it for less.
    pub fn retention(&self) -> Duration {
        self.retention
    }

    /// How long media is kept, in whole days.
    pub fn retention_days(&self) -> u64 {
        self.retention.as_secs() / DAY.as_secs()
    }

    /// How long the media of a channel with these settings is kept.
    pub fn retention_of(&self, settings: &Settings) -> Duration {
        settings.media_retention_days.map_or(self.retention, |days| self.retention.min(DAY * days))
    }

    /// Whether new rows count towards their account's quota, as they do once no member has an older release.
    pub fn counts(&self) -> bool {
        self.directory.format() >= Format::THIRD
    }

    /// A temporary file to stream bytes of unknown length into; see [`Blobs::spool`].
    ///
    /// # Errors
    /// Those of [`Blobs::spool`].
    pub async fn spool(&self, whom: For) -> Result<Spool, SpoolError> {
        self.blobs.spool(whom).await
    }

    /// Stores bytes before a row of the channel refers to them; see [`Blobs::keep`].
    ///
    /// # Errors
    /// Those of [`Blobs::keep`].
    pub fn keep(&self, channel: ChannelId, spooled: Spooled) -> BoxFuture<'_, Result<Sha256Hex, BlobError>> {
        Box::pin(async move { self.blobs.keep(self.shard_of(channel)?, spooled).await })
    }

    /// Reads the bytes of a row, or a range of them.
    ///
    /// # Errors
    /// [`BlobError::Missing`] for a row without bytes, and those of [`Blobs::open`].
    pub fn open<'a>(&'a self, row: &'a MediaRow, range: Option<Range<u64>>) -> BoxFuture<'a, Opened> {
        Box::pin(async move {
            let (Some(sha256), Some(size)) = (row.kept(), row.size) else { return Err(BlobError::Missing) };
            self.blobs.open(self.shard_of(row.channel)?, sha256, range.unwrap_or(0..size)).await
        })
    }

    /// Reads bytes of a shard by their hash, for a backup.
    ///
    /// # Errors
    /// Those of [`Blobs::open`].
    pub async fn open_bytes(&self, shard: ShardId, sha256: &Sha256Hex, size: u64) -> Opened {
        self.blobs.open(shard, sha256, 0..size).await
    }

    /// A link that lets anybody read the media for a while.
    ///
    /// # Errors
    /// 503 while the cluster is not formed.
    pub fn link(&self, row: &MediaRow) -> Result<String, CallError> {
        self.link_to(row.id, row.customer, row.channel)
    }

    fn link_to(&self, id: MediaId, customer: CustomerId, channel: ChannelId) -> Result<String, CallError> {
        let now = Timestamp::now();
        let token = self.keys()?.sign(id, customer, channel, now, now.plus(self.link_life));
        Ok(format!("{}{LINK_PATH}{token}", self.base_url))
    }

    /// Verifies and reads the token of a link.
    ///
    /// # Errors
    /// For a token that is malformed, forged or expired, and 503 while the cluster is not formed.
    pub fn read_token(&self, text: &str) -> Result<Token, CallError> {
        self.keys()?.verify(text, Timestamp::now())
    }

    /// The token of one of this gateway's own links; `None` for any other URL.
    pub fn own_token<'a>(&self, url: &'a str) -> Option<&'a str> {
        url.strip_prefix(self.base_url.as_str())?.strip_prefix(LINK_PATH)
    }

    /// Media as events and history show it, with a fresh link.
    pub fn reference(&self, row: &MediaRow) -> MediaRef {
        let mut shown = row.shown();
        self.link_shown(&mut shown, row.customer, row.channel);
        shown
    }

    /// Adds a fresh link to shown media, unless its bytes will never be available. Media that the channel does not
    /// download by itself is downloaded when the link is requested.
    pub fn link_shown(&self, shown: &mut MediaRef, customer: CustomerId, channel: ChannelId) {
        let linked = match shown.state {
            MediaState::Ready | MediaState::Pending => true,
            MediaState::Skipped => shown.size_bytes.is_none_or(|size| size <= LARGEST_MEDIA),
            MediaState::Failed | MediaState::Gone => false,
        };
        shown.url = shown.id.filter(|_| linked).and_then(|id| self.link_to(id, customer, channel).ok());
    }

    fn shard_of(&self, channel: ChannelId) -> Result<ShardId, BlobError> {
        let shard = self.directory.read(|state| state.shard_of(Slot::of_channel(channel)));
        shard.ok_or_else(|| BlobError::Unavailable("the cluster is not formed".into()))
    }

    fn keys(&self) -> Result<&TokenKeys, CallError> {
        if let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let cluster = self.directory.read(|state| state.cluster.clone()).ok_or_else(CallError::no_leader)?;
        let key = self.secrets.deployment_key(&cluster.deployment_key).map_err(|error| {
            tracing::error!(%error, "the master key is not the one that this cluster was formed with");
            CallError::internal_error()
        })?;
        Ok(self.keys.get_or_init(|| TokenKeys::new(key)))
    }
}

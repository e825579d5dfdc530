//! A bucket of an S3-compatible service. Objects are streamed in and out, with a few megabytes of each in memory.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use model::time::Timestamp;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ClientOptions, GetOptions, ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::io::AsyncWriteExt;

/// The smallest part that the service accepts, except for the last one. An upload holds about this much in memory, as
/// its source is read no further than one piece while a part is in flight. An object has at most 10,000 parts.
const PART: usize = 5 * 1024 * 1024;

/// Timeout of one request, and of all its tries together.
const REQUEST_PATIENCE: Duration = Duration::from_secs(20);
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// The location of the bucket, and its credentials.
#[derive(Clone)]
pub struct BucketConfig {
    /// The service's URL.
    pub endpoint: String,
    pub bucket: String,
    pub region: String,
    pub access_key_id: String,
    pub secret_access_key: String,
    /// Prefix of every key, without slashes at its ends; may be empty.
    pub prefix: String,
    /// Puts the bucket's name into the path, not the host name.
    pub path_style: bool,
    pub allow_http: bool,
}

impl std::fmt::Debug for BucketConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BucketConfig({} at {})", self.bucket, self.endpoint)
    }
}

/// Why an object cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    #[error("no such object")]
    Missing,
    /// Temporary: a retry may help.
    #[error("the bucket cannot be used: {0}")]
    Unavailable(String),
    /// The data to write could not be read.
    #[error(transparent)]
    Source(io::Error),
}

impl From<object_store::Error> for BucketError {
    fn from(error: object_store::Error) -> Self {
        match error {
            object_store::Error::NotFound { .. } => Self::Missing,
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl From<BucketError> for io::Error {
    fn from(error: BucketError) -> Self {
        match error {
            BucketError::Missing => Self::new(io::ErrorKind::NotFound, error),
            BucketError::Unavailable(_) => Self::other(error),
            BucketError::Source(error) => error,
        }
    }
}

/// A listed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The last segment of its key.
    pub name: String,
    pub written_at: Timestamp,
}

/// The objects under a prefix of a bucket. Keys are relative to the prefix.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<AmazonS3>,
    prefix: String,
}

impl Bucket {
    /// # Errors
    /// When the settings are invalid. Whether the service answers is only known at the first request.
    pub fn open(config: &BucketConfig) -> Result<Self, BucketError> {
        // The client needs the process-wide crypto provider, even without TLS. An installed one is kept.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = ClientOptions::new()
            .with_timeout(REQUEST_PATIENCE)
            .with_connect_timeout(CONNECT_PATIENCE)
            .with_allow_http(config.allow_http);
        let retry = RetryConfig { max_retries: 3, retry_timeout: REQUEST_PATIENCE, ..RetryConfig::default() };
        let store = AmazonS3Builder::new()
            .with_endpoint(&config.endpoint)
            .with_bucket_name(&config.bucket)
            .with_region(&config.region)
            .with_access_key_id(&config.access_key_id)
            .with_secret_access_key(&config.secret_access_key)
            .with_virtual_hosted_style_request(!config.path_style)
            .with_client_options(client)
            .with_retry(retry)
            .build()?;
        Ok(Self { store: Arc::new(store), prefix: config.prefix.trim_matches('/').to_owned() })
    }

    fn key(&self, key: &str) -> Path {
        Path::from(format!("{}/{key}", self.prefix))
    }

    /// Writes an object, replacing an existing one.
    ///
    /// # Errors
    /// [`BucketError`]; the object is then missing, or as it was before.
    pub async fn put(
        &self,
        key: &str,
        mut pieces: impl Stream<Item = io::Result<Bytes>> + Unpin + Send,
    ) -> Result<(), BucketError> {
        let mut object = BufWriter::with_capacity(self.store.clone(), self.key(key), PART).with_max_concurrency(1);
        let taken = async {
            while let Some(piece) = pieces.try_next().await.map_err(BucketError::Source)? {
                object.put(piece).await?;
            }
            Ok::<_, BucketError>(())
        };
        if let Err(error) = taken.await {
            // Parts of an unfinished upload cost the operator storage until the bucket's lifecycle rules remove them.
            let _ = object.abort().await;
            return Err(error);
        }
        object.shutdown().await.map_err(|error| BucketError::Unavailable(error.to_string()))
    }

    /// Reads a range as a stream; each read has to complete within [`REQUEST_PATIENCE`].
    pub async fn open_range(
        &self,
        key: &str,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, io::Result<Bytes>>, BucketError> {
        let options = GetOptions { range: Some(range.into()), ..Default::default() };
        let found = self.store.get_opts(&self.key(key), options).await?;
        Ok(found.into_stream().map_err(io::Error::other).boxed())
    }

    /// Reads a range into memory.
    ///
    /// # Errors
    /// [`BucketError`].
    pub async fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes, BucketError> {
        Ok(self.store.get_range(&self.key(key), range).await?)
    }

    /// The length of an object in bytes.
    ///
    /// # Errors
    /// [`BucketError`].
    pub async fn size(&self, key: &str) -> Result<u64, BucketError> {
        Ok(self.store.head(&self.key(key)).await?.size)
    }

    /// When an object was last written.
    ///
    /// # Errors
    /// [`BucketError`].
    pub async fn written_at(&self, key: &str) -> Result<Timestamp, BucketError> {
        Ok(Timestamp(self.store.head(&self.key(key)).await?.last_modified.timestamp_millis()))
    }

    /// The objects in a folder, recursively; all objects for an empty name.
    pub fn list(&self, folder: &str) -> BoxStream<'static, Result<Found, BucketError>> {
        let found = self.store.list(Some(&self.key(folder)));
        let found = found.map_ok(|found| Found {
            name: found.location.filename().unwrap_or_default().to_owned(),
            written_at: Timestamp(found.last_modified.timestamp_millis()),
        });
        found.map_err(BucketError::from).boxed()
    }

    /// # Errors
    /// [`BucketError`].
    pub async fn delete(&self, key: &str) -> Result<(), BucketError> {
        Ok(self.store.delete(&self.key(key)).await?)
    }
}

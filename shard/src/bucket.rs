//! A bucket of an S3-compatible service: objects in and out as streams, a few megabytes of each in memory.

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

/// The smallest part that the service takes, but for the last; also what is held in memory of an upload, as no more than a
/// piece is taken of its source while one is on its way. An object has at most 10,000 of them.
const PART: usize = 5 * 1024 * 1024;

/// How long one request may take, and all tries of it together.
const REQUEST_PATIENCE: Duration = Duration::from_secs(20);
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Where the bucket is, and how it is opened.
#[derive(Clone)]
pub struct BucketConfig {
    /// The service's URL.
    pub endpoint: String,
    pub bucket: String,
    pub region: String,
    pub access_key_id: String,
    pub secret_access_key: String,
    /// Before every key; without slashes at its ends, and may be empty.
    pub prefix: String,
    /// The bucket in the path, and not in the host name.
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
    /// Trying again may help.
    #[error("the bucket cannot be used: {0}")]
    Unavailable(String),
    /// What was to be written could not be read.
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

/// An object of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The last part of its key.
    pub name: String,
    pub written_at: Timestamp,
}

/// The objects under a prefix of a bucket. Keys are relative to it.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<AmazonS3>,
    prefix: String,
}

impl Bucket {
    /// # Errors
    /// When the settings make no sense. Whether the service answers is seen at the first request.
    pub fn open(config: &BucketConfig) -> Result<Self, BucketError> {
        // The client asks for the process's provider, also where it speaks no TLS. One that is there already is kept.
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

    /// Writes an object, in the place of one that is there.
    ///
    /// # Errors
    /// [`BucketError`]; then there is no such object, or the one from before.
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
            // What is left of it costs the operator until the bucket's own rules remove it.
            let _ = object.abort().await;
            return Err(error);
        }
        object.shutdown().await.map_err(|error| BucketError::Unavailable(error.to_string()))
    }

    /// Reads a range, as it is taken; all of it has to come within [`REQUEST_PATIENCE`] of the last bytes.
    ///
    /// # Errors
    /// [`BucketError`].
    pub async fn open_range(
        &self,
        key: &str,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, io::Result<Bytes>>, BucketError> {
        let options = GetOptions { range: Some(range.into()), ..Default::default() };
        let found = self.store.get_opts(&self.key(key), options).await?;
        Ok(found.into_stream().map_err(io::Error::other).boxed())
    }

    /// Reads a range whole.
    ///
    /// # Errors
    /// [`BucketError`].
    pub async fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes, BucketError> {
        Ok(self.store.get_range(&self.key(key), range).await?)
    }

    /// The length of an object.
    ///
    /// # Errors
    /// [`BucketError`].
    pub async fn size(&self, key: &str) -> Result<u64, BucketError> {
        Ok(self.store.head(&self.key(key)).await?.size)
    }

    /// When an object was written last.
    ///
    /// # Errors
    /// [`BucketError`].
    pub async fn written_at(&self, key: &str) -> Result<Timestamp, BucketError> {
        Ok(Timestamp(self.store.head(&self.key(key)).await?.last_modified.timestamp_millis()))
    }

    /// The objects of a folder and those within it; all of them for an empty name.
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

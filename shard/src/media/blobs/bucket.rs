//! Bytes in a bucket of an S3-compatible service: `<prefix>/<shard>/<aa>/<sha256>`.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use model::id::ShardId;
use model::media::Sha256Hex;
use network::driver::{ByteStream, MEDIA_PIECE};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig};
use tokio::io::AsyncReadExt;

use super::super::spool::Spooled;
use super::BlobError;

/// The smallest part that the service takes, but for the last; also what is held in memory of an upload.
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

pub(super) struct Bucket {
    store: Arc<AmazonS3>,
    prefix: String,
}

impl Bucket {
    pub fn new(config: &BucketConfig) -> Result<Self, BlobError> {
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
            .build()
            .map_err(of_bucket)?;
        Ok(Self { store: Arc::new(store), prefix: config.prefix.trim_matches('/').to_owned() })
    }

    fn folder(&self, shard: ShardId) -> Path {
        Path::from(format!("{}/{shard}", self.prefix))
    }

    fn key(&self, shard: ShardId, sha256: &Sha256Hex) -> Path {
        let part = sha256.0.get(..2).unwrap_or_default();
        Path::from(format!("{}/{shard}/{part}/{}", self.prefix, sha256.0))
    }

    /// Writes the bytes, also when they are there: it makes them young again, which keeps the sweep away.
    pub async fn put(&self, shard: ShardId, spooled: &Spooled) -> Result<(), BlobError> {
        let key = self.key(shard, &spooled.sha256);
        let mut file = tokio::fs::File::open(spooled.path()).await.map_err(BlobError::of_disk)?;
        let first = part(&mut file).await?;
        if first.len() as u64 == spooled.size {
            return self.store.put(&key, PutPayload::from_bytes(first)).await.map(drop).map_err(of_bucket);
        }
        let mut upload = self.store.put_multipart(&key).await.map_err(of_bucket)?;
        let mut next = first;
        let uploaded = async {
            while !next.is_empty() {
                upload.put_part(PutPayload::from_bytes(std::mem::take(&mut next))).await.map_err(of_bucket)?;
                next = part(&mut file).await?;
            }
            upload.complete().await.map(drop).map_err(of_bucket)
        };
        let uploaded = uploaded.await;
        if uploaded.is_err() {
            // What is left of it costs the operator until the bucket's own rules remove it.
            let _ = upload.abort().await;
        }
        uploaded
    }

    /// Reads a range, as it is taken.
    pub async fn open(&self, shard: ShardId, sha256: &Sha256Hex, range: Range<u64>) -> Result<ByteStream, BlobError> {
        let options = object_store::GetOptions { range: Some(range.into()), ..Default::default() };
        let found = self.store.get_opts(&self.key(shard, sha256), options).await.map_err(of_bucket)?;
        let pieces = found.into_stream().map_err(std::io::Error::other);
        Ok(pieces.flat_map(|piece| futures::stream::iter(in_pieces(piece))).boxed())
    }

    /// The hashes of a shard's bytes that have not been written for `grace`, at most `most`.
    pub async fn old(&self, shard: ShardId, grace: Duration, most: usize) -> Result<Vec<Sha256Hex>, BlobError> {
        let mut all = self.store.list(Some(&self.folder(shard)));
        let mut old = Vec::new();
        while let Some(found) = all.try_next().await.map_err(of_bucket)? {
            if is_older(found.last_modified.timestamp_millis(), grace)
                && let Some(name) = found.location.filename()
            {
                old.push(Sha256Hex(name.to_owned()));
            }
            if old.len() >= most {
                break;
            }
        }
        Ok(old)
    }

    /// Removes bytes that nobody refers to, unless they were written again meanwhile.
    pub async fn remove_old(&self, shard: ShardId, sha256: &Sha256Hex, grace: Duration) -> Result<bool, BlobError> {
        let key = self.key(shard, sha256);
        let found = self.store.head(&key).await.map_err(of_bucket)?;
        if !is_older(found.last_modified.timestamp_millis(), grace) {
            return Ok(false);
        }
        self.store.delete(&key).await.map(|()| true).map_err(of_bucket)
    }
}

fn is_older(modified_ms: i64, grace: Duration) -> bool {
    model::time::Timestamp::now().since(model::time::Timestamp(modified_ms)) >= grace
}

/// The next part of a file; shorter, or empty, at its end.
async fn part(file: &mut tokio::fs::File) -> Result<Bytes, BlobError> {
    let mut part = BytesMut::with_capacity(PART);
    let mut rest = file.take(PART as u64);
    while rest.read_buf(&mut part).await.map_err(BlobError::Disk)? > 0 {}
    Ok(part.freeze())
}

fn in_pieces(piece: std::io::Result<Bytes>) -> Vec<std::io::Result<Bytes>> {
    let Ok(mut left) = piece else { return vec![piece] };
    let mut pieces = Vec::with_capacity(left.len() / MEDIA_PIECE + 1);
    while left.len() > MEDIA_PIECE {
        pieces.push(Ok(left.split_to(MEDIA_PIECE)));
    }
    pieces.push(Ok(left));
    pieces
}

fn of_bucket(error: object_store::Error) -> BlobError {
    match error {
        object_store::Error::NotFound { .. } => BlobError::Missing,
        other => BlobError::Unavailable(other.to_string()),
    }
}

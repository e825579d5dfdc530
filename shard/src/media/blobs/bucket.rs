//! Bytes in a bucket: `<prefix>/<shard>/<aa>/<sha256>`.

use std::io;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, future, stream};
use model::id::ShardId;
use model::media::Sha256Hex;
use model::time::Timestamp;
use network::driver::MEDIA_PIECE;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use super::super::spool::Spooled;
use super::{BlobError, Opened};
use crate::bucket::{Bucket, BucketError};

impl From<BucketError> for BlobError {
    fn from(error: BucketError) -> Self {
        match error {
            BucketError::Missing => Self::Missing,
            BucketError::Unavailable(why) => Self::Unavailable(why),
            BucketError::Source(error) => Self::Disk(error),
        }
    }
}

fn key(shard: ShardId, sha256: &Sha256Hex) -> String {
    let part = sha256.0.get(..2).unwrap_or_default();
    format!("{shard}/{part}/{}", sha256.0)
}

/// Writes the bytes, even if they are there: this renews them, which keeps the gc away.
pub async fn put(bucket: &Bucket, shard: ShardId, spooled: &Spooled) -> Result<(), BlobError> {
    let file = File::open(spooled.path()).await.map_err(BlobError::of_disk)?;
    let pieces = ReaderStream::with_capacity(file, MEDIA_PIECE);
    Ok(bucket.put(&key(shard, &spooled.sha256), pieces).await?)
}

/// Reads a range on demand.
pub async fn open(bucket: &Bucket, shard: ShardId, sha256: &Sha256Hex, range: Range<u64>) -> Opened {
    let pieces = bucket.open_range(&key(shard, sha256), range).await?;
    Ok(pieces.flat_map(|piece| stream::iter(in_pieces(piece))).boxed())
}

/// The hashes of a shard's bytes that have not been written for `grace`, as a stream: a bucket may hold any number.
/// Objects of others are skipped.
pub fn old(bucket: &Bucket, shard: ShardId, grace: Duration) -> BoxStream<'static, Result<Sha256Hex, BlobError>> {
    let found = bucket.list(&shard.to_string()).map_err(BlobError::from);
    let old = found.try_filter_map(move |found| {
        let sha256 = Sha256Hex(found.name);
        let is_old = is_older(found.written_at, grace) && sha256.is_well_formed();
        future::ready(Ok(is_old.then_some(sha256)))
    });
    old.boxed()
}

/// Removes bytes that nobody refers to, unless they were written again meanwhile.
pub async fn remove_old(bucket: &Bucket, shard: ShardId, hash: &Sha256Hex, grace: Duration) -> Result<bool, BlobError> {
    let key = key(shard, hash);
    match bucket.written_at(&key).await {
        Ok(written_at) if is_older(written_at, grace) => {}
        // The object was written again, or is gone already.
        Ok(_) | Err(BucketError::Missing) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    bucket.delete(&key).await?;
    Ok(true)
}

fn is_older(written_at: Timestamp, grace: Duration) -> bool {
    Timestamp::now().since(written_at) >= grace
}

fn in_pieces(piece: io::Result<Bytes>) -> Vec<io::Result<Bytes>> {
    let Ok(mut left) = piece else { return vec![piece] };
    let mut pieces = Vec::with_capacity(left.len() / MEDIA_PIECE + 1);
    while left.len() > MEDIA_PIECE {
        pieces.push(Ok(left.split_to(MEDIA_PIECE)));
    }
    pieces.push(Ok(left));
    pieces
}

//! Bytes by their SHA-256: in a folder of each replica, or in a bucket.
//!
//! The order makes this safe: bytes are on disk (file and folder synced) at a quorum of the shard's replicas before a
//! row refers to them, and are removed only when no row of any shard here refers to them and they have not been stored
//! again for a while. So a crash may leave bytes without a row, which the gc removes, but never a row without bytes.

mod bucket;
mod gc;
mod local;
mod peers;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use model::error::{CallError, ErrorCode};
use model::id::{NodeId, ShardId};
use model::media::Sha256Hex;
use network::driver::ByteStream;
use raft::directory::Directory;
use raft::host::Host;
use raft::supervise;
use raft::transport::Peers;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::local::Local;
use super::spool::{For, Places, Spool, SpoolError, Spooled};
use crate::bucket::{Bucket, BucketConfig};

/// Timeout for a quorum of replicas to store bytes.
const KEEP_PATIENCE: Duration = Duration::from_secs(20);

/// Pause between two tries at a replica that did not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The bytes as a stream of pieces, or why they cannot be read.
pub type Opened = Result<ByteStream, BlobError>;

/// Why bytes cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// No replica has them, and all were asked.
    #[error("the bytes are not stored anywhere")]
    Missing,
    #[error("no space is left on the disk")]
    NoSpace,
    /// Too few replicas, or the bucket, can be reached. Trying again may help.
    #[error("too few stores can be reached: {0}")]
    Unavailable(String),
    #[error("the disk failed: {0}")]
    Disk(io::Error),
}

impl BlobError {
    /// Maps an error of the file system.
    pub(super) fn of_disk(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            _ => Self::Disk(error),
        }
    }
}

impl From<BlobError> for CallError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Missing => Self::media_gone(None),
            BlobError::NoSpace => Self::storage_full(),
            BlobError::Unavailable(why) => {
                tracing::warn!(why, "media could not be stored or read");
                Self::new(ErrorCode::WorkerAtCapacity, "the media store cannot be reached right now; try again")
            }
            BlobError::Disk(error) => {
                tracing::error!(%error, "media could not be stored or read");
                Self::internal_error()
            }
        }
    }
}

/// Where bytes are kept.
#[derive(Clone, Debug)]
pub enum Place {
    /// In a folder of each replica.
    Replicas,
    Bucket(BucketConfig),
}

/// How bytes are kept.
#[derive(Clone, Debug)]
pub struct BlobsConfig {
    /// This node's folder for bytes and temporary files.
    pub folder: PathBuf,
    pub place: Place,
    /// How often a node looks for bytes that it lacks, and for orphans, which no row refers to.
    pub gc_every: Duration,
    /// How long orphans stay: longer than a request takes from storing bytes to its commit.
    pub orphan_grace: Duration,
}

/// The store on one node.
pub struct Blobs {
    node: NodeId,
    local: Arc<Local>,
    bucket: Option<Bucket>,
    peers: Arc<Peers>,
    directory: Arc<Directory>,
    host: Arc<Host>,
    incoming: Places,
    /// Permits of transfers from other replicas.
    pulls: Semaphore,
    config: BlobsConfig,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Maximum concurrent transfers from other replicas on a node.
const MOST_PULLS: usize = 16;

impl Blobs {
    /// Creates the folders, removes what a crash left unfinished, serves other replicas, and starts the gc.
    ///
    /// # Errors
    /// If the folder cannot be written, or the bucket's settings are invalid.
    pub async fn start(
        config: BlobsConfig,
        host: Arc<Host>,
        peers: Arc<Peers>,
        directory: Arc<Directory>,
    ) -> Result<Arc<Self>, BlobError> {
        let folder = config.folder.clone();
        let local = blocking(move || Local::open(folder)).await?;
        let bucket = match &config.place {
            Place::Replicas => None,
            Place::Bucket(bucket) => Some(Bucket::open(bucket)?),
        };
        let blobs = Arc::new(Self {
            node: peers.node(),
            local: Arc::new(local),
            bucket,
            peers,
            directory,
            host,
            incoming: Places::new(),
            pulls: Semaphore::new(MOST_PULLS),
            config,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        peers::serve(&blobs);
        let (collecting, stop) = (blobs.clone(), blobs.stop.clone());
        blobs.tasks.spawn(async move {
            stop.run_until_cancelled(supervise::restarted("the gc of media", || collecting.clone().run_gc())).await
        });
        Ok(blobs)
    }

    /// Stops the background tasks.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// A temporary file to stream bytes of unknown length into.
    ///
    /// # Errors
    /// [`SpoolError::Busy`], [`BlobError::NoSpace`] if little disk space is left, and errors of the disk.
    pub async fn spool(&self, whom: For) -> Result<Spool, SpoolError> {
        Spool::create(self.local.temporary(), &self.incoming, whom, self.host.room().clone()).await
    }

    /// Stores bytes so that a row of the shard may refer to them. Must precede every commit of such a row, even if the
    /// bytes were stored before: this keeps the gc away. Afterwards any minority of the replicas may be lost.
    ///
    /// # Errors
    /// [`BlobError::NoSpace`], or [`BlobError::Unavailable`] if no quorum has stored the bytes in time; some replicas
    /// may have, and remove them later.
    pub async fn keep(self: &Arc<Self>, shard: ShardId, spooled: Spooled) -> Result<Sha256Hex, BlobError> {
        let sha256 = spooled.sha256.clone();
        if let Some(bucket) = &self.bucket {
            bucket::put(bucket, shard, &spooled).await?;
            return Ok(sha256);
        }
        let size = spooled.size;
        let local = self.local.clone();
        let at = sha256.clone();
        blocking(move || local.adopt(spooled.path(), &at)).await?;
        self.spread(shard, &sha256, size).await?;
        Ok(sha256)
    }

    /// Has a quorum of the shard's replicas store local bytes; the others go on in the background.
    async fn spread(self: &Arc<Self>, shard: ShardId, sha256: &Sha256Hex, size: u64) -> Result<(), BlobError> {
        let replicas = self.replicas(shard);
        let wanted = replicas.len() / 2 + 1;
        let mut stored = usize::from(replicas.contains(&self.node));
        let deadline = Instant::now() + KEEP_PATIENCE;
        let (done, mut answers) = tokio::sync::mpsc::channel(replicas.len().max(1));
        for node in replicas.into_iter().filter(|node| *node != self.node) {
            let (blobs, sha256, done) = (self.clone(), sha256.clone(), done.clone());
            self.tasks.spawn(async move {
                let taking = blobs.have_taken(node, &sha256, size, deadline);
                let taken = blobs.stop.run_until_cancelled(taking).await;
                // Nobody waits any more once a quorum has the bytes.
                let _ = done.send(taken.unwrap_or_else(|| Err(BlobError::Unavailable("this node stops".into())))).await;
            });
        }
        drop(done);
        let mut last = None;
        while stored < wanted {
            match answers.recv().await {
                Some(Ok(())) => stored += 1,
                Some(Err(BlobError::NoSpace)) => last = Some(BlobError::NoSpace),
                Some(Err(error)) => last = last.or(Some(error)),
                None => return Err(last.unwrap_or_else(|| BlobError::Unavailable("the shard is not placed".into()))),
            }
        }
        Ok(())
    }

    /// Has one replica store local bytes, and retries until the deadline.
    async fn have_taken(&self, node: NodeId, hash: &Sha256Hex, size: u64, deadline: Instant) -> Result<(), BlobError> {
        loop {
            match self.ask_to_take(node, hash, size, deadline).await {
                Err(BlobError::Unavailable(_)) if Instant::now() + RETRY_PAUSE < deadline => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                other => return other,
            }
        }
    }

    /// Reads a range of bytes from here, another replica, or the bucket. The bytes are checked against their hash where
    /// they are stored. When this returns, they are known to be available.
    ///
    /// # Errors
    /// [`BlobError::Missing`] if every replica was asked and none has them, [`BlobError::Unavailable`] if one could not
    /// be asked. The stream fails if the last replica goes away while it is read.
    pub async fn open(self: &Arc<Self>, shard: ShardId, sha256: &Sha256Hex, range: Range<u64>) -> Opened {
        if range.is_empty() {
            return Ok(futures::stream::empty().boxed());
        }
        if let Some(bucket) = &self.bucket {
            return bucket::open(bucket, shard, sha256, range).await;
        }
        let (local, at, from) = (self.local.clone(), sha256.clone(), range.clone());
        match blocking(move || local.stream(&at, from)).await {
            Err(BlobError::Missing | BlobError::Disk(_)) => self.open_elsewhere(shard, sha256, range).await,
            answer => answer,
        }
    }

    /// The other nodes that should hold a shard's bytes.
    fn others(&self, shard: ShardId) -> Vec<NodeId> {
        self.replicas(shard).into_iter().filter(|node| *node != self.node).collect()
    }

    /// The other voters that a shard is moving away from, which may be the only ones with its bytes.
    fn parting(&self, shard: ShardId, voters: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let placed = self.replicas(shard);
        voters.iter().copied().filter(|node| *node != self.node && !placed.contains(node)).collect()
    }

    /// The nodes that should hold a shard's bytes.
    fn replicas(&self, shard: ShardId) -> Vec<NodeId> {
        self.directory.read(|state| state.placement.get(&shard).map(|place| place.replicas.clone()).unwrap_or_default())
    }
}

/// Runs work that waits for the disk on a thread where it blocks nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    match supervise::on_thread(work).await {
        Ok(done) => done,
        Err(error) => Err(BlobError::Disk(io::Error::other(error))),
    }
}

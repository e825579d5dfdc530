//! Bytes by their SHA-256: in a folder of each replica, or in a bucket.
//!
//! Order that makes it safe: the bytes are on disk (file and folder synced) at a quorum of the shard's replicas before a
//! row refers to them, and they go only when no row of any shard here refers to them and nobody has stored them again
//! for a while. So a crash leaves bytes that nobody refers to, which the gc removes, and never a row without bytes.

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

/// How long bytes look for a quorum of replicas that take them.
const KEEP_PATIENCE: Duration = Duration::from_secs(20);

/// Between two tries at a replica that did not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// What reading bytes comes to: they come in pieces.
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
    /// What an error of the file system means.
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
    /// This node's folder for bytes; temporary files lie in it too.
    pub folder: PathBuf,
    pub place: Place,
    /// How often a node looks for bytes that it lacks, and for those that nobody refers to.
    pub gc_every: Duration,
    /// How long bytes that nobody refers to stay: longer than a request takes from storing them to its commit.
    pub orphan_grace: Duration,
}

/// The store, as one node has it.
pub struct Blobs {
    node: NodeId,
    local: Arc<Local>,
    bucket: Option<Bucket>,
    peers: Arc<Peers>,
    directory: Arc<Directory>,
    host: Arc<Host>,
    incoming: Places,
    /// Transfers from other replicas that run at once.
    pulls: Semaphore,
    config: BlobsConfig,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Transfers from other replicas that run at once on a node.
const MOST_PULLS: usize = 16;

impl Blobs {
    /// Makes the folders, removes what a crash left half done, serves other replicas, and starts the gc.
    ///
    /// # Errors
    /// When the folder cannot be written, or the bucket's settings make no sense.
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

    /// Stops what runs beside the requests.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// A temporary file to stream bytes of unknown length into.
    ///
    /// # Errors
    /// [`SpoolError::Busy`], [`BlobError::NoSpace`] where there is little room, and what the disk says.
    pub async fn spool(&self, whom: For) -> Result<Spool, SpoolError> {
        Spool::create(self.local.temporary(), &self.incoming, whom, self.host.room().clone()).await
    }

    /// Stores bytes so that a row of the shard may refer to them. Whoever commits such a row stores them first, also
    /// when they have been stored before: it is what keeps the gc away. When it returns, any minority of the shard's
    /// replicas may be lost.
    ///
    /// # Errors
    /// [`BlobError::NoSpace`], or [`BlobError::Unavailable`] when no quorum has taken them in time; some may have, and
    /// remove them later.
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

    /// Has a quorum of the shard's replicas store what lies here; the others go on by themselves.
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
                // Nobody waits any more once a quorum has it.
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

    /// Has one replica store what lies here, trying again until the deadline.
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

    /// Reads a range of bytes, wherever they are: here, at another replica, or in the bucket. What is read was
    /// compared with its hash where it lies. That the bytes can be had is known when this returns.
    ///
    /// # Errors
    /// [`BlobError::Missing`] when every replica was asked and has them not, [`BlobError::Unavailable`] when one could
    /// not be asked. The stream fails when the last replica goes while it is read.
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

    /// The other nodes that are to hold a shard's bytes.
    fn others(&self, shard: ShardId) -> Vec<NodeId> {
        self.replicas(shard).into_iter().filter(|node| *node != self.node).collect()
    }

    /// The other nodes that a shard is still moving away from: some of its voters, who may be the only ones with its bytes.
    fn parting(&self, shard: ShardId, voters: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let placed = self.replicas(shard);
        voters.iter().copied().filter(|node| *node != self.node && !placed.contains(node)).collect()
    }

    /// The nodes that are to hold a shard's bytes.
    fn replicas(&self, shard: ShardId) -> Vec<NodeId> {
        self.directory.read(|state| state.placement.get(&shard).map(|place| place.replicas.clone()).unwrap_or_default())
    }
}

/// Runs what waits for the disk where it holds nobody up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    match supervise::on_thread(work).await {
        Ok(done) => done,
        Err(error) => Err(BlobError::Disk(io::Error::other(error))),
    }
}

//! Transfers of bytes between replicas: one that has to store bytes pulls them from one that has them, in pieces.
//!
//! They use a class of connections of their own, so that 25 MB never delay a forwarded call.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use model::id::{NodeId, ShardId};
use model::media::{LARGEST_MEDIA, Sha256Hex};
use model::msgpack;
use network::driver::{ByteStream, MEDIA_PIECE};
use raft::transport::{Class, Handler, Peers};
use serde::{Deserialize, Serialize};

use super::{BlobError, Blobs, For, Opened, blocking};

/// The service for requests about bytes between replicas.
const BLOB_SERVICE: u16 = 272;

/// Timeout of a whole transfer, including the wait for its turn: a node that sends each piece at the last moment keeps
/// its place no longer.
const PULL_PATIENCE: Duration = Duration::from_secs(120);

/// Timeout of a piece.
const PIECE_PATIENCE: Duration = Duration::from_secs(5);

/// Pieces of one transfer in flight at once.
const PIECES_AHEAD: usize = 4;

/// The format of [`Request`].
const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
struct Request {
    version: u8,
    sha256: Sha256Hex,
    #[serde(rename = "ask")]
    kind: RequestKind,
}

#[derive(Serialize, Deserialize)]
enum RequestKind {
    /// Store the bytes: pull them from the sender of the request, unless they are here.
    Take { size: u64 },
    /// Send a part of the bytes.
    Read { offset: u64, length: u64 },
}

#[derive(Serialize, Deserialize)]
enum Answer {
    /// The bytes are on disk and have their hash.
    Stored,
    Piece(Bytes),
    Missing,
    NoSpace,
    Failed(String),
}

/// Serves the other replicas as long as the store lives.
pub(super) fn serve(blobs: &Arc<Blobs>) {
    blobs.peers.serve(BLOB_SERVICE, Arc::new(Service(Arc::downgrade(blobs))));
}

/// Does not keep a stopped store alive.
struct Service(Weak<Blobs>);

#[async_trait]
impl Handler for Service {
    async fn handle(&self, from: NodeId, body: Bytes) -> Bytes {
        let request = msgpack::from_slice::<Request>(&body).ok().filter(|request| request.version <= VERSION);
        let answer = match (self.0.upgrade(), request) {
            (Some(blobs), Some(request)) => blobs.answer(from, request).await,
            (None, _) => Answer::Failed("this node stops".into()),
            (_, None) => Answer::Failed("written by a newer release".into()),
        };
        Bytes::from(msgpack::to_vec_named(&answer).expect("an answer of plain fields is always written"))
    }
}

impl Blobs {
    async fn answer(self: Arc<Self>, from: NodeId, request: Request) -> Answer {
        let sha256 = request.sha256;
        let answered = match request.kind {
            RequestKind::Take { size } if size <= LARGEST_MEDIA => {
                self.pull(vec![from], &sha256, size).await.map(|()| Answer::Stored)
            }
            RequestKind::Read { offset, length } if length <= MEDIA_PIECE as u64 => {
                let local = self.local.clone();
                blocking(move || local.read(&sha256, offset, length as usize)).await.map(Answer::Piece)
            }
            RequestKind::Take { .. } | RequestKind::Read { .. } => return Answer::Failed("too much at once".into()),
        };
        match answered {
            Ok(answer) => answer,
            Err(BlobError::Missing) => Answer::Missing,
            Err(BlobError::NoSpace) => Answer::NoSpace,
            Err(error) => {
                tracing::warn!(from, %error, "another replica's media could not be stored or read");
                Answer::Failed(error.to_string())
            }
        }
    }

    /// Stores bytes that other nodes have, unless they are here already.
    pub(super) async fn pull(&self, from: Vec<NodeId>, sha256: &Sha256Hex, size: u64) -> Result<(), BlobError> {
        let (local, at) = (self.local.clone(), sha256.clone());
        if blocking(move || local.renew(&at)).await? {
            return Ok(());
        }
        let transfer = async {
            let _permit = self.pulls.acquire().await.map_err(|error| BlobError::Unavailable(error.to_string()))?;
            let spool = self.spool(For::Node).await.map_err(of_spool)?;
            spool.fill(self.reader(from, sha256).read(0..size)).await.map_err(of_spool)
        };
        let transferred = tokio::time::timeout(PULL_PATIENCE, transfer).await;
        let spooled = transferred.unwrap_or_else(|_| Err(BlobError::Unavailable("it took too long".into())))?;
        if spooled.sha256 != *sha256 {
            return Err(BlobError::Unavailable("what came has another hash".into()));
        }
        let (local, at) = (self.local.clone(), sha256.clone());
        blocking(move || local.adopt(spooled.path(), &at)).await
    }

    /// Asks a replica to store local bytes.
    pub(super) async fn ask_to_take(
        &self,
        node: NodeId,
        sha256: &Sha256Hex,
        size: u64,
        deadline: Instant,
    ) -> Result<(), BlobError> {
        match call(&self.peers, node, sha256, RequestKind::Take { size }, deadline).await? {
            Answer::Stored => Ok(()),
            other => Err(failure(node, other)),
        }
    }

    /// Opens bytes that are not here, at the other replicas of the shard or at voters that it is moving away from.
    pub(super) async fn open_elsewhere(
        self: &Arc<Self>,
        shard: ShardId,
        sha256: &Sha256Hex,
        range: Range<u64>,
    ) -> Opened {
        let mut others = self.others(shard);
        if let Some(group) = self.host.group(shard) {
            others.extend(self.parting(shard, &group.members().voters));
        }
        // The first piece tells whether the bytes are available at all.
        let length = (range.end - range.start).min(MEDIA_PIECE as u64);
        let reader = self.reader(others, sha256);
        let first = reader.piece(range.start, length).await?;
        let rest = reader.read(range.start + length..range.end);
        Ok(futures::stream::once(async { Ok(first) }).chain(rest).boxed())
    }

    fn reader(&self, nodes: Vec<NodeId>, sha256: &Sha256Hex) -> Reader {
        Reader { peers: self.peers.clone(), nodes: nodes.into(), sha256: sha256.clone() }
    }
}

/// Reads pieces of the same bytes from any node that has them.
#[derive(Clone)]
struct Reader {
    peers: Arc<Peers>,
    nodes: Arc<[NodeId]>,
    sha256: Sha256Hex,
}

impl Reader {
    /// Reads a few pieces ahead.
    fn read(self, range: Range<u64>) -> ByteStream {
        let starts = range.clone().step_by(MEDIA_PIECE);
        let pieces = futures::stream::iter(starts).map(move |offset| {
            let reader = self.clone();
            let length = (range.end - offset).min(MEDIA_PIECE as u64);
            async move { reader.piece(offset, length).await.map_err(io::Error::other) }
        });
        pieces.buffered(PIECES_AHEAD).boxed()
    }

    async fn piece(&self, offset: u64, length: u64) -> Result<Bytes, BlobError> {
        let mut last = BlobError::Missing;
        for node in self.nodes.iter() {
            let kind = RequestKind::Read { offset, length };
            match call(&self.peers, *node, &self.sha256, kind, Instant::now() + PIECE_PATIENCE).await {
                Ok(Answer::Piece(piece)) if piece.len() as u64 == length => return Ok(piece),
                Ok(Answer::Missing) => {}
                Ok(other) => last = failure(*node, other),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

async fn call(
    peers: &Peers,
    node: NodeId,
    sha256: &Sha256Hex,
    kind: RequestKind,
    deadline: Instant,
) -> Result<Answer, BlobError> {
    let request = Request { version: VERSION, sha256: sha256.clone(), kind };
    let body = msgpack::to_vec_named(&request).expect("a request of plain fields is always written");
    let unreachable = |why: String| BlobError::Unavailable(format!("node {node}: {why}"));
    let answer = peers.call(node, Class::Media, BLOB_SERVICE, Bytes::from(body), deadline).await;
    let answer = answer.map_err(|error| unreachable(error.to_string()))?;
    msgpack::from_slice(&answer).map_err(|error| unreachable(error.to_string()))
}

fn failure(node: NodeId, answer: Answer) -> BlobError {
    match answer {
        Answer::NoSpace => BlobError::NoSpace,
        Answer::Missing => BlobError::Missing,
        Answer::Failed(why) => BlobError::Unavailable(format!("node {node}: {why}")),
        Answer::Stored | Answer::Piece(_) => BlobError::Unavailable(format!("node {node}: an answer of another kind")),
    }
}

fn of_spool(error: super::SpoolError) -> BlobError {
    match error {
        super::SpoolError::Disk(error) => error,
        other => BlobError::Unavailable(other.to_string()),
    }
}

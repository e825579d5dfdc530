//! Exports a group's state from any node that has it, over the peer port, in pieces.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::try_unfold;
use model::error::CallError;
use model::id::NodeId;
use model::msgpack;
use network::driver::ByteStream;
use parking_lot::Mutex;
use raft::backup::export::Export;
use raft::directory::Directory;
use raft::host::Host;
use raft::machine::{DIRECTORY_GROUP, GroupId};
use raft::transport::{Class, Handler, Peers};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use uuid::Uuid;

/// The service number under which nodes export states to each other.
const EXPORT_SERVICE: u16 = 273;

/// The most concurrent exports on a node: each holds a snapshot of the store, which keeps the space of deleted data in
/// use.
const MOST_EXPORTS: usize = 4;

/// Pieces that are read ahead of the fetching node.
const PIECES_AHEAD: usize = 2;

/// How long a replica may take to apply everything that was acknowledged before the export.
const BEGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Timeout of fetching a piece.
const PIECE_PATIENCE: Duration = Duration::from_secs(30);

/// An export from which nothing was fetched for this long is dropped.
const IDLE: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
enum Request {
    Begin(GroupId),
    /// Asks for the next piece.
    Next(Uuid),
}

#[derive(Serialize, Deserialize)]
enum Response {
    Begun(Uuid),
    Piece(Bytes),
    /// Every piece was fetched.
    End,
    Failed(String),
}

/// An export that this node serves.
struct Running {
    pieces: Arc<tokio::sync::Mutex<mpsc::Receiver<io::Result<Bytes>>>>,
    used: Instant,
}

/// The exports that a node serves, and the client of other nodes' exports.
pub struct Exports {
    host: Arc<Host>,
    peers: Arc<Peers>,
    directory: Arc<Directory>,
    running: Mutex<HashMap<Uuid, Running>>,
}

impl Exports {
    /// Serves the exports of this node as long as the returned value lives.
    pub fn start(host: Arc<Host>, peers: Arc<Peers>, directory: Arc<Directory>) -> Arc<Self> {
        let exports = Arc::new(Self { host, peers, directory, running: Mutex::default() });
        exports.peers.serve(EXPORT_SERVICE, Arc::new(Service(Arc::downgrade(&exports))));
        exports
    }

    /// The state of a group at a moment after this call, from this node or another replica.
    ///
    /// # Errors
    /// 503 when no replica could begin. The stream fails when its replica is lost.
    pub async fn open(&self, group: GroupId) -> Result<ByteStream, CallError> {
        for node in self.holders(group) {
            match ask(&self.peers, node, Request::Begin(group), BEGIN_PATIENCE * 2).await {
                Ok(Response::Begun(id)) => return Ok(self.pieces(node, id)),
                Ok(Response::Failed(why)) | Err(why) => tracing::warn!(group, node, why, "no state was exported"),
                Ok(_) => tracing::warn!(group, node, "no state was exported: an answer of another kind"),
            }
        }
        Err(CallError::no_leader())
    }

    /// The nodes that have a replica of the group, this one first.
    fn holders(&self, group: GroupId) -> Vec<NodeId> {
        let own = self.peers.node();
        let mut holders = self.directory.read(|state| match group {
            DIRECTORY_GROUP => vec![own],
            shard => state.placement.get(&shard).map(|place| place.replicas.clone()).unwrap_or_default(),
        });
        holders.sort_by_key(|node| *node != own);
        holders
    }

    fn pieces(&self, node: NodeId, id: Uuid) -> ByteStream {
        let peers = self.peers.clone();
        let next = move |peers: Arc<Peers>| async move {
            match ask(&peers, node, Request::Next(id), PIECE_PATIENCE).await {
                Ok(Response::Piece(piece)) => Ok(Some((piece, peers))),
                Ok(Response::End) => Ok(None),
                Ok(Response::Failed(why)) | Err(why) => Err(io::Error::other(format!("node {node}: {why}"))),
                Ok(Response::Begun(_)) => Err(io::Error::other(format!("node {node}: an answer of another kind"))),
            }
        };
        try_unfold(peers, next).boxed()
    }

    async fn begin(&self, group: GroupId) -> Result<Uuid, String> {
        let open = self.host.group(group).ok_or("has no replica of the group")?;
        if self.drop_idle() >= MOST_EXPORTS {
            return Err(format!("{MOST_EXPORTS} exports run already"));
        }
        let export = open.export(Instant::now() + BEGIN_PATIENCE).await.map_err(|error| error.to_string())?;
        let (out, pieces) = mpsc::channel(PIECES_AHEAD);
        tokio::spawn(pump(export, out));
        let id = Uuid::new_v4();
        let running = Running { pieces: Arc::new(tokio::sync::Mutex::new(pieces)), used: Instant::now() };
        self.running.lock().insert(id, running);
        Ok(id)
    }

    /// Drops idle exports, and returns how many are left.
    fn drop_idle(&self) -> usize {
        let mut running = self.running.lock();
        running.retain(|_, each| each.used.elapsed() < IDLE);
        running.len()
    }

    async fn next(&self, id: Uuid) -> Response {
        let pieces = self.running.lock().get_mut(&id).map(|running| {
            running.used = Instant::now();
            running.pieces.clone()
        });
        let Some(pieces) = pieces else { return Response::Failed("the export was dropped".to_owned()) };
        let piece = pieces.lock().await.recv().await;
        if !matches!(piece, Some(Ok(_))) {
            self.running.lock().remove(&id);
        }
        match piece {
            Some(Ok(piece)) => Response::Piece(piece),
            Some(Err(error)) => Response::Failed(error.to_string()),
            None => Response::End,
        }
    }
}

/// Reads an export ahead of its fetches, and drops it when nothing is fetched.
async fn pump(mut export: Export, out: mpsc::Sender<io::Result<Bytes>>) {
    while let Some(piece) = export.next().await {
        if !matches!(tokio::time::timeout(IDLE, out.send(piece)).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Holds a weak reference, so that it keeps no stopped node alive.
struct Service(Weak<Exports>);

#[async_trait]
impl Handler for Service {
    async fn handle(&self, _from: NodeId, body: Bytes) -> Bytes {
        let response = match (self.0.upgrade(), msgpack::from_slice::<Request>(&body)) {
            (Some(exports), Ok(Request::Begin(group))) => {
                exports.begin(group).await.map_or_else(Response::Failed, Response::Begun)
            }
            (Some(exports), Ok(Request::Next(id))) => exports.next(id).await,
            (None, _) => Response::Failed("this node stops".to_owned()),
            (_, Err(_)) => Response::Failed("written by a newer release".to_owned()),
        };
        Bytes::from(msgpack::to_vec_named(&response).expect("a response of plain fields is always written"))
    }
}

async fn ask(peers: &Peers, node: NodeId, request: Request, patience: Duration) -> Result<Response, String> {
    let body = msgpack::to_vec_named(&request).expect("a request of plain fields is always written");
    let deadline = Instant::now() + patience;
    let answer = peers.call(node, Class::Media, EXPORT_SERVICE, Bytes::from(body), deadline).await;
    msgpack::from_slice(&answer.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

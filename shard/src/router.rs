//! Finds the owner of a shard, wherever it is, and asks it; tries again while the shard has none.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use model::error::ApiError;
use model::id::{NodeId, ShardId};
use parking_lot::RwLock;
use raft::directory::Directory;
use raft::host::Host;
use raft::transport::{Class, Handler, PeerError, Peers};
use serde::{Deserialize, Serialize};

use crate::answer;
use crate::call::{Answer, CALL_VERSION, Call};
use crate::owner::hosting::Owners;

/// The service under which nodes ask owners.
pub const SHARD_SERVICE: u16 = 257;

/// How long a call looks for an owner that takes it (design section 8).
const OWNER_PATIENCE: Duration = Duration::from_secs(5);

/// Between two tries to find an owner.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// How long a node may take to say how far it has applied a shard's log.
const PROBE_PATIENCE: Duration = Duration::from_millis(250);

/// A replica that lacks more entries than this has not caught up.
const CAUGHT_UP: u64 = 200;

/// What is left of a call's time for the answer to travel back.
const WAY_BACK: Duration = Duration::from_millis(50);

#[derive(Serialize, Deserialize)]
enum Request {
    Call(Call),
    /// How far this node has applied a shard's log.
    Applied(ShardId),
}

#[derive(Serialize, Deserialize)]
enum Response {
    Answer(Answer),
    Applied(Option<u64>),
}

/// The way to owners.
pub struct Router {
    node: NodeId,
    host: Arc<Host>,
    peers: Arc<Peers>,
    directory: Arc<Directory>,
    owners: Arc<Owners>,
    /// The node that last answered as the owner of a shard that has no replica here.
    hints: RwLock<HashMap<ShardId, NodeId>>,
    draining: AtomicBool,
}

impl Router {
    pub fn new(
        node: NodeId,
        host: Arc<Host>,
        peers: Arc<Peers>,
        directory: Arc<Directory>,
        owners: Arc<Owners>,
    ) -> Arc<Self> {
        let router = Arc::new(Self {
            node,
            host,
            peers: peers.clone(),
            directory,
            owners,
            hints: RwLock::default(),
            draining: AtomicBool::new(false),
        });
        peers.serve(SHARD_SERVICE, router.clone());
        router
    }

    /// Asks the owner, and the next one when it has just changed, until the call's time is over.
    ///
    /// # Errors
    /// 503 `worker_at_capacity` with `Retry-After: 1` when no owner answered in time (design section 8).
    pub async fn ask(&self, mut call: Call, deadline: Instant) -> Result<Answer, ApiError> {
        let give_up = deadline.min(Instant::now() + OWNER_PATIENCE);
        let mut tries = 0;
        loop {
            let now = Instant::now();
            call.budget = deadline.saturating_duration_since(now);
            if call.budget <= WAY_BACK || (tries > 0 && now >= give_up) {
                return Err(ApiError::no_leader());
            }
            if let Some(owner) = self.owners.get(call.shard) {
                match answer::to(&owner, call.clone()).await {
                    Answer::NotOwner => {}
                    answer => return Ok(answer),
                }
            } else if let Some(node) = self.next_candidate(call.shard, tries)
                && node != self.node
            {
                let answered = tokio::select! {
                    answered = self.ask_node(node, Request::Call(call.clone()), deadline) => Some(answered),
                    // A stopped process keeps its connections open and never answers; its successor does.
                    () = self.succeeded(call.shard, node) => None,
                };
                match answered {
                    Some(Ok(Response::Answer(Answer::NotOwner) | Response::Applied(_))) | None => {}
                    Some(Ok(Response::Answer(answer))) => {
                        self.hints.write().insert(call.shard, node);
                        return Ok(answer);
                    }
                    Some(Err(error)) => tracing::debug!(shard = call.shard, node, %error, "an owner did not answer"),
                }
                self.hints.write().remove(&call.shard);
            }
            tries += 1;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// From now on this node says that it cannot take leads.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whom to ask: the leader that the local replica knows, the last owner that answered, then each replica in turn.
    fn next_candidate(&self, shard: ShardId, tries: usize) -> Option<NodeId> {
        if let Some(group) = self.host.group(shard) {
            return group.leader();
        }
        if let Some(hint) = self.hints.read().get(&shard) {
            return Some(*hint);
        }
        let place = self.directory.read(|state| state.placement.get(&shard).cloned())?;
        match tries {
            0 => Some(place.leader),
            _ => place.replicas.get(tries % place.replicas.len().max(1)).copied(),
        }
    }

    /// Returns when the local replica knows another leader than `node`; never, when there is no replica here.
    async fn succeeded(&self, shard: ShardId, node: NodeId) {
        let Some(group) = self.host.group(shard) else { return std::future::pending().await };
        let mut leadership = group.leadership();
        let another = |now: &raft::group::Leadership| now.leader.is_some_and(|leader| leader != node);
        if leadership.wait_for(another).await.is_err() {
            std::future::pending().await
        }
    }

    async fn ask_node(&self, node: NodeId, request: Request, deadline: Instant) -> Result<Response, PeerError> {
        let body = rmp_serde::to_vec_named(&request).expect("a call of plain fields is always written");
        let answer = self.peers.call(node, Class::Call, SHARD_SERVICE, Bytes::from(body), deadline).await?;
        rmp_serde::from_slice(&answer).map_err(|error| PeerError::Refused(error.to_string()))
    }

    /// Whether another replica is up and has applied nearly all of a shard's log.
    pub async fn is_caught_up(&self, node: NodeId, shard: ShardId, applied: u64) -> bool {
        let deadline = Instant::now() + PROBE_PATIENCE;
        match self.ask_node(node, Request::Applied(shard), deadline).await {
            Ok(Response::Applied(Some(theirs))) => theirs + CAUGHT_UP >= applied,
            _ => false,
        }
    }
}

#[async_trait]
impl Handler for Router {
    async fn handle(&self, _from: NodeId, body: Bytes) -> Bytes {
        let response = match rmp_serde::from_slice(&body) {
            Ok(Request::Call(call)) if call.version <= CALL_VERSION => {
                let answer = match self.owners.get(call.shard) {
                    Some(owner) => answer::to(&owner, call).await,
                    None => Answer::NotOwner,
                };
                Response::Answer(answer)
            }
            // A node that is about to stop takes no lead.
            Ok(Request::Applied(_)) if self.draining.load(Ordering::Acquire) => Response::Applied(None),
            Ok(Request::Applied(shard)) => Response::Applied(self.host.group(shard).map(|group| group.applied())),
            // A newer release's call: another node may understand it.
            Ok(Request::Call(_)) | Err(_) => Response::Answer(Answer::NotOwner),
        };
        Bytes::from(rmp_serde::to_vec_named(&response).expect("an answer of plain fields is always written"))
    }
}

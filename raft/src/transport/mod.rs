//! Communication between nodes: framed streams over mutual TLS, one connection for each class of traffic.
//!
//! Each node dials its peers; a connection carries calls one way and answers the other. Votes, heartbeats, log entries
//! and snapshots run on the Raft runtime, so that a busy API cannot delay them. Connections for calls of higher layers
//! run on the runtime where these are made and handled, because every change of runtime wakes a thread.

pub mod admission;
mod frame;
pub(crate) mod fuzz;
mod hello;
mod inbound;
mod outbound;
mod stream;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod unauthenticated;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use model::format::Format;
use model::id::NodeId;
use parking_lot::{Mutex, RwLock};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::admission::Port;
use self::hello::Hello;
pub(crate) use self::outbound::Answer;
use self::outbound::Link;
use self::unauthenticated::UnauthenticatedHandler;
use crate::{supervise, telemetry};

/// Largest body of a call, and of an answer.
pub const MAX_BODY: usize = frame::MAX_FRAME / 2;
/// Calls of higher layers that a peer may have in flight on one connection; further calls are refused as busy.
pub const MOST_CALLS: usize = 4096;
/// Requests to the host's own services that a peer may have in flight on one connection; further ones are refused as
/// busy. A few appends for each of a thousand groups are far fewer.
const MOST_RAFT_REQUESTS: usize = 1 << 14;
/// Largest body of an append. New entries are limited far below that, but logs of earlier releases hold larger ones
/// that must still reach a follower: an append may fill a frame.
const MAX_APPEND: usize = frame::MAX_FRAME - 1024;
/// Stack size of threads that decode received data. MessagePack may be nested 1,024 levels deep, at about 2 KiB of
/// stack each in a build without optimisation: more than the default of 2 MiB.
pub const STACK_BYTES: usize = 8 << 20;
/// Timeout of a handshake on both sides, as a multiple of the connect timeout: a peer with busy CPUs is not dead, and
/// aborted handshakes make it even busier.
const HANDSHAKE: u32 = 5;
/// Interval at which the peer of a connection is checked again, and the number of consecutive refusals that close it. A
/// removed node should learn of its removal from the log rather than from a refusal.
const JUDGE_EVERY: Duration = Duration::from_millis(500);
const REFUSALS: u32 = 2;

/// The cluster and the data folder that a node belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster_id: Uuid,
    pub storage_id: Uuid,
}

/// The cluster's CA and this node's certificate for `node-<id>.gateway.internal`, in PEM.
#[derive(Clone)]
pub struct PeerTls {
    pub ca_pem: String,
    pub cert_pem: String,
    pub key_pem: String,
}

/// Returns the `host:port` of a node; `None` while it is unknown.
pub type Lookup = Arc<dyn Fn(NodeId) -> Option<String> + Send + Sync>;

/// The side of a connection that this node is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The peer has connected to this node, to send requests.
    Accepted,
    /// This node has connected to the peer and relies on its answers, including votes and acknowledged entries.
    Dialed,
}

/// Decides whether this node may talk to a node with this identity whose highest format is this one. The error is the
/// reason that both sides log. Called again regularly while the connection lasts.
pub type Admit = Arc<dyn Fn(NodeId, &Identity, Format, Way) -> Result<(), String> + Send + Sync>;

pub struct PeersConfig {
    pub node: NodeId,
    pub listen: SocketAddr,
    pub identity: Identity,
    pub tls: PeerTls,
    pub lookup: Lookup,
    pub admit: Admit,
    /// Number of threads of the runtime that serves peers and Raft.
    pub threads: usize,
    /// Limits the incoming connections.
    pub port: Arc<Port>,
    /// Shortest election timeout. Peers with a different one are refused.
    pub election_min: Duration,
}

#[derive(Debug, Error)]
pub enum PeersError {
    #[error("cannot listen for peers on {addr}: {error}")]
    Listen { addr: SocketAddr, error: std::io::Error },
    #[error("peer TLS: {0}")]
    Tls(String),
    #[error("cannot start the threads that serve peers: {0}")]
    Threads(std::io::Error),
}

/// Why a call to a peer has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeerError {
    /// There is no connection, or it broke before the answer: the call may have been handled if it was sent. Or the
    /// peer does not serve this call yet: it listens before it has opened what it answers from.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The peer refuses to talk to this node, or this node to the peer.
    #[error("refused: {0}")]
    Refused(String),
    /// No answer in time; the call may have been handled.
    #[error("timed out")]
    TimedOut,
    /// The peer has too many calls in flight; this one was not handled.
    #[error("the peer is busy")]
    Busy,
}

impl PeerError {
    fn unserved(service: u16) -> Self {
        Self::Unreachable(format!("service {service} is not known"))
    }

    /// Encodes the error as the body of a refusal.
    fn encode(&self) -> Bytes {
        let (code, text): (u8, &str) = match self {
            Self::Refused(text) => (0, text.as_str()),
            Self::Busy => (1, ""),
            Self::Unreachable(text) => (2, text.as_str()),
            Self::TimedOut => (3, ""),
        };
        [&[code][..], text.as_bytes()].concat().into()
    }

    fn decode(body: &[u8]) -> Self {
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        match body.split_first() {
            Some((1, _)) => Self::Busy,
            Some((2, rest)) => Self::Unreachable(text(rest)),
            Some((3, _)) => Self::TimedOut,
            Some((_, rest)) => Self::Refused(text(rest)),
            None => Self::Refused(String::new()),
        }
    }
}

/// Kinds of traffic that must not wait for each other; each has its own connection to each peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Votes, heartbeats, and checks whether a copy of the directory is fresh.
    Control,
    /// Log entries.
    Log,
    Snapshot,
    /// Calls of higher layers, and read indexes.
    Call,
    /// Media between replicas: large, and never urgent.
    Media,
}

impl Class {
    const ALL: [Self; 5] = [Self::Control, Self::Log, Self::Snapshot, Self::Call, Self::Media];
}

/// Serves one kind of call. Runs on the runtime on which [`Peers::start`] was called; calls of [`Class::Control`],
/// which must not wait for other calls, run on the Raft runtime.
#[async_trait::async_trait]
pub trait Handler: Send + Sync + 'static {
    async fn handle(&self, from: NodeId, body: Bytes) -> Bytes;
}

/// A service of the host itself: requests are started in order of arrival, on the Raft runtime.
pub(crate) trait RaftService: Send + Sync + 'static {
    /// Answers a request that arrived on a connection of this class.
    fn handle(&self, from: NodeId, class: Class, body: Bytes) -> BoxFuture<'static, Bytes>;

    /// How long an answer may wait to share its frame with others.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
}

#[derive(Clone)]
enum Service {
    Raft(Arc<dyn RaftService>),
    Call(Arc<dyn Handler>),
}

/// State shared by all connections.
struct Shared {
    node: NodeId,
    identity: Identity,
    /// TLS configuration of new connections.
    tls: RwLock<tls::Tls>,
    lookup: Lookup,
    admit: Admit,
    election_min: Duration,
    /// Timeout of connecting to a peer, without the handshake. A peer that takes longer counts as dead anyway, and
    /// votes wait while a connection is being made.
    connect_timeout: Duration,
    services: RwLock<HashMap<u16, Service>>,
    links: RwLock<HashMap<(NodeId, Class), Arc<Link>>>,
    /// Accepted connections, each with the token that closes it.
    accepted: Mutex<HashMap<(NodeId, Class), CancellationToken>>,
    /// Handles clients without a certificate; `None` until it is set.
    unauthenticated: RwLock<Option<Arc<dyn UnauthenticatedHandler>>>,
    /// Runtime on which calls of higher layers are made and handled.
    caller: Handle,
    /// Runtime of everything else.
    runtime: Handle,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Shared {
    /// Runtime of the connections of a class.
    fn runtime_of(&self, class: Class) -> &Handle {
        match class {
            Class::Call | Class::Media => &self.caller,
            Class::Control | Class::Log | Class::Snapshot => &self.runtime,
        }
    }
}

/// The peer of a connection, as it is checked.
struct Judged {
    hello: Hello,
    way: Way,
}

impl Judged {
    /// # Errors
    /// The reason why the peer does not match this node, or must not be talked to.
    fn judge(&self, shared: &Shared) -> Result<(), String> {
        let theirs = &self.hello;
        theirs.mismatch(&shared.identity, shared.election_min).map_or(Ok(()), Err)?;
        (shared.admit)(theirs.node, &theirs.identity(), theirs.format, self.way)
    }

    /// Returns the reason once the peer must no longer be talked to, because the cluster has changed since the peer was
    /// admitted.
    async fn refused(&self, shared: &Shared) -> String {
        let mut refusals = 0;
        loop {
            tokio::time::sleep(JUDGE_EVERY).await;
            match self.judge(shared) {
                Ok(()) => refusals = 0,
                Err(reason) => {
                    refusals += 1;
                    if refusals >= REFUSALS {
                        telemetry::peer_refused();
                        return reason;
                    }
                }
            }
        }
    }
}

/// This node's connections to its peers.
pub struct Peers {
    shared: Arc<Shared>,
    local_addr: SocketAddr,
    /// Taken at shutdown: a runtime must not be dropped on a thread of another runtime, which it would block.
    runtime: Mutex<Option<Runtime>>,
}

impl Peers {
    /// Listens for peers. Handlers run on the runtime that this is called on.
    pub fn start(config: PeersConfig) -> BoxFuture<'static, Result<Arc<Self>, PeersError>> {
        Box::pin(async move {
            let tls = RwLock::new(tls::Tls::new(config.node, &config.tls)?);
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(config.threads.max(1))
                .thread_name("raft")
                .thread_stack_size(STACK_BYTES)
                .enable_all()
                .build()
                .map_err(PeersError::Threads)?;
            let shared = Arc::new(Shared {
                node: config.node,
                identity: config.identity,
                tls,
                lookup: config.lookup,
                admit: config.admit,
                election_min: config.election_min,
                connect_timeout: config.election_min * 2 / 3,
                services: RwLock::default(),
                links: RwLock::default(),
                accepted: Mutex::default(),
                unauthenticated: RwLock::default(),
                caller: Handle::current(),
                runtime: runtime.handle().clone(),
                stop: CancellationToken::new(),
                tracker: TaskTracker::new(),
            });
            let addr = config.listen;
            // The listener must be created on the runtime whose reactor drives it.
            let bound = shared.runtime.spawn(async move {
                let listener = TcpListener::bind(addr).await?;
                let local_addr = listener.local_addr()?;
                Ok::<_, std::io::Error>((listener, local_addr))
            });
            let (listener, local_addr) = match bound.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
                Ok(bound) => bound,
                Err(error) => {
                    runtime.shutdown_background();
                    return Err(PeersError::Listen { addr, error });
                }
            };
            let (stop, listener, accepting) = (shared.stop.clone(), Arc::new(listener), shared.clone());
            let port = config.port;
            let task = async move {
                let accept = || inbound::accept(accepting.clone(), listener.clone(), port.clone());
                let _ = stop.run_until_cancelled(supervise::restarted("the peer port", accept)).await;
            };
            shared.tracker.spawn_on(task, &shared.runtime);
            Ok(Arc::new(Self { shared, local_addr, runtime: Mutex::new(Some(runtime)) }))
        })
    }

    pub fn node(&self) -> NodeId {
        self.shared.node
    }

    pub fn identity(&self) -> Identity {
        self.shared.identity
    }

    /// Whether a node's address is known.
    pub(crate) fn knows_way_to(&self, node: NodeId) -> bool {
        (self.shared.lookup)(node).is_some()
    }

    /// The address that is listened on, with the actual port if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves a service, replacing its former handler. Numbers below 256 are reserved for the host.
    pub fn serve(&self, service: u16, handler: Arc<dyn Handler>) {
        self.shared.services.write().insert(service, Service::Call(handler));
    }

    /// Presents this newer certificate of this node from now on, and trusts these authorities.
    ///
    /// # Errors
    /// When the certificate is not for this node, or the key does not match; nothing is changed then.
    pub fn renew_certificate(&self, pem: &PeerTls) -> Result<(), PeersError> {
        *self.shared.tls.write() = tls::Tls::new(self.shared.node, pem)?;
        Ok(())
    }

    /// Answers clients without a certificate from now on.
    pub fn serve_unauthenticated(&self, handler: Arc<dyn UnauthenticatedHandler>) {
        *self.shared.unauthenticated.write() = Some(handler);
    }

    /// Stops serving a service: calls to it are refused from now on.
    pub fn unserve(&self, service: u16) {
        self.shared.services.write().remove(&service);
    }

    pub(crate) fn serve_raft(&self, service: u16, handler: Arc<dyn RaftService>) {
        self.shared.services.write().insert(service, Service::Raft(handler));
    }

    /// The runtime of Raft.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.shared.runtime
    }

    /// Enqueues a request without waiting. Requests are sent in the order of these calls.
    pub(crate) fn begin(
        &self,
        to: NodeId,
        class: Class,
        service: u16,
        body: Bytes,
        patience: Duration,
    ) -> Result<Answer, PeerError> {
        let most = if class == Class::Log { MAX_APPEND } else { MAX_BODY };
        if body.len() > most {
            return Err(PeerError::Refused(format!("{} bytes are too many for one call", body.len())));
        }
        let known = self.shared.links.read().get(&(to, class)).cloned();
        let link = known.unwrap_or_else(|| {
            let mut links = self.shared.links.write();
            links.entry((to, class)).or_insert_with(|| Link::start(&self.shared, to, class)).clone()
        });
        link.begin(service, body, patience)
    }

    /// Sends queued messages to a peer at once, even those that may still wait to share a frame.
    pub(crate) fn nudge(&self, to: NodeId, class: Class) {
        if let Some(link) = self.shared.links.read().get(&(to, class)) {
            link.nudge();
        }
    }

    /// Calls a service of a node; calls to this node do not use the network.
    pub async fn call(
        &self,
        to: NodeId,
        class: Class,
        service: u16,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, PeerError> {
        let answer = async {
            if to == self.shared.node {
                self.call_self(class, service, body).await
            } else {
                self.begin(to, class, service, body, Duration::ZERO)?.await
            }
        };
        tokio::time::timeout_at(deadline.into(), answer).await.unwrap_or(Err(PeerError::TimedOut))
    }

    async fn call_self(&self, class: Class, service: u16, body: Bytes) -> Result<Bytes, PeerError> {
        let handler = self.shared.services.read().get(&service).cloned();
        let node = self.shared.node;
        // Spawned, as for a peer's call: if the caller gives up, the handler still runs to its end.
        let work = match handler {
            None => return Err(PeerError::unserved(service)),
            Some(Service::Raft(handler)) => self.shared.runtime.spawn(handler.handle(node, class, body)),
            Some(Service::Call(handler)) => self.shared.caller.spawn(async move { handler.handle(node, body).await }),
        };
        work.await.map_err(|_| PeerError::Unreachable("the call failed".into()))
    }

    /// Closes all connections and stops listening. The runtime stays for tasks that are still shutting down on it.
    pub async fn shutdown(&self) {
        self.shared.stop.cancel();
        self.shared.tracker.close();
        self.shared.tracker.wait().await;
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        if let Some(runtime) = self.runtime.lock().take() {
            runtime.shutdown_background();
        }
    }
}

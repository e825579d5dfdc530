//! How nodes speak to each other: framed streams over mutual TLS, one connection for each class of traffic.
//!
//! Each node dials its peers; a connection carries calls one way and their answers the other. Votes, heartbeats, log and
//! snapshots live on the Raft runtime, so that a busy API cannot hold them back. The connections that carry the calls
//! of the floors above live where those calls are made and handled: each change of runtime would wake a thread.

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

/// The largest body of a call, and of an answer.
pub const MAX_BODY: usize = frame::MAX_FRAME / 2;
/// Calls of the floors above that one peer may have in flight on one connection; more are answered as busy.
pub const MOST_CALLS: usize = 4096;
/// Requests of the host's own services that one peer may have in flight on one connection; more are answered as busy. Some appends of
/// each of a thousand groups are far fewer.
const MOST_RAFT_REQUESTS: usize = 1 << 14;
/// The largest body of an append. Entries have a bound far below, but logs of earlier releases hold larger ones: they get as
/// much as a frame can carry, and still are to reach a follower.
const MAX_APPEND: usize = frame::MAX_FRAME - 1024;
/// Stack of a thread that reads what others sent. MessagePack is read 1,024 levels deep at most, each some 2 KiB of stack in
/// a build without optimisation: more than the 2 MiB that threads have by themselves.
pub const STACK_BYTES: usize = 8 << 20;
/// How many times as long as connecting a handshake may take, on both sides: a peer whose processors are busy is no dead one, and
/// one that is cut off in the middle makes them busier still.
const HANDSHAKE: u32 = 5;
/// How often the peer of a connection is judged again, and how many times in a row it has to be refused: one that is removed
/// shall hear so from the log.
const JUDGE_EVERY: Duration = Duration::from_millis(500);
const REFUSALS: u32 = 2;

/// Which cluster and which data folder a node belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster_id: Uuid,
    pub storage_id: Uuid,
}

/// The cluster's CA and this node's certificate for `node-<id>.gateway.internal`, all PEM.
#[derive(Clone)]
pub struct PeerTls {
    pub ca_pem: String,
    pub cert_pem: String,
    pub key_pem: String,
}

/// Finds the `host:port` of a node; `None` while it is not known.
pub type Lookup = Arc<dyn Fn(NodeId) -> Option<String> + Send + Sync>;

/// Which side of a connection this node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The peer has come to this node, with requests.
    Accepted,
    /// This node has gone to the peer. Its answers are counted on, votes and acknowledged entries among them.
    Dialed,
}

/// Says whether a node with this identity, which understands formats up to this one, may speak with us; the text is the
/// reason that both sides log. It is asked again for as long as they speak.
pub type Admit = Arc<dyn Fn(NodeId, &Identity, Format, Way) -> Result<(), String> + Send + Sync>;

pub struct PeersConfig {
    pub node: NodeId,
    pub listen: SocketAddr,
    pub identity: Identity,
    pub tls: PeerTls,
    pub lookup: Lookup,
    pub admit: Admit,
    /// Threads of the runtime that serves peers and Raft.
    pub threads: usize,
    /// The places of connections that come in.
    pub port: Arc<Port>,
    /// The shortest election. Peers with another one are refused.
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
    /// No connection, or it broke before the answer came: the call may have been handled if it was sent. Or the peer does not
    /// serve it, or not yet: it listens before it has opened what it answers from.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The peer (or this node) does not want to speak with the other.
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

    /// As the body of a refusal.
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

/// Kinds of traffic that must not wait for each other; each has a connection of its own to each peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Votes and heartbeats, and whether a copy of the directory is fresh.
    Control,
    /// Log entries.
    Log,
    Snapshot,
    /// Calls of the floors above, and read indexes.
    Call,
    /// Media from replica to replica: much, and never in a hurry.
    Media,
}

impl Class {
    const ALL: [Self; 5] = [Self::Control, Self::Log, Self::Snapshot, Self::Call, Self::Media];
}

/// Serves one kind of call. Runs on the runtime on which [`Peers::start`] was called; what comes as [`Class::Control`], which must not
/// wait for other calls, on Raft's.
#[async_trait::async_trait]
pub trait Handler: Send + Sync + 'static {
    async fn handle(&self, from: NodeId, body: Bytes) -> Bytes;
}

/// A service of the host itself: begun in the order of the requests, on the Raft runtime.
pub(crate) trait RaftService: Send + Sync + 'static {
    /// Answers what has come by a connection of this class.
    fn handle(&self, from: NodeId, class: Class, body: Bytes) -> BoxFuture<'static, Bytes>;

    /// How long an answer may wait for others to share its frame.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
}

#[derive(Clone)]
enum Service {
    Raft(Arc<dyn RaftService>),
    Call(Arc<dyn Handler>),
}

/// What all connections share.
struct Shared {
    node: NodeId,
    identity: Identity,
    /// As new connections get it.
    tls: RwLock<tls::Tls>,
    lookup: Lookup,
    admit: Admit,
    election_min: Duration,
    /// How long connecting to a peer may take, before the handshake. One whose machine needs longer is taken for dead by then, and a
    /// connection that is being made holds up votes.
    connect_timeout: Duration,
    services: RwLock<HashMap<u16, Service>>,
    links: RwLock<HashMap<(NodeId, Class), Arc<Link>>>,
    /// The accepted connections, each with what ends it.
    accepted: Mutex<HashMap<(NodeId, Class), CancellationToken>>,
    /// Answers those that have no certificate; nobody, until it is set.
    unauthenticated: RwLock<Option<Arc<dyn UnauthenticatedHandler>>>,
    /// Where calls of the floors above are made and handled.
    caller: Handle,
    /// Where everything else runs.
    runtime: Handle,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Shared {
    /// Where the connections of a class live.
    fn runtime_of(&self, class: Class) -> &Handle {
        match class {
            Class::Call | Class::Media => &self.caller,
            Class::Control | Class::Log | Class::Snapshot => &self.runtime,
        }
    }
}

/// Whom a connection leads to, to judge it by.
struct Judged {
    hello: Hello,
    way: Way,
}

impl Judged {
    /// # Errors
    /// Why the peer does not fit to this node, or may not be spoken with.
    fn judge(&self, shared: &Shared) -> Result<(), String> {
        let theirs = &self.hello;
        theirs.mismatch(&shared.identity, shared.election_min).map_or(Ok(()), Err)?;
        (shared.admit)(theirs.node, &theirs.identity(), theirs.format, self.way)
    }

    /// Returns, with the reason, when the peer may be spoken with no longer: what is known of the cluster has changed since it
    /// was let in.
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

/// This node's place among its peers.
pub struct Peers {
    shared: Arc<Shared>,
    local_addr: SocketAddr,
    /// Taken when it is shut down: a runtime must not be dropped where it would block another.
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
            // The listener has to be made on the runtime whose reactor will watch it.
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

    /// Whether an address of a node is known.
    pub(crate) fn knows_way_to(&self, node: NodeId) -> bool {
        (self.shared.lookup)(node).is_some()
    }

    /// The address that is listened on (its port, if 0 was asked for).
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves calls to a service; those below 256 are the host's own. The last handler for a service counts.
    pub fn serve(&self, service: u16, handler: Arc<dyn Handler>) {
        self.shared.services.write().insert(service, Service::Call(handler));
    }

    /// Shows peers another certificate from now on, a later one of this node, and trusts those of these authorities.
    ///
    /// # Errors
    /// When it is none of this node's, or its key is another's; it stays as it was then.
    pub fn renew_certificate(&self, pem: &PeerTls) -> Result<(), PeersError> {
        *self.shared.tls.write() = tls::Tls::new(self.shared.node, pem)?;
        Ok(())
    }

    /// Answers strangers from now on.
    pub fn serve_unauthenticated(&self, handler: Arc<dyn UnauthenticatedHandler>) {
        *self.shared.unauthenticated.write() = Some(handler);
    }

    /// Stops serving a service: calls to it are refused from here on.
    pub fn unserve(&self, service: u16) {
        self.shared.services.write().remove(&service);
    }

    pub(crate) fn serve_raft(&self, service: u16, handler: Arc<dyn RaftService>) {
        self.shared.services.write().insert(service, Service::Raft(handler));
    }

    /// The runtime on which Raft runs.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.shared.runtime
    }

    /// Hands a request over, in the order of these calls, without waiting.
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

    /// Sends at once what waits for company on the way to a peer.
    pub(crate) fn nudge(&self, to: NodeId, class: Class) {
        if let Some(link) = self.shared.links.read().get(&(to, class)) {
            link.nudge();
        }
    }

    /// Calls a service of a node; of this node without a detour.
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
        // As for a peer's call: a caller that gives up does not cut the handler off in the middle.
        let work = match handler {
            None => return Err(PeerError::unserved(service)),
            Some(Service::Raft(handler)) => self.shared.runtime.spawn(handler.handle(node, class, body)),
            Some(Service::Call(handler)) => self.shared.caller.spawn(async move { handler.handle(node, body).await }),
        };
        work.await.map_err(|_| PeerError::Unreachable("the call failed".into()))
    }

    /// Closes all connections and stops listening. The runtime stays for those who still stop on it.
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

//! How nodes speak to each other: framed streams over mutual TLS, one connection for each class of traffic.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::id::NodeId;
use thiserror::Error;
use uuid::Uuid;

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

/// Says whether a node with this identity may speak with us; the text is the reason that both sides log.
pub type Admit = Arc<dyn Fn(NodeId, &Identity) -> Result<(), String> + Send + Sync>;

pub struct PeersConfig {
    pub node: NodeId,
    pub listen: SocketAddr,
    pub identity: Identity,
    pub tls: PeerTls,
    pub lookup: Lookup,
    pub admit: Admit,
    /// Threads of the runtime that serves peers and Raft.
    pub threads: usize,
    /// How long connecting to a peer may take; below the shortest election time-out.
    pub connect_timeout: Duration,
}

#[derive(Debug, Error)]
pub enum PeersError {
    #[error("cannot listen for peers on {addr}: {error}")]
    Listen { addr: SocketAddr, error: std::io::Error },
    #[error("peer TLS: {0}")]
    Tls(String),
}

/// Why a call to a peer has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeerError {
    /// No connection, or it broke before the answer came. The call may have been handled if it was sent.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The peer (or this node) does not want to speak with the other, or does not know the service.
    #[error("refused: {0}")]
    Refused(String),
    /// No answer in time; the call may have been handled.
    #[error("timed out")]
    TimedOut,
    /// The peer has too many calls in flight; this one was not handled.
    #[error("the peer is busy")]
    Busy,
}

/// Kinds of traffic that must not wait for each other; each has a connection of its own to each peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Votes and heartbeats.
    Control,
    /// Log entries.
    Log,
    Snapshot,
    /// Calls of the floors above, and read indexes.
    Call,
}

/// Serves one kind of call. Runs on the runtime on which [`Peers::start`] was called.
#[async_trait::async_trait]
pub trait Handler: Send + Sync + 'static {
    async fn handle(&self, from: NodeId, body: Bytes) -> Bytes;
}

/// This node's place among its peers.
pub struct Peers {}

impl Peers {
    /// Listens for peers. The services below 256 are the host's own.
    pub async fn start(_config: PeersConfig) -> Result<Arc<Self>, PeersError> {
        unimplemented!()
    }

    pub fn node(&self) -> NodeId {
        unimplemented!()
    }

    /// The address that is listened on (its port, if 0 was asked for).
    pub fn local_addr(&self) -> SocketAddr {
        unimplemented!()
    }

    pub fn serve(&self, _service: u16, _handler: Arc<dyn Handler>) {
        unimplemented!()
    }

    pub async fn call(
        &self,
        _to: NodeId,
        _class: Class,
        _service: u16,
        _body: Bytes,
        _deadline: Instant,
    ) -> Result<Bytes, PeerError> {
        unimplemented!()
    }

    /// Closes all connections and stops listening.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}

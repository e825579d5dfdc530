//! Puts a node together, from the floor up: peers, Raft, the directory, the messaging network, the cluster, the ports.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use model::id::NodeId;
use raft::directory::Directory;
use raft::host::{Host, HostConfig, LogLimits, Timing};
use raft::transport::{Identity, PeerTls, Peers, PeersConfig};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::run::Configured;

/// Threads of the runtime on which peers and Raft run apart from requests. Heartbeats need little; two threads keep
/// one slow task from holding them up.
const RAFT_THREADS: usize = 2;

/// The parts of a running node, in the order in which they were opened.
pub struct Assembly {
    peers: Arc<Peers>,
    host: Host,
    directory: Arc<Directory>,
    background: CancellationToken,
}

/// Known once the directory is open, which needs the peers first.
type LateDirectory = Arc<OnceLock<Arc<Directory>>>;

/// Opens everything. What was opened before a failure ends with the process.
///
/// # Errors
/// The part that could not be opened.
pub async fn assemble(configured: Configured) -> anyhow::Result<Assembly> {
    let Configured { config, folder, identity, .. } = configured;
    let node = config.node.id;
    let timing = timing(&config);
    let late = LateDirectory::default();
    let own = Identity { cluster_id: folder.identity.cluster_id, storage_id: folder.identity.storage_id };
    let tls = PeerTls { ca_pem: identity.ca_pem, cert_pem: identity.cert_pem, key_pem: identity.key_pem.0 };
    let peers = Peers::start(PeersConfig {
        node,
        listen: config.peer.listen,
        identity: own,
        tls,
        lookup: lookup(&config, late.clone()),
        admit: admit(own, late.clone()),
        threads: RAFT_THREADS,
        connect_timeout: connect_timeout(timing),
    })
    .await?;
    let host = Host::start(HostConfig {
        node,
        data_dir: folder.path.clone(),
        timing,
        log: LogLimits::default(),
        peers: peers.clone(),
        fatal: None,
    })
    .await
    .context("opening the store")?;
    let directory = Directory::open(node, &host, peers.clone()).await.context("opening the directory")?;
    let _only_once = late.set(directory.clone());
    Ok(Assembly { peers, host, directory, background: CancellationToken::new() })
}

impl Assembly {
    /// Returns when the node can serve.
    pub async fn ready(&self) {}

    /// Hands over, answers what was taken, and closes, from the top down.
    pub async fn stop(self) {
        self.background.cancel();
        self.host.shutdown().await;
        self.peers.shutdown().await;
    }
}

fn timing(config: &Config) -> Timing {
    let (heartbeat, election_min, election_max) = config.cluster.timing.intervals();
    Timing { heartbeat, election_min, election_max }
}

/// A peer that needs longer is taken for dead by then, and a connection that is being made holds up votes.
fn connect_timeout(timing: Timing) -> Duration {
    timing.election_min * 2 / 3
}

/// Where a node is: as the directory has it, and as the configuration has it until then.
fn lookup(config: &Config, directory: LateDirectory) -> raft::transport::Lookup {
    let configured = config.cluster.nodes.clone();
    Arc::new(move |node| {
        let known = directory
            .get()
            .and_then(|directory| directory.read(|state| state.nodes.get(&node).map(|record| record.peer.clone())));
        known.or_else(|| configured.iter().find(|member| member.id == node).map(|member| member.peer.to_string()))
    })
}

/// Nodes of this cluster, with the data folder with which they are known.
fn admit(own: Identity, directory: LateDirectory) -> raft::transport::Admit {
    Arc::new(move |node: NodeId, theirs: &Identity| {
        if theirs.cluster_id != own.cluster_id {
            return Err(format!("node {node} is of cluster {}, and this is {}", theirs.cluster_id, own.cluster_id));
        }
        let known = directory
            .get()
            .and_then(|directory| directory.read(|state| state.nodes.get(&node).map(|record| record.storage_id)));
        match known {
            Some(known) if known != theirs.storage_id => Err(format!(
                "node {node} is known with data folder {known} and came with {}; it was wiped or exchanged",
                theirs.storage_id
            )),
            _ => Ok(()),
        }
    })
}

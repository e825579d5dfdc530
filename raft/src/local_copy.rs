//! A node's copy of the directory. It exists before the directory's group is opened.

mod streamed;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use directory::machine::Mirror;
use directory::state::{Change, DirectoryState};
use model::format::Format;
use model::id::NodeId;
use parking_lot::RwLock;
use tokio::sync::broadcast;
use uuid::Uuid;

use self::streamed::Heard;
pub use self::streamed::STREAMED_FOR;
use crate::freshness::OwnCopy;
use crate::machine::View;
use crate::transport::Way;

/// How many changes a slow watcher may lag before it has to re-read everything.
const CHANGES_KEPT: usize = 4096;

/// State that the machine writes and all readers on the node share.
pub(crate) struct Shared {
    pub state: RwLock<DirectoryState>,
    pub changes: broadcast::Sender<Change>,
    pub streamed: RwLock<Heard>,
    pub own_copy: OwnCopy,
}

impl Shared {
    pub fn new() -> Arc<Self> {
        let (changes, _) = broadcast::channel(CHANGES_KEPT);
        Arc::new(Self { state: RwLock::default(), changes, streamed: RwLock::default(), own_copy: OwnCopy::default() })
    }
}

impl Mirror for Shared {
    fn change<T>(&self, with: impl FnOnce(&mut DirectoryState) -> T) -> T {
        with(&mut self.state.write())
    }

    fn replace(&self, state: DirectoryState) {
        self.streamed.write().note(state.streamed_customers(), Instant::now());
        *self.state.write() = state;
        let _ = self.changes.send(Change::Everything);
    }

    fn publish(&self, change: Change) {
        if let Change::Streamed(customer) = change {
            self.streamed.write().note([customer], Instant::now());
        }
        // Having no watcher is no error.
        let _ = self.changes.send(change);
    }
}

/// What this node knows of the directory: at first only which nodes belong to the cluster, read from disk; everything,
/// once the directory's group is opened. Peers are judged by it, so that no vote from a data folder unknown to the
/// cluster is ever counted.
#[derive(Clone)]
pub struct LocalCopy {
    pub(crate) shared: Arc<Shared>,
    /// Data folders of the nodes with which this one began to form the directory's group, from their sync positions.
    met: Arc<HashMap<NodeId, Uuid>>,
}

impl LocalCopy {
    /// Reads the cluster's nodes from the stored directory. `met`: data folders of nodes that joined its group here.
    pub(crate) fn of_members(stored: &dyn View, met: HashMap<NodeId, Uuid>) -> Self {
        let shared = Shared::new();
        *shared.state.write() = DirectoryState::load_members(stored);
        Self { shared, met: Arc::new(met) }
    }

    /// Judges a peer, in either direction, by its data folder.
    ///
    /// # Errors
    /// The reason why this node must not talk to it.
    pub fn judge(&self, node: NodeId, folder: Uuid, way: Way) -> Result<(), String> {
        let (known, is_formed, is_removed) = self.read(|state| {
            let known = state.nodes.get(&node).map(|record| record.storage_id);
            (known, state.cluster.is_some(), state.removed.contains_key(&node))
        });
        let other = |known: Uuid| {
            format!("node {node} is known with data folder {known} and came with {folder}; it was wiped or exchanged")
        };
        match known {
            Some(known) if known != folder => Err(other(known)),
            Some(_) => Ok(()),
            None if is_removed => Err(format!("node {node} was removed from this cluster")),
            // An old copy does not know nodes that joined recently, and one of these may bring the current state. Until
            // then any folder is accepted, and its votes do not count.
            None if is_formed && (way == Way::Dialed || self.is_fresh()) => {
                Err(format!("node {node} is no member of this cluster"))
            }
            None if is_formed => Ok(()),
            // While the cluster forms, nodes vote before the directory knows them.
            None => match self.met.get(&node) {
                Some(met) if *met != folder => Err(other(*met)),
                _ => Ok(()),
            },
        }
    }

    /// Reads the current state.
    pub fn read<T>(&self, with: impl FnOnce(&DirectoryState) -> T) -> T {
        with(&self.shared.state.read())
    }

    /// Format of what the cluster's nodes may store and propose; the first format before the cluster is formed.
    pub fn format(&self) -> Format {
        self.read(|state| state.cluster.as_ref().map_or(Format::FIRST, |cluster| cluster.format))
    }

    /// Whether the copy is fresh enough to judge keys by.
    pub fn is_fresh(&self) -> bool {
        self.shared.own_copy.is_fresh()
    }

    pub(crate) fn age(&self) -> Option<Duration> {
        self.shared.own_copy.age()
    }
}

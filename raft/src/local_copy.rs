//! A node's copy of the directory, from before the directory's group runs here.

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

/// How many changes a slow watcher may fall behind before it is told to look at everything.
const CHANGES_KEPT: usize = 4096;

/// The state that the machine writes and every reader on the node shares.
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
        // No watcher is no error.
        let _ = self.changes.send(change);
    }
}

/// What this node knows of the directory: at first which nodes its disk says belong to the cluster, and all of it once the
/// directory's group has been opened. Peers are judged by it, so that no vote of a data folder that the cluster does not know
/// is ever counted.
#[derive(Clone)]
pub struct LocalCopy {
    pub(crate) shared: Arc<Shared>,
    /// The data folders of the nodes with which this one has begun to form the directory's group, as it has heard of them.
    met: Arc<HashMap<NodeId, Uuid>>,
}

impl LocalCopy {
    /// Reads who belongs to the cluster from the stored state of the directory. `met`: who took part in its group with this node.
    pub(crate) fn of_members(stored: &dyn View, met: HashMap<NodeId, Uuid>) -> Self {
        let shared = Shared::new();
        *shared.state.write() = DirectoryState::load_members(stored);
        Self { shared, met: Arc::new(met) }
    }

    /// Judges a node that comes, or that was gone to, with a data folder.
    ///
    /// # Errors
    /// Why it may not be spoken with.
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
            // An old copy does not know who joined lately, and it may be one of these that brings the new one. Until then
            // its folder may be any, and its votes count for nothing.
            None if is_formed && (way == Way::Dialed || self.is_fresh()) => {
                Err(format!("node {node} is no member of this cluster"))
            }
            None if is_formed => Ok(()),
            // While the cluster forms, nodes have votes before the directory knows them.
            None => match self.met.get(&node) {
                Some(met) if *met != folder => Err(other(*met)),
                _ => Ok(()),
            },
        }
    }

    /// Reads the state as it is known here now.
    pub fn read<T>(&self, with: impl FnOnce(&DirectoryState) -> T) -> T {
        with(&self.shared.state.read())
    }

    /// What the cluster's nodes may store and propose; the first format until the cluster is there.
    pub fn format(&self) -> Format {
        self.read(|state| state.cluster.as_ref().map_or(Format::FIRST, |cluster| cluster.format))
    }

    /// Whether it is young enough to judge keys by.
    pub fn is_fresh(&self) -> bool {
        self.shared.own_copy.is_fresh()
    }

    pub(crate) fn age(&self) -> Option<Duration> {
        self.shared.own_copy.age()
    }
}

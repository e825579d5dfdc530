//! The host of all Raft groups of a node.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::id::NodeId;
use thiserror::Error;

use crate::group::Group;
use crate::machine::{GroupId, Machine};
use crate::transport::Peers;

/// How fast groups notice that a leader is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub heartbeat: Duration,
    pub election_min: Duration,
    pub election_max: Duration,
}

impl Timing {
    /// For nodes in one data centre.
    pub const LAN: Self = Self {
        heartbeat: Duration::from_millis(80),
        election_min: Duration::from_millis(300),
        election_max: Duration::from_millis(420),
    };
    /// For nodes in different regions.
    pub const WAN: Self = Self {
        heartbeat: Duration::from_millis(250),
        election_min: Duration::from_millis(1500),
        election_max: Duration::from_millis(3000),
    };
}

/// How much log a group keeps, so that a follower that was away catches up from the log and not from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Entries that stay behind the newest snapshot.
    pub keep_entries: u64,
    /// A snapshot (a position from which the log may be purged) is taken each time that many entries were applied.
    pub snapshot_every: u64,
    /// Bytes of log after which a snapshot is taken and the log cut, whatever the number of entries.
    pub max_bytes: u64,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { keep_entries: 50_000, snapshot_every: 10_000, max_bytes: 256 << 20 }
    }
}

/// Called with a reason when the node cannot go on safely (its disk failed, say); has to end the process.
pub type Fatal = Arc<dyn Fn(String) + Send + Sync>;

/// Makes the machine of a group; called again when the group is rebuilt.
pub type Factory = Box<dyn Fn() -> Box<dyn Machine> + Send + Sync>;

pub struct HostConfig {
    pub node: NodeId,
    /// Holds `raft/` (log and votes, synced) and `data/` (state, replayed from the log after a crash).
    pub data_dir: PathBuf,
    pub timing: Timing,
    pub log: LogLimits,
    pub peers: Arc<Peers>,
    /// `None`: log the reason and exit with code 3.
    pub fatal: Option<Fatal>,
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error("{path}: {reason}")]
    Folder { path: PathBuf, reason: String },
}

#[derive(Debug, Error)]
pub enum OpenError {
    #[error("group {0} is open already")]
    AlreadyOpen(GroupId),
    #[error("group {group}: {reason}")]
    Failed { group: GroupId, reason: String },
}

/// What the host says about itself for readiness and `gateway status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Groups that died and are not running again yet.
    pub dead: Vec<GroupId>,
    /// Groups that run.
    pub running: Vec<GroupId>,
}

impl Health {
    pub fn is_ready(&self) -> bool {
        self.dead.is_empty()
    }
}

/// All Raft groups of this node.
pub struct Host {}

impl Host {
    pub async fn start(_config: HostConfig) -> Result<Self, StartError> {
        unimplemented!()
    }

    /// Starts a group of this node; it takes part as soon as its members know it.
    pub async fn open_group(&self, _id: GroupId, _factory: Factory) -> Result<Group, OpenError> {
        unimplemented!()
    }

    pub fn group(&self, _id: GroupId) -> Option<Group> {
        unimplemented!()
    }

    /// Stops a group; its log and state stay on disk.
    pub async fn close_group(&self, _id: GroupId) {
        unimplemented!()
    }

    pub fn health(&self) -> Health {
        unimplemented!()
    }

    /// Stops all groups and writes what is still in memory.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}

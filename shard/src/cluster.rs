//! The cluster as the HTTP side sees it: the directory, and calls to owners wherever they are.

use std::sync::Arc;
use std::time::Instant;

use model::customer::Limits;
use model::error::ApiError;
use model::id::{ChannelId, CustomerId, NodeId, RequestId};
use model::limit::{BucketLevel, BucketSize};
use raft::directory::Directory;

use crate::call::{Done, Live, Work};
use crate::history::{HistoryQuery, StoredMessage};

/// Settings that the HTTP side and the owners share.
pub struct ClusterSettings {
    pub node: NodeId,
}

/// One node's view of the cluster.
pub struct Cluster {
    directory: Arc<Directory>,
}

/// The buckets after a request was counted.
#[derive(Clone, Debug)]
pub struct Charged {
    pub customer: BucketLevel,
    pub channel: Option<BucketLevel>,
}

impl Cluster {
    /// The directory: keys, endpoints, customers and channels from memory, updates through its leader.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }
}

//! The cluster's format, on which all nodes agree, and how it is raised.
//!
//! Raising has two steps, because data of the new format must never meet a node that does not understand it. First
//! every node confirms that it understands the new format, and marks its data folder so that no older release can open
//! it any more (*seals* it); then the directory declares the format valid. A node that dies in between, or comes back
//! with an older release, is refused by its own folder.

use std::io;
use std::sync::Arc;

use model::format::Format;
use model::id::NodeId;
use raft::directory::UpdateError;

/// Marks the data folder so that only releases that understand this format can open it from now on. Blocks on disk.
pub type Seal = Arc<dyn Fn(Format) -> io::Result<()> + Send + Sync>;

/// The release that a process runs.
#[derive(Clone)]
pub struct Release {
    /// The version, as shown to operators.
    pub version: String,
    pub seal: Seal,
}

/// Why the format was not raised.
#[derive(Debug, thiserror::Error)]
pub enum RaiseError {
    #[error("node {0} does not answer: start it with this release, or remove it for good (gateway node remove {0})")]
    Silent(NodeId),
    #[error(
        "node {node} runs release {release}, which understands formats up to {understands}, and the cluster has {has} \
         already: upgrade the node first"
    )]
    TooOld { node: NodeId, release: String, understands: Format, has: Format },
    #[error("the cluster has format {0} already, and this release has no higher one")]
    Highest(Format),
    #[error("node {node} cannot write the format into its data folder: {reason}")]
    Unsealed { node: NodeId, reason: String },
    #[error(transparent)]
    Update(#[from] UpdateError),
}

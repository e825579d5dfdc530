//! The cluster's format: what its nodes agree upon, and how it is raised.
//!
//! Raising has two steps, because what comes after it must never meet a node that does not understand it. First every
//! node says that it understands the new format, and notes in its data folder that no older release may open that any
//! more (*seals* it); then the directory says that the format holds. A node that dies in between, or comes back with an
//! older release, is refused by its own folder.

use std::io;
use std::sync::Arc;

use model::format::Format;
use model::id::NodeId;
use raft::directory::UpdateError;

/// Notes in the data folder that only releases that understand this format may open it from now on. Blocks on disk.
pub type Seal = Arc<dyn Fn(Format) -> io::Result<()> + Send + Sync>;

/// What a process is of.
#[derive(Clone)]
pub struct Release {
    /// As operators see it.
    pub version: String,
    pub seal: Seal,
}

/// Why the format stays as it is.
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

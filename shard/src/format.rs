//! The cluster's format: what its nodes agree upon, and how it is raised.
//!
//! Raising has two steps, because what comes after it must never meet a node that does not understand it. First every
//! node says that it understands the new format, and notes in its data folder that no older release may open that any
//! more (*seals* it); then the directory says that the format holds. A node that dies in between, or comes back with an
//! older release, is refused by its own folder.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use model::format::Format;
use model::id::NodeId;
use raft::directory::command::Command;
use raft::directory::records::AuditEntry;
use raft::directory::{Directory, UpdateError};

use crate::router::{Router, Vitals};

/// How long a node may take to say what it understands, or to note it on its disk.
const PATIENCE: Duration = Duration::from_secs(2);

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
    #[error("the cluster has format {0} already, and this release knows no higher one")]
    Highest(Format),
    #[error("node {node} cannot note the format in its data folder: {reason}")]
    Unsealed { node: NodeId, reason: String },
    #[error(transparent)]
    Update(#[from] UpdateError),
}

impl Router {
    /// What each of these nodes is, by its own word.
    ///
    /// # Errors
    /// [`RaiseError::Silent`] for one that does not answer.
    async fn all_of(&self, nodes: &[NodeId]) -> Result<BTreeMap<NodeId, Vitals>, RaiseError> {
        let deadline = Instant::now() + PATIENCE;
        let asked = nodes.iter().map(|node| async move { (*node, self.vitals_of(*node, deadline).await) });
        let heard = join_all(asked).await.into_iter();
        heard.map(|(node, vitals)| vitals.map(|vitals| (node, vitals)).ok_or(RaiseError::Silent(node))).collect()
    }

    /// Has each of these nodes seal its folder.
    async fn seal_all(&self, nodes: &[NodeId], format: Format) -> Result<(), RaiseError> {
        let deadline = Instant::now() + PATIENCE;
        let asked = nodes.iter().map(|node| async move {
            let sealed = self.seal_of(*node, format, deadline).await;
            sealed.map_err(|reason| RaiseError::Unsealed { node: *node, reason })
        });
        join_all(asked).await.into_iter().collect()
    }

    /// The format that a cluster of these nodes can be formed with: the highest that all understand. All have sealed their
    /// folders for it.
    pub(crate) async fn agree(&self, nodes: &[NodeId]) -> Result<Format, RaiseError> {
        let vitals = self.all_of(nodes).await?;
        let format = vitals.values().map(|vitals| vitals.format).min().unwrap_or_default().min(Format::LATEST);
        if !format.is_first() {
            self.seal_all(nodes, format).await?;
        }
        Ok(format)
    }

    /// Raises the cluster's format to the highest that all members understand. What was sealed before a failure stays
    /// sealed; doing it again goes on from there.
    pub(crate) async fn raise_format(
        &self,
        directory: &Directory,
        audit: AuditEntry,
        deadline: Instant,
    ) -> Result<Format, RaiseError> {
        let has = directory.format();
        let nodes = self.nodes();
        let vitals = self.all_of(&nodes).await?;
        let oldest = vitals.iter().min_by_key(|(_, vitals)| vitals.format).filter(|(_, vitals)| vitals.format <= has);
        if has >= Format::LATEST {
            return Err(RaiseError::Highest(has));
        }
        if let Some((node, vitals)) = oldest {
            let (node, release, understands) = (*node, vitals.version.clone(), vitals.format);
            return Err(RaiseError::TooOld { node, release, understands, has });
        }
        let format = vitals.values().map(|vitals| vitals.format).min().unwrap_or(has).min(Format::LATEST);
        self.seal_all(&nodes, format).await?;
        directory.update(Command::RaiseFormat { format, sealed: nodes }, vec![audit], deadline).await?;
        tracing::info!(%format, "the cluster's format is raised");
        Ok(format)
    }
}

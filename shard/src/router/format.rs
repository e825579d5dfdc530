//! Queries the formats that nodes understand, and has nodes seal their data folders for one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use model::format::Format;
use model::id::NodeId;
use raft::directory::Directory;
use raft::directory::command::Command;
use raft::directory::records::AuditEntry;

use super::{NodeStatus, Router};
use crate::format::RaiseError;
use crate::nodes::Nodes;

/// Timeout for a node's status, or for sealing its data folder.
const PATIENCE: Duration = Duration::from_secs(2);

impl Router {
    /// The status of each of these nodes.
    ///
    /// # Errors
    /// [`RaiseError::Silent`] if one does not answer.
    async fn all_of(&self, nodes: &[NodeId]) -> Result<BTreeMap<NodeId, NodeStatus>, RaiseError> {
        let deadline = Instant::now() + PATIENCE;
        let asked = nodes.iter().map(|node| async move { (*node, self.status_of(*node, deadline).await) });
        let heard = join_all(asked).await.into_iter();
        heard
            .map(|(node, statuses)| statuses.map(|statuses| (node, statuses)).ok_or(RaiseError::Silent(node)))
            .collect()
    }

    /// Has each of these nodes seal its data folder.
    async fn seal_all(&self, nodes: &[NodeId], format: Format) -> Result<(), RaiseError> {
        let deadline = Instant::now() + PATIENCE;
        let asked = nodes.iter().map(|node| async move {
            let sealed = self.seal_of(*node, format, deadline).await;
            sealed.map_err(|reason| RaiseError::Unsealed { node: *node, reason })
        });
        join_all(asked).await.into_iter().collect()
    }

    /// The format that a cluster of these nodes can be formed with: the highest that all understand. All have sealed
    /// their data folders for it when this returns.
    pub(crate) async fn agree(&self, nodes: &[NodeId]) -> Result<Format, RaiseError> {
        let statuses = self.all_of(nodes).await?;
        let format = statuses.values().map(|statuses| statuses.format).min().unwrap_or_default().min(Format::LATEST);
        if !format.is_first() {
            self.seal_all(nodes, format).await?;
        }
        Ok(format)
    }

    /// Raises the cluster's format to the highest that all members understand. Folders that were sealed before a
    /// failure stay sealed; a repeated call continues from there.
    pub(crate) async fn raise_format(
        &self,
        directory: &Directory,
        audit: AuditEntry,
        deadline: Instant,
    ) -> Result<Format, RaiseError> {
        let has = directory.format();
        let nodes = self.members();
        let statuses = self.all_of(&nodes).await?;
        let oldest =
            statuses.iter().min_by_key(|(_, statuses)| statuses.format).filter(|(_, statuses)| statuses.format <= has);
        if has >= Format::LATEST {
            return Err(RaiseError::Highest(has));
        }
        if let Some((node, statuses)) = oldest {
            let (node, release, understands) = (*node, statuses.version.clone(), statuses.format);
            return Err(RaiseError::TooOld { node, release, understands, has });
        }
        let format = statuses.values().map(|statuses| statuses.format).min().unwrap_or(has).min(Format::LATEST);
        self.seal_all(&nodes, format).await?;
        directory.update(Command::RaiseFormat { format, sealed: nodes }, vec![audit], deadline).await?;
        tracing::info!(%format, "the cluster's format is raised");
        Ok(format)
    }
}

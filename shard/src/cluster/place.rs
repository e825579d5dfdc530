//! This node's own membership: joining the cluster, and following changes of its record in the directory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use raft::directory::command::Rejection;
use raft::directory::members::NodeState;
use raft::failpoint::{self, Point};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::Cluster;
use crate::membership::{Excluded, Membership};
use crate::nodes::Nodes;

/// How often a node checks its own record when no change is signalled.
const OWN_RECORD_CHECK: Duration = Duration::from_secs(2);

/// Becomes a member, then hosts shards until the node stops.
pub(super) async fn join(
    membership: Arc<Membership>,
    excluded: watch::Sender<Option<Excluded>>,
    stop: CancellationToken,
) {
    let becoming = async {
        membership.form_directory().await;
        membership.register().await?;
        membership.make_cluster().await;
        membership.check_master_key().await
    };
    match stop.run_until_cancelled(becoming).await {
        Some(Ok(())) => membership.host_shards().await,
        Some(Err(reason)) => {
            excluded.send_replace(Some(reason));
        }
        None => {}
    }
}

/// Drains or undrains this node as its record says. Excludes it when its record was removed for good, or when something
/// is sealed under a master key that it lacks. Each shard's owner then transfers its own leadership.
pub(super) async fn follow_own_record(cluster: Arc<Cluster>, stop: CancellationToken) {
    let mut changes = cluster.directory.changes();
    let mut told = false;
    let mut warned_of = None;
    loop {
        failpoint::reach(Point::NodeTurn);
        let (own, removed) = cluster.directory.read(|state| {
            (state.nodes.get(&cluster.node).map(|node| node.state), state.removed.contains_key(&cluster.node))
        });
        // Checked before the read: a stale copy may predate the exchange that dropped a master key.
        let is_fresh = cluster.directory.is_fresh();
        if let Some(lacking) = cluster.directory.read(|state| cluster.secrets().lacking(state)) {
            if is_fresh {
                cluster.excluded.send_replace(Some(Excluded::MasterKey(lacking)));
            } else if warned_of.replace(lacking) != Some(lacking) {
                tracing::warn!(master_key = %lacking, "this node lacks a master key; asking the other nodes");
            }
        }
        if removed {
            cluster.excluded.send_replace(Some(Excluded::Rejected(Rejection::NodeRemoved(cluster.node))));
        }
        let draining = own.is_some_and(|state| !state.leads() && state != NodeState::Joining);
        cluster.router.set_draining(draining || cluster.stopping.load(Ordering::Acquire));
        if !draining {
            told = false;
        } else if cluster.router.is_drained_of_callers() {
            cluster.transfer_directory().await;
            if !told && cluster.owners.all().is_empty() {
                cluster.drains.send_modify(|drains| *drains += 1);
                told = true;
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            change = changes.recv() => match change {
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = tokio::time::sleep(OWN_RECORD_CHECK) => {}
        }
    }
}

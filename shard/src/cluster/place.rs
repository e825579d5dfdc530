//! This node's own place in the cluster: how it is taken, and what becomes of it as its record changes.

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

/// How often a node looks at its own record, when nothing is heard of it.
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

/// Drains this node when its record says so, and undrains it; and excludes it when its record is gone for good, or when
/// something is sealed under a master key that it lacks. The leaderships go as each shard's owner sees it.
pub(super) async fn follow_own_record(cluster: Arc<Cluster>, stop: CancellationToken) {
    let mut changes = cluster.directory.changes();
    let mut told = false;
    let mut warned_of = None;
    loop {
        failpoint::reach(Point::NodeTurn);
        let (own, removed) = cluster.directory.read(|state| {
            (state.nodes.get(&cluster.node).map(|node| node.state), state.removed.contains_key(&cluster.node))
        });
        // Asked before the reading: what it heard last may be of before the exchange that let a key go.
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

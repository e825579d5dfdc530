//! The faults that make a bug of the product show.

use std::collections::HashMap;
use std::time::Duration;

use raft::failpoint::{Point, Wire};
use serde_json::json;
use tests::cluster::Cluster;
use tests::http::Api;

use super::run::Ground;
use crate::history::{At, FaultKind, Recorder};
use crate::workload::Workload;

/// Delay of each commit of an owner that will be killed.
const COMMIT: Duration = Duration::from_millis(250);
/// How long webhook receivers do not answer, so that deliveries queue up behind others.
const HOLD: Duration = Duration::from_millis(1800);
/// How long the owner commits slowly before it is killed.
const SLOW: Duration = Duration::from_millis(1500);
/// Delay of the network's acceptances meanwhile, so that the owner's outbox is not empty.
const ACCEPT: Duration = Duration::from_millis(700);
/// How long an owner is cut off from its peers before it is killed: what it does too early is lost then. It is short
/// enough that the others have hardly taken over, and that the owner's copy of the directory is still fresh.
const APART: Duration = Duration::from_millis(1200);
/// Downtime of a killed node: long enough for the others to take over and to work without it for a while.
const AWAY: Duration = Duration::from_secs(3);
/// Longer than a copy of the directory may be used, and than an owner may speak for its channels without a quorum.
const DEAF: Duration = Duration::from_secs(5);
/// How long the network is unreachable, so that sends queue up.
const UNREACHED: Duration = Duration::from_secs(3);
/// Downtime after which the other nodes' logs have been compacted beyond what the node has.
const LONG_AWAY: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// No fault: the bug shows by itself.
    None,
    /// The network delivers items again that were acknowledged to it.
    Repeats,
    /// No node reaches the network for a while.
    NoNetwork,
    /// The coordinator of the main customer is cut off from its peers, but not from its clients and the network.
    DeafNode,
    /// The coordinator of the main customer receives nothing of the directory, but may answer requests.
    OldDirectory,
    /// The node that owns most channels commits slowly, and is then killed. It comes back.
    DeathOfOwner,
    /// Webhook receivers do not answer for a while, and then the node that owns most channels is killed. It comes back.
    DeathAmidDeliveries,
    /// The coordinator of the main customer is cut off from its peers, so commits nothing, and is then killed. It comes
    /// back.
    LonelyDeath,
    /// All nodes lose power and all unsynced data at once. The network is unreachable before, so that sends queue up.
    PowerCut,
    /// A node is down until the others' logs no longer reach back to its state.
    LongAway,
}

impl Harm {
    /// Injects the fault, records it, and returns when it has ended.
    ///
    /// # Errors
    /// When a node refuses.
    pub async fn strike(self, ground: &Ground, workload: &Workload, recorder: &Recorder) -> anyhow::Result<()> {
        let (cluster, from) = (&ground.cluster, recorder.now());
        let simulator = cluster.simulator(&ground.http);
        match self {
            Self::None => {}
            Self::Repeats => {
                simulator.faults(json!({ "hold_inbound_acks": true })).await;
                tokio::time::sleep(UNREACHED).await;
                simulator.faults(json!({ "hold_inbound_acks": false, "cut_node": cluster.node_ids() })).await;
                simulator.clear_faults().await;
                recorder.fault(
                    from,
                    FaultKind::Slow,
                    &[],
                    "the network heard of no acknowledgement and cut all sessions",
                );
            }
            Self::NoNetwork => {
                simulator.faults(json!({ "cut_node": cluster.node_ids() })).await;
                tokio::time::sleep(UNREACHED).await;
                simulator.clear_faults().await;
                recorder.fault(from, FaultKind::Slow, &[], "the network was not there");
            }
            Self::DeafNode => {
                let node = deafen(ground, workload, Wire::Peers).await?;
                // Not recorded as a cut: the node reaches the network, so must end its sessions in time.
                recorder.fault(from, FaultKind::Failpoint, &[node], format!("node {node} and its peers were apart"));
            }
            Self::OldDirectory => {
                let node = deafen(ground, workload, Wire::Directory).await?;
                recorder.fault(
                    from,
                    FaultKind::Failpoint,
                    &[node],
                    format!("node {node} heard nothing of the directory"),
                );
            }
            Self::DeathOfOwner => {
                let node = ground.busiest(self).await?;
                let slow = format!("sleep({})", COMMIT.as_millis());
                simulator.faults(json!({ "accept_delay_ms": ACCEPT.as_millis() as u64 })).await;
                ground.arm(&[node], Point::CommitBefore.name(), &slow).await?;
                tokio::time::sleep(SLOW).await;
                cluster.kill(node);
                comes_back(cluster, recorder, node, from, AWAY, "which committed slowly").await;
                simulator.clear_faults().await;
            }
            Self::DeathAmidDeliveries => {
                let node = ground.busiest(self).await?;
                workload.hold_webhooks(true);
                tokio::time::sleep(HOLD).await;
                cluster.kill(node);
                workload.hold_webhooks(false);
                comes_back(cluster, recorder, node, from, AWAY, "while webhooks waited for each other").await;
            }
            Self::LonelyDeath => {
                let node = ground.leader(workload.main_home()).await?;
                // Requests to other nodes hang, and their clients with them, so too few would reach this node.
                workload.draw_to(Some(node));
                ground.arm(&[node], Wire::Peers.name(), "return").await?;
                tokio::time::sleep(APART).await;
                cluster.kill(node);
                workload.draw_to(None);
                comes_back(cluster, recorder, node, from, AWAY, "which had been apart from its peers").await;
            }
            Self::PowerCut => {
                let nodes = cluster.node_ids();
                simulator.faults(json!({ "cut_node": nodes })).await;
                tokio::time::sleep(UNREACHED).await;
                cluster.kill_all(&nodes);
                ground.lose_power()?;
                simulator.clear_faults().await;
                cluster.restart(&nodes).await;
                recorder.fault(
                    from,
                    FaultKind::Crash,
                    &nodes,
                    "the network was not there, and then power failed everywhere",
                );
            }
            Self::LongAway => {
                let node = ground.busiest(self).await?;
                cluster.kill(node);
                comes_back(cluster, recorder, node, from, LONG_AWAY, "which was away for longer than the logs reach")
                    .await;
            }
        }
        Ok(())
    }
}

/// Cuts the coordinator of the main customer off from one kind of traffic for a while. Returns the node.
async fn deafen(ground: &Ground, workload: &Workload, wire: Wire) -> anyhow::Result<u64> {
    let node = ground.leader(workload.main_home()).await?;
    ground.arm(&[node], wire.name(), "return").await?;
    tokio::time::sleep(DEAF).await;
    ground.disarm(&[node], wire.name()).await?;
    Ok(node)
}

/// Restarts a killed node after a while, and records its downtime since `from` and the circumstances of its death.
async fn comes_back(cluster: &Cluster, recorder: &Recorder, node: u64, from: At, after: Duration, special: &str) {
    tokio::time::sleep(after).await;
    cluster.restart(&[node]).await;
    recorder.fault(from, FaultKind::Crash, &[node], format!("kill -9 of node {node}, {special}"));
}

/// The node that owns most of the newest channels.
pub(super) async fn busiest(cluster: &Cluster, operator: &Api, newest: usize) -> anyhow::Result<u64> {
    let channels = operator.get(&format!("/v1/admin/channels?limit={newest}")).await.expect(200);
    let mut owned: HashMap<u64, usize> = HashMap::new();
    for channel in channels["data"].as_array().into_iter().flatten().filter(|row| row["status"] == "connected") {
        *owned.entry(channel["node_id"].as_u64().unwrap_or_default()).or_default() += 1;
    }
    let most = cluster.node_ids().into_iter().max_by_key(|node| owned.get(node).copied().unwrap_or_default());
    most.ok_or_else(|| anyhow::anyhow!("the cluster has no node"))
}

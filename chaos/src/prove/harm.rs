//! What is done to a cluster so that a fault of it shows.

use std::collections::HashMap;
use std::time::Duration;

use raft::failpoint::{Point, Wire};
use serde_json::json;
use tests::cluster::Cluster;
use tests::http::Api;

use super::run::Ground;
use crate::history::{At, FaultKind, Recorder};
use crate::workload::Workload;

/// How slowly an owner that is to die commits.
const COMMIT: Duration = Duration::from_millis(250);
/// For how long receivers answer nothing, so that deliveries wait for those before them.
const HOLD: Duration = Duration::from_millis(1800);
/// For how long it does.
const SLOW: Duration = Duration::from_millis(1500);
/// How slowly the network accepts meanwhile, so that its outbox is not empty.
const ACCEPT: Duration = Duration::from_millis(700);
/// For how long an owner commits nothing before it dies: all that was done too early is lost then. Others have hardly taken
/// over, and its copy of the directory is still good.
const APART: Duration = Duration::from_millis(1200);
/// The others have taken over by then, and done without it for a while.
const AWAY: Duration = Duration::from_secs(3);
/// Longer than a copy of the directory may be used, and than an owner may speak for its channels.
const DEAF: Duration = Duration::from_secs(5);
/// The network is not there, and sends wait.
const UNREACHED: Duration = Duration::from_secs(3);
/// Many entries more than logs keep then.
const LONG_AWAY: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// Nothing: the fault shows by itself.
    None,
    /// The network sends again what it was told is safe.
    Repeats,
    /// No node reaches the network for a while.
    NoNetwork,
    /// The node that counts a customer's calls does not hear of its peers, nor they of it; its callers and the network do.
    DeafNode,
    /// The node that counts a customer's calls hears nothing of the directory. All else goes on: it may answer calls.
    OldDirectory,
    /// The node that owns most channels commits slowly, and then dies. It comes back.
    DeathOfOwner,
    /// Receivers answer nothing for a while, and then the node that owns most channels dies. It comes back.
    DeathAmidDeliveries,
    /// The node that counts a customer's calls commits nothing, for want of its peers, and then dies. It comes back.
    LonelyDeath,
    /// All nodes die at once, and with them all that was not synced. The network is not there before it, so that sends wait.
    PowerCut,
    /// A node is away until the others' logs do not reach back to it.
    LongAway,
}

impl Harm {
    /// Does it, writes down what was done, and returns when it is over.
    ///
    /// # Errors
    /// When a node does not do as it is told.
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
                // Not a cut in the judges' sense: it reaches the network, and so has to end its sessions in time.
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
                // What goes through another node hangs, and its client with it: too few would ask the one that matters.
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

/// Lets the node that counts the main customer's calls hear nothing on a wire for a while. Says which one that was.
async fn deafen(ground: &Ground, workload: &Workload, wire: Wire) -> anyhow::Result<u64> {
    let node = ground.leader(workload.main_home()).await?;
    ground.arm(&[node], wire.name(), "return").await?;
    tokio::time::sleep(DEAF).await;
    ground.disarm(&[node], wire.name()).await?;
    Ok(node)
}

/// Starts a killed node again after a while, and writes down that it was gone `from` then on, and what made its death special.
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

//! Collects the state of the cluster for operators: the report of each node, and the states of the groups.

use std::collections::BTreeMap;
use std::time::Duration;

use model::format::Format;
use model::id::{NodeId, ShardId};
use model::seal::MasterKeyId;
use raft::directory::state::DirectoryState;
use shard::assessment::{DIRECTORY, GroupState, GroupView, Wanted, groups};
use shard::cluster::Cluster;
use shard::report::{Heard, Survey};

/// How long nodes may take to report. A slow disk is tested with a few syncs.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state of the cluster at one moment.
pub struct ClusterView {
    pub survey: Survey,
    /// The directory, then the shards.
    pub groups: Vec<GroupView>,
    /// How many sessions each node may hold.
    pub slots: BTreeMap<NodeId, u32>,
    /// The cluster's format: what nodes may store and send.
    pub format: Format,
    /// The number of data keys that are sealed under each master key.
    pub sealed_under: BTreeMap<MasterKeyId, usize>,
    /// Whether the certificate authority of the nodes is being rotated.
    pub authority_rotates: bool,
}

impl ClusterView {
    /// Asks all nodes for their reports.
    pub async fn of(cluster: &Cluster) -> Self {
        let survey = cluster.survey(PATIENCE).await;
        let (wanted, slots) =
            cluster.directory().read(|state| {
                let slots = state.nodes.values().map(|node| (node.id, node.max_channels)).collect();
                let everywhere = Wanted { leader: None, replicas: state.nodes.keys().copied().collect() };
                let mut wanted: BTreeMap<ShardId, Wanted> = [(DIRECTORY, everywhere)].into();
                wanted.extend(state.placement.values().map(|place| {
                    (place.shard, Wanted { leader: Some(place.leader), replicas: place.replicas.clone() })
                }));
                (wanted, slots)
            });
        let format = cluster.directory().format();
        let sealed_under = cluster.directory().read(DirectoryState::sealed_under);
        let rotates = |state: &DirectoryState| state.authority.as_ref().is_some_and(|known| known.rotation.is_some());
        let authority_rotates = cluster.directory().read(rotates);
        Self { groups: groups(&survey, &wanted), survey, slots, format, sealed_under, authority_rotates }
    }

    /// The nodes that answered.
    pub fn heard(&self) -> impl Iterator<Item = (NodeId, &Heard)> {
        self.survey.iter().filter_map(|(node, heard)| heard.as_ref().ok().map(|heard| (*node, heard)))
    }

    /// The nodes that answered and are not drained.
    pub fn in_service(&self) -> impl Iterator<Item = NodeId> {
        self.heard().filter(|(_, heard)| !heard.report.status.draining).map(|(node, _)| node)
    }

    /// The nodes whose `/readyz` says that they are ready. Load balancers send requests only to these.
    pub fn ready(&self) -> impl Iterator<Item = NodeId> {
        self.heard().filter(|(_, heard)| heard.report.status.is_ready()).map(|(node, _)| node)
    }

    /// The groups in a state.
    pub fn groups_in(&self, state: GroupState) -> Vec<ShardId> {
        self.groups.iter().filter(|group| group.state() == state).map(|group| group.id).collect()
    }
}

//! The loads of shards, for the assignment of their leaders.
//!
//! The load of a shard is measured by each of its replicas as the work of its log
//! ([`raft::group::Group::applied_per_second`]). The rest of its work, sessions and deliveries, is done by its leader.

use std::collections::BTreeMap;

use model::id::{NodeId, ShardId};

use crate::report::NodeStatus;

/// The load of an idle shard: an idle shard counts, too. Loads are integers, in thousandths of an idle shard.
pub const QUIET: u64 = 1_000;

/// The work per second that counts as one idle shard more.
const WORK_OF_A_SHARD: u64 = 200;

/// The work per second and node below which a cluster is idle: small differences fluctuate, so all shards count alike.
const QUIET_WORK: u64 = 200;

/// The loads of all shards at one moment. By default all are idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loads {
    traffic: BTreeMap<ShardId, u64>,
    /// The traffic of a shard that no node reported.
    usual: u64,
}

impl Loads {
    /// The loads that the nodes reported. A shard that none of them reported counts as the mean of the others.
    pub fn told(statuses: &BTreeMap<NodeId, NodeStatus>) -> Self {
        let mut said: BTreeMap<ShardId, Vec<u64>> = BTreeMap::new();
        for (shard, work) in statuses.values().flat_map(|statuses| &statuses.work) {
            said.entry(*shard).or_default().push(*work);
        }
        let work: BTreeMap<ShardId, u64> = said.into_iter().map(|(shard, said)| (shard, middle(said))).collect();
        if work.values().sum::<u64>() < QUIET_WORK * statuses.len() as u64 {
            return Self::default();
        }
        Self::of_traffic(work.into_iter().map(|(shard, work)| (shard, work * QUIET / WORK_OF_A_SHARD)))
    }

    /// Loads made from the traffic of each shard, that is its load beyond that of an idle shard.
    pub fn of_traffic(traffic: impl IntoIterator<Item = (ShardId, u64)>) -> Self {
        let traffic: BTreeMap<ShardId, u64> = traffic.into_iter().collect();
        let usual = traffic.values().sum::<u64>().checked_div(traffic.len() as u64).unwrap_or(0);
        Self { traffic, usual }
    }

    /// The part of a shard's load that its work causes.
    pub fn traffic(&self, shard: ShardId) -> u64 {
        self.traffic.get(&shard).copied().unwrap_or(self.usual)
    }

    /// The total load of a shard.
    pub fn of(&self, shard: ShardId) -> u64 {
        QUIET + self.traffic(shard)
    }

    /// The load of each node with these leaderships.
    pub fn by_node(&self, leaders: impl IntoIterator<Item = (ShardId, NodeId)>) -> BTreeMap<NodeId, Burden> {
        let mut nodes: BTreeMap<NodeId, Burden> = BTreeMap::new();
        for (shard, node) in leaders {
            nodes.entry(node).or_default().add(shard, self);
        }
        nodes
    }
}

/// The load of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burden {
    pub leads: usize,
    /// The loads of the shards that it leads.
    pub load: u64,
    /// The part of it that exceeds the load of idle shards.
    pub traffic: u64,
}

impl Burden {
    pub(super) fn add(&mut self, shard: ShardId, loads: &Loads) {
        self.leads += 1;
        self.load += loads.of(shard);
        self.traffic += loads.traffic(shard);
    }

    pub(super) fn take(&mut self, shard: ShardId, loads: &Loads) {
        self.leads -= 1;
        self.load -= loads.of(shard);
        self.traffic -= loads.traffic(shard);
    }
}

/// The lower median: a replica that was away has either applied nothing yet, or much at once.
fn middle(mut said: Vec<u64>) -> u64 {
    said.sort_unstable();
    said.get(said.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::tests::node_status;

    fn told(work: &[&[(ShardId, u64)]]) -> Loads {
        let said = (1..)
            .zip(work)
            .map(|(node, work)| (node, NodeStatus { work: work.iter().copied().collect(), ..node_status() }));
        Loads::told(&said.collect())
    }

    #[test]
    fn a_quiet_cluster_has_shards_that_count_alike() {
        assert_eq!(told(&[]), Loads::default());
        let loads = told(&[&[(1, 150), (2, 10)], &[(1, 150), (2, 10)]]);
        assert_eq!((loads.of(1), loads.of(2), loads.of(3)), (QUIET, QUIET, QUIET));
    }

    #[test]
    fn a_shard_has_the_work_that_the_middle_one_of_its_replicas_tells_and_an_unknown_one_the_mean() {
        let loads = told(&[&[(1, 1_000), (2, 200)], &[(1, 1_100)], &[(1, 90_000), (2, 250)]]);
        assert_eq!((loads.traffic(1), loads.traffic(2)), (5_500, 1_000));
        assert_eq!(loads.of(3), QUIET + 3_250);
        let bears = loads.by_node([(1, 7), (2, 7), (3, 8)]);
        assert_eq!(bears[&7], Burden { leads: 2, load: 2 * QUIET + 6_500, traffic: 6_500 });
    }
}

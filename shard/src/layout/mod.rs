//! Where shards live: a consistent hash ring over the nodes, by weight and zone.
//!
//! Pure: computes a placement from nodes. The placement is stored in the directory; the ring itself is not. [`plan`]
//! computes the moves from one placement to another, and [`driver`] executes them.

mod assignment;
pub mod driver;
mod failure_detector;
pub mod load;
pub mod load_balancer;
pub mod plan;
pub mod removal;
pub mod service;

use std::collections::{BTreeMap, BTreeSet};

use consistent_hash::{DefaultHash, Node, StaticHashRing};
use model::id::{NodeId, SLOT_COUNT, ShardId};
use raft::directory::records::{NodeRecord, PlacementRecord};

use self::assignment::assign_leaders;
use self::load::Loads;

/// The number of replicas of a shard, if there are as many nodes.
pub const REPLICAS: usize = 3;

/// Points on the ring for each unit of weight: enough to spread few shards evenly over few nodes.
const POINTS_PER_WEIGHT: usize = 64;

/// The default number of shards of a cluster: one for each core of its nodes, so that all are used, and at least two
/// for each node, so that there is something to move. More shards would only split the same work into more, smaller log
/// entries.
pub fn usual_shard_count(nodes: usize, cores_a_node: usize) -> u16 {
    let count = nodes.saturating_mul(cores_a_node.clamp(2, 16)).min(SLOT_COUNT.into());
    u16::try_from(count).unwrap_or(SLOT_COUNT)
}

/// Places all shards on the given nodes, for a new cluster.
pub fn place(shard_count: u16, nodes: &[NodeRecord]) -> Vec<PlacementRecord> {
    let ring = Ring::of(nodes);
    let placed: Vec<(ShardId, Vec<NodeId>)> = (1..=shard_count).map(|shard| (shard, ring.replicas(shard))).collect();
    let leaders = assign_leaders(&placed, &BTreeMap::new(), nodes, &Loads::default(), usize::MAX);
    let records = placed.into_iter().filter_map(|(shard, replicas)| {
        let leader = *leaders.get(&shard)?;
        Some(PlacementRecord { shard, replicas, leader, formed: false, settled: true })
    });
    records.collect()
}

/// The hash ring over some nodes.
pub(crate) struct Ring<'a> {
    ring: StaticHashRing<'a, NodeId, (), DefaultHash>,
    nodes: BTreeMap<NodeId, &'a NodeRecord>,
}

impl<'a> Ring<'a> {
    pub(crate) fn of(nodes: &'a [NodeRecord]) -> Self {
        let points = |node: &NodeRecord| Node::new(node.id).quantity(POINTS_PER_WEIGHT * node.weight.max(1) as usize);
        let ring = StaticHashRing::new(DefaultHash, nodes.iter().map(points));
        Self { ring, nodes: nodes.iter().map(|node| (node.id, node)).collect() }
    }

    /// The nodes that should hold a shard.
    pub(crate) fn replicas(&self, shard: ShardId) -> Vec<NodeId> {
        self.replicas_beside(shard, &[], &BTreeSet::new())
    }

    /// The nodes that should hold a shard: first those that hold it already, then others that are not away.
    pub(crate) fn replicas_beside(&self, shard: ShardId, held: &[NodeId], away: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let candidates = self.ring.calc_candidates(&shard).map(|node| node.key);
        let others = candidates.filter(|id| !held.contains(id) && !away.contains(id));
        let ordered: Vec<NodeId> = held.iter().copied().chain(others).collect();
        spread_over_zones(held.len(), &ordered, &self.nodes)
    }
}

/// The first [`REPLICAS`] candidates, each in another zone as long as there are unused zones; the first `held` of them
/// whatever their zone.
fn spread_over_zones(held: usize, candidates: &[NodeId], nodes: &BTreeMap<NodeId, &NodeRecord>) -> Vec<NodeId> {
    let zone = |id: &NodeId| nodes.get(id).and_then(|node| node.zone.clone());
    let (held, candidates) = candidates.split_at(held.min(candidates.len()));
    let mut zones: BTreeSet<String> = held.iter().filter_map(zone).collect();
    let (first_of_zone, rest): (Vec<NodeId>, Vec<NodeId>) =
        candidates.iter().partition(|id| zone(id).is_none_or(|zone| zones.insert(zone)));
    held.iter().copied().chain(first_of_zone).chain(rest).take(REPLICAS).collect()
}

/// Formats nodes for an error message: `node 1, 2`.
fn names(nodes: &BTreeSet<NodeId>) -> String {
    let ids: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    if ids.is_empty() { "none".to_owned() } else { format!("node {}", ids.join(", ")) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::time::Timestamp;
    use proptest::prelude::*;
    use raft::directory::members::NodeState;
    use uuid::Uuid;

    use super::*;

    pub(super) fn node(id: NodeId, zone: &str, weight: u32) -> NodeRecord {
        NodeRecord {
            id,
            storage_id: Uuid::nil(),
            peer: format!("host-{id}:8201"),
            zone: Some(zone.into()),
            weight,
            max_channels: 1,
            registered_at: Timestamp(0),
            state: NodeState::Active,
            configured_weight: weight,
        }
    }

    fn leads(placement: &[PlacementRecord], id: NodeId) -> usize {
        placement.iter().filter(|place| place.leader == id).count()
    }

    #[test]
    fn one_node_holds_and_leads_everything() {
        let placement = place(16, &[node(1, "a", 1)]);
        assert_eq!(placement.len(), 16);
        assert!(placement.iter().all(|place| place.replicas == [1] && place.leader == 1));
    }

    #[test]
    fn a_heavier_node_leads_more() {
        let placement = place(16, &[node(1, "a", 2), node(2, "a", 1), node(3, "a", 1)]);
        assert_eq!([leads(&placement, 1), leads(&placement, 2), leads(&placement, 3)], [8, 4, 4]);
    }

    #[test]
    fn replicas_stand_in_different_zones() {
        let nodes = [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5)].map(|(zone, id)| node(id, zone, 1));
        for place in place(16, &nodes) {
            let zones: BTreeSet<_> = place.replicas.iter().map(|id| nodes[*id as usize - 1].zone.clone()).collect();
            assert_eq!(zones.len(), 3, "{place:?}");
        }
    }

    proptest! {
        #[test]
        fn every_shard_has_distinct_replicas_and_leaders_are_even(count in 1_u64..9, shards in 1_u16..64) {
            let nodes: Vec<_> = (1..=count).map(|id| node(id, "a", 1)).collect();
            let placement = place(shards, &nodes);
            prop_assert_eq!(placement.len(), usize::from(shards));
            for place in &placement {
                let distinct: BTreeSet<_> = place.replicas.iter().collect();
                prop_assert_eq!(distinct.len(), REPLICAS.min(nodes.len()));
                prop_assert!(place.replicas.contains(&place.leader));
            }
            if nodes.len() <= REPLICAS {
                let all: Vec<usize> = nodes.iter().map(|node| leads(&placement, node.id)).collect();
                prop_assert!(all.iter().max().unwrap() - all.iter().min().unwrap() <= 1);
            }
        }
    }
}

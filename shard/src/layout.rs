//! Where shards live: a consistent hash ring over the nodes, by weight and zone (design section 2).
//!
//! Pure: nodes in, placement out. The result is stored in the directory; the ring itself is not.

use std::collections::{BTreeMap, BTreeSet};

use consistent_hash::{DefaultHash, Node, StaticHashRing};
use model::id::{NodeId, ShardId};
use raft::directory::records::{NodeRecord, PlacementRecord};

/// How many replicas a shard has, when there are as many nodes.
pub const REPLICAS: usize = 3;

/// Points on the ring for each unit of weight: enough to spread few shards over few nodes.
const POINTS_PER_WEIGHT: usize = 64;

/// Places all shards on the given nodes.
pub fn place(shard_count: u16, nodes: &[NodeRecord]) -> Vec<PlacementRecord> {
    let points = |node: &NodeRecord| Node::new(node.id).quantity(POINTS_PER_WEIGHT * node.weight.max(1) as usize);
    let ring = StaticHashRing::new(DefaultHash, nodes.iter().map(points));
    let by_id: BTreeMap<NodeId, &NodeRecord> = nodes.iter().map(|node| (node.id, node)).collect();
    let mut placed: Vec<(ShardId, Vec<NodeId>)> = Vec::new();
    for shard in 1..=shard_count {
        let candidates: Vec<NodeId> = ring.calc_candidates(&shard).map(|node| node.key).collect();
        placed.push((shard, spread_over_zones(&candidates, &by_id)));
    }
    deal_leads(placed, &by_id)
}

/// The first [`REPLICAS`] candidates, each of another zone as long as there are zones left.
fn spread_over_zones(candidates: &[NodeId], nodes: &BTreeMap<NodeId, &NodeRecord>) -> Vec<NodeId> {
    let zone = |id: &NodeId| nodes.get(id).and_then(|node| node.zone.clone());
    let mut zones = BTreeSet::new();
    let (first_of_zone, rest): (Vec<NodeId>, Vec<NodeId>) =
        candidates.iter().partition(|id| zone(id).is_none_or(|zone| zones.insert(zone)));
    first_of_zone.into_iter().chain(rest).take(REPLICAS).collect()
}

/// Gives each shard the lead to the replica with the fewest leads for its weight; equal ones by the ring's order.
fn deal_leads(placed: Vec<(ShardId, Vec<NodeId>)>, nodes: &BTreeMap<NodeId, &NodeRecord>) -> Vec<PlacementRecord> {
    let mut leads: BTreeMap<NodeId, u32> = BTreeMap::new();
    let dealt = placed.into_iter().filter_map(|(shard, replicas)| {
        let weight = |id: &NodeId| nodes.get(id).map_or(1, |node| node.weight.max(1));
        // Leads in thousandths of the weight, so that whole numbers compare.
        let load = |id: &NodeId| (leads.get(id).copied().unwrap_or(0) + 1) * 1000 / weight(id);
        let leader = replicas.iter().copied().min_by_key(load)?;
        *leads.entry(leader).or_default() += 1;
        Some(PlacementRecord { shard, replicas, leader, formed: false })
    });
    dealt.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::time::Timestamp;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn node(id: NodeId, zone: &str, weight: u32) -> NodeRecord {
        NodeRecord {
            id,
            storage_id: Uuid::nil(),
            peer: format!("host-{id}:8201"),
            zone: Some(zone.into()),
            weight,
            max_channels: 1,
            registered_at: Timestamp(0),
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
        fn every_shard_has_distinct_replicas_and_leads_are_even(count in 1_u64..9, shards in 1_u16..64) {
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

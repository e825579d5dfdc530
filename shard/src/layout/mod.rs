//! Where shards live: a consistent hash ring over the nodes, by weight and zone (design section 2).
//!
//! Pure: nodes in, placement out. The result is stored in the directory; the ring itself is not. [`plan`] says which
//! moves lead from one placement to another, and [`driver`] has them done.

pub mod driver;
pub mod plan;
pub mod removal;
mod silence;

use std::collections::{BTreeMap, BTreeSet};

use consistent_hash::{DefaultHash, Node, StaticHashRing};
use model::id::{NodeId, ShardId};
use raft::directory::records::{NodeRecord, PlacementRecord};

/// How many replicas a shard has, when there are as many nodes.
pub const REPLICAS: usize = 3;

/// Points on the ring for each unit of weight: enough to spread few shards over few nodes.
const POINTS_PER_WEIGHT: usize = 64;

/// Places all shards on the given nodes, for a cluster that is being made.
pub fn place(shard_count: u16, nodes: &[NodeRecord]) -> Vec<PlacementRecord> {
    let ring = Ring::of(nodes);
    let placed: Vec<(ShardId, Vec<NodeId>)> = (1..=shard_count).map(|shard| (shard, ring.replicas(shard))).collect();
    let leads = deal_leads(&placed, &BTreeMap::new(), nodes);
    let records = placed.into_iter().filter_map(|(shard, replicas)| {
        let leader = *leads.get(&shard)?;
        Some(PlacementRecord { shard, replicas, leader, formed: false, settled: true })
    });
    records.collect()
}

/// The ring over some nodes.
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
        self.replicas_beside(shard, &[])
    }

    /// As many nodes as a shard should have, those first that hold it already.
    pub(crate) fn replicas_beside(&self, shard: ShardId, held: &[NodeId]) -> Vec<NodeId> {
        let candidates = self.ring.calc_candidates(&shard).map(|node| node.key);
        let others = candidates.filter(|id| !held.contains(id));
        let ordered: Vec<NodeId> = held.iter().copied().chain(others).collect();
        spread_over_zones(held.len(), &ordered, &self.nodes)
    }
}

/// The first [`REPLICAS`] candidates, each of another zone as long as there are zones left; the first `held` of them
/// whatever their zone.
fn spread_over_zones(held: usize, candidates: &[NodeId], nodes: &BTreeMap<NodeId, &NodeRecord>) -> Vec<NodeId> {
    let zone = |id: &NodeId| nodes.get(id).and_then(|node| node.zone.clone());
    let (held, candidates) = candidates.split_at(held.min(candidates.len()));
    let mut zones: BTreeSet<String> = held.iter().filter_map(zone).collect();
    let (first_of_zone, rest): (Vec<NodeId>, Vec<NodeId>) =
        candidates.iter().partition(|id| zone(id).is_none_or(|zone| zones.insert(zone)));
    held.iter().copied().chain(first_of_zone).chain(rest).take(REPLICAS).collect()
}

/// Deals the leads by weight. Whoever leads a shard goes on with it where it can; a lead moves only when that makes the
/// loads more equal, so what was dealt once is dealt the same again.
pub(crate) fn deal_leads(
    placed: &[(ShardId, Vec<NodeId>)],
    leaders: &BTreeMap<ShardId, NodeId>,
    nodes: &[NodeRecord],
) -> BTreeMap<ShardId, NodeId> {
    let weights: BTreeMap<NodeId, u64> = nodes.iter().map(|node| (node.id, u64::from(node.weight.max(1)))).collect();
    let weight = |id: &NodeId| weights.get(id).copied().unwrap_or(1);
    let mut held: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut dealt: BTreeMap<ShardId, NodeId> = BTreeMap::new();
    for (shard, replicas) in placed {
        if let Some(leader) = leaders.get(shard).filter(|leader| replicas.contains(leader)) {
            *held.entry(*leader).or_default() += 1;
            dealt.insert(*shard, *leader);
        }
    }
    for (shard, replicas) in placed {
        // Leads in thousandths of the weight, so that whole numbers compare.
        let load = |id: &NodeId| (held.get(id).copied().unwrap_or(0) + 1) * 1000 / weight(id);
        if !dealt.contains_key(shard)
            && let Some(leader) = replicas.iter().copied().min_by_key(load)
        {
            *held.entry(leader).or_default() += 1;
            dealt.insert(*shard, leader);
        }
    }
    // The sum of the squares of leads, each by its weight, falls with every step, so this ends.
    while let Some((shard, to)) = better_lead(placed, &dealt, &held, weight) {
        if let Some(from) = dealt.insert(shard, to) {
            *held.entry(from).or_default() -= 1;
            *held.entry(to).or_default() += 1;
        }
    }
    dealt
}

/// The first lead that would be better off at another replica, and that replica.
fn better_lead(
    placed: &[(ShardId, Vec<NodeId>)],
    dealt: &BTreeMap<ShardId, NodeId>,
    held: &BTreeMap<NodeId, u64>,
    weight: impl Fn(&NodeId) -> u64,
) -> Option<(ShardId, NodeId)> {
    let leads = |id: &NodeId| held.get(id).copied().unwrap_or(0);
    placed.iter().find_map(|(shard, replicas)| {
        let from = dealt.get(shard)?;
        let gains = |to: &&NodeId| (2 * leads(from) - 1) * weight(to) > (2 * leads(to) + 1) * weight(from);
        let to = replicas.iter().filter(gains).min_by_key(|to| leads(to) * 1000 / weight(to))?;
        Some((*shard, *to))
    })
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

//! Assigns the leaders of shards by the weights of nodes and the loads of shards. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use model::id::{NodeId, ShardId};
use raft::directory::records::NodeRecord;

use super::load::{Burden, Loads};

/// Measured loads fluctuate. Assigned leaderships stay where they are unless moving one of them would even out more
/// than one part in `PARTS_TOLERATED` of the traffic of its two nodes. So an assignment is stable while each shard's
/// traffic stays within a tenth of what it was.
const PARTS_TOLERATED: u128 = 4;

/// The nodes that may hold each shard.
pub(super) type Placed = [(ShardId, Vec<NodeId>)];

/// Assigns all leaders. Present leaders stay where possible. If the load of the nodes is then too uneven, up to `most`
/// leaderships move while that evens it out, those first that even out the most.
pub(super) fn assign_leaders(
    placed: &Placed,
    leaders: &BTreeMap<ShardId, NodeId>,
    nodes: &[NodeRecord],
    loads: &Loads,
    most: usize,
) -> BTreeMap<ShardId, NodeId> {
    let mut assignment = Assignment::begin(placed, leaders, nodes, loads);
    assignment.even_out(most);
    assignment.leaders
}

struct Assignment<'a> {
    placed: &'a Placed,
    loads: &'a Loads,
    weights: BTreeMap<NodeId, u64>,
    leaders: BTreeMap<ShardId, NodeId>,
    bears: BTreeMap<NodeId, Burden>,
    /// Shards whose former leader cannot continue, or that had none.
    newly_led: BTreeSet<ShardId>,
}

impl<'a> Assignment<'a> {
    /// Starts from the leaderships of the present leaders. Shards whose leader cannot continue are assigned to other
    /// nodes, the busiest shards first.
    fn begin(placed: &'a Placed, leaders: &BTreeMap<ShardId, NodeId>, nodes: &[NodeRecord], loads: &'a Loads) -> Self {
        let mut assignment = Self {
            placed,
            loads,
            weights: nodes.iter().map(|node| (node.id, u64::from(node.weight.max(1)))).collect(),
            leaders: BTreeMap::new(),
            bears: BTreeMap::new(),
            newly_led: BTreeSet::new(),
        };
        let mut open: Vec<(ShardId, &[NodeId])> = Vec::new();
        for (shard, replicas) in placed {
            match leaders.get(shard).filter(|leader| replicas.contains(leader)) {
                Some(leader) => assignment.give(*shard, *leader),
                None => open.push((*shard, replicas)),
            }
        }
        open.sort_by_key(|(shard, _)| Reverse(loads.of(*shard)));
        for (shard, replicas) in open {
            // In thousandths of the weight, so that integers can be compared.
            let then = |id: &NodeId| (assignment.bears(*id).load + loads.of(shard)) * 1000 / assignment.weight(*id);
            if let Some(leader) = replicas.iter().copied().min_by_key(then) {
                assignment.give(shard, leader);
                assignment.newly_led.insert(shard);
            }
        }
        assignment
    }

    fn weight(&self, node: NodeId) -> u64 {
        self.weights.get(&node).copied().unwrap_or(1)
    }

    fn bears(&self, node: NodeId) -> Burden {
        self.bears.get(&node).copied().unwrap_or_default()
    }

    fn give(&mut self, shard: ShardId, to: NodeId) {
        if let Some(from) = self.leaders.insert(shard, to) {
            self.bears.entry(from).or_default().take(shard, self.loads);
        }
        self.bears.entry(to).or_default().add(shard, self.loads);
    }

    fn even_out(&mut self, most: usize) {
        let mut all_may_move = false;
        // This ends, because the sum of the squares of the nodes' loads by weight falls with every step.
        for _ in 0..most {
            // Newly led shards change their leader anyway, so they may go to any node; the others had better stay.
            all_may_move = all_may_move || self.moves().any(|each| each.evens_out_much);
            let may_move = |each: &Gain| all_may_move || self.newly_led.contains(&each.shard);
            // Of equally good moves the first wins, so that every node computes the same assignment.
            let better = |best: Gain, each: Gain| if each.gain > best.gain { each } else { best };
            let Some(best) = self.moves().filter(may_move).reduce(better) else { return };
            self.give(best.shard, best.to);
        }
    }

    /// The leaderships that would be better at another replica.
    fn moves(&self) -> impl Iterator<Item = Gain> + '_ {
        self.placed.iter().flat_map(move |(shard, replicas)| {
            let from = self.leaders.get(shard).copied();
            replicas.iter().filter_map(move |to| self.gain(*shard, from?, *to))
        })
    }

    fn gain(&self, shard: ShardId, from: NodeId, to: NodeId) -> Option<Gain> {
        let load = u128::from(self.loads.of(shard));
        let weight = |node| u128::from(self.weight(node));
        let (gives, takes) = (self.bears(from), self.bears(to));
        // The sum of squares falls by the difference of these two, times the load, divided by both weights.
        let less = (2 * u128::from(gives.load)).checked_sub(load)? * weight(to);
        let more = (2 * u128::from(takes.load) + load) * weight(from);
        let evened_out = less.checked_sub(more).filter(|difference| *difference > 0 && from != to)?;
        let moving = takes.traffic + self.loads.traffic(shard);
        let traffic = u128::from(gives.traffic) * weight(to) + u128::from(moving) * weight(from);
        Some(Gain {
            shard,
            to,
            gain: evened_out * load * 1000 / (weight(from) * weight(to)),
            evens_out_much: evened_out * PARTS_TOLERATED > traffic,
        })
    }
}

/// A leadership that would be better elsewhere.
struct Gain {
    shard: ShardId,
    to: NodeId,
    /// By how much the sum of squares would fall.
    gain: u128,
    evens_out_much: bool,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::node;
    use super::*;
    use crate::layout::load::QUIET;

    const NODES: NodeId = 5;

    fn nodes(weights: &[u32]) -> Vec<NodeRecord> {
        (1..).zip(weights).map(|(id, weight)| node(id, "a", *weight)).collect()
    }

    fn everywhere(shards: u16, nodes: NodeId) -> Vec<(ShardId, Vec<NodeId>)> {
        (1..=shards).map(|shard| (shard, (1..=nodes).collect())).collect()
    }

    fn loads(traffic: &[u64]) -> Loads {
        Loads::of_traffic((1..).zip(traffic.iter().copied()))
    }

    /// Three replicas of each shard, spread over the nodes.
    fn scattered(at: &[u64]) -> Vec<(ShardId, Vec<NodeId>)> {
        let replicas = |at: &u64| (0..3).map(|next| (at + next) % NODES + 1).collect();
        (1..).zip(at.iter().map(replicas)).collect()
    }

    #[test]
    fn a_busy_shard_is_led_alone_and_the_quiet_ones_elsewhere() {
        let (nodes, loads) = (nodes(&[1, 1, 1]), loads(&[20_000, 0, 0, 0, 0, 0]));
        let dealt = assign_leaders(&everywhere(6, 3), &BTreeMap::new(), &nodes, &loads, usize::MAX);
        let bears = loads.by_node(dealt.iter().map(|(shard, node)| (*shard, *node)));
        assert_eq!(bears[&dealt[&1]].leads, 1, "{dealt:?}");
    }

    #[test]
    fn the_leaderships_that_even_out_the_most_move_first_and_no_more_than_may() {
        let (nodes, loads) = (nodes(&[1, 1, 1]), loads(&[9_000, 500, 400, 9_000, 9_000]));
        let leaders = (1..=5).map(|shard| (shard, 1)).collect();
        let moved = |most| {
            let dealt = assign_leaders(&everywhere(5, 3), &leaders, &nodes, &loads, most);
            dealt.into_iter().filter(|(_, node)| *node != 1).map(|(shard, _)| shard).collect::<Vec<_>>()
        };
        assert!(moved(0).is_empty());
        assert_eq!(moved(1), [1]);
        assert_eq!(moved(2), [1, 4]);
        assert_eq!(moved(10), [1, 2, 4], "and then all is as even as it can be");
    }

    proptest! {
        #[test]
        fn without_traffic_leaders_are_assigned_by_number_and_weight(
            at in proptest::collection::vec(0..NODES, 1..40),
            weights in proptest::collection::vec(1_u32..5, NODES as usize),
            present in proptest::collection::vec(0..3_usize, 40),
        ) {
            let placed = scattered(&at);
            let leaders = placed.iter().zip(present).map(|((shard, replicas), at)| (*shard, replicas[at])).collect();
            let nodes = nodes(&weights);
            let dealt = assign_leaders(&placed, &leaders, &nodes, &Loads::default(), usize::MAX);
            let leads = |node: NodeId| dealt.values().filter(|leader| **leader == node).count() as u64;
            let weight = |node: NodeId| u64::from(weights[node as usize - 1]);
            for (shard, replicas) in &placed {
                let from = dealt[shard];
                prop_assert!(replicas.contains(&from));
                for to in replicas.iter().filter(|to| **to != from) {
                    let better = (2 * leads(from) - 1) * weight(*to) > (2 * leads(*to) + 1) * weight(from);
                    prop_assert!(!better, "shard {} should be led by {}: {:?}", shard, to, dealt);
                }
            }
        }

        #[test]
        fn what_was_assigned_once_is_assigned_the_same_again_while_loads_sway_by_a_tenth(
            at in proptest::collection::vec(0..NODES, 1..40),
            weights in proptest::collection::vec(1_u32..5, NODES as usize),
            traffic in proptest::collection::vec(0_u64..100_000, 40),
            sway in proptest::collection::vec(90_u64..=110, 40),
        ) {
            let (placed, nodes) = (scattered(&at), nodes(&weights));
            let known = |traffic: &[u64]| loads(&traffic[..at.len()]);
            let dealt = assign_leaders(&placed, &BTreeMap::new(), &nodes, &known(&traffic), usize::MAX);
            let swayed: Vec<u64> = traffic.iter().zip(sway).map(|(traffic, sway)| traffic * sway / 100).collect();
            prop_assert_eq!(assign_leaders(&placed, &dealt, &nodes, &known(&traffic), usize::MAX), dealt.clone());
            prop_assert_eq!(assign_leaders(&placed, &dealt, &nodes, &known(&swayed), usize::MAX), dealt);
        }

        #[test]
        fn no_node_bears_more_than_an_equal_share_and_the_busiest_shard(
            traffic in proptest::collection::vec(0_u64..50_000, 1..40),
        ) {
            let loads = loads(&traffic);
            let (placed, nodes) = (everywhere(traffic.len() as u16, 4), nodes(&[1, 1, 1, 1]));
            let dealt = assign_leaders(&placed, &BTreeMap::new(), &nodes, &loads, usize::MAX);
            let bears = loads.by_node(dealt);
            let (all, busiest) = (traffic.iter().map(|traffic| traffic + QUIET), traffic.iter().max().unwrap() + QUIET);
            let share = all.sum::<u64>() / 4;
            prop_assert!(bears.values().all(|bears| bears.load <= share + busiest), "{:?}", bears);
        }
    }
}

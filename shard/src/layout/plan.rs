//! Computes the moves from the present placement to the wanted one.
//!
//! - [`balance`]: the ring's own placement, requested by an operator.
//! - [`repair`]: the fewest moves of replicas that give every shard all of its own; automatic.
//! - [`even_out`]: moves of leaderships only, when the load of the nodes is uneven; automatic.
//! - [`to_node`]: one shard to one node, requested by an operator.

use std::collections::{BTreeMap, BTreeSet};

use model::id::{NodeId, ShardId};
use raft::directory::layout::{MoveRecord, same_nodes};
use raft::directory::records::{NodeRecord, PlacementRecord};

use super::assignment::assign_leaders;
use super::load::Loads;
use super::{REPLICAS, Ring};

/// Moves to where the ring of these nodes places the shards. A shard that leaves several of its nodes does so one by
/// one, so that its data is always on a quorum of its old replicas; but replicas on nodes that leave the cluster go in
/// one move.
pub fn balance(present: &[&PlacementRecord], nodes: &[NodeRecord], loads: &Loads) -> Vec<MoveRecord> {
    let ring = Ring::of(nodes);
    moves(present, nodes, loads, |place| {
        let wanted = ring.replicas(place.shard);
        if same_nodes(&wanted, &place.replicas) { place.replicas.clone() } else { wanted }
    })
}

/// Moves replicas of only those shards that have some on nodes that may hold none any more, or fewer than they could;
/// of other shards only leaderships, if the load is too uneven. Nodes that are `away` get replicas only if no other
/// node can.
pub fn repair(
    present: &[&PlacementRecord],
    nodes: &[NodeRecord],
    away: &BTreeSet<NodeId>,
    loads: &Loads,
) -> Vec<MoveRecord> {
    if nodes.is_empty() || present.iter().all(|place| is_whole(place, nodes)) {
        return Vec::new();
    }
    let ring = Ring::of(nodes);
    moves(present, nodes, loads, |place| {
        if is_whole(place, nodes) {
            return place.replicas.clone();
        }
        let holds = |id: &NodeId| nodes.iter().any(|node| node.id == *id);
        let held: Vec<NodeId> = place.replicas.iter().copied().filter(holds).collect();
        let beside = ring.replicas_beside(place.shard, &held, away);
        let is_full = beside.len() >= REPLICAS.min(nodes.len());
        if is_full { beside } else { ring.replicas_beside(place.shard, &held, &BTreeSet::new()) }
    })
}

/// Whether a shard has as many replicas as it could, all of them on nodes that may hold some.
pub fn is_whole(place: &PlacementRecord, nodes: &[NodeRecord]) -> bool {
    let holds = |id: &NodeId| nodes.iter().any(|node| node.id == *id);
    place.replicas.len() >= REPLICAS.min(nodes.len()) && place.replicas.iter().all(holds)
}

/// At most `most` moves of leaderships only, that even out the load of the nodes.
pub fn even_out(present: &[&PlacementRecord], nodes: &[NodeRecord], loads: &Loads, most: usize) -> Vec<MoveRecord> {
    let placed: Vec<(ShardId, Vec<NodeId>)> =
        present.iter().map(|place| (place.shard, place.replicas.clone())).collect();
    let leaders = present.iter().map(|place| (place.shard, place.leader)).collect();
    let assigned = assign_leaders(&placed, &leaders, nodes, loads, most);
    let led_elsewhere = |place: &&PlacementRecord| {
        let leader = assigned.get(&place.shard).copied().filter(|leader| *leader != place.leader)?;
        Some(MoveRecord::waiting(place, place.replicas.clone(), leader))
    };
    present.iter().filter_map(led_elsewhere).collect()
}

/// The new target of a move that may use only these nodes.
pub fn elsewhere(each: &MoveRecord, nodes: &[NodeRecord]) -> Option<(Vec<NodeId>, NodeId)> {
    let held: Vec<NodeId> = each.to.iter().copied().filter(|id| nodes.iter().any(|node| node.id == *id)).collect();
    let to = Ring::of(nodes).replicas_beside(each.shard, &held, &BTreeSet::new());
    let leader = Some(each.leader).filter(|leader| to.contains(leader)).or(to.first().copied())?;
    Some((to, leader))
}

/// The move that brings a shard to a node: only the leadership, if the node has a replica; else a replica and the
/// leadership, in place of the node that should lead it now. `None` if the node leads it already.
pub fn to_node(place: &PlacementRecord, node: NodeId, nodes: &[NodeRecord]) -> Option<MoveRecord> {
    if place.leader == node && place.replicas.contains(&node) {
        return None;
    }
    let mut to = place.replicas.clone();
    if !to.contains(&node) {
        if to.len() >= REPLICAS.min(nodes.len()) {
            to.retain(|replica| *replica != place.leader);
        }
        to.push(node);
    }
    Some(MoveRecord::waiting(place, to, node))
}

fn moves(
    present: &[&PlacementRecord],
    nodes: &[NodeRecord],
    loads: &Loads,
    wanted: impl Fn(&PlacementRecord) -> Vec<NodeId>,
) -> Vec<MoveRecord> {
    let placed: Vec<(ShardId, Vec<NodeId>)> = present.iter().map(|place| (place.shard, wanted(place))).collect();
    let leaders: BTreeMap<ShardId, NodeId> = present.iter().map(|place| (place.shard, place.leader)).collect();
    let assigned = assign_leaders(&placed, &leaders, nodes, loads, usize::MAX);
    let mut moves = Vec::new();
    for (place, (shard, to)) in present.iter().zip(&placed) {
        let Some(leader) = assigned.get(shard).copied() else { continue };
        if same_nodes(&place.replicas, to) && place.leader == leader {
            continue;
        }
        moves.extend(steps(place, to, leader, nodes));
    }
    moves
}

/// The steps from the present replicas to others. Each step removes at most one present replica, but the first removes
/// all on nodes that may hold none any more: the directory begins no move that would leave a replica on such a node.
fn steps(place: &PlacementRecord, to: &[NodeId], leader: NodeId, nodes: &[NodeRecord]) -> Vec<MoveRecord> {
    let going = || place.replicas.iter().copied().filter(|node| !to.contains(node));
    let holds = |id: &NodeId| nodes.iter().any(|node| node.id == *id);
    let leaving: Vec<NodeId> = going().filter(|node| !holds(node)).collect();
    let one_by_one = going().filter(holds).map(|node| vec![node]);
    let parts: Vec<Vec<NodeId>> = [leaving].into_iter().filter(|part| !part.is_empty()).chain(one_by_one).collect();
    let mut coming = to.iter().copied().filter(|node| !place.replicas.contains(node));
    let mut at = place.clone();
    let mut steps = Vec::new();
    for (index, gone) in parts.iter().enumerate() {
        let mut next: Vec<NodeId> = at.replicas.iter().copied().filter(|node| !gone.contains(node)).collect();
        let is_last = index + 1 == parts.len();
        next.extend(coming.by_ref().take(if is_last { usize::MAX } else { gone.len() }));
        if next.is_empty() {
            continue;
        }
        let led_by = [leader, at.leader].into_iter().find(|node| next.contains(node)).unwrap_or(next[0]);
        steps.push(MoveRecord::waiting(&at, next.clone(), led_by));
        (at.replicas, at.leader) = (next, led_by);
    }
    let rest: Vec<NodeId> = at.replicas.iter().copied().chain(coming).collect();
    if !same_nodes(&rest, &at.replicas) || at.leader != leader {
        steps.push(MoveRecord::waiting(&at, rest, leader));
    }
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{place, tests::node};
    use super::*;

    fn nodes(ids: impl IntoIterator<Item = NodeId>) -> Vec<NodeRecord> {
        ids.into_iter().map(|id| node(id, &format!("zone-{id}"), 1)).collect()
    }

    fn after(present: &[PlacementRecord], moves: &[MoveRecord]) -> Vec<PlacementRecord> {
        let mut placed = present.to_vec();
        for each in moves {
            for place in placed.iter_mut().filter(|place| place.shard == each.shard) {
                assert_eq!(place.replicas, each.from, "moves of a shard follow each other");
                (place.replicas, place.leader) = (each.to.clone(), each.leader);
            }
        }
        placed
    }

    fn refs(placed: &[PlacementRecord]) -> Vec<&PlacementRecord> {
        placed.iter().collect()
    }

    fn replicas_moved(moves: &[MoveRecord]) -> usize {
        moves.iter().map(|each| each.to.iter().filter(|node| !each.from.contains(node)).count()).sum()
    }

    #[test]
    fn nothing_moves_where_all_is_as_it_should_be() {
        for count in 1..=6 {
            let nodes = nodes(1..=count);
            let placed = place(16, &nodes);
            assert_eq!(repair(&refs(&placed), &nodes, &BTreeSet::new(), &Loads::default()), []);
            assert_eq!(balance(&refs(&placed), &nodes, &Loads::default()), []);
        }
    }

    #[test]
    fn a_cluster_that_grows_from_one_to_three_raises_replication_to_three_and_assigns_the_leaders() {
        let mut placed = place(16, &nodes([1]));
        for count in 2..=3 {
            let nodes = nodes(1..=count);
            placed = after(&placed, &repair(&refs(&placed), &nodes, &BTreeSet::new(), &Loads::default()));
            assert!(placed.iter().all(|place| place.replicas.len() as u64 == count));
            for id in 1..=count {
                let leads = placed.iter().filter(|place| place.leader == id).count() as u64;
                assert!((16 / count..=16_u64.div_ceil(count)).contains(&leads), "{leads} leads at {id} of {count}");
            }
        }
        assert_eq!(
            repair(&refs(&placed), &nodes(1..=4), &BTreeSet::new(), &Loads::default()),
            [],
            "a fourth node waits for its operator"
        );
    }

    #[test]
    fn a_node_that_goes_leaves_nothing_behind_and_others_stay() {
        let all = nodes(1..=4);
        let placed = place(16, &all);
        let rest = nodes([1, 2, 4]);
        let moves = repair(&refs(&placed), &rest, &BTreeSet::new(), &Loads::default());
        let gone = placed.iter().filter(|place| place.replicas.contains(&3)).count();
        assert_eq!(replicas_moved(&moves), gone);
        let moved = after(&placed, &moves);
        assert!(moved.iter().all(|place| place.replicas.len() == 3 && !place.replicas.contains(&3)));
    }

    #[test]
    fn two_nodes_that_leave_at_the_same_time_both_get_rid_of_their_replicas() {
        let placed = place(16, &nodes(1..=4));
        let rest = nodes([1, 2]);
        let moves = repair(&refs(&placed), &rest, &BTreeSet::new(), &Loads::default());
        assert!(moves.iter().any(|each| each.from.contains(&3) && each.from.contains(&4)));
        for each in &moves {
            assert!(each.to.iter().all(|node| [1, 2].contains(node)), "the directory drops such a move: {each:?}");
        }
        assert!(after(&placed, &moves).iter().all(|place| same_nodes(&place.replicas, &[1, 2])));
    }

    #[test]
    fn a_node_that_is_away_gets_replicas_only_where_there_is_no_other() {
        let placed = place(16, &nodes(1..=5));
        let away = BTreeSet::from([3]);
        let gets = |moves: &[MoveRecord]| moves.iter().any(|each| each.to.contains(&3) && !each.from.contains(&3));
        let others = repair(&refs(&placed), &nodes([1, 2, 3, 4]), &away, &Loads::default());
        assert!(!others.is_empty() && !gets(&others), "{others:?}");
        let none = repair(&refs(&placed), &nodes([1, 2, 3]), &away, &Loads::default());
        assert!(gets(&none), "{none:?}");
    }

    #[test]
    fn a_shard_is_moved_by_hand() {
        let all = nodes(1..=4);
        let place = PlacementRecord { shard: 1, replicas: vec![1, 2, 3], leader: 2, formed: true, settled: true };
        assert_eq!(to_node(&place, 2, &all), None);
        let led = to_node(&place, 3, &all);
        assert!(led.is_some_and(|step| step.to == [1, 2, 3] && step.leader == 3 && !step.changes_replicas()));
        let whole = to_node(&place, 4, &all);
        assert!(whole.is_some_and(|whole| whole.to == [1, 3, 4] && whole.leader == 4));
    }

    proptest! {
        #[test]
        fn any_change_of_nodes_ends_at_the_ring_and_moves_no_more_than_it_wants(
            before in proptest::collection::btree_set(1_u64..9, 1..7),
            now in proptest::collection::btree_set(1_u64..9, 1..7),
            traffic in proptest::collection::vec(0_u64..20_000, 0..16),
        ) {
            let placed = place(16, &nodes(before));
            let now: Vec<NodeRecord> = nodes(now);
            let loads = Loads::of_traffic((1..).zip(traffic));
            let moves = balance(&refs(&placed), &now, &loads);
            let moved = after(&placed, &moves);
            let ring = place(16, &now);
            let stands = |id: &NodeId| now.iter().any(|node| node.id == *id);
            let mut least = 0;
            for ((old, new), wanted) in placed.iter().zip(&moved).zip(&ring) {
                prop_assert!(same_nodes(&new.replicas, &wanted.replicas));
                prop_assert!(new.replicas.contains(&new.leader));
                least += wanted.replicas.iter().filter(|node| !old.replicas.contains(node)).count();
            }
            prop_assert!(replicas_moved(&moves) <= least + 1);
            for each in &moves {
                let distinct: BTreeSet<_> = each.to.iter().collect();
                prop_assert_eq!(distinct.len(), each.to.len());
                prop_assert!(!each.to.is_empty() && each.to.contains(&each.leader));
                prop_assert!(each.to.iter().all(&stands), "no move leaves a replica where none may be");
                prop_assert!(each.from.iter().filter(|node| !each.to.contains(node) && stands(node)).count() <= 1);
            }
            prop_assert_eq!(balance(&refs(&moved), &now, &loads), []);
        }
    }
}

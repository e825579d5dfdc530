//! Whether a node can be removed without a group losing its quorum.

use std::collections::{BTreeMap, BTreeSet};

use model::id::{NodeId, ShardId};
use raft::directory::records::{NodeRecord, PlacementRecord};

use super::plan;

/// What would go wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Risk {
    /// The group cannot agree to anything, this removal included.
    #[error("{group} has no quorum: of its voters {voters} only {alive} answer; start those that do not first")]
    NoQuorum { group: String, voters: String, alive: String },
    #[error(
        "{group} would be left with {voters}, of which only {alive} answer; start those that do not, or join a new node \
         first"
    )]
    WouldLoseQuorum { group: String, voters: String, alive: String },
}

/// Judges the removal of `node`, with the nodes that `alive` answer now.
///
/// # Errors
/// The first group that would stand without a quorum, or stands so already.
pub fn judge(
    node: NodeId,
    placement: &[&PlacementRecord],
    directory_voters: &BTreeSet<NodeId>,
    nodes: &[NodeRecord],
    alive: &BTreeSet<NodeId>,
) -> Result<(), Risk> {
    let rest: Vec<NodeRecord> = nodes.iter().filter(|other| other.id != node).cloned().collect();
    let mut wanted: BTreeMap<ShardId, Vec<NodeId>> =
        placement.iter().map(|place| (place.shard, place.replicas.clone())).collect();
    wanted.extend(plan::repair(placement, &rest).into_iter().map(|each| (each.shard, each.to)));
    for place in placement.iter().filter(|place| place.replicas.contains(&node)) {
        let group = format!("shard {}", place.shard);
        let after: BTreeSet<NodeId> = wanted.get(&place.shard).into_iter().flatten().copied().collect();
        check(&group, &place.replicas.iter().copied().collect(), &after, alive)?;
    }
    if directory_voters.contains(&node) {
        let after: BTreeSet<NodeId> = directory_voters.iter().copied().filter(|voter| *voter != node).collect();
        // Another node may take its place as a voter, but only if it answers.
        check("the directory", directory_voters, &after, alive)?;
    }
    Ok(())
}

fn check(
    group: &str,
    before: &BTreeSet<NodeId>,
    after: &BTreeSet<NodeId>,
    alive: &BTreeSet<NodeId>,
) -> Result<(), Risk> {
    let group = group.to_owned();
    if !has_quorum(before, alive) {
        return Err(Risk::NoQuorum { group, voters: names(before), alive: names(&(before & alive)) });
    }
    if !has_quorum(after, alive) {
        return Err(Risk::WouldLoseQuorum { group, voters: names(after), alive: names(&(after & alive)) });
    }
    Ok(())
}

fn has_quorum(voters: &BTreeSet<NodeId>, alive: &BTreeSet<NodeId>) -> bool {
    (voters & alive).len() > voters.len() / 2
}

fn names(nodes: &BTreeSet<NodeId>) -> String {
    let ids: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    if ids.is_empty() { "none".to_owned() } else { format!("node {}", ids.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::super::{place, tests::node};
    use super::*;

    fn judged(nodes: u64, alive: &[NodeId], removed: NodeId) -> Result<(), Risk> {
        let nodes: Vec<NodeRecord> = (1..=nodes).map(|id| node(id, "a", 1)).collect();
        let placed = place(16, &nodes);
        let voters = nodes.iter().map(|node| node.id).take(3).collect();
        let refs: Vec<&PlacementRecord> = placed.iter().collect();
        judge(removed, &refs, &voters, &nodes, &alive.iter().copied().collect())
    }

    #[test]
    fn a_dead_node_and_a_live_one_can_go_while_the_others_are_well() {
        assert_eq!(judged(3, &[1, 2], 3), Ok(()));
        assert_eq!(judged(3, &[1, 2, 3], 3), Ok(()));
        assert_eq!(judged(4, &[1, 2, 3, 4], 4), Ok(()));
        assert_eq!(judged(2, &[1, 2], 2), Ok(()));
    }

    #[test]
    fn what_would_lose_a_quorum_is_refused_and_says_why() {
        let live = judged(3, &[1, 3], 3);
        assert!(matches!(&live, Err(Risk::WouldLoseQuorum { alive, .. }) if alive == "node 1"), "{live:?}");
        let lost = judged(3, &[1], 3);
        assert!(matches!(lost, Err(Risk::NoQuorum { .. })), "{lost:?}");
        let dead = judged(2, &[1], 2);
        assert!(matches!(dead, Err(Risk::NoQuorum { .. })), "one of two cannot decide alone: {dead:?}");
    }
}

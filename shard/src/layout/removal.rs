//! Judges whether a node can be removed without a group losing its quorum, and what remains then.

use std::collections::{BTreeMap, BTreeSet};

use model::id::{NodeId, ShardId};
use raft::directory::records::{NodeRecord, PlacementRecord};
use raft::group::has_quorum;

use super::load::Loads;
use super::{REPLICAS, names, plan};

/// What would go wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Risk {
    /// The group cannot commit anything, including this removal.
    #[error(
        "node {0} is the only one: without it there is no cluster; add another one first (gateway token, gateway join)"
    )]
    LastNode(NodeId),
    #[error("{group} has no quorum: of its voters {voters} only {alive} answer; start the others first")]
    NoQuorum { group: String, voters: String, alive: String },
    #[error(
        "{group} would be left with {voters}, of which only {alive} answer; start the others, or add a new node first"
    )]
    WouldLoseQuorum { group: String, voters: String, alive: String },
    /// The removal would wait for that node, however long it takes.
    #[error("{group} would get a replica on {away}, which does not answer; start it, or remove it first")]
    WouldWait { group: String, away: String },
    /// The node would stay, not ready, until another one takes its leaderships.
    #[error(
        "no other node can lead: without node {0}, load balancers would find no node; undrain or start another one \
         first"
    )]
    LastLeader(NodeId),
    #[error(
        "now any one node can be lost, but none of the {nodes} that would remain: add another one first (gateway \
         token, gateway join), or remove it with force"
    )]
    LosesRedundancy { nodes: usize },
}

/// The cluster after a node was removed and all of its replicas were moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The nodes that hold replicas then.
    pub others: BTreeSet<NodeId>,
    /// The nodes among `others` that do not answer.
    pub away: BTreeSet<NodeId>,
    /// Whether any one of the nodes that answer could be lost then.
    pub can_lose_a_node: bool,
}

/// Judges the removal of `node`; `alive` are the nodes that answer now. `force` ignores the risk that no node can be
/// lost afterwards although one can be lost now.
///
/// # Errors
/// The first group that would have no quorum, or has none already, or would wait for a node that is away; that no node
/// is left that can lead; or the end of all redundancy.
pub fn judge(
    node: NodeId,
    placement: &[&PlacementRecord],
    directory_voters: &BTreeSet<NodeId>,
    nodes: &[NodeRecord],
    alive: &BTreeSet<NodeId>,
    force: bool,
) -> Result<Rest, Risk> {
    let rest: Vec<NodeRecord> = nodes.iter().filter(|other| other.id != node).cloned().collect();
    if rest.is_empty() {
        return Err(Risk::LastNode(node));
    }
    let away: BTreeSet<NodeId> = rest.iter().map(|other| other.id).filter(|id| !alive.contains(id)).collect();
    let mut wanted: BTreeMap<ShardId, Vec<NodeId>> =
        placement.iter().map(|place| (place.shard, place.replicas.clone())).collect();
    let moves = plan::repair(placement, &rest, &away, &Loads::default());
    wanted.extend(moves.into_iter().map(|each| (each.shard, each.to)));
    let (mut survives, mut survives_now) = (true, survives_a_loss(directory_voters, alive));
    for place in placement {
        let group = format!("shard {}", place.shard);
        let before: BTreeSet<NodeId> = place.replicas.iter().copied().collect();
        let after: BTreeSet<NodeId> = wanted.get(&place.shard).into_iter().flatten().copied().collect();
        survives &= survives_a_loss(&after, alive);
        survives_now &= survives_a_loss(&before, alive);
        if !before.contains(&node) {
            continue;
        }
        check(&group, &before, &after, alive)?;
        let waits_for = &(&after - &before) & &away;
        if !waits_for.is_empty() {
            return Err(Risk::WouldWait { group, away: names(&waits_for) });
        }
    }
    let mut after: BTreeSet<NodeId> = directory_voters.iter().copied().filter(|voter| *voter != node).collect();
    if directory_voters.contains(&node) {
        check("the directory", directory_voters, &after, alive)?;
    }
    let leads = |known: &NodeRecord| known.state.leads() && alive.contains(&known.id);
    if nodes.iter().any(|known| known.id == node && leads(known)) && !rest.iter().any(leads) {
        return Err(Risk::LastLeader(node));
    }
    // Another node replaces the removed one as a voter, but only if it answers.
    let successors = rest.iter().map(|other| other.id).filter(|id| alive.contains(id) && !after.contains(id));
    let successors: Vec<NodeId> = successors.take(REPLICAS.saturating_sub(after.len())).collect();
    after.extend(successors);
    let can_lose_a_node = survives && survives_a_loss(&after, alive);
    if survives_now && !can_lose_a_node && !force {
        return Err(Risk::LosesRedundancy { nodes: rest.len() });
    }
    let others = rest.iter().map(|other| other.id).collect();
    Ok(Rest { others, away, can_lose_a_node })
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

/// Whether a quorum still answers if any one of those that answer is lost.
fn survives_a_loss(voters: &BTreeSet<NodeId>, alive: &BTreeSet<NodeId>) -> bool {
    (voters & alive).len() > voters.len() / 2 + 1
}

#[cfg(test)]
mod tests {
    use raft::directory::members::NodeState;

    use super::super::{place, tests::node};
    use super::*;

    fn judged(nodes: u64, alive: &[NodeId], removed: NodeId) -> Result<Rest, Risk> {
        judged_with(nodes, alive, removed, false)
    }

    fn judged_with(nodes: u64, alive: &[NodeId], removed: NodeId, force: bool) -> Result<Rest, Risk> {
        let nodes: Vec<NodeRecord> = (1..=nodes).map(|id| node(id, "a", 1)).collect();
        let placed = place(16, &nodes);
        let voters = nodes.iter().map(|node| node.id).take(3).collect();
        let refs: Vec<&PlacementRecord> = placed.iter().collect();
        judge(removed, &refs, &voters, &nodes, &alive.iter().copied().collect(), force)
    }

    #[test]
    fn a_dead_node_and_a_live_one_can_go_while_the_others_are_well() {
        let rest =
            |nodes, can_lose_a_node| Ok(Rest { others: (1..=nodes).collect(), away: BTreeSet::new(), can_lose_a_node });
        assert_eq!(judged(3, &[1, 2], 3), rest(2, false), "two cannot lose one");
        assert_eq!(judged(4, &[1, 2, 3, 4], 4), rest(3, true));
        assert_eq!(judged(4, &[1, 2, 3], 4), rest(3, true), "the dead one goes");
        assert_eq!(judged(2, &[1, 2], 2), rest(1, false));
    }

    #[test]
    fn three_healthy_nodes_become_two_by_force_alone() {
        assert_eq!(judged(3, &[1, 2, 3], 3), Err(Risk::LosesRedundancy { nodes: 2 }));
        let rest = Rest { others: [1, 2].into(), away: BTreeSet::new(), can_lose_a_node: false };
        assert_eq!(judged_with(3, &[1, 2, 3], 3, true), Ok(rest));
        assert_eq!(judged_with(4, &[1, 2, 3, 4], 4, false).map(|rest| rest.can_lose_a_node), Ok(true));
    }

    #[test]
    fn force_removes_no_node_without_which_there_is_no_quorum() {
        assert!(matches!(judged_with(3, &[1, 3], 3, true), Err(Risk::WouldLoseQuorum { .. })));
        assert_eq!(judged_with(1, &[1], 1, true), Err(Risk::LastNode(1)));
    }

    #[test]
    fn the_last_node_that_leads_stays_while_the_others_are_drained() {
        let state = |id| if id == 1 { NodeState::Active } else { NodeState::Draining };
        for count in [2, 3] {
            let nodes: Vec<NodeRecord> =
                (1..=count).map(|id| NodeRecord { state: state(id), ..node(id, "a", 1) }).collect();
            let all: BTreeSet<NodeId> = (1..=count).collect();
            let placed = place(16, &nodes);
            let refs: Vec<&PlacementRecord> = placed.iter().collect();
            assert_eq!(judge(1, &refs, &all, &nodes, &all, true), Err(Risk::LastLeader(1)));
            assert!(judge(2, &refs, &all, &nodes, &all, true).is_ok(), "it leads nothing");
        }
    }

    #[test]
    fn a_dead_node_takes_no_replicas_of_one_that_goes() {
        let waits = judged(4, &[1, 2, 4], 4);
        assert!(matches!(&waits, Err(Risk::WouldWait { away, .. }) if away == "node 3"), "{waits:?}");
        assert!(waits.is_err_and(|risk| risk.to_string().contains("remove it first")));
        // With a fifth node there is another one that can take the replicas.
        let rest = judged(5, &[1, 2, 4, 5], 5);
        assert!(
            matches!(&rest, Ok(Rest { others, away, can_lose_a_node: false }) if others.len() == 4 && away.contains(&3)),
            "{rest:?}"
        );
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

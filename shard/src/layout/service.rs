//! Judges whether a node can be drained while customers can still reach another one.

use std::collections::BTreeSet;

use model::id::NodeId;
use raft::directory::members::NodeState;
use raft::directory::records::NodeRecord;
use raft::group::has_quorum;

use super::names;

/// Why a node should not be drained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Load balancers send requests only to nodes that are ready, and a drained node is not.
    #[error(
        "no other node is ready to lead: with node {node} drained, load balancers would find no node; undrain or start \
         another one first. If there is no other node, stop this one without a drain"
    )]
    LastReady { node: NodeId },
    #[error(
        "{away} did not answer: if node {node} stops as well, groups may lose their quorum; start it first, or remove \
         it, or drain with force"
    )]
    OthersAway { node: NodeId, away: String },
    #[error(
        "{drained} is drained already: if it stops and node {node} stops as well, groups may lose their quorum; undrain it \
         first, or drain with force"
    )]
    OthersDrained { node: NodeId, drained: String },
}

/// Judges the drain of `node`, with the nodes that `answer` now and those of them that are `ready`. `force` ignores
/// that other nodes are away or drained.
///
/// # Errors
/// Why not. A node that does not lead is not affected by a drain. Without a quorum of the directory nothing can be
/// drained; no obstacle is returned then, as the drain itself reports that, and may be repeated.
pub fn judge(
    node: NodeId,
    nodes: &[NodeRecord],
    directory_voters: &BTreeSet<NodeId>,
    answer: &BTreeSet<NodeId>,
    ready: &BTreeSet<NodeId>,
    force: bool,
) -> Result<(), Obstacle> {
    let leads = nodes.iter().any(|known| known.id == node && known.state.leads());
    if !leads || !has_quorum(directory_voters, answer) {
        return Ok(());
    }
    let others = || nodes.iter().filter(|other| other.id != node);
    if !others().any(|other| other.state.leads() && ready.contains(&other.id)) {
        return Err(Obstacle::LastReady { node });
    }
    let away: BTreeSet<NodeId> = others()
        .filter(|other| other.state.holds_replicas() && !answer.contains(&other.id))
        .map(|other| other.id)
        .collect();
    if !force && !away.is_empty() {
        return Err(Obstacle::OthersAway { node, away: names(&away) });
    }
    let drained: BTreeSet<NodeId> =
        others().filter(|other| other.state == NodeState::Draining).map(|other| other.id).collect();
    if !force && !drained.is_empty() { Err(Obstacle::OthersDrained { node, drained: names(&drained) }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::node;
    use super::*;

    /// Judges the drain of node 1 of three, of which some are drained and some answer.
    fn judged(drained: &[NodeId], answer: &[NodeId], force: bool) -> Result<(), Obstacle> {
        let state = |id| if drained.contains(&id) { NodeState::Draining } else { NodeState::Active };
        let nodes: Vec<NodeRecord> = (1..=3).map(|id| NodeRecord { state: state(id), ..node(id, "a", 1) }).collect();
        let answer: BTreeSet<NodeId> = answer.iter().copied().collect();
        let ready = answer.iter().copied().filter(|id| !drained.contains(id)).collect();
        judge(1, &nodes, &BTreeSet::from([1, 2, 3]), &answer, &ready, force)
    }

    #[test]
    fn a_node_is_drained_while_all_answer_and_another_one_is_ready() {
        assert_eq!(judged(&[], &[1, 2, 3], false), Ok(()));
        assert_eq!(judged(&[1, 2, 3], &[1, 2, 3], false), Ok(()), "it is drained already");
        assert_eq!(judged(&[], &[2, 3], false), Ok(()), "a dead one leads nothing");
    }

    #[test]
    fn the_last_one_that_is_ready_is_not_drained_even_by_force() {
        for force in [false, true] {
            assert_eq!(judged(&[2, 3], &[1, 2, 3], force), Err(Obstacle::LastReady { node: 1 }));
            assert_eq!(judged(&[2], &[1, 2], force), Err(Obstacle::LastReady { node: 1 }));
            assert_eq!(judged(&[], &[1], force), Ok(()), "without a quorum the directory refuses it itself");
        }
    }

    #[test]
    fn while_another_one_is_drained_only_force_drains() {
        let refused = judged(&[2], &[1, 2, 3], false);
        assert!(matches!(&refused, Err(Obstacle::OthersDrained { drained, .. }) if drained == "node 2"), "{refused:?}");
        assert_eq!(judged(&[2], &[1, 2, 3], true), Ok(()));
        assert_eq!(judged(&[1, 2], &[1, 2, 3], false), Ok(()), "it is drained itself, and nothing changes");
    }

    #[test]
    fn while_another_one_is_away_only_force_drains() {
        for drained in [&[][..], &[3]] {
            let refused = judged(drained, &[1, 2], false);
            assert!(matches!(&refused, Err(Obstacle::OthersAway { away, .. }) if away == "node 3"), "{refused:?}");
            assert_eq!(judged(drained, &[1, 2], true), Ok(()));
        }
    }
}

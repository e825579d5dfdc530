//! Brings a shard's group to the replicas that the placement wants: the owner adds missing ones as learners, waits
//! until they have caught up, and then changes the voters in one step. Each step starts from the group's current state,
//! so it continues where an earlier owner, or this one before a crash, stopped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::NodeId;
use raft::directory::command::Command;
use raft::directory::layout::LayoutCommand;
use raft::directory::records::PlacementRecord;
use raft::group::{ChangeError, Members, has_quorum};
use raft::supervise;

use super::Owner;

/// How often the owner checks; a check of a shard that is in place costs two reads of memory.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Timeout of one change; one that fails is retried at a later check.
const CHANGE_PATIENCE: Duration = Duration::from_secs(10);

/// The next change.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Add(NodeId),
    /// The nodes that will vote, once they hold everything.
    Vote(BTreeSet<NodeId>),
    Drop(BTreeSet<NodeId>),
    /// Nothing is left to change here: the directory is told. Replicas that left then remove their data.
    Say,
}

/// Keeps the shard's members in line with its placement until the ownership ends.
pub(super) async fn keep(owner: Arc<Owner>) {
    let mut ticks = supervise::ticks(LOOK_EVERY);
    loop {
        ticks.tick().await;
        let Some(place) = owner.node.directory.read(|state| state.placement.get(&owner.shard).cloned()) else {
            continue;
        };
        let Some(step) = next(&place, &owner.group.members(), owner.node.node) else { continue };
        if let Err(error) = take(&owner, &place, step).await {
            tracing::debug!(shard = owner.shard, %error, "the shard's members could not be changed yet");
        }
    }
}

/// The next step from the group's present members to those of the placement; `None` if this node, as the owner, has
/// nothing to do.
pub fn next(place: &PlacementRecord, members: &Members, own: NodeId) -> Option<Step> {
    let wanted: BTreeSet<NodeId> = place.replicas.iter().copied().collect();
    if !place.formed || wanted.is_empty() {
        return None;
    }
    if let Some(missing) = wanted.iter().find(|node| !members.voters.contains(node) && !members.learners.contains(node))
    {
        return Some(Step::Add(*missing));
    }
    // The present leader stays a voter until it has transferred the leadership to a node that stays.
    let voters: BTreeSet<NodeId> = wanted.iter().copied().chain((!wanted.contains(&own)).then_some(own)).collect();
    if members.joint || members.voters != voters {
        return Some(Step::Vote(voters));
    }
    let strays: BTreeSet<NodeId> = members.learners.difference(&wanted).copied().collect();
    if !strays.is_empty() {
        return Some(Step::Drop(strays));
    }
    // Until a quorum holds the new voters, the next leader may need the votes of those that left.
    (voters == wanted && members.committed && !place.settled).then_some(Step::Say)
}

/// The nodes that must hold everything before these voters replace the present ones. Media bytes are on a quorum of the
/// present voters. If one leaves, the new ones need them; if more leave at once, those that stay may lack them.
fn to_be_whole<'a>(voters: &'a BTreeSet<NodeId>, present: &BTreeSet<NodeId>) -> Vec<&'a NodeId> {
    let one_by_one = present.difference(voters).count() <= 1;
    voters.iter().filter(|node| !one_by_one || !present.contains(node)).collect()
}

/// Whether these voters can replace the present ones now: a majority can commit at once, and no new voter waits for a
/// snapshot, since a quorum may depend on it the next time that a node dies.
pub fn may_vote(voters: &BTreeSet<NodeId>, present: &BTreeSet<NodeId>, caught_up: &BTreeSet<NodeId>) -> bool {
    has_quorum(voters, caught_up) && voters.difference(present).all(|node| caught_up.contains(node))
}

async fn take(owner: &Arc<Owner>, place: &PlacementRecord, step: Step) -> Result<(), ChangeError> {
    let deadline = Instant::now() + CHANGE_PATIENCE;
    match step {
        Step::Add(node) => {
            tracing::info!(shard = owner.shard, node, "a replica begins to learn the shard");
            owner.group.add_learner(node, deadline).await
        }
        Step::Vote(voters) => {
            let present = owner.group.members().voters;
            for node in to_be_whole(&voters, &present) {
                if !owner.node.nodes.is_whole(*node, owner.shard, owner.group.applied()).await {
                    return Ok(());
                }
            }
            let caught_up = owner.group.caught_up();
            if !may_vote(&voters, &present, &caught_up) {
                tracing::debug!(shard = owner.shard, ?voters, ?caught_up, "the new voters are to catch up first");
                return Ok(());
            }
            tracing::info!(shard = owner.shard, ?voters, "the shard's voters change");
            owner.group.change_members(voters, false, deadline).await
        }
        Step::Drop(nodes) => owner.group.remove_learners(nodes, deadline).await,
        Step::Say => {
            let settled = LayoutCommand::Settled { shard: owner.shard, replicas: place.replicas.clone() };
            // Refused if the placement has changed meanwhile; the next check sees the new one.
            let _ = owner.node.directory.update(Command::Layout(settled), Vec::new(), deadline).await;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(replicas: &[NodeId], settled: bool) -> PlacementRecord {
        PlacementRecord { shard: 1, replicas: replicas.to_vec(), leader: replicas[0], formed: true, settled }
    }

    fn members(voters: &[NodeId], learners: &[NodeId]) -> Members {
        let (voters, learners) = (voters.iter().copied().collect(), learners.iter().copied().collect());
        Members { voters, learners, joint: false, committed: true }
    }

    fn vote(voters: &[NodeId]) -> Option<Step> {
        Some(Step::Vote(voters.iter().copied().collect()))
    }

    #[test]
    fn a_replica_is_exchanged_step_by_step_from_wherever_it_was_left() {
        let wanted = place(&[1, 2, 4], false);
        assert_eq!(next(&wanted, &members(&[1, 2, 3], &[]), 1), Some(Step::Add(4)));
        assert_eq!(next(&wanted, &members(&[1, 2, 3], &[4]), 1), vote(&[1, 2, 4]));
        let between = Members { joint: true, ..members(&[1, 2, 3, 4], &[]) };
        assert_eq!(next(&wanted, &between, 1), vote(&[1, 2, 4]));
        assert_eq!(next(&wanted, &members(&[1, 2, 4], &[]), 1), Some(Step::Say));
        assert_eq!(next(&place(&[1, 2, 4], true), &members(&[1, 2, 4], &[]), 1), None);
    }

    #[test]
    fn those_that_stay_are_to_be_whole_where_more_than_one_goes() {
        let voters = BTreeSet::from([1, 2]);
        assert_eq!(to_be_whole(&voters, &BTreeSet::from([1, 3])), [&2]);
        assert_eq!(to_be_whole(&voters, &BTreeSet::from([2, 3, 4])), [&1, &2]);
        assert!(to_be_whole(&voters, &BTreeSet::from([1, 2, 3])).is_empty());
    }

    #[test]
    fn voters_change_when_a_majority_of_the_new_ones_holds_the_log() {
        let voters = BTreeSet::from([1, 2, 4]);
        assert!(has_quorum(&voters, &BTreeSet::from([1, 3, 4])));
        assert!(!has_quorum(&voters, &BTreeSet::from([1, 3])));
        let pair = BTreeSet::from([1, 2]);
        assert!(!has_quorum(&pair, &BTreeSet::from([1, 3])), "of two both are needed");
        assert!(has_quorum(&pair, &pair));
    }

    #[test]
    fn nobody_begins_to_vote_who_waits_for_a_snapshot_and_a_voter_that_is_away_holds_up_nothing() {
        let (voters, present) = (BTreeSet::from([1, 2, 4]), BTreeSet::from([1, 2, 3]));
        assert!(may_vote(&voters, &present, &BTreeSet::from([1, 2, 4])));
        assert!(
            !may_vote(&voters, &present, &BTreeSet::from([1, 2, 3])),
            "two of three hold the log, and 4 is to come"
        );
        assert!(may_vote(&voters, &present, &BTreeSet::from([1, 4])), "2 is away, and stays a voter");
        assert!(
            !may_vote(&BTreeSet::from([1, 2]), &present, &BTreeSet::from([1, 3])),
            "without 2 they could not commit"
        );
    }

    #[test]
    fn the_directory_hears_of_voters_that_a_quorum_holds() {
        let wanted = place(&[1, 2, 4], false);
        let proposed = Members { committed: false, ..members(&[1, 2, 4], &[]) };
        assert_eq!(next(&wanted, &proposed, 1), None, "node 3 would remove a replica whose vote may be needed yet");
        assert_eq!(next(&wanted, &members(&[1, 2, 4], &[]), 1), Some(Step::Say));
    }

    #[test]
    fn an_owner_that_shall_go_votes_until_its_leadership_is_transferred() {
        let wanted = place(&[1, 2, 4], false);
        assert_eq!(next(&wanted, &members(&[1, 2, 3], &[4]), 3), vote(&[1, 2, 3, 4]));
        assert_eq!(next(&wanted, &members(&[1, 2, 3, 4], &[]), 3), None, "the lead goes first");
        assert_eq!(next(&wanted, &members(&[1, 2, 3, 4], &[]), 4), vote(&[1, 2, 4]));
    }

    #[test]
    fn replication_rises_from_one_to_three_and_half_done_changes_are_ended() {
        let wanted = place(&[1, 2, 3], false);
        assert_eq!(next(&wanted, &members(&[1], &[]), 1), Some(Step::Add(2)));
        assert_eq!(next(&wanted, &members(&[1], &[2, 3]), 1), vote(&[1, 2, 3]));
        let between = Members { joint: true, ..members(&[1, 2, 3], &[]) };
        assert_eq!(next(&wanted, &between, 1), vote(&[1, 2, 3]));
        assert_eq!(next(&wanted, &members(&[1, 2, 3], &[5]), 1), Some(Step::Drop(BTreeSet::from([5]))));
    }
}

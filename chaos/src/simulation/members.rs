//! Changes a group's members step by step to match its placement, and transfers the leadership to the wanted node.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::id::NodeId;
use raft::directory::command::Command;
use raft::directory::layout::LayoutCommand;
use raft::directory::records::PlacementRecord;
use raft::simulation::clock;
use shard::simulation::{Step, may_vote, next_step};

use super::directory;
use super::owner::Owner;

/// Pause between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(240);

/// Timeout of one change.
pub const CHANGE_PATIENCE: Duration = Duration::from_secs(5);

/// How many entries a replica may be behind to vote, or to take the leadership. It is less than in a real group, since
/// a run's logs keep only some tens of entries, and a replica that lacks more needs a snapshot.
const MOST_BEHIND: u64 = 50;

/// Maintains the members of an owner's group until the owner loses its leadership.
pub async fn keep(owner: Arc<Owner>) {
    let changing = async {
        loop {
            change(&owner).await;
            clock::sleep(LOOK_AGAIN).await;
        }
    };
    let _ = owner.lost.run_until_cancelled(changing).await;
}

async fn change(owner: &Arc<Owner>) {
    let (scene, node) = (&owner.scene, owner.life.node);
    let place = scene.copy(owner.life).read(|state| state.placement.get(&owner.shard).cloned());
    let Some(place) = place else { return };
    if !place.formed {
        let formed = Command::ShardFormed(owner.shard);
        directory::update(scene, owner.life, formed, CHANGE_PATIENCE).await;
        return;
    }
    if let Some(step) = next_step(&place, &owner.group.members(), node) {
        scene.trace.note(format_args!("node {node}: shard {}: {step:?}", owner.shard));
        return take(owner, &place, step).await;
    }
    let must_go = !place.replicas.contains(&node);
    let mut wanted = [place.leader].into_iter().chain(place.replicas.iter().copied());
    let target = wanted.find(|node| (must_go || *node == place.leader) && may_lead(owner, *node));
    if let Some(target) = target.filter(|_| must_go || place.leader != node) {
        owner.transfer(target).await;
    }
}

async fn take(owner: &Owner, place: &PlacementRecord, step: Step) {
    // A failed step shows in the next check, and is retried there.
    let _ = match step {
        Step::Add(node) => owner.group.add_learner(node, CHANGE_PATIENCE).await,
        Step::Vote(voters) => {
            let present = owner.group.members().voters;
            let all = voters.union(&present).copied();
            let caught_up: BTreeSet<NodeId> = all.filter(|node| has_caught_up(owner, *node)).collect();
            if !may_vote(&voters, &present, &caught_up) {
                return;
            }
            owner.group.change_members(voters, CHANGE_PATIENCE).await
        }
        Step::Drop(nodes) => owner.group.remove_learners(nodes, CHANGE_PATIENCE).await,
        Step::Say => {
            let settled = LayoutCommand::Settled { shard: owner.shard, replicas: place.replicas.clone() };
            let settled = Command::Layout(settled);
            if directory::update(&owner.scene, owner.life, settled, CHANGE_PATIENCE).await {
                owner.scene.checks.count(|counts| counts.moves += 1);
            }
            Ok(())
        }
    };
}

fn has_caught_up(owner: &Owner, node: NodeId) -> bool {
    let applied = owner.group.position().map_or(0, |position| position.index);
    let theirs = owner.group.replicated().get(&node).copied().flatten();
    node == owner.life.node || theirs.is_some_and(|theirs| theirs + MOST_BEHIND >= applied)
}

/// Whether the leadership of an owner's group can be transferred to a node now.
pub fn may_lead(owner: &Owner, node: NodeId) -> bool {
    node != owner.life.node && owner.group.members().voters.contains(&node) && has_caught_up(owner, node)
}

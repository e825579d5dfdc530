//! Members of the directory's own group: every node of the cluster is at least a learner, and up to five are voters,
//! spread over zones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use model::id::NodeId;
use tokio_util::sync::CancellationToken;

use super::handle::Directory;
use super::records::NodeRecord;
use super::state::DirectoryState;
use crate::group::{ChangeError, has_quorum};
use crate::supervise;

/// With more voters, every update waits for more nodes, for a resilience that nobody needs.
const MOST_VOTERS: usize = 5;

/// Interval of the leader's checks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Timeout of one change; a failed change is retried at a later check.
const CHANGE_PATIENCE: Duration = Duration::from_secs(10);

impl Directory {
    /// While this node leads the directory, keeps the group's members in line with the cluster's, until cancelled.
    pub fn keep_members(self: Arc<Self>, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut ticks = supervise::ticks(LOOK_EVERY);
            while stop.run_until_cancelled(ticks.tick()).await.is_some() {
                // Before the cluster is formed, its first members form the group among themselves.
                let is_formed = self.read(|state| state.cluster.is_some());
                if is_formed
                    && self.group().leadership().borrow().ready_epoch.is_some()
                    && let Err(error) = self.member_step().await
                {
                    tracing::warn!(%error, "the directory's members could not be changed yet");
                }
            }
        })
    }

    /// Makes at most one change.
    async fn member_step(&self) -> Result<(), ChangeError> {
        let group = self.group();
        let members = group.members();
        let known: BTreeSet<NodeId> = self.read(|state| state.nodes.keys().copied().collect());
        let deadline = Instant::now() + CHANGE_PATIENCE;
        let present: BTreeSet<NodeId> = members.voters.union(&members.learners).copied().collect();
        if let Some(node) = known.difference(&present).next() {
            tracing::info!(node, "a node begins to learn the directory");
            return group.add_learner(*node, deadline).await;
        }
        let caught_up = group.caught_up();
        let voters = self.read(|state| wanted_voters(state, &members.voters, &caught_up));
        if !voters.is_empty() && (members.joint || voters != members.voters) {
            if !has_quorum(&voters, &caught_up) {
                tracing::debug!(
                    ?voters,
                    ?caught_up,
                    "the directory's voters change once a majority of them has caught up"
                );
                return Ok(());
            }
            tracing::info!(?voters, "the directory's voters change");
            let own = self.node;
            if voters.contains(&own) {
                return group.change_members(voters, true, deadline).await;
            }
            // The new leader completes the change.
            let next = voters.intersection(&members.voters).find(|node| caught_up.contains(node));
            return match next {
                Some(next) => group.transfer_leader(*next, deadline).await,
                None => {
                    let with_own = voters.iter().copied().chain([own]).collect();
                    group.change_members(with_own, true, deadline).await
                }
            };
        }
        // Updates wait for learners, and must still wait for a removed node while it may answer requests.
        let is_over = |node: &&NodeId| !self.may_answer(**node);
        let gone: BTreeSet<NodeId> = members.learners.difference(&known).filter(is_over).copied().collect();
        if gone.is_empty() { Ok(()) } else { group.remove_learners(gone, deadline).await }
    }
}

fn wanted_voters(state: &DirectoryState, present: &BTreeSet<NodeId>, caught_up: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
    let nodes = state.nodes.values().map(|node| &**node);
    let able: Vec<&NodeRecord> = nodes
        .filter(|node| node.state.holds_replicas())
        .filter(|node| present.contains(&node.id) || caught_up.contains(&node.id))
        .collect();
    choose(&able, present)
}

/// Picks from the zone with the fewest voters in turn, current voters first. Even numbers are avoided, as they tolerate
/// no more failures than the odd number below; with two nodes, both vote, so that both have all data.
fn choose(nodes: &[&NodeRecord], present: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
    let count = match nodes.len() {
        few @ 0..=2 => few,
        many => MOST_VOTERS.min(many - (many + 1) % 2),
    };
    let mut chosen = BTreeSet::new();
    let mut of_zone: BTreeMap<&Option<String>, usize> = BTreeMap::new();
    while chosen.len() < count {
        let left = nodes.iter().filter(|node| !chosen.contains(&node.id));
        let rank =
            |node: &&&NodeRecord| (of_zone.get(&node.zone).copied().unwrap_or(0), !present.contains(&node.id), node.id);
        let Some(next) = left.min_by_key(rank) else { break };
        *of_zone.entry(&next.zone).or_default() += 1;
        chosen.insert(next.id);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use model::time::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::directory::members::NodeState;

    fn voters(zones: &[&str], present: &[NodeId]) -> Vec<NodeId> {
        let nodes: Vec<NodeRecord> = zones
            .iter()
            .zip(1..)
            .map(|(zone, id)| NodeRecord {
                id,
                storage_id: Uuid::nil(),
                peer: format!("host-{id}:8201"),
                zone: Some((*zone).to_owned()),
                weight: 1,
                max_channels: 1,
                registered_at: Timestamp(0),
                state: NodeState::Active,
                configured_weight: 1,
            })
            .collect();
        let nodes: Vec<&NodeRecord> = nodes.iter().collect();
        choose(&nodes, &present.iter().copied().collect()).into_iter().collect()
    }

    #[test]
    fn up_to_five_vote_in_odd_numbers() {
        let table: [(&[&str], &[NodeId]); 7] = [
            (&["a"], &[1]),
            (&["a", "a"], &[1, 2]),
            (&["a", "a", "a"], &[1, 2, 3]),
            (&["a", "a", "a", "a"], &[1, 2, 3]),
            (&["a", "a", "a", "a", "a"], &[1, 2, 3, 4, 5]),
            (&["a", "a", "a", "a", "a", "a"], &[1, 2, 3, 4, 5]),
            (&["a", "a", "a", "a", "a", "a", "a", "a"], &[1, 2, 3, 4, 5]),
        ];
        for (zones, expected) in table {
            assert_eq!(voters(zones, &[]), expected, "{zones:?}");
        }
    }

    #[test]
    fn voters_stand_in_different_zones_and_stay_when_nothing_is_won_by_a_change() {
        assert_eq!(voters(&["a", "a", "a", "b", "c"], &[]), [1, 2, 3, 4, 5]);
        assert_eq!(voters(&["a", "a", "b", "c"], &[]), [1, 3, 4]);
        assert_eq!(voters(&["a", "a", "b", "c"], &[2, 3, 4]), [2, 3, 4]);
        assert_eq!(voters(&["a", "a", "a", "a"], &[2, 3, 4]), [2, 3, 4]);
        assert_eq!(voters(&["a", "a", "a", "b"], &[1, 2, 3]), [1, 2, 4]);
    }
}

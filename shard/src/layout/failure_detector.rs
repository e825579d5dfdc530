//! Tracks since when the nodes that moves wait for have not answered, and which of them are out of space.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::join_all;
use model::id::NodeId;
use raft::room::Level;

use crate::nodes::Nodes;
use crate::router::Router;

/// A node that is silent for this long is considered dead: longer than a restart, including the replay of its log.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// A node that has been full for this long is not expected to get space in time for a move.
const FULL_FOR_LONG: Duration = Duration::from_secs(600);

/// Timeout of a node's answer.
const PATIENCE: Duration = Duration::from_millis(400);

/// The observations of the directory's leader. A new leader starts without any.
#[derive(Debug, Default)]
pub struct FailureDetector {
    since: BTreeMap<NodeId, Instant>,
    full_since: BTreeMap<NodeId, Instant>,
}

/// The nodes that cannot get replicas now.
#[derive(Debug, Default)]
pub struct Away {
    /// Nodes that did not answer at the last look.
    pub silent: BTreeSet<NodeId>,
    /// Nodes that report that they are out of space.
    pub full: BTreeSet<NodeId>,
    /// Nodes that have been full for so long that nobody is expected to make space soon.
    pub full_for_long: BTreeSet<NodeId>,
    /// Nodes that have been silent for so long that they are no longer waited for.
    pub dead: BTreeSet<NodeId>,
}

impl FailureDetector {
    /// Asks these nodes, and those that were silent before, until they answer.
    pub async fn look(&mut self, awaited: BTreeSet<NodeId>, router: &Router) {
        let members: BTreeSet<NodeId> = router.members().into_iter().collect();
        self.since.retain(|node, _| members.contains(node));
        let asked: BTreeSet<NodeId> = awaited.into_iter().chain(self.since.keys().copied()).collect();
        self.full_since.retain(|node, _| asked.contains(node));
        let deadline = Instant::now() + PATIENCE;
        let answers = asked.into_iter().map(|node| async move {
            let status = router.status_of(node, deadline).await;
            (node, status.map(|status| status.room))
        });
        for (node, room) in join_all(answers).await {
            self.note(node, room, Instant::now());
        }
    }

    /// Records the level of space that a node reports; `None` if it did not answer.
    fn note(&mut self, node: NodeId, room: Option<Level>, now: Instant) {
        let Some(room) = room else {
            self.since.entry(node).or_insert(now);
            return;
        };
        self.since.remove(&node);
        if room == Level::Full {
            self.full_since.entry(node).or_insert(now);
        } else {
            self.full_since.remove(&node);
        }
    }

    /// The nodes that cannot get replicas at a time.
    pub fn away(&self, now: Instant) -> Away {
        let for_long = |nodes: &BTreeMap<NodeId, Instant>, long: Duration| -> BTreeSet<NodeId> {
            nodes.iter().filter(|(_, since)| now.duration_since(**since) >= long).map(|(node, _)| *node).collect()
        };
        Away {
            silent: for_long(&self.since, Duration::ZERO),
            full: for_long(&self.full_since, Duration::ZERO),
            full_for_long: for_long(&self.full_since, FULL_FOR_LONG),
            dead: for_long(&self.since, DEAD_AFTER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_dead_when_nothing_was_heard_of_it_for_long_enough() {
        let (mut failure_detector, now) = (FailureDetector::default(), Instant::now());
        failure_detector.note(4, None, now);
        failure_detector.note(5, None, now);
        failure_detector.note(4, None, now + DEAD_AFTER / 2);
        failure_detector.note(5, Some(Level::Low), now + DEAD_AFTER / 2);
        assert_eq!(failure_detector.away(now).silent, BTreeSet::from([4]));
        failure_detector.note(5, None, now + DEAD_AFTER / 2);
        assert!(failure_detector.away(now + DEAD_AFTER / 2).dead.is_empty());
        assert_eq!(failure_detector.away(now + DEAD_AFTER).dead, BTreeSet::from([4]));
    }

    #[test]
    fn a_node_is_full_from_when_it_says_so_until_it_says_otherwise() {
        let (mut failure_detector, now) = (FailureDetector::default(), Instant::now());
        failure_detector.note(4, Some(Level::Low), now);
        assert!(failure_detector.away(now).full.is_empty());
        failure_detector.note(4, Some(Level::Full), now);
        failure_detector.note(4, None, now);
        failure_detector.note(4, Some(Level::Full), now + FULL_FOR_LONG / 2);
        assert_eq!(failure_detector.away(now).full, BTreeSet::from([4]));
        assert!(failure_detector.away(now + FULL_FOR_LONG / 2).full_for_long.is_empty());
        assert_eq!(failure_detector.away(now + FULL_FOR_LONG).full_for_long, BTreeSet::from([4]));
        failure_detector.note(4, Some(Level::Enough), now);
        assert!(failure_detector.away(now + FULL_FOR_LONG).full.is_empty());
    }
}

//! Since when the nodes that moves wait for have not answered, and which of them have no room.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::join_all;
use model::id::NodeId;
use raft::room::Level;

use crate::nodes::Nodes;
use crate::router::Router;

/// A node that is silent for so long is taken for dead: longer than a restart, its replay of the log included.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// A node that says for so long that it has no room gets none in time for a move that goes there.
const FULL_FOR_LONG: Duration = Duration::from_secs(600);

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_millis(400);

/// What the node that leads the directory knows of it. Another one begins to count anew.
#[derive(Debug, Default)]
pub struct FailureDetector {
    since: BTreeMap<NodeId, Instant>,
    full_since: BTreeMap<NodeId, Instant>,
}

impl FailureDetector {
    /// Asks these nodes, and those that were silent before, until they are heard.
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

    /// Takes how much room a node says that it has; `None` of one that said nothing.
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

    /// The nodes that have said that they have no room.
    pub fn full(&self) -> BTreeSet<NodeId> {
        self.full_since.keys().copied().collect()
    }

    /// The nodes of which nobody expects any more that somebody makes room on them soon.
    pub fn full_for_long(&self, now: Instant) -> BTreeSet<NodeId> {
        let full = self.full_since.iter().filter(|(_, since)| now.duration_since(**since) >= FULL_FOR_LONG);
        full.map(|(node, _)| *node).collect()
    }

    /// The nodes of which nothing was heard when they were asked last.
    pub fn silent(&self) -> BTreeSet<NodeId> {
        self.since.keys().copied().collect()
    }

    /// The nodes that are taken for dead.
    pub fn dead(&self, now: Instant) -> BTreeSet<NodeId> {
        let silent = self.since.iter().filter(|(_, since)| now.duration_since(**since) >= DEAD_AFTER);
        silent.map(|(node, _)| *node).collect()
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
        assert_eq!(failure_detector.silent(), BTreeSet::from([4]));
        failure_detector.note(5, None, now + DEAD_AFTER / 2);
        assert!(failure_detector.dead(now + DEAD_AFTER / 2).is_empty());
        assert_eq!(failure_detector.dead(now + DEAD_AFTER), BTreeSet::from([4]));
    }

    #[test]
    fn a_node_is_full_from_when_it_says_so_until_it_says_otherwise() {
        let (mut failure_detector, now) = (FailureDetector::default(), Instant::now());
        failure_detector.note(4, Some(Level::Low), now);
        assert!(failure_detector.full().is_empty());
        failure_detector.note(4, Some(Level::Full), now);
        failure_detector.note(4, None, now);
        failure_detector.note(4, Some(Level::Full), now + FULL_FOR_LONG / 2);
        assert_eq!(failure_detector.full(), BTreeSet::from([4]));
        assert!(failure_detector.full_for_long(now + FULL_FOR_LONG / 2).is_empty());
        assert_eq!(failure_detector.full_for_long(now + FULL_FOR_LONG), BTreeSet::from([4]));
        failure_detector.note(4, Some(Level::Enough), now);
        assert!(failure_detector.full().is_empty() && failure_detector.full_for_long(now + FULL_FOR_LONG).is_empty());
    }
}

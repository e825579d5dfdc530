//! Since when the nodes that moves wait for have not answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::join_all;
use model::id::NodeId;

use crate::nodes::Nodes;
use crate::router::Router;

/// A node that is silent for so long is taken for dead: longer than a restart, its replay of the log included.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_millis(400);

/// What the node that leads the directory knows of it. Another one begins to count anew.
#[derive(Debug, Default)]
pub struct FailureDetector {
    since: BTreeMap<NodeId, Instant>,
}

impl FailureDetector {
    /// Asks these nodes, and those that were silent before, until they are heard.
    pub async fn look(&mut self, awaited: BTreeSet<NodeId>, router: &Router) {
        let members: BTreeSet<NodeId> = router.members().into_iter().collect();
        self.since.retain(|node, _| members.contains(node));
        let asked: BTreeSet<NodeId> = awaited.into_iter().chain(self.since.keys().copied()).collect();
        let deadline = Instant::now() + PATIENCE;
        let answers =
            asked.into_iter().map(|node| async move { (node, router.status_of(node, deadline).await.is_some()) });
        for (node, heard) in join_all(answers).await {
            self.note(node, heard, Instant::now());
        }
    }

    fn note(&mut self, node: NodeId, heard: bool, now: Instant) {
        if heard {
            self.since.remove(&node);
        } else {
            self.since.entry(node).or_insert(now);
        }
    }

    /// Those of which nothing was heard when they were asked last.
    pub fn silent(&self) -> BTreeSet<NodeId> {
        self.since.keys().copied().collect()
    }

    /// Those that are taken for dead.
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
        failure_detector.note(4, false, now);
        failure_detector.note(5, false, now);
        failure_detector.note(4, false, now + DEAD_AFTER / 2);
        failure_detector.note(5, true, now + DEAD_AFTER / 2);
        assert_eq!(failure_detector.silent(), BTreeSet::from([4]));
        failure_detector.note(5, false, now + DEAD_AFTER / 2);
        assert!(failure_detector.dead(now + DEAD_AFTER / 2).is_empty());
        assert_eq!(failure_detector.dead(now + DEAD_AFTER), BTreeSet::from([4]));
    }
}

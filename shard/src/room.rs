//! Whether the replicas of a shard have disk space for what its owner would accept.
//!
//! An entry is committed once a quorum has written it, and a replica that is out of space must not be made to fill its
//! disk. So an owner accepts sends and inbound items only while a quorum of its shard's voters has space: each node
//! reports its level in its status, and all nodes ask all others once a second. An owner whose own node is out of space
//! transfers its leadership to a node that has some, and continues until then, as long as its own disk can take it. The
//! directory's leader does the same, and accepts no more customer data while a quorum of its voters is out of space.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use model::id::NodeId;
use parking_lot::Mutex;
use raft::directory::Directory;
use raft::room::{Level, Room};
use raft::supervise;
use tokio_util::sync::CancellationToken;

use crate::nodes::Nodes;

/// How often the other nodes are asked.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Timeout of their answers.
const PATIENCE: Duration = Duration::from_millis(500);

/// A node that has not answered for this long is away: it writes nothing, and so does not count as having space.
const AWAY_AFTER: Duration = Duration::from_secs(10);

/// Timeout of a transfer of the directory's leadership; after it the node looks again who has space.
const TRANSFER_PATIENCE: Duration = Duration::from_secs(3);

/// The last answer of a node.
#[derive(Clone, Copy, Debug)]
struct Heard {
    level: Level,
    at: Instant,
}

/// The free space of the nodes of the cluster, as known to this one.
pub struct Rooms {
    node: NodeId,
    own: Arc<Room>,
    others: Mutex<HashMap<NodeId, Heard>>,
    /// Whether another node has reported that it is full: only then do the levels of the others matter.
    one_is_full: AtomicBool,
}

impl Rooms {
    pub fn new(node: NodeId, own: Arc<Room>) -> Self {
        Self { node, own, others: Mutex::default(), one_is_full: AtomicBool::new(false) }
    }

    /// The free space of this node's own disks.
    pub fn own(&self) -> &Room {
        &self.own
    }

    /// Whether a node has reported that it is full.
    pub fn is_full(&self, node: NodeId) -> bool {
        if node == self.node {
            return self.is_full_here();
        }
        self.others.lock().get(&node).is_some_and(|heard| heard.level == Level::Full)
    }

    /// Whether a group with these voters, led by this node, must accept no more for now. Called for each send: the
    /// check is cheap while all nodes have space.
    pub fn lacks_quorum(&self, voters: impl FnOnce() -> BTreeSet<NodeId>) -> bool {
        !self.own.takes_entries() || (self.some_is_full() && self.quorum_is_full(&voters()))
    }

    /// Whether a group with these voters, whoever leads it, must accept no more for now.
    pub fn quorum_is_full(&self, voters: &BTreeSet<NodeId>) -> bool {
        self.some_is_full() && self.with_room(voters).len() <= voters.len() / 2
    }

    fn some_is_full(&self) -> bool {
        self.is_full_here() || self.one_is_full.load(Ordering::Relaxed)
    }

    /// Those of the nodes that have space, as far as known.
    fn with_room(&self, nodes: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let now = Instant::now();
        let others = self.others.lock();
        let has_room = |node: &NodeId| {
            let heard = others.get(node).filter(|heard| now.saturating_duration_since(heard.at) < AWAY_AFTER);
            if *node == self.node {
                !self.is_full_here()
            } else {
                heard.is_some_and(|heard| heard.level != Level::Full)
            }
        };
        nodes.iter().copied().filter(has_room).collect()
    }

    fn is_full_here(&self) -> bool {
        self.own.stores() == Level::Full
    }

    fn note(&self, said: impl IntoIterator<Item = (NodeId, Level)>, members: &[NodeId], now: Instant) {
        let mut others = self.others.lock();
        others.retain(|node, _| members.contains(node));
        // A member that has not answered yet counts as having space for [`AWAY_AFTER`]: a starting node knows of none.
        for node in members.iter().filter(|node| **node != self.node) {
            others.entry(*node).or_insert(Heard { level: Level::Enough, at: now });
        }
        for (node, level) in said {
            others.insert(node, Heard { level, at: now });
        }
        let one_is_full = others.values().any(|heard| heard.level == Level::Full);
        self.one_is_full.store(one_is_full, Ordering::Relaxed);
    }

    /// Asks the other nodes until `stop`.
    pub async fn keep(self: Arc<Self>, nodes: Arc<dyn Nodes>, directory: Arc<Directory>, stop: CancellationToken) {
        let mut ticks = supervise::ticks(ASK_EVERY);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let members = nodes.members();
            let deadline = Instant::now() + PATIENCE;
            let asked = members
                .iter()
                .filter(|node| **node != self.node)
                .map(async |node| nodes.status_of(*node, deadline).await.map(|node_status| (*node, node_status.room)));
            let said: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
            self.note(said, &members, Instant::now());
            if self.is_full_here() && directory.leads() {
                self.give_directory_away(&directory).await;
            }
        }
    }

    /// Transfers the directory's leadership to a voter that has space, if there is one.
    async fn give_directory_away(&self, directory: &Directory) {
        let voters = directory.group().members().voters;
        let Some(target) = self.with_room(&voters).first().copied() else { return };
        let deadline = Instant::now() + TRANSFER_PATIENCE;
        match directory.group().transfer_leader(target, deadline).await {
            Ok(()) => tracing::info!(target, "the directory is now led by a node with more free space"),
            Err(error) => tracing::warn!(target, %error, "the leadership of the directory was not transferred"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::path::PathBuf;

    use raft::room::{Mark, Marks};

    use super::*;

    /// A mark that every disk has passed, or none.
    fn mark(is_passed: bool) -> Mark {
        let (percent, most_bytes) = if is_passed { (201, u64::MAX) } else { (0, 0) };
        Mark { percent, most_bytes, least_bytes: 0 }
    }

    fn rooms(own: Level) -> Rooms {
        let marks = Marks { low: mark(own >= Level::Low), full: mark(own == Level::Full) };
        let here = PathBuf::from("/");
        Rooms::new(1, Room::watch(marks, vec![here.clone()], here).unwrap())
    }

    #[test]
    fn a_quorum_with_room_holds_a_shard_and_one_less_does_not() {
        let rooms = rooms(Level::Low);
        let (three, now) = (|| BTreeSet::from([1, 2, 3]), Instant::now());
        let said = |rooms: &Rooms, two: Level, three: Level| rooms.note([(2, two), (3, three)], &[1, 2, 3], now);
        assert!(!rooms.lacks_quorum(three), "who has said nothing yet stops nothing");
        said(&rooms, Level::Full, Level::Low);
        assert!(!rooms.lacks_quorum(three) && rooms.is_full(2) && !rooms.is_full(3));
        assert!(!rooms.quorum_is_full(&three()));
        said(&rooms, Level::Full, Level::Full);
        assert!(rooms.lacks_quorum(three) && rooms.quorum_is_full(&three()));
        assert!(!rooms.quorum_is_full(&BTreeSet::from([1])), "who votes in it has room");
        said(&rooms, Level::Enough, Level::Full);
        assert!(!rooms.lacks_quorum(three));
        assert!(rooms.lacks_quorum(|| BTreeSet::from([1, 3])), "of two voters both are needed");
        // One voter without space and one that is away: a commit would have to fill the disk of the first.
        rooms.others.lock().insert(2, Heard { level: Level::Enough, at: now.checked_sub(AWAY_AFTER).unwrap() });
        assert!(rooms.lacks_quorum(three));
        // A removed member no longer counts.
        rooms.note([], &[1, 2], now);
        assert!(!rooms.lacks_quorum(three));
    }

    #[test]
    fn a_node_that_is_not_heard_is_trusted_until_it_counts_as_away() {
        let rooms = rooms(Level::Low);
        let (three, now) = (|| BTreeSet::from([1, 2, 3]), Instant::now());
        rooms.note([(2, Level::Full)], &[1, 2, 3], now);
        assert!(!rooms.lacks_quorum(three), "the third has had no time to answer");
        let long_ago = now.checked_sub(AWAY_AFTER).unwrap();
        rooms.others.lock().insert(3, Heard { level: Level::Enough, at: long_ago });
        rooms.note([(2, Level::Full)], &[1, 2, 3], now);
        assert!(rooms.lacks_quorum(three), "the third is away");
    }

    #[test]
    fn an_owner_without_any_room_takes_nothing_whoever_else_has_some() {
        let rooms = rooms(Level::Full);
        rooms.note([(2, Level::Enough), (3, Level::Enough)], &[1, 2, 3], Instant::now());
        assert!(rooms.lacks_quorum(|| BTreeSet::from([1, 2, 3])) && rooms.is_full(1));
    }

    #[test]
    fn an_owner_that_gets_full_goes_on_while_others_may_take_its_leadership() {
        let here = PathBuf::from("/");
        let watch = |marks| Room::watch(marks, vec![here.clone()], here.clone()).unwrap();
        let free = watch(Marks { low: mark(false), full: mark(false) }).least_free();
        // The mark is a little above the free space, and its half far below.
        let full = Mark { percent: 100, most_bytes: free + free / 4, least_bytes: 0 };
        let rooms = Rooms::new(1, watch(Marks { low: full, full }));
        assert!(rooms.is_full(1) && rooms.own().takes_entries());
        let three = || BTreeSet::from([1, 2, 3]);
        assert!(rooms.lacks_quorum(three), "nobody else is known to have room");
        rooms.note([(2, Level::Enough), (3, Level::Low)], &[1, 2, 3], Instant::now());
        assert!(!rooms.lacks_quorum(three));
        rooms.note([(2, Level::Enough), (3, Level::Full)], &[1, 2, 3], Instant::now());
        assert!(rooms.lacks_quorum(three));
    }
}

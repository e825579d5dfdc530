//! What an owner does that does not hear of the directory: who is cut off from the directory's leader may own a shard for
//! as long as the shard's replicas hear it, and knows of no endpoint, stream, deletion or placement that came meanwhile.
//!
//! As the copy of the directory grows old, its channels first *hold*: they take in nothing, write nothing and acknowledge
//! nothing. An event whose endpoints were looked up in a copy that was too old never gets into the log (see `committer`).
//! Where the directory is not heard for longer, the ownership ends with all its sessions, among which may be that of a
//! channel that was deleted, and the leadership goes to a node that hears it (see `hosting`).

use std::time::{Duration, Instant};

use raft::directory::Directory;
use raft::group::Group;

use super::Owner;
use crate::nodes::Nodes;

/// From this age of the copy on a channel holds. Below the 2 s from which on others rely on the copy not being used, so
/// that a turn that has begun has time to end.
const HOLD_FROM: Duration = Duration::from_millis(1_750);

/// From this age on there is no ownership, or from an older one where elections take long (see [`end_from`]).
const END_FROM: Duration = Duration::from_secs(4);

/// Between two looks of a channel that holds; the node asks for confirmation by itself.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long another node may take to say how it is, and how long the transfer of the leadership of a shard may take.
pub(super) const STATUS_PATIENCE: Duration = Duration::from_millis(250);
pub(super) const TRANSFER_PATIENCE: Duration = Duration::from_secs(2);

impl Owner {
    /// Whether channels may begin something.
    pub(super) fn hears_directory(&self) -> bool {
        self.node.directory.age().is_some_and(|age| age < HOLD_FROM)
    }

    /// Returns once they may.
    pub(super) async fn directory_heard(&self) {
        while !self.hears_directory() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Well above the time that the directory takes to find a new leader, who stands for election within twice the shortest one: to
/// begin an ownership again costs every channel a login.
fn end_from(election_min: Duration) -> Duration {
    END_FROM.max(election_min * 4)
}

/// Whether an ownership is to end, because the directory has not been heard for too long.
pub(super) fn is_deaf(directory: &Directory, election_min: Duration) -> bool {
    !directory.is_fresh() && directory.age().is_none_or(|age| age >= end_from(election_min))
}

/// A leadership without an owner, because this node does not hear the directory.
#[derive(Default)]
pub(super) struct Deaf {
    since: Option<Instant>,
    asked: Option<Instant>,
}

impl Deaf {
    /// Whether it is time to look for a node that can own the shard. A node that has just started is given time to hear of
    /// the directory first, and nobody is asked more than once a second.
    pub fn looks_for_another(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let again = self.asked.is_none_or(|asked| now.duration_since(asked) >= Duration::from_secs(1));
        let due = now.duration_since(since) >= END_FROM / 2 && again;
        if due {
            self.asked = Some(now);
        }
        due
    }

    /// The directory is heard again.
    pub fn ended(&mut self) {
        *self = Self::default();
    }
}

/// Gives a shard's leadership to the first voter that is ready and has caught up, if there is one. Not in order: the
/// channels of an owner that hears nothing have nothing to say.
pub(super) async fn give_leadership_away(group: &Group, nodes: &dyn Nodes) {
    let shard = group.id();
    for node in group.members().voters {
        if node == nodes.node() {
            continue;
        }
        let node_status = nodes.status_of(node, Instant::now() + STATUS_PATIENCE).await;
        if node_status.is_none_or(|node_status| !node_status.is_ready())
            || !nodes.is_caught_up(node, shard, group.applied()).await
        {
            continue;
        }
        tracing::warn!(
            shard,
            target = node,
            "this node's copy of the directory is too old; it transfers the leadership of the shard"
        );
        match group.transfer_leader(node, Instant::now() + TRANSFER_PATIENCE).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(shard, target = node, %error, "the leadership was not transferred"),
        }
    }
}

#[cfg(test)]
mod tests {
    use raft::host::Timing;

    use super::*;

    #[test]
    fn an_ownership_outlasts_an_election_of_the_directory() {
        assert_eq!(end_from(Timing::LAN.election_min), END_FROM);
        for Timing { election_min, .. } in [Timing::LAN, Timing::WAN] {
            // What the copy had aged before, the votes, and the first confirmation take some of the rest.
            assert!(end_from(election_min) >= election_min * 2 + Duration::from_millis(1500), "{election_min:?}");
        }
    }

    #[test]
    fn who_does_not_hear_the_directory_looks_for_another_after_a_while_and_then_once_a_second() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut deaf = Deaf::default();
        let looks = |deaf: &mut Deaf, times: &[u64]| -> Vec<bool> {
            times.iter().map(|millis| deaf.looks_for_another(at(*millis))).collect()
        };
        assert_eq!(looks(&mut deaf, &[0, 1_999, 2_000, 2_999, 3_000]), [false, false, true, false, true]);
        deaf.ended();
        assert_eq!(looks(&mut deaf, &[3_100, 5_099, 5_100]), [false, false, true]);
    }
}

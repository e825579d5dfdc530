//! What an owner does while its copy of the directory is too old. A node that is cut off from the directory's leader
//! may own a shard for as long as the shard's replicas hear it, but knows of no new endpoint, stream, deletion or
//! placement.
//!
//! As the copy ages, channels first *hold*: they accept, write and acknowledge nothing. An event whose endpoints were
//! looked up in an outdated copy never gets into the log (see `committer`). If the copy stays outdated, the ownership
//! ends with all its sessions, one of which may be of a deleted channel, and the leadership goes to a node that hears
//! the directory (see `hosting`).

use std::time::{Duration, Instant};

use raft::directory::Directory;
use raft::group::Group;

use super::Owner;
use crate::nodes::Nodes;

/// Age of the copy from which on a channel holds. Below the 2 s after which others rely on the copy not being used, so
/// that a turn in progress has time to end.
const HOLD_FROM: Duration = Duration::from_millis(1_750);

/// Age at which the ownership ends, or an older one if elections take long (see [`end_from`]).
const END_FROM: Duration = Duration::from_secs(4);

/// Poll interval of a channel that holds; the node itself asks for confirmation of the copy.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Timeouts of another node's status, and of the transfer of a shard's leadership.
pub(super) const STATUS_PATIENCE: Duration = Duration::from_millis(250);
pub(super) const TRANSFER_PATIENCE: Duration = Duration::from_secs(2);

impl Owner {
    /// Whether channels may start something.
    pub(super) fn hears_directory(&self) -> bool {
        self.node.directory.age().is_some_and(|age| age < HOLD_FROM)
    }

    /// Waits until channels may start something.
    pub(super) async fn directory_heard(&self) {
        while !self.hears_directory() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Well above the time that the directory takes to elect a new leader, who becomes a candidate within twice the
/// shortest election timeout: beginning an ownership again costs every channel a login.
fn end_from(election_min: Duration) -> Duration {
    END_FROM.max(election_min * 4)
}

/// Whether an ownership has to end because the copy of the directory is too old.
pub(super) fn is_deaf(directory: &Directory, election_min: Duration) -> bool {
    !directory.is_fresh() && directory.age().is_none_or(|age| age >= end_from(election_min))
}

/// A leadership without an ownership, because this node does not hear the directory.
#[derive(Default)]
pub(super) struct Deaf {
    since: Option<Instant>,
    asked: Option<Instant>,
}

impl Deaf {
    /// Whether to look now for another node that can own the shard. A node that has just started is given time to hear
    /// the directory first, and nodes are asked at most once a second.
    pub fn looks_for_another(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let again = self.asked.is_none_or(|asked| now.duration_since(asked) >= Duration::from_secs(1));
        let due = now.duration_since(since) >= END_FROM / 2 && again;
        if due {
            self.asked = Some(now);
        }
        due
    }

    /// Called when the directory is heard again.
    pub fn ended(&mut self) {
        *self = Self::default();
    }
}

/// Transfers a shard's leadership to the first voter that is ready and caught up, if there is one. There is no
/// ownership at this point, so no session has to be closed first.
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
            // The rest covers the copy's age at the start, the votes, and the first confirmation.
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

//! Compares the states of a group's replicas in the background: at equal positions, states must be equal. Otherwise a
//! replica that has lost data or computed something else would go unnoticed, since each answers from its own state.
//!
//! The group's leader names an index that is about to be applied. Each replica takes a view of its state at exactly
//! that index (in an idle group: after a short wait), and reads it at a low rate.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, join_all};
use model::id::NodeId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Inner;
use crate::codec;
use crate::group::Core;
use crate::machine::GroupId;
use crate::network::{addressed, answered, service};
use crate::rate_limiter::RateLimiter;
use crate::state::disk::Fnv;
use crate::state::snapshot::Source;
use crate::supervise;
use crate::telemetry;
use crate::transport::Class;

/// Pause between two comparisons of a group; shorter after one that was undecided.
const EVERY: Duration = Duration::from_secs(600);
const AGAIN: Duration = Duration::from_secs(120);
/// Delay from the beginning of a term to the group's first comparison, staggered by group.
const FIRST: Duration = Duration::from_secs(60);
const BETWEEN_GROUPS: Duration = Duration::from_secs(5);
/// Interval of the checks which groups this node leads.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How far ahead of the log's end the compared index lies: more than is applied until the other nodes hear of it.
const AHEAD: u64 = 256;
/// How long a replica waits for the compared index to be applied.
const REACHED_WITHIN: Duration = Duration::from_secs(2);
/// Timeout of reading a whole state.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Read rate of a node for all comparisons together.
const BYTES_PER_SECOND: u64 = 8 << 20;

/// Hash of a state at an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hashed {
    index: u64,
    hash: u64,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// All comparable replicas equal the leader's, and there was at least one.
    Equal,
    /// Members whose state differs from the leader's at the same index.
    Differ(BTreeSet<NodeId>),
    /// No other replica was at the leader's index.
    Undecided,
}

/// The latest results of a node, and the limit of its read rate.
pub(crate) struct Comparisons {
    rate_limiter: RateLimiter,
    differing: Mutex<BTreeMap<GroupId, BTreeSet<NodeId>>>,
}

impl Comparisons {
    pub(super) fn new() -> Self {
        Self { rate_limiter: RateLimiter::new(BYTES_PER_SECOND), differing: Mutex::default() }
    }

    /// Members of a group led by this node whose state differed in the latest comparison.
    pub(super) fn differing(&self, group: GroupId) -> BTreeSet<NodeId> {
        self.differing.lock().get(&group).cloned().unwrap_or_default()
    }

    fn note(&self, group: GroupId, found: BTreeSet<NodeId>) {
        let mut differing = self.differing.lock();
        differing.insert(group, found);
        telemetry::replicas_differ(differing.values().map(BTreeSet::len).sum());
    }
}

/// Compares the replicas of the groups that this node leads, until the host is dropped.
pub(super) fn run(host: Weak<Inner>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        // For each group: the term in which this node leads it, and when its next comparison is due.
        let mut next: HashMap<GroupId, (u64, Instant)> = HashMap::new();
        let mut ticks = supervise::ticks(LOOK_EVERY);
        loop {
            ticks.tick().await;
            let Some(inner) = host.upgrade() else { return };
            let open: Vec<Arc<Core>> = inner.groups.read().values().map(|open| open.core.clone()).collect();
            let comparisons = &inner.shared.comparisons;
            for core in open {
                let group = core.id;
                let epoch = core.leadership.borrow().ready_epoch;
                let Some(epoch) = epoch else {
                    // The group's current leader finds the differences itself.
                    next.remove(&group);
                    comparisons.note(group, BTreeSet::new());
                    continue;
                };
                let now = Instant::now();
                let first = now + FIRST + BETWEEN_GROUPS * u32::from(group);
                let due = next.get(&group).filter(|(of, _)| *of == epoch).map_or(first, |(_, due)| *due);
                next.insert(group, (epoch, due));
                if due <= now {
                    let found = compare(&core, comparisons).await;
                    let pause = if found == Compared::Undecided { AGAIN } else { EVERY };
                    next.insert(group, (epoch, Instant::now() + pause));
                }
            }
        }
    })
}

/// Compares the replicas of a group that this node leads; logs an error if they differ.
pub(crate) async fn compare(core: &Arc<Core>, comparisons: &Comparisons) -> Compared {
    let group = core.id;
    let Some(end) = core.running().and_then(|running| running.log.last()) else { return Compared::Undecided };
    let wanted = end.index + AHEAD;
    let members = core.members();
    let others: Vec<NodeId> =
        members.voters.union(&members.learners).copied().filter(|node| *node != core.node).collect();
    if others.is_empty() {
        return Compared::Undecided;
    }
    let asked = others.into_iter().map(|node| async move { Some((node, ask(core, node, wanted).await?)) });
    let (own, others) = futures::join!(hash_at(core, wanted, comparisons), join_all(asked));
    let Some(own) = own.ok() else { return Compared::Undecided };
    let said: BTreeMap<NodeId, Hashed> = others.into_iter().flatten().collect();
    let found = judged(own, &said);
    match &found {
        Compared::Equal => comparisons.note(group, BTreeSet::new()),
        Compared::Undecided => {}
        Compared::Differ(nodes) => {
            tracing::error!(
                group,
                index = own.index,
                leader = core.node,
                ?nodes,
                "REPLICAS DIFFER: these nodes have a different state than the leader at the same index; find the nodes \
                 whose data is wrong, remove them from the cluster, and let them join again with empty data folders"
            );
            comparisons.note(group, nodes.clone());
        }
    }
    found
}

/// Only states at the leader's own index are comparable.
fn judged(own: Hashed, said: &BTreeMap<NodeId, Hashed>) -> Compared {
    let comparable = || said.iter().filter(|(_, theirs)| theirs.index == own.index);
    let differ: BTreeSet<NodeId> =
        comparable().filter(|(_, theirs)| theirs.hash != own.hash).map(|(node, _)| *node).collect();
    if !differ.is_empty() {
        Compared::Differ(differ)
    } else if comparable().next().is_some() {
        Compared::Equal
    } else {
        Compared::Undecided
    }
}

/// Returns `None` if the node does not answer, has no replica, or runs a release without comparisons.
async fn ask(core: &Core, node: NodeId, wanted: u64) -> Option<Hashed> {
    let body = addressed(core.id, &codec::encode(&wanted));
    let deadline = Instant::now() + PATIENCE;
    answered(core.peers.call(node, Class::Snapshot, service::STATE_HASH, body, deadline).await.ok()?)
}

/// Hash of this node's state at `wanted`; if that is not applied within [`REACHED_WITHIN`], at the current index.
pub(super) async fn hash_at(core: &Core, wanted: u64, comparisons: &Comparisons) -> io::Result<Hashed> {
    let stopped = || io::Error::other("the group is stopped");
    let (meta, source) = {
        core.running().ok_or_else(stopped)?;
        let reached = core.cut.want(wanted);
        match tokio::time::timeout(REACHED_WITHIN, reached).await {
            Ok(Ok(taken)) => taken,
            _ => Source::take(core.state.clone(), core.id).await?,
        }
    };
    let index = meta.last_log_id.ok_or_else(stopped)?.index;
    let mut chunks = source.read();
    let mut hash = Fnv::default();
    while let Some(chunk) = chunks.recv().await {
        let chunk = chunk?;
        tokio::time::sleep_until(comparisons.rate_limiter.reserve(chunk.len(), Instant::now()).into()).await;
        // A comparison must not keep a closed group open.
        core.running().ok_or_else(stopped)?;
        let hashing = core.runtime().spawn_blocking(move || {
            hash.add_bytes(&chunk);
            hash
        });
        hash = hashing.await.map_err(io::Error::other)?;
    }
    Ok(Hashed { index, hash: hash.finish() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_states_at_the_same_index_are_compared() {
        let at = |index, hash| Hashed { index, hash };
        let found = |said: &[(NodeId, Hashed)]| judged(at(7, 1), &said.iter().copied().collect());
        assert_eq!(found(&[]), Compared::Undecided);
        assert_eq!(found(&[(2, at(6, 2)), (3, at(8, 3))]), Compared::Undecided);
        assert_eq!(found(&[(2, at(7, 1)), (3, at(8, 3))]), Compared::Equal);
        assert_eq!(found(&[(2, at(7, 1)), (3, at(7, 3))]), Compared::Differ([3].into()));
    }
}

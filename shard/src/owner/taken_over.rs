//! Records in the cluster's timeline which shards this node took over from another, and how long they had no owner.
//! Take-overs that come close together share one entry for each former owner.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::{NodeId, ShardId};
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::directory::Directory;
use raft::directory::command::Command;
use raft::directory::observed::{self, TAKEN_OVER};
use raft::directory::records::AuditEntry;
use raft::supervise;
use tokio_util::sync::CancellationToken;

use crate::nodes::Nodes;

/// How often take-overs that are not recorded yet are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long after the last take-over an entry is written: those from a lost node are this close together.
const SETTLED: Duration = Duration::from_secs(1);

/// Upper bound of the wait for more take-overs.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Timeout of a write; one that fails is retried at the next tick.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// Timeout of the former owner's status.
const STATUS_PATIENCE: Duration = Duration::from_millis(400);

/// A shard that came from another node.
#[derive(Clone, Debug, PartialEq)]
struct TakenOver {
    from: NodeId,
    /// From when the former owner was last heard until this node owned the shard.
    away: Duration,
    /// Channels whose session had to be opened again.
    channels: usize,
    at: Timestamp,
    noted: Instant,
}

/// The last take-over of each shard that is not recorded yet.
#[derive(Debug, Default)]
pub struct TakeOvers {
    waiting: Mutex<BTreeMap<ShardId, TakenOver>>,
}

impl TakeOvers {
    pub(super) fn note(&self, shard: ShardId, from: NodeId, away: Duration, channels: usize) {
        let taken = TakenOver { from, away, channels, at: Timestamp::now(), noted: Instant::now() };
        self.waiting.lock().insert(shard, taken);
    }

    /// Records take-overs until `stop`.
    pub async fn run(&self, nodes: Arc<dyn Nodes>, directory: Arc<Directory>, stop: CancellationToken) {
        let mut ticks = supervise::ticks(LOOK_EVERY);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let due = self.due(Instant::now());
            if due.is_empty() {
                continue;
            }
            let mut entries = Vec::new();
            for (from, taken) in by_former_owner(&due) {
                let status = nodes.status_of(from, Instant::now() + STATUS_PATIENCE).await;
                let handed_over = status.is_some_and(|status| status.started_at < begin(&taken));
                entries.push(entry(nodes.node(), from, &taken, handed_over));
            }
            let written = directory.update(Command::Audit, entries, Instant::now() + WRITE_PATIENCE).await;
            match written {
                Ok(_) => self.waiting.lock().retain(|shard, taken| due.get(shard) != Some(taken)),
                Err(error) => tracing::warn!(%error, "take-overs of shards could not be written to the timeline yet"),
            }
        }
    }

    /// All take-overs that wait, once no more seem to follow.
    fn due(&self, now: Instant) -> BTreeMap<ShardId, TakenOver> {
        let waiting = self.waiting.lock();
        let age = |noted: Option<Instant>| noted.is_some_and(|noted| now.saturating_duration_since(noted) >= SETTLED);
        let newest = waiting.values().map(|taken| taken.noted).max();
        let oldest = waiting.values().map(|taken| taken.noted).min();
        let waited = oldest.is_some_and(|oldest| now.saturating_duration_since(oldest) >= LONGEST_WAIT);
        if age(newest) || waited { waiting.clone() } else { BTreeMap::new() }
    }
}

fn by_former_owner(due: &BTreeMap<ShardId, TakenOver>) -> BTreeMap<NodeId, Vec<(ShardId, &TakenOver)>> {
    let mut by: BTreeMap<NodeId, Vec<(ShardId, &TakenOver)>> = BTreeMap::new();
    for (shard, taken) in due {
        by.entry(taken.from).or_default().push((*shard, taken));
    }
    by
}

/// When the first of them was owned here.
fn begin(taken: &[(ShardId, &TakenOver)]) -> Timestamp {
    taken.iter().map(|(_, taken)| taken.at).min().unwrap_or(Timestamp(0))
}

fn entry(node: NodeId, from: NodeId, taken: &[(ShardId, &TakenOver)], handed_over: bool) -> AuditEntry {
    let shards: Vec<String> = taken.iter().map(|(shard, _)| shard.to_string()).collect();
    let away = taken.iter().map(|(_, taken)| taken.away).max().unwrap_or_default();
    let channels: usize = taken.iter().map(|(_, taken)| taken.channels).sum();
    let details = [
        ("node", node.to_string()),
        ("from", from.to_string()),
        ("shards", shards.join(",")),
        ("channels", channels.to_string()),
        ("away_ms", away.as_millis().to_string()),
        ("reason", if handed_over { "handed_over" } else { "lost" }.to_owned()),
    ];
    let details = details.map(|(name, value)| (name.to_owned(), value)).into();
    observed::entry(node, TAKEN_OVER, observed::node(from), begin(taken), details)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(from: NodeId, away: u64, at: i64, noted: Instant) -> TakenOver {
        TakenOver { from, away: Duration::from_millis(away), channels: 10, at: Timestamp(at), noted }
    }

    #[test]
    fn shards_that_come_together_are_noted_together_and_none_waits_for_long() {
        let (now, take_overs) = (Instant::now(), TakeOvers::default());
        let at = |seconds: f64| now + Duration::from_secs_f64(seconds);
        assert!(take_overs.due(at(9.0)).is_empty());
        take_overs.waiting.lock().insert(1, taken(2, 800, 1_000, at(0.0)));
        take_overs.waiting.lock().insert(4, taken(2, 900, 1_100, at(0.4)));
        assert!(take_overs.due(at(1.3)).is_empty(), "others may come");
        assert_eq!(take_overs.due(at(1.4)).len(), 2);
        take_overs.waiting.lock().insert(7, taken(3, 20, 6_000, at(4.9)));
        assert_eq!(take_overs.due(at(5.0)).len(), 3);

        let due = take_overs.due(at(9.0));
        let by = by_former_owner(&due);
        let written = entry(3, 2, &by[&2], false);
        assert_eq!(written.created_at, Timestamp(1_000));
        let said = |name: &str| written.details[name].as_str();
        assert_eq!((said("shards"), said("away_ms"), said("channels")), ("1,4", "900", "20"));
        assert_eq!((said("node"), said("from"), said("reason")), ("3", "2", "lost"));
    }
}

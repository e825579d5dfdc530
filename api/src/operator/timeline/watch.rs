//! Observes nodes and checks on the directory's leader, and writes changes to the audit log. The state is restored from
//! the log, so that the next leader continues where this one ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::NodeId;
use model::time::Timestamp;
use raft::directory::AuditQuery;
use raft::directory::command::Command;
use raft::directory::observed::{self, CHECK_CHANGED, NODE_BACK, NODE_LOST, NODE_STARTED};
use raft::directory::records::{AuditEntry, AuditTarget};
use raft::supervise;
use shard::cluster::Cluster;
use shard::router::NodeStatus;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::operator::check::{CHECKS, Finding, Level, findings};
use crate::operator::survey::ClusterView;

/// How often the nodes are polled.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The checks run once in this many polls.
const CHECKS_TURN: u32 = 8;

/// A node counts as lost after this many silent polls in a row, since a busy node may miss one.
const MISSES: u32 = 3;

/// A check's level counts as changed after this many equal results in a row.
const AGREED: u32 = 2;

/// How many entries of one node or check are written in an hour; further ones at most once per [`FOLDED`].
const AN_HOUR: usize = 6;
const HOUR: Duration = Duration::from_secs(3600);
const FOLDED: Duration = Duration::from_secs(600);

/// Timeout of a write. A failed write is retried at the next poll.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// How far back, and how many entries of the log are read to restore the state.
const REMEMBERED: Duration = Duration::from_secs(90 * 24 * 3600);
const MOST_REMEMBERED: usize = 2_000;

/// Polls while this node leads the directory, until `stop`.
pub async fn keep(app: Arc<App>, stop: CancellationToken) {
    let cluster = &app.cluster;
    let mut ticks = supervise::ticks(LOOK_EVERY);
    let mut known: Option<Known> = None;
    let mut turn: u32 = 0;
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let formed = cluster.directory().read(|state| state.cluster.is_some());
        if !formed || cluster.directory().group().leadership().borrow().ready_epoch.is_none() {
            known = None;
            continue;
        }
        let before = match known.take() {
            Some(known) => known,
            None => match remember(cluster).await {
                Some(known) => known,
                None => continue,
            },
        };
        let members: BTreeSet<NodeId> = cluster.directory().read(|state| state.nodes.keys().copied().collect());
        let statuses = cluster.node_statuses().await;
        let mut next = before.clone();
        let mut entries = next.look_at_nodes(cluster.node(), &members, &statuses, Timestamp::now());
        if turn.is_multiple_of(CHECKS_TURN) {
            let view = ClusterView::of(cluster).await;
            let found = findings(&view, &app.config.target_policy);
            entries.extend(next.look_at_checks(cluster.node(), &found, Timestamp::now()));
        }
        turn = turn.wrapping_add(1);
        known = Some(next);
        if entries.is_empty() {
            continue;
        }
        let deadline = Instant::now() + WRITE_PATIENCE;
        if let Err(error) = cluster.directory().update(Command::Audit, entries, deadline).await {
            tracing::warn!(%error, "changes of the cluster could not be written to the timeline yet");
            // Restores the state from before the poll, so that the next poll produces the same entries.
            known = Some(before);
        }
    }
}

/// Restores from the log how nodes and checks were when they were last noted. `None` when the log cannot be read.
async fn remember(cluster: &Arc<Cluster>) -> Option<Known> {
    let reader = cluster.clone();
    let reading = supervise::on_thread(move || {
        let query =
            AuditQuery { customer: None, since: Timestamp::now().minus(REMEMBERED), until: Timestamp(i64::MAX) };
        let wanted =
            |entry: &AuditEntry| [NODE_STARTED, NODE_LOST, NODE_BACK, CHECK_CHANGED].contains(&entry.action.as_str());
        reader.directory().audit_log(&query, None, MOST_REMEMBERED, usize::MAX, wanted).entries
    });
    let entries = reading.await.ok()?;
    let mut known = Known::default();
    entries.iter().rev().for_each(|entry| known.recall(entry));
    Some(known)
}

/// When entries of one node or check were written.
#[derive(Clone, Debug, Default)]
struct Noted {
    at: VecDeque<Timestamp>,
    /// The number of changes since the last entry that were not written.
    folded: u32,
}

impl Noted {
    fn allows(&mut self, now: Timestamp) -> bool {
        while self.at.front().is_some_and(|at| now.since(*at) >= HOUR) {
            self.at.pop_front();
        }
        self.at.len() < AN_HOUR || self.at.back().is_none_or(|last| now.since(*last) >= FOLDED)
    }

    /// Notes an entry, and adds the number of changes that are folded into it.
    fn note(&mut self, now: Timestamp, details: &mut BTreeMap<String, String>) {
        if self.folded > 0 {
            details.insert("changes".to_owned(), (self.folded + 1).to_string());
        }
        self.folded = 0;
        if self.at.len() == AN_HOUR {
            self.at.pop_front();
        }
        self.at.push_back(now);
    }
}

/// A node's noted state, and what was seen since.
#[derive(Clone, Debug, Default)]
struct NodeSeen {
    started_at: Option<Timestamp>,
    release: String,
    /// When it was lost, if that was noted.
    lost: Option<Timestamp>,
    /// The number of silent polls in a row, and when it was last heard.
    misses: u32,
    heard: Option<Timestamp>,
    /// Whether it was silent at the last poll, to count folded changes.
    was_silent: bool,
    noted: Noted,
}

/// A check's noted level, and another level that it may be changing to.
#[derive(Clone, Debug, Default)]
struct CheckSeen {
    level: Level,
    next: Option<(Level, u32, Timestamp)>,
    noted: Noted,
}

#[derive(Clone, Debug, Default)]
struct Known {
    nodes: BTreeMap<NodeId, NodeSeen>,
    checks: BTreeMap<&'static str, CheckSeen>,
}

fn details<const N: usize>(of: [(&str, String); N]) -> BTreeMap<String, String> {
    of.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Known {
    /// Updates the state from an entry of the log. Entries must come in order, oldest first.
    fn recall(&mut self, entry: &AuditEntry) {
        let said = |name: &str| entry.details.get(name).map_or("", String::as_str);
        if entry.action == CHECK_CHANGED {
            let check = CHECKS.into_iter().find(|check| *check == said("check"));
            if let (Some(level), Some(check)) = (Level::parse(said("level")), check) {
                let seen = self.checks.entry(check).or_default();
                seen.level = level;
                seen.noted.note(entry.created_at, &mut BTreeMap::new());
            }
            return;
        }
        let Some(node) = entry.target.as_ref().and_then(|target| target.id.parse().ok()) else { return };
        let seen: &mut NodeSeen = self.nodes.entry(node).or_default();
        seen.noted.note(entry.created_at, &mut BTreeMap::new());
        match entry.action.as_str() {
            NODE_STARTED => {
                seen.started_at = said("started_at_ms").parse().ok().map(Timestamp);
                said("release").clone_into(&mut seen.release);
                seen.lost = None;
            }
            NODE_LOST => seen.lost = Some(entry.created_at),
            _ => seen.lost = None,
        }
        seen.was_silent = seen.lost.is_some();
    }

    /// Entries for the changes of the nodes.
    fn look_at_nodes(
        &mut self,
        own: NodeId,
        members: &BTreeSet<NodeId>,
        statuses: &BTreeMap<NodeId, NodeStatus>,
        now: Timestamp,
    ) -> Vec<AuditEntry> {
        self.nodes.retain(|node, _| members.contains(node));
        let look = |node: &NodeId| {
            let seen = self.nodes.entry(*node).or_default();
            let heard = statuses.get(node).map(|status| (status.started_at, status.version.as_str()));
            let (action, at, details) = seen.look(heard, now)?;
            Some(observed::entry(own, action, observed::node(*node), at, details))
        };
        members.iter().filter_map(look).collect()
    }

    /// Entries for the changes of the checks.
    fn look_at_checks(&mut self, own: NodeId, found: &[Finding], now: Timestamp) -> Vec<AuditEntry> {
        let look = |check: &&'static str| {
            let worst = found.iter().filter(|finding| finding.check == *check).max_by_key(|finding| finding.level)?;
            let seen = self.checks.entry(check).or_default();
            let (at, was, folded) = seen.look(worst.level, now)?;
            let said = [
                ("check", (*check).to_owned()),
                ("level", worst.level.as_str().to_owned()),
                ("was", was.as_str().to_owned()),
                ("message", worst.message.clone()),
            ];
            let mut said = details(said);
            said.extend(folded);
            let target = AuditTarget::new("check", check, *check);
            Some(observed::entry(own, CHECK_CHANGED, target, at, said))
        };
        CHECKS.iter().filter_map(look).collect()
    }
}

impl NodeSeen {
    /// Takes a poll: the node's start time and release, or `None` if it was silent. Returns what is to be noted.
    fn look(
        &mut self,
        heard: Option<(Timestamp, &str)>,
        now: Timestamp,
    ) -> Option<(&'static str, Timestamp, BTreeMap<String, String>)> {
        let last_heard = self.heard;
        let is_silent = match heard {
            Some(_) => {
                (self.misses, self.heard) = (0, Some(now));
                false
            }
            None => {
                self.misses = self.misses.saturating_add(1);
                self.misses >= MISSES
            }
        };
        let (action, at, mut said) = match heard {
            Some((started_at, release)) if self.started_at != Some(started_at) => {
                let was = if self.release == release { String::new() } else { self.release.clone() };
                let started = ("started_at_ms", started_at.0.to_string());
                (NODE_STARTED, started_at, details([started, ("release", release.to_owned()), ("was", was)]))
            }
            Some(_) => {
                let since = self.lost?;
                (NODE_BACK, now, details([("away_ms", now.since(since).as_millis().to_string())]))
            }
            // A node that was never heard cannot be lost.
            None if is_silent && self.lost.is_none() && self.started_at.is_some() => {
                (NODE_LOST, last_heard.unwrap_or(now), BTreeMap::new())
            }
            None => return None,
        };
        if !self.noted.allows(now) {
            if self.was_silent != is_silent {
                self.noted.folded += 1;
            }
            self.was_silent = is_silent;
            return None;
        }
        self.noted.note(now, &mut said);
        self.was_silent = is_silent;
        match heard {
            Some((started_at, release)) => {
                (self.started_at, self.lost) = (Some(started_at), None);
                release.clone_into(&mut self.release);
            }
            None => self.lost = Some(at),
        }
        Some((action, at, said))
    }
}

impl CheckSeen {
    /// Updates the state with a check's level. Returns since when it has the level, its former level, and folded
    /// changes; `None` when nothing is to be noted.
    fn look(&mut self, level: Level, now: Timestamp) -> Option<(Timestamp, Level, BTreeMap<String, String>)> {
        if level == self.level {
            self.next = None;
            return None;
        }
        let (seen, since) = match self.next {
            Some((next, seen, since)) if next == level => (seen + 1, since),
            _ => (1, now),
        };
        self.next = Some((level, seen, since));
        if seen < AGREED {
            return None;
        }
        if !self.noted.allows(now) {
            if seen == AGREED {
                self.noted.folded += 1;
            }
            return None;
        }
        let mut folded = BTreeMap::new();
        self.noted.note(now, &mut folded);
        let was = std::mem::replace(&mut self.level, level);
        self.next = None;
        Some((since, was, folded))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const RUNS: Option<(Timestamp, &str)> = Some((Timestamp(500), "0.3.0"));

    /// What is noted of a node at polls two seconds apart, from second `from` on.
    fn looks(seen: &mut NodeSeen, from: i64, heard: &[Option<(Timestamp, &str)>]) -> Vec<(&'static str, i64)> {
        let at = |look: usize| Timestamp((from + 2 * look as i64) * 1000);
        let noted = heard.iter().enumerate().filter_map(|(look, heard)| seen.look(*heard, at(look)));
        noted.map(|(action, at, _)| (action, at.0)).collect()
    }

    #[test]
    fn a_node_is_lost_when_it_is_silent_for_long_and_back_when_it_is_heard() {
        let mut seen = NodeSeen::default();
        assert_eq!(looks(&mut seen, 0, &[None, None, None, None]), [], "it was never heard");
        assert_eq!(looks(&mut seen, 10, &[RUNS, RUNS]), [(NODE_STARTED, 500)]);
        assert_eq!(looks(&mut seen, 14, &[None, None, RUNS]), [], "a busy node");
        assert_eq!(looks(&mut seen, 20, &[None, None, None, None]), [(NODE_LOST, 18_000)]);
        assert_eq!(looks(&mut seen, 28, &[RUNS, RUNS]), [(NODE_BACK, 28_000)]);
        let another = Some((Timestamp(31_000), "0.3.1"));
        assert_eq!(looks(&mut seen, 32, &[another, another]), [(NODE_STARTED, 31_000)]);
        let (_, _, said) = seen.look(Some((Timestamp(40_000), "0.4.0")), Timestamp(41_000)).unwrap();
        assert_eq!((said["release"].as_str(), said["was"].as_str()), ("0.4.0", "0.3.1"));
    }

    #[test]
    fn whoever_leads_next_goes_on_with_what_was_noted() {
        let (mut first, members) = (Known::default(), BTreeSet::from([2]));
        let entry = |known: &mut Known, action, at, said| {
            known.recall(&observed::entry(1, action, observed::node(2), Timestamp(at), said));
        };
        entry(&mut first, NODE_STARTED, 500, details([("started_at_ms", "500".into()), ("release", "0.3.0".into())]));
        entry(&mut first, NODE_LOST, 9_000, BTreeMap::new());
        assert!(
            first.look_at_nodes(3, &members, &BTreeMap::new(), Timestamp(12_000)).is_empty(),
            "it is known already"
        );
        let seen = first.nodes.get_mut(&2).unwrap();
        let (action, _, said) = seen.look(RUNS, Timestamp(14_000)).unwrap();
        assert_eq!((action, said["away_ms"].as_str()), (NODE_BACK, "5000"));
    }

    #[test]
    fn a_node_that_comes_and_goes_is_noted_six_times_an_hour_and_then_every_ten_minutes() {
        let (mut seen, mut noted) = (NodeSeen::default(), Vec::new());
        // Half a minute up, half a minute down, for an hour.
        for look in 0..1_800_i64 {
            let heard = if look % 30 < 15 { RUNS } else { None };
            noted.extend(seen.look(heard, Timestamp(look * 2_000)));
        }
        assert!((10..=13).contains(&noted.len()), "{noted:?}");
        assert!(seen.noted.at.len() <= AN_HOUR);
        assert!(noted.iter().any(|(_, _, said)| said.contains_key("changes")), "{noted:?}");
    }

    #[test]
    fn a_check_has_changed_when_two_looks_agree() {
        let mut seen = CheckSeen::default();
        let mut look = |level, second: i64| seen.look(level, Timestamp(second * 1000)).map(|(at, was, _)| (at.0, was));
        assert_eq!(look(Level::Ok, 0), None);
        assert_eq!((look(Level::Warning, 16), look(Level::Ok, 32)), (None, None), "it was for a moment");
        assert_eq!(look(Level::Warning, 48), None);
        assert_eq!(look(Level::Warning, 64), Some((48_000, Level::Ok)));
        assert_eq!(look(Level::Warning, 80), None);
        assert_eq!((look(Level::Failing, 96), look(Level::Failing, 112)), (None, Some((96_000, Level::Warning))));
    }
}

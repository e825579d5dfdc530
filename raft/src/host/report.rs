//! Status report of a host for operators: groups, disk and tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use model::id::NodeId;
use nix::sys::statvfs::statvfs;
use serde::{Deserialize, Serialize};

use super::{Health, Host};
use crate::folder::unless_missing;
use crate::group::{Group, Members};
pub use crate::log::syncs::SyncFigures;
use crate::machine::GroupId;
use crate::supervise;

/// Older syncs of the log say nothing about the disk's current state.
const LATELY: Duration = Duration::from_secs(60);

/// Number and size of the test writes when the log had no recent sync.
const PROBES: usize = 5;
const PROBE: [u8; 4096] = [0; 4096];

/// Name of the file, in the data folder, that the test writes go to.
const PROBE_FILE: &str = ".sync-probe";

/// Status of a host at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostReport {
    pub groups: Vec<GroupReport>,
    /// Sync times of the log in the last minute; if there were none, of test writes beside it. `None` if those failed.
    pub syncs: Option<SyncFigures>,
    /// `None` if the file system cannot be queried.
    pub disk: Option<DiskUsage>,
    /// Tasks that panicked within the last hour, with the number of panics. Absent in reports of earlier releases.
    #[serde(default)]
    pub panics: BTreeMap<String, u32>,
}

/// A group as one of its members sees it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GroupReport {
    pub id: GroupId,
    pub term: u64,
    pub leader: Option<NodeId>,
    /// Index of the last entry that is applied to the local state.
    pub applied: u64,
    /// Last index of the local log.
    pub last_index: Option<u64>,
    pub voters: BTreeSet<NodeId>,
    pub learners: BTreeSet<NodeId>,
    /// Whether the group died and has not been restarted yet.
    pub dead: bool,
    /// Whether this node leads the group without committing what it has proposed. Absent in earlier releases.
    #[serde(default)]
    pub stalled: bool,
    /// On the leader: last log index that each other member is known to hold.
    pub replicated: BTreeMap<NodeId, Option<u64>>,
    /// On the leader: progress of each learner in copying the group's state. Absent in earlier releases.
    #[serde(default)]
    pub copies: BTreeMap<NodeId, CopyProgress>,
    /// On the leader: bytes sent of each snapshot that is being sent, by receiving member. Absent in earlier releases.
    #[serde(default)]
    pub sent: BTreeMap<NodeId, u64>,
    /// On the leader: members whose state differed from its own at the same index in the latest comparison. Absent in
    /// earlier releases.
    #[serde(default)]
    pub differing: BTreeSet<NodeId>,
}

/// Progress of a new replica in copying its group's state, in bytes. Both are estimates: states are compressed on disk,
/// and the latest writes are not on disk yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyProgress {
    /// Bytes sent of the snapshot; if none is being sent, `total` times the share of the log that the learner holds.
    pub copied: u64,
    pub total: u64,
}

/// The disk under the data folder, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUsage {
    /// Space that this process may still write to.
    pub free: u64,
    pub total: u64,
    /// Logs and votes.
    pub log: u64,
    /// States of the machines.
    pub state: u64,
}

impl Host {
    /// Reports on all groups and the disk. Takes as long as a few syncs if the log had no recent sync.
    pub async fn report(&self) -> HostReport {
        let groups = self.group_reports();
        let logged = Instant::now().checked_sub(LATELY).and_then(|since| self.inner.shared.writer.syncs.after(since));
        let syncs = if logged.is_some() { logged } else { self.try_syncs().await };
        HostReport { groups, syncs, disk: self.disk().await, panics: supervise::panics() }
    }

    async fn try_syncs(&self) -> Option<SyncFigures> {
        let folder = self.folder.path.clone();
        let trying = tokio::task::spawn_blocking(move || match probe(&folder) {
            Ok(took) => SyncFigures::of(took),
            Err(error) => {
                tracing::warn!(%error, folder = %folder.display(), "a test sync of the disk failed to run");
                None
            }
        });
        trying.await.unwrap_or_default()
    }

    /// Reports on the disk alone.
    pub async fn disk(&self) -> Option<DiskUsage> {
        let folder = self.folder.path.clone();
        let (logs, state) = (self.folder.logs(), self.folder.state());
        // A task that panicked has no result.
        tokio::task::spawn_blocking(move || disk(&folder, &logs, &state).ok()).await.unwrap_or_default()
    }

    /// Times of the log's syncs that ended after `since`; `None` if there were none.
    pub fn syncs_after(&self, since: Instant) -> Option<SyncFigures> {
        self.inner.shared.writer.syncs.after(since)
    }

    /// On the leader: progress of each learner in copying the state.
    fn copies(&self, group: &Group, learners: &BTreeSet<NodeId>) -> BTreeMap<NodeId, CopyProgress> {
        let replicated = group.replicated();
        let mut learners = learners.iter().filter(|node| replicated.contains_key(node)).peekable();
        if learners.peek().is_none() {
            return BTreeMap::new();
        }
        let (size, end) = (self.inner.shared.state.size(group.id()), group.last_index().unwrap_or(0).max(1));
        let of = |node: &NodeId| match group.sent_to(*node) {
            Some(copied) => CopyProgress { copied, total: size.max(copied) },
            None => {
                let held = replicated.get(node).copied().flatten().unwrap_or(0).min(end);
                let part = u128::from(size) * u128::from(held) / u128::from(end);
                CopyProgress { copied: u64::try_from(part).unwrap_or(size), total: size }
            }
        };
        learners.map(|node| (*node, of(node))).collect()
    }

    fn group_reports(&self) -> Vec<GroupReport> {
        let Health { dead, stalled, .. } = self.health();
        let open: Vec<Group> = self.inner.groups.read().values().map(|open| Group::new(open.core.clone())).collect();
        let mut reports: Vec<GroupReport> = open
            .iter()
            .map(|group| {
                let leadership = *group.leadership().borrow();
                let members = group.members();
                GroupReport {
                    id: group.id(),
                    term: leadership.term,
                    leader: leadership.leader,
                    applied: group.applied(),
                    last_index: group.last_index(),
                    copies: self.copies(group, &members.learners),
                    sent: sent(group, &members),
                    voters: members.voters,
                    learners: members.learners,
                    dead: dead.contains(&group.id()),
                    stalled: stalled.contains(&group.id()),
                    replicated: group.replicated(),
                    differing: self.inner.shared.comparisons.differing(group.id()),
                }
            })
            .collect();
        reports.sort_by_key(|group| group.id);
        reports
    }
}

/// On the leader: bytes sent of each snapshot that is being sent, by receiving member.
fn sent(group: &Group, members: &Members) -> BTreeMap<NodeId, u64> {
    let all = members.voters.iter().chain(&members.learners);
    all.filter_map(|node| Some((*node, group.sent_to(*node)?))).collect()
}

/// Measures how long small writes with a sync take.
fn probe(folder: &Path) -> io::Result<Vec<Duration>> {
    let path = folder.join(PROBE_FILE);
    let mut file = File::create(&path)?;
    let took = (0..PROBES).map(|_| {
        let started = Instant::now();
        file.write_all(&PROBE)?;
        file.sync_data()?;
        Ok(started.elapsed())
    });
    let took = took.collect();
    fs::remove_file(&path)?;
    took
}

fn disk(folder: &Path, logs: &Path, state: &Path) -> io::Result<DiskUsage> {
    let space = statvfs(folder)?;
    let block = space.fragment_size();
    Ok(DiskUsage {
        free: space.blocks_available() * block,
        total: space.blocks() * block,
        log: size(logs)?,
        state: size(state)?,
    })
}

/// Total size of a store's files; a store has no subfolders. Files that are deleted meanwhile do not count.
fn size(folder: &Path) -> io::Result<u64> {
    let files = fs::read_dir(folder)?.map(|entry| entry.and_then(|entry| entry.metadata()));
    files.map(|found| unless_missing(found.map(|found| found.len()))).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_probe_takes_time_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(probe(folder.path()).unwrap().len(), PROBES);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(probe(&folder.path().join("nowhere")).is_err());
    }

    #[test]
    fn a_disk_is_as_full_as_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let (logs, state) = (folder.path().join("raft"), folder.path().join("data"));
        fs::create_dir_all(&logs).unwrap();
        fs::create_dir_all(&state).unwrap();
        fs::write(logs.join("1.log"), [0; 100]).unwrap();
        fs::write(logs.join("2.log"), [0; 20]).unwrap();
        let usage = disk(folder.path(), &logs, &state).unwrap();
        assert_eq!((usage.log, usage.state), (120, 0));
        assert!(usage.free <= usage.total && usage.total > 0);
    }
}

//! What a host says of its groups, its disk and its tasks, for operators.

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

/// Syncs of the log that are older say nothing of the disk as it is now.
const LATELY: Duration = Duration::from_secs(60);

/// Syncs that are tried when the log had none lately, and how much each writes.
const PROBES: usize = 5;
const PROBE: [u8; 4096] = [0; 4096];

/// In the data folder, while a sync is tried.
const PROBE_FILE: &str = ".sync-probe";

/// A host at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostReport {
    pub groups: Vec<GroupReport>,
    /// Of the log of the last minute, or of a file beside it when nothing was logged. `None` when nothing can be written.
    pub syncs: Option<SyncFigures>,
    /// `None` when the system does not say.
    pub disk: Option<DiskUsage>,
    /// The tasks that panicked within the last hour, and how often. Earlier releases do not say.
    #[serde(default)]
    pub panics: BTreeMap<String, u32>,
}

/// A group as one of its members sees it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GroupReport {
    pub id: GroupId,
    pub term: u64,
    pub leader: Option<NodeId>,
    /// The index of the last entry whose effects are written here.
    pub applied: u64,
    /// The last index of the local log.
    pub last_index: Option<u64>,
    pub voters: BTreeSet<NodeId>,
    pub learners: BTreeSet<NodeId>,
    /// The group died and does not run again yet.
    pub dead: bool,
    /// This node leads the group, and commits nothing of what it has proposed. Earlier releases do not say.
    #[serde(default)]
    pub stalled: bool,
    /// On the leader: the last index that each other member is known to hold.
    pub replicated: BTreeMap<NodeId, Option<u64>>,
    /// On the leader: the learners, and how far each has the group's state. Earlier releases do not say.
    #[serde(default)]
    pub copies: BTreeMap<NodeId, CopyProgress>,
    /// On the leader: the members to which a snapshot is on its way, and the bytes of it that were sent. Earlier releases do
    /// not say.
    #[serde(default)]
    pub sent: BTreeMap<NodeId, u64>,
    /// On the leader: the members whose state was another than its own at the same index, when they were last compared.
    /// Earlier releases do not compare.
    #[serde(default)]
    pub differing: BTreeSet<NodeId>,
}

/// How far a new replica has the state of its group, in bytes. Both are estimates: states lie compressed on disk, and what was
/// written last does not lie there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyProgress {
    /// Of the snapshot that is on its way; of the whole as much as of the log, where the log brings all.
    pub copied: u64,
    pub total: u64,
}

/// The disk under the data folder, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUsage {
    /// What this process may still write.
    pub free: u64,
    pub total: u64,
    /// Logs and votes.
    pub log: u64,
    /// The machines' state.
    pub state: u64,
}

impl Host {
    /// Looks at all groups and at the disk. Takes as long as a few syncs when nothing was logged lately.
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

    /// Looks at the disk alone.
    pub async fn disk(&self) -> Option<DiskUsage> {
        let folder = self.folder.path.clone();
        let (logs, state) = (self.folder.logs(), self.folder.state());
        // A task that panicked knows nothing.
        tokio::task::spawn_blocking(move || disk(&folder, &logs, &state).ok()).await.unwrap_or_default()
    }

    /// How long syncs of the log took that ended after `since`; `None` when there was none.
    pub fn syncs_after(&self, since: Instant) -> Option<SyncFigures> {
        self.inner.shared.writer.syncs.after(since)
    }

    /// On the leader: how far each learner has the state.
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

/// On the leader: the members to which a snapshot is on its way, and the bytes of it that were sent.
fn sent(group: &Group, members: &Members) -> BTreeMap<NodeId, u64> {
    let all = members.voters.iter().chain(&members.learners);
    all.filter_map(|node| Some((*node, group.sent_to(*node)?))).collect()
}

/// How long it takes to write a little and sync it.
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

/// The files of a store; it has no folders in it. One that is deleted meanwhile counts no more.
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

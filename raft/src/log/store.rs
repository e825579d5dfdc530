//! One group's log and vote: the storage that openraft uses.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use parking_lot::Mutex;

use super::cache::Cache;
use super::disk::{Disk, Recovered};
use super::writer::{Encoded, Write, Writer};
use crate::codec::{self, invalid_data};
use crate::machine::GroupId;
use crate::types::{Entry, LogId, TypeConfig, Vote};

/// Largest number of bytes of entries that apply reads in one step.
const READ_BYTES: usize = 1 << 20;
/// Largest number of bytes of entries in an append to a peer, unless a single entry is larger. Small enough for slow
/// links, as several appends are in flight at once.
const APPEND_BYTES: usize = 256 << 10;
/// Interval, in entries, at which the log's growth is recorded; see [`GroupLog::cut_to`].
const MARK_EVERY: u64 = 256;

#[derive(Default)]
struct Inner {
    cache: Cache,
    vote: Option<Vote>,
    committed: Option<LogId>,
    /// Last index that is applied to the state.
    applied: Option<u64>,
    /// Whether the commit position has changed since it was last passed to the writer.
    commit_moved: bool,
    purged: Option<LogId>,
    /// Index of the first entry; if there is none, the index that the next one gets.
    first: u64,
    last: Option<LogId>,
    /// Number of the latest append; see [`Cache`].
    appends: u64,
    /// Last index that is known to be synced.
    durable: u64,
    /// Latest truncation: the number of appends before it, and the last index that it left.
    cut: (u64, u64),
    /// Bytes appended in total, and that total at some indexes: gives the log's size, and where to purge it.
    grown: u64,
    marks: std::collections::VecDeque<(u64, u64)>,
    /// Whether the group was once removed from this node.
    erased: bool,
}

impl Inner {
    /// Last index whose entry must never change. `None` while the log ends before it, as it does between the
    /// installation of a snapshot and the purge that follows: the entries left in the log are arbitrary then.
    fn settled(&self) -> Option<u64> {
        let settled = self.committed.map(|id| id.index).max(self.applied);
        settled.filter(|settled| self.last.is_some_and(|last| last.index >= *settled))
    }

    fn bytes(&self) -> u64 {
        self.grown - self.marks.front().map_or(self.grown, |(_, grown)| *grown)
    }
}

/// The log of one group, shared by the store, its readers and the writer.
///
/// The lock protects memory only; it is never held over I/O or an await.
pub(crate) struct GroupLog {
    pub(crate) id: GroupId,
    disk: Arc<Disk>,
    inner: Mutex<Inner>,
}

impl GroupLog {
    /// Reads the state of a group's log from disk. No write of the group may be pending in the writer.
    pub(crate) fn open(id: GroupId, disk: Arc<Disk>) -> io::Result<Arc<Self>> {
        let Recovered { vote, committed, purged, first, last, entry_bytes, erased } = disk.recover(id)?;
        let durable = last.map_or(0, |last| last.index);
        let count = last.map_or(0, |last| (last.index + 1).saturating_sub(first));
        let grown = count * entry_bytes;
        // The sizes of the entries are unknown without reading them all: assume equal ones.
        let spread = (0..count / MARK_EVERY).map(|mark| mark * MARK_EVERY);
        let marks = spread.map(|index| (first + index, index * entry_bytes)).collect();
        let found = Inner { vote, committed, purged, first, last, erased, ..Inner::default() };
        let inner = Inner { durable, grown, marks, ..found };
        Ok(Arc::new(Self { id, disk, inner: Mutex::new(inner) }))
    }

    /// Last index that is known to be synced; 0 if there is none.
    pub(crate) fn durable(&self) -> u64 {
        self.inner.lock().durable
    }

    pub(crate) fn last(&self) -> Option<LogId> {
        self.inner.lock().last
    }

    /// Term of this node's vote.
    pub(crate) fn term(&self) -> u64 {
        self.inner.lock().vote.map_or(0, |vote| vote.leader_id.term)
    }

    /// Whether all entries are known to be synced.
    pub(crate) fn is_synced(&self) -> bool {
        let inner = self.inner.lock();
        inner.last.is_none_or(|last| last.index <= inner.durable)
    }

    #[cfg(test)]
    pub(crate) fn first(&self) -> u64 {
        self.inner.lock().first
    }

    /// Whether the group has never had a vote or an entry on this node.
    pub(crate) fn is_pristine(&self) -> bool {
        let inner = self.inner.lock();
        inner.last.is_none() && inner.vote.is_none()
    }

    /// Whether the group was removed from this node, and has had no vote or entry since.
    pub(crate) fn was_erased(&self) -> bool {
        self.is_pristine() && self.inner.lock().erased
    }

    /// Records that the state includes all entries up to `index`: none of them may ever change.
    pub(crate) fn applied(&self, index: u64) {
        let mut inner = self.inner.lock();
        inner.applied = inner.applied.max(Some(index));
    }

    /// Returns why a leader's claim cannot be true: it names an entry other than the one committed here. Blocks on a
    /// disk read if that entry is no longer in memory, which is rare.
    ///
    /// openraft does not check this: it assumes that every leader has the same entries up to the local commit position.
    /// That holds unless voters have lost acknowledged entries; replicas would then continue with different ones.
    pub(crate) fn contradiction(
        &self,
        vote: &Vote,
        prev: Option<LogId>,
        entries: &[Entry],
    ) -> io::Result<Option<String>> {
        let settled = {
            let inner = self.inner.lock();
            // A leader that was replaced is refused because of its vote, and may well have other entries.
            let is_late = inner.vote.is_some_and(|own| own.leader_id.term > vote.leader_id.term);
            match inner.settled() {
                Some(settled) if !is_late => settled,
                _ => return Ok(None),
            }
        };
        // If two logs agree on the entry at an index, they agree on all entries before it.
        let last = entries.iter().map(|entry| entry.log_id).take_while(|id| id.index <= settled).last();
        for theirs in prev.into_iter().filter(|id| id.index <= settled).chain(last) {
            if let Some(ours) = self.id_at(theirs.index)?.filter(|ours| *ours != theirs) {
                return Ok(Some(format!(
                    "its leader of term {} has entry {theirs} in the log of group {}, where this node has {ours} and has \
                     committed up to {settled}: some node has lost what it had acknowledged, and the replicas are no longer \
                     equal; see with `gateway check` which of them has what was answered, take the others out of the cluster \
                     and join them again with empty data folders",
                    vote.leader_id.term, self.id
                )));
            }
        }
        Ok(None)
    }

    /// Id of the entry at `index`, if the log still has it.
    fn id_at(&self, index: u64) -> io::Result<Option<LogId>> {
        {
            let inner = self.inner.lock();
            let known = [inner.last, inner.committed, inner.purged].into_iter().flatten().find(|id| id.index == index);
            if known.is_some() || index < inner.first || inner.last.is_none_or(|last| index > last.index) {
                return Ok(known);
            }
            if inner.cache.first().is_some_and(|first| index >= first) {
                return Ok(inner.cache.read(index, index + 1, 0).first().map(|entry| entry.log_id));
            }
        }
        // An entry that is missing was purged meanwhile.
        let read = self.disk.try_read(self.id, index, index + 1, 0).inspect_err(|error| self.disk.fail("read", error));
        Ok(read?.first().map(|entry| entry.log_id))
    }

    /// Approximate size, in bytes, of the entries that are not purged.
    pub(crate) fn bytes(&self) -> u64 {
        self.inner.lock().bytes()
    }

    /// If the log is larger than `max_bytes`: the index up to which to purge it to reach half of that.
    pub(crate) fn cut_to(&self, max_bytes: u64) -> Option<u64> {
        let inner = self.inner.lock();
        if inner.bytes() <= max_bytes {
            return None;
        }
        let wanted = inner.grown - max_bytes / 2;
        inner.marks.iter().take_while(|(_, grown)| *grown <= wanted).last().map(|(index, _)| *index)
    }

    /// Called by the writer when an append is on disk.
    pub(super) fn flushed(&self, append: u64, last: Option<u64>) {
        let mut inner = self.inner.lock();
        inner.cache.flushed(append);
        if let Some(last) = last {
            // Entries that were truncated meanwhile are not durable; their replacements belong to a later append.
            let (appends, end) = inner.cut;
            let last = if append <= appends { last.min(end) } else { last };
            inner.durable = inner.durable.max(last);
        }
    }

    /// Called by the writer: takes the commit position if it has changed since the last call.
    pub(super) fn take_unwritten_commit(&self) -> Option<Bytes> {
        let mut inner = self.inner.lock();
        if !std::mem::take(&mut inner.commit_moved) { None } else { inner.committed.map(|id| codec::encode(&id)) }
    }

    /// Entries of `[from, to)` in order and without gaps: at least one if there is one, then up to `max_bytes`. What is
    /// not in memory is on disk, because only flushed entries are evicted.
    fn read(&self, from: u64, to: u64, max_bytes: usize) -> io::Result<Vec<Entry>> {
        self.read_while(from, to, max_bytes, || {})
    }

    /// [`GroupLog::read`]; `meanwhile` runs between reading the log's bounds and reading the disk.
    pub(super) fn read_while(&self, from: u64, to: u64, most: usize, meanwhile: impl Fn()) -> io::Result<Vec<Entry>> {
        loop {
            let (from, to, middle) = {
                let inner = self.inner.lock();
                let Some(last) = inner.last else { return Ok(Vec::new()) };
                let from = from.max(inner.first);
                let to = to.min(last.index + 1);
                if from >= to {
                    return Ok(Vec::new());
                }
                match inner.cache.first() {
                    Some(first) if from >= first => return Ok(inner.cache.read(from, to, most)),
                    Some(first) => (from, to, first.min(to)),
                    None => (from, to, to),
                }
            };
            meanwhile();
            let mut entries = match self.disk.try_read(self.id, from, middle, most) {
                Ok(entries) => entries,
                // An apparent gap was purged meanwhile: a purge advances `first` before it deletes.
                Err(_) if self.inner.lock().first > from => continue,
                Err(error) => {
                    self.disk.fail("read", &error);
                    return Err(error);
                }
            };
            let reached = from + entries.len() as u64;
            let left = most.saturating_sub(entries.iter().map(codec::entry_size).sum());
            if reached == middle && middle < to && left > 0 {
                let rest = self.inner.lock().cache.read(middle, to, left);
                let continues = rest.first().is_some_and(|entry| entry.log_id.index == middle);
                // `Cache::read` returns one entry whatever its size, but here it would exceed the limit.
                if continues && (rest.len() > 1 || codec::entry_size(&rest[0]) <= left) {
                    entries.extend(rest);
                }
            }
            return Ok(entries);
        }
    }
}

/// The log store of one group. Clones share the log; openraft uses one for itself and one for each reader.
#[derive(Clone)]
pub(crate) struct LogStore {
    pub(crate) log: Arc<GroupLog>,
    pub(crate) writer: Writer,
}

fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(from) => *from,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(to) => *to,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let (from, to) = bounds(&range);
        self.log.read(from, to, usize::MAX)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        let mut entries = self.log.read(start, end, APPEND_BYTES)?;
        // Entries were purged meanwhile. An append would name the entry before `start` and carry entries that do not
        // follow it: a hole in the follower's log. Given none, openraft sends a heartbeat and reads again.
        if entries.first().is_some_and(|first| first.log_id.index != start) {
            entries.clear();
        }
        Ok(entries)
    }

    /// Reads in steps, so that a group with much to apply does not load all of it into memory at once.
    async fn entries_stream<RB>(&mut self, range: RB) -> impl Stream<Item = Result<Entry, io::Error>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let (from, to) = bounds(&range);
        let log = self.log.clone();
        let mut next = from;
        let steps = std::iter::from_fn(move || {
            if next >= to {
                return None;
            }
            let step = log.read(next, to, READ_BYTES).and_then(|entries| match entries.first() {
                // Applying across a hole would make the replicas diverge.
                Some(first) if first.log_id.index != next => {
                    let (id, found) = (log.id, first.log_id.index);
                    Err(invalid_data(format!("the log of group {id} begins at {found}, but {next} is wanted")))
                }
                _ => Ok(entries),
            });
            next = match &step {
                Ok(entries) if !entries.is_empty() => next + entries.len() as u64,
                _ => to,
            };
            Some(step)
        });
        futures::stream::iter(steps.flat_map(|step| {
            let (entries, error) = step.map_or_else(|error| (Vec::new(), Some(error)), |entries| (entries, None));
            entries.into_iter().map(Ok).chain(error.map(Err))
        }))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.log.inner.lock().vote)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let inner = self.log.inner.lock();
        Ok(LogState { last_purged_log_id: inner.purged, last_log_id: inner.last })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.log.inner.lock().vote = Some(*vote);
        let (group, vote) = (self.log.clone(), codec::encode(vote));
        self.writer.written(|done| Write::Vote { group, vote, done }).await
    }

    /// Neither synced nor passed on: the position is written with the group's next write. If it is lost, the next
    /// leader sends it again, and the applied state is kept in `data/`.
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        let mut inner = self.log.inner.lock();
        inner.committed = committed;
        inner.commit_moved = true;
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.log.inner.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut encoded = Encoded::default();
        let entries: Vec<Entry> = entries.into_iter().collect();
        encoded.bytes.reserve(entries.iter().map(codec::entry_size).sum());
        for entry in &entries {
            codec::put_entry(entry, &mut encoded.bytes);
            encoded.ends.push((entry.log_id.index, encoded.bytes.len()));
        }
        let number = {
            let mut inner = self.log.inner.lock();
            inner.appends += 1;
            let number = inner.appends;
            let mut start = 0;
            if inner.last.is_none()
                && let Some(first) = entries.first()
            {
                inner.first = first.log_id.index;
            }
            for (entry, (index, end)) in entries.into_iter().zip(&encoded.ends) {
                inner.last = Some(entry.log_id);
                inner.cache.push(entry, end - start, number);
                if inner.marks.back().is_none_or(|(marked, _)| *index >= marked + MARK_EVERY) {
                    let grown = inner.grown;
                    inner.marks.push_back((*index, grown));
                }
                inner.grown += (end - start) as u64;
                start = *end;
            }
            number
        };
        self.writer.push(Write::Append { group: self.log.clone(), number, entries: encoded, done: callback }).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        {
            let mut inner = self.log.inner.lock();
            if let Some(settled) = inner.settled().filter(|settled| last.is_none_or(|last| last.index < *settled)) {
                drop(inner);
                let reason = format!(
                    "a leader has other entries than the log of group {} from {} on, and up to {settled} they are committed \
                     here: some node has lost what it had acknowledged; see with `gateway check` which nodes have what was \
                     answered, take the others out of the cluster and join them again with empty data folders",
                    self.log.id,
                    last.map_or(0, |last| last.index + 1)
                );
                self.log.disk.refuse(reason.clone());
                return Err(invalid_data(reason));
            }
            inner.cache.truncate_after(last.map(|id| id.index));
            // Truncating after the last entry removes nothing.
            if inner.last.map(|id| id.index) > last.map(|id| id.index) {
                inner.last = last.max(inner.purged);
            }
            let end = inner.last.map_or(0, |last| last.index);
            inner.durable = inner.durable.min(end);
            inner.cut = (inner.appends, end);
            while let Some((_, grown)) = inner.marks.pop_back_if(|(index, _)| *index > end) {
                inner.grown = grown;
            }
        }
        let group = self.log.clone();
        let from = last.map_or(0, |last| last.index + 1);
        self.writer.written(|done| Write::Truncate { group, from, done }).await
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        {
            let mut inner = self.log.inner.lock();
            inner.cache.purge(upto.index);
            inner.purged = inner.purged.max(Some(upto));
            inner.last = inner.last.max(inner.purged);
            inner.first = inner.first.max(upto.index + 1);
            while inner.marks.get(1).is_some_and(|(index, _)| *index <= upto.index) {
                inner.marks.pop_front();
            }
        }
        let group = self.log.clone();
        let purged = codec::encode(&upto);
        self.writer.written(|done| Write::Purge { group, upto: upto.index, purged, done }).await
    }
}

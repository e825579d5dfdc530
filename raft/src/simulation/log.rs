//! One group's log and vote, as openraft sees them: in memory, backed by the simulated disk.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use parking_lot::Mutex;

use super::disk::{Change, Disk, Done, LogImage, Write};
use super::types::SimulatedTypes;
use super::world::Flaw;
use crate::machine::GroupId;
use crate::types::{Entry, LogId, Vote};

/// A group's log store. Clones share the log.
#[derive(Clone)]
pub(super) struct LogStore {
    group: GroupId,
    disk: Arc<Disk>,
    /// The node's start that the store belongs to.
    start: u64,
    /// The log with all requested changes, synced or not.
    memory: Arc<Mutex<LogImage>>,
    flaw: Option<Flaw>,
}

impl LogStore {
    /// No change of the group may be pending on the disk.
    pub(super) fn open(group: GroupId, disk: Arc<Disk>, start: u64, flaw: Option<Flaw>) -> Self {
        let memory = Arc::new(Mutex::new(disk.log(group)));
        Self { group, disk, start, memory, flaw }
    }

    fn push(&self, change: Change, done: Done) -> io::Result<()> {
        self.memory.lock().change(&change);
        self.disk.push(self.start, Write { group: self.group, change, done })
    }

    async fn written(&self, change: Change) -> io::Result<()> {
        self.memory.lock().change(&change);
        self.disk.written(self.start, self.group, change).await
    }
}

impl RaftLogReader<SimulatedTypes> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let bounds: (Bound<u64>, Bound<u64>) = (range.start_bound().cloned(), range.end_bound().cloned());
        Ok(self.memory.lock().entries.range(bounds).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.memory.lock().vote)
    }
}

impl RaftLogStorage<SimulatedTypes> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<SimulatedTypes>, io::Error> {
        let memory = self.memory.lock();
        Ok(LogState { last_purged_log_id: memory.purged, last_log_id: memory.last() })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        if self.flaw == Some(Flaw::ForgetVote) {
            return self.push(Change::Vote(*vote), Done::Nobody);
        }
        self.written(Change::Vote(*vote)).await
    }

    /// Not synced on its own: it is written with the changes around it.
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.push(Change::Committed(committed), Done::Nobody)
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.memory.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<SimulatedTypes>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let change = Change::Append(entries.into_iter().collect());
        if self.flaw == Some(Flaw::SkipSync) {
            self.push(change, Done::Nobody)?;
            callback.io_completed(Ok(()));
            return Ok(());
        }
        self.push(change, Done::Core(callback))
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        self.written(Change::Truncate(last)).await
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        self.written(Change::Purge(upto)).await
    }
}

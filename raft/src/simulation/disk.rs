//! A node's simulated disk: what a crash leaves of logs, votes and states.
//!
//! It guarantees what the real log writer guarantees, and no more: writes of all groups reach the disk in one order;
//! writes reported as synced survive; of the others, a crash leaves a prefix. States are synced only for snapshots: a
//! power failure throws them back, and the log replays the rest.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use openraft::storage::IOFlushed;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::chance::Chance;
use super::clock;
use super::state::Stored;
use super::types::SimulatedTypes;
use super::world::Crash;
use crate::machine::GroupId;
use crate::types::{Entry, LogId, Vote};

/// Probability that a written state reaches the disk, in thousandths.
const STATE_FLUSHED: u32 = 50;

/// One group's log and vote.
#[derive(Clone, Default)]
pub(super) struct LogImage {
    pub(super) vote: Option<Vote>,
    pub(super) committed: Option<LogId>,
    pub(super) purged: Option<LogId>,
    pub(super) entries: BTreeMap<u64, Entry>,
}

/// A change of a log.
#[derive(Clone)]
pub(super) enum Change {
    Vote(Vote),
    Committed(Option<LogId>),
    Append(Vec<Entry>),
    /// Removes all later entries.
    Truncate(Option<LogId>),
    Purge(LogId),
    Erase,
    /// Changes nothing; completes when everything before it is synced.
    Barrier,
}

impl LogImage {
    pub(super) fn last(&self) -> Option<LogId> {
        self.entries.last_key_value().map(|(_, entry)| entry.log_id).max(self.purged)
    }

    pub(super) fn change(&mut self, change: &Change) {
        match change {
            Change::Vote(vote) => self.vote = Some(*vote),
            Change::Committed(committed) => self.committed = *committed,
            Change::Append(entries) => {
                self.entries.extend(entries.iter().map(|entry| (entry.log_id.index, entry.clone())));
            }
            Change::Truncate(last) => {
                self.entries.split_off(&last.map_or(0, |last| last.index + 1));
            }
            Change::Purge(upto) => {
                self.entries = self.entries.split_off(&(upto.index + 1));
                self.purged = self.purged.max(Some(*upto));
            }
            Change::Erase => *self = Self::default(),
            Change::Barrier => {}
        }
    }
}

/// Whom to tell that a change is synced.
pub(super) enum Done {
    Core(IOFlushed<SimulatedTypes>),
    Caller(oneshot::Sender<io::Result<()>>),
    Nobody,
}

pub(super) struct Write {
    pub(super) group: GroupId,
    pub(super) change: Change,
    pub(super) done: Done,
}

/// A group's state: as the process sees it, and as a power failure would leave it.
#[derive(Clone, Default)]
pub(super) struct StateSlot {
    pub(super) now: Stored,
    pub(super) safe: Arc<Stored>,
}

impl StateSlot {
    /// Puts the whole state on disk.
    pub(super) fn sync(&mut self) -> Arc<Stored> {
        self.safe = Arc::new(self.now.clone());
        self.safe.clone()
    }
}

#[derive(Default)]
struct Inner {
    /// The node's current start; only that may write.
    start: u64,
    logs: BTreeMap<GroupId, LogImage>,
    states: BTreeMap<GroupId, Arc<Mutex<StateSlot>>>,
    /// Changes that have not been passed to the disk yet, oldest first.
    waiting: VecDeque<Write>,
    /// Changes that the disk is writing.
    writing: Vec<Write>,
    latency: Range<Duration>,
    /// Number of syncs so far.
    syncs: u64,
}

pub(super) struct Disk {
    inner: Mutex<Inner>,
    more: Notify,
    chance: Chance,
}

fn gone() -> io::Error {
    io::Error::other("the node has crashed")
}

impl Disk {
    pub(super) fn new(chance: Chance, latency: Range<Duration>) -> Arc<Self> {
        let inner = Inner { latency, ..Inner::default() };
        Arc::new(Self { inner: Mutex::new(inner), more: Notify::new(), chance })
    }

    /// Sets how long a sync takes from now on.
    pub(super) fn set_latency(&self, latency: Range<Duration>) {
        self.inner.lock().latency = latency;
    }

    /// Number of syncs so far.
    pub(super) fn syncs(&self) -> u64 {
        self.inner.lock().syncs
    }

    /// Begins the node's life number `start` on this disk.
    pub(super) fn begin(self: &Arc<Self>, start: u64) {
        self.inner.lock().start = start;
        clock::spawn(self.clone().write(start));
    }

    /// Leaves what survives when the process dies, or the machine loses power.
    pub(super) fn crash(&self, crash: Crash) {
        let mut inner = self.inner.lock();
        inner.start = 0;
        let mut unsynced: Vec<Write> = std::mem::take(&mut inner.writing);
        unsynced.extend(inner.waiting.drain(..));
        let kept = self.chance.among(0..unsynced.len() as u64 + 1) as usize;
        for write in unsynced.into_iter().take(kept) {
            inner.logs.entry(write.group).or_default().change(&write.change);
        }
        // New slots: tasks of the old life may run on for a moment, and must change nothing.
        for slot in inner.states.values_mut() {
            let mut left = slot.lock().clone();
            if crash == Crash::PowerCut {
                left.now = (*left.safe).clone();
            }
            *slot = Arc::new(Mutex::new(left));
        }
        drop(inner);
        self.more.notify_one();
    }

    /// Groups with any data on this disk.
    pub(super) fn groups(&self) -> Vec<GroupId> {
        self.inner.lock().logs.keys().copied().collect()
    }

    pub(super) fn log(&self, group: GroupId) -> LogImage {
        self.inner.lock().logs.entry(group).or_default().clone()
    }

    /// A group's state for a new life of the group; the former owner of the slot can no longer change it.
    pub(super) fn take_state(&self, group: GroupId) -> Arc<Mutex<StateSlot>> {
        let mut inner = self.inner.lock();
        let left = inner.states.get(&group).map(|slot| slot.lock().clone()).unwrap_or_default();
        let slot = Arc::new(Mutex::new(left));
        inner.states.insert(group, slot.clone());
        slot
    }

    pub(super) fn erase_state(&self, group: GroupId) {
        self.inner.lock().states.remove(&group);
    }

    /// Whether a state that was just written happens to reach the disk.
    pub(super) fn flushes_state(&self) -> bool {
        self.chance.hits(STATE_FLUSHED)
    }

    pub(super) fn push(&self, start: u64, write: Write) -> io::Result<()> {
        let mut inner = self.inner.lock();
        if inner.start != start {
            return Err(gone());
        }
        inner.waiting.push_back(write);
        drop(inner);
        self.more.notify_one();
        Ok(())
    }

    /// Pushes a change and waits until it is synced.
    pub(super) async fn written(&self, start: u64, group: GroupId, change: Change) -> io::Result<()> {
        let (done, result) = oneshot::channel();
        self.push(start, Write { group, change, done: Done::Caller(done) })?;
        result.await.unwrap_or_else(|_| Err(gone()))
    }

    /// The log writer: takes all waiting changes, syncs them together, and completes them in order.
    async fn write(self: Arc<Self>, start: u64) {
        loop {
            let latency = {
                let mut inner = self.inner.lock();
                if inner.start != start {
                    return;
                }
                inner.writing = inner.waiting.drain(..).collect();
                (!inner.writing.is_empty()).then(|| inner.latency.clone())
            };
            let Some(latency) = latency else {
                self.more.notified().await;
                continue;
            };
            clock::sleep(self.chance.time(&latency)).await;
            let written = {
                let mut inner = self.inner.lock();
                if inner.start != start {
                    return;
                }
                inner.syncs += 1;
                let written = std::mem::take(&mut inner.writing);
                for write in &written {
                    inner.logs.entry(write.group).or_default().change(&write.change);
                    if matches!(write.change, Change::Erase) {
                        inner.logs.remove(&write.group);
                    }
                }
                written
            };
            for write in written {
                match write.done {
                    Done::Core(done) => done.io_completed(Ok(())),
                    // The caller may have given up.
                    Done::Caller(done) => drop(done.send(Ok(()))),
                    Done::Nobody => {}
                }
            }
        }
    }
}

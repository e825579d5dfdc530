//! The thread that writes the logs and votes of all groups.
//!
//! It drains its queue, writes what it has found as one batch with one sync, and completes the writes of a group in
//! order. The next batch gathers during the sync; only after a batch with the commands of many callers, the thread adds
//! a delay. Votes, appends, truncations and purges share the queue, because the writes of a group must stay in order.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use openraft::storage::IOFlushed;
use rocksdb::WriteBatch;
use tokio::sync::{mpsc, oneshot};

use super::disk::{Disk, Meta, log_end, log_key, meta_key};
use super::store::GroupLog;
use super::syncs::Syncs;
use crate::failpoint::{self, Point};
use crate::machine::GroupId;
use crate::supervise;
use crate::telemetry;
use crate::types::TypeConfig;

/// Capacity of the queue. When it is full, the Raft core that wants to write waits, and with it its proposers.
const QUEUE: usize = 8192;
/// Limits of one batch, so that its first write does not wait for too many others. Small and large writes may take up
/// `BATCH_BYTES` each.
const BATCH_WRITES: usize = 2048;
const BATCH_BYTES: usize = 2 << 20;
/// Writes larger than this let small ones of other groups go first.
const SMALL: usize = 64 << 10;

/// After a batch with `FULL_BATCH` bytes of entries, the next one begins `PAUSE` after that batch began at the
/// earliest, so that groups share syncs: at such a load CPUs are busy, and a sync costs more CPU per entry than all
/// else that the log does. Entries of a few callers are smaller, unless their messages are that large.
const FULL_BATCH: usize = 6 << 10;
const PAUSE: Duration = Duration::from_millis(4);

/// Encoded entries in one buffer, with the index and the end offset of each.
#[derive(Default)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<(u64, usize)>,
}

/// One write of one group, or of the writer itself.
pub(crate) enum Write {
    /// Appends entries. `number` counts the group's appends; see [`super::cache::Cache`].
    Append { group: Arc<GroupLog>, number: u64, entries: Encoded, done: IOFlushed<TypeConfig> },
    /// Stores a vote.
    Vote { group: Arc<GroupLog>, vote: Bytes, done: oneshot::Sender<io::Result<()>> },
    /// Deletes the entries from this index on.
    Truncate { group: Arc<GroupLog>, from: u64, done: oneshot::Sender<io::Result<()>> },
    /// Deletes the entries up to this index.
    Purge { group: Arc<GroupLog>, upto: u64, purged: Bytes, done: oneshot::Sender<io::Result<()>> },
    /// Deletes everything of a group.
    Erase { group: GroupId, done: oneshot::Sender<io::Result<()>> },
    /// Completes when all earlier writes are on disk.
    Barrier { done: oneshot::Sender<io::Result<()>> },
    /// Stops the writer when all earlier writes are on disk.
    Stop { done: oneshot::Sender<io::Result<()>> },
}

impl Write {
    fn bytes(&self) -> usize {
        if matches!(self, Self::Append { .. }) { self.entry_bytes() } else { 64 }
    }

    fn entry_bytes(&self) -> usize {
        match self {
            Self::Append { entries, .. } => entries.bytes.len(),
            _ => 0,
        }
    }

    /// The group whose writes stay in order with this one; `None` if it must follow the earlier writes of all groups.
    fn group_id(&self) -> Option<GroupId> {
        match self {
            Self::Erase { group, .. } => Some(*group),
            other => other.group().map(|group| group.id),
        }
    }

    fn group(&self) -> Option<&Arc<GroupLog>> {
        match self {
            Self::Append { group, .. }
            | Self::Vote { group, .. }
            | Self::Truncate { group, .. }
            | Self::Purge { group, .. } => Some(group),
            Self::Erase { .. } | Self::Barrier { .. } | Self::Stop { .. } => None,
        }
    }

    fn add_to(&self, batch: &mut WriteBatch, disk: &Disk) {
        match self {
            Self::Append { group, entries, .. } => {
                let mut start = 0;
                for (index, end) in &entries.ends {
                    batch.put_cf(disk.log(), log_key(group.id, *index), &entries.bytes[start..*end]);
                    start = *end;
                }
            }
            Self::Vote { group, vote, .. } => batch.put_cf(disk.meta(), meta_key(group.id, Meta::Vote), vote),
            Self::Truncate { group, from, .. } => {
                batch.delete_range_cf(disk.log(), log_key(group.id, *from).to_vec(), log_end(group.id));
            }
            Self::Purge { group, upto, purged, .. } => {
                batch.delete_range_cf(disk.log(), log_key(group.id, 0), log_key(group.id, upto + 1));
                batch.put_cf(disk.meta(), meta_key(group.id, Meta::Purged), purged);
            }
            Self::Erase { group, .. } => {
                batch.delete_range_cf(disk.log(), log_key(*group, 0).to_vec(), log_end(*group));
                for what in [Meta::Vote, Meta::Committed, Meta::Purged] {
                    batch.delete_cf(disk.meta(), meta_key(*group, what));
                }
                batch.put_cf(disk.meta(), meta_key(*group, Meta::Erased), b"");
            }
            Self::Barrier { .. } | Self::Stop { .. } => {}
        }
    }

    fn complete(self, result: io::Result<()>) {
        match self {
            Self::Append { group, number, done, entries } => {
                if result.is_ok() {
                    group.flushed(number, entries.ends.last().map(|(index, _)| *index));
                }
                done.io_completed(result);
            }
            Self::Vote { done, .. }
            | Self::Truncate { done, .. }
            | Self::Purge { done, .. }
            | Self::Erase { done, .. }
            | Self::Barrier { done }
            | Self::Stop { done } => {
                // The group may have been stopped meanwhile; the write is valid all the same.
                let _ = done.send(result);
            }
        }
    }
}

/// Queue of the writes of all groups. The thread ends when all clones are dropped and the queue is empty.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Write>,
    /// Durations of the latest syncs.
    pub(crate) syncs: Arc<Syncs>,
}

impl Writer {
    /// Starts the thread. Joining the handle after all writers are dropped waits for the last write.
    pub(crate) fn start(disk: Arc<Disk>) -> io::Result<(Self, std::thread::JoinHandle<()>)> {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let syncs = Arc::new(Syncs::default());
        let noted = syncs.clone();
        let work = move || {
            let written = supervise::noticed_in_thread("the log writer", || run(&disk, receiver, &noted));
            if written.is_none() {
                // It is unknown which of its pending writes are on disk, and nothing more can be written.
                disk.refuse("the log writer panicked; the lines above say where".to_owned());
            }
        };
        let thread = std::thread::Builder::new().name("raft-log".into()).spawn(work)?;
        Ok((Self { queue, syncs }, thread))
    }

    /// Enqueues a write; waits while the queue is full.
    pub(crate) async fn push(&self, write: Write) -> io::Result<()> {
        self.queue.send(write).await.map_err(|_| stopped())
    }

    /// Enqueues a write and waits until it is on disk.
    pub(crate) async fn written(&self, write: impl FnOnce(oneshot::Sender<io::Result<()>>) -> Write) -> io::Result<()> {
        let (done, result) = oneshot::channel();
        self.push(write(done)).await?;
        result.await.map_err(|_| stopped())?
    }
}

fn stopped() -> io::Error {
    io::Error::other("the log writer has stopped")
}

/// Minimum time between the begin of a batch with this many bytes of entries and the next one.
fn pause_after(entry_bytes: usize) -> Duration {
    if entry_bytes >= FULL_BATCH { PAUSE } else { Duration::ZERO }
}

fn run(disk: &Disk, mut queue: mpsc::Receiver<Write>, syncs: &Syncs) {
    let mut waiting = VecDeque::new();
    // Nothing is written after a failed write: later writes may depend on it.
    let mut broken: Option<String> = None;
    let mut next_begins = Instant::now();
    loop {
        if waiting.is_empty() {
            let Some(first) = queue.blocking_recv() else { return };
            waiting.push_back(first);
            std::thread::sleep(next_begins.saturating_duration_since(Instant::now()));
        }
        let room = BATCH_WRITES.saturating_sub(waiting.len());
        waiting.extend(std::iter::from_fn(|| queue.try_recv().ok()).take(room));
        let writes = next_batch(&mut waiting);
        next_begins = Instant::now() + pause_after(writes.iter().map(Write::entry_bytes).sum());
        if broken.is_none() {
            broken = write_all(disk, &writes, syncs).err().map(|error| error.to_string());
        }
        let stop = writes.iter().any(|write| matches!(write, Write::Stop { .. }));
        for write in writes {
            write.complete(broken.as_ref().map_or(Ok(()), |reason| Err(io::Error::other(reason.clone()))));
        }
        if stop {
            return;
        }
    }
}

/// Takes the next batch and leaves the rest in order. If a group has a lot to write, as when it catches up, part of it
/// waits, with all later writes of that group; votes and entries of other groups do not wait.
fn next_batch(waiting: &mut VecDeque<Write>) -> Vec<Write> {
    let (mut batch, mut left) = (Vec::new(), VecDeque::new());
    let mut behind: HashSet<GroupId> = HashSet::new();
    let (mut small, mut large) = (0, 0);
    for write in waiting.drain(..) {
        let (group, bytes) = (write.group_id(), write.bytes());
        let taken = if bytes > SMALL { &mut large } else { &mut small };
        let is_in_turn = group.map_or(left.is_empty(), |group| !behind.contains(&group));
        if is_in_turn && (*taken == 0 || *taken + bytes <= BATCH_BYTES) {
            *taken += bytes;
            batch.push(write);
        } else {
            behind.extend(group);
            left.push_back(write);
        }
    }
    *waiting = left;
    batch
}

fn write_all(disk: &Disk, writes: &[Write], syncs: &Syncs) -> io::Result<()> {
    // Reserves 64 bytes a write for keys: a batch that grows is copied each time.
    let mut batch = WriteBatch::with_capacity_bytes(writes.iter().map(|write| write.bytes() + 64).sum());
    for write in writes {
        write.add_to(&mut batch, disk);
        // The group's commit position is written along; it is not worth a sync of its own.
        if let Some(group) = write.group()
            && let Some(committed) = group.take_unwritten_commit()
        {
            batch.put_cf(disk.meta(), meta_key(group.id, Meta::Committed), committed);
        }
    }
    if batch.is_empty() {
        return Ok(());
    }
    let started = Instant::now();
    failpoint::reach(Point::LogBeforeFlush);
    disk.write_synced(batch)?;
    failpoint::reach(Point::LogAfterFlush);
    let ended = Instant::now();
    syncs.note(ended, ended - started);
    let entries: usize = writes.iter().map(Write::entry_bytes).sum();
    telemetry::log_synced(ended - started, writes.len(), entries);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::fatal::Fatal;
    use crate::folder::USUAL_BUFFER;

    const LARGE: usize = BATCH_BYTES / 2;

    /// Groups and sizes of the batches that these waiting writes form.
    fn batches(waiting: impl IntoIterator<Item = (Option<GroupId>, usize)>) -> Vec<Vec<(Option<GroupId>, usize)>> {
        let folder = tempfile::tempdir().unwrap();
        let fatal: Fatal = Arc::new(|reason| panic!("{reason}"));
        let disk = Disk::open(&folder.path().join("raft"), USUAL_BUFFER, fatal).unwrap();
        let write = |(group, bytes): (Option<GroupId>, usize)| match group {
            Some(group) => Write::Append {
                group: GroupLog::open(group, disk.clone()).unwrap(),
                number: 1,
                entries: Encoded { bytes: vec![0; bytes], ends: Vec::new() },
                done: IOFlushed::noop(),
            },
            None => Write::Barrier { done: oneshot::channel().0 },
        };
        let mut waiting: VecDeque<Write> = waiting.into_iter().map(write).collect();
        let mut batches = Vec::new();
        while !waiting.is_empty() {
            let batch = next_batch(&mut waiting);
            assert!(!batch.is_empty());
            batches.push(batch.iter().map(|write| (write.group_id(), write.bytes())).collect());
        }
        batches
    }

    #[test]
    fn a_batch_that_is_full_of_entries_is_followed_after_a_pause() {
        assert_eq!([0, FULL_BATCH - 1].map(pause_after), [Duration::ZERO; 2]);
        assert_eq!([FULL_BATCH, BATCH_BYTES].map(pause_after), [PAUSE; 2]);
    }

    #[test]
    fn what_a_group_has_much_of_waits_for_the_small_writes_of_others_and_passes_nothing_of_its_own() {
        let (one, two, three, barrier) = (Some(1), Some(2), Some(3), (None, 64));
        let waiting = [
            (one, LARGE),
            (one, LARGE),
            (one, LARGE),
            (one, 10),
            (two, 20),
            barrier,
            (three, LARGE),
            (two, 30),
            (three, 40),
        ];
        let first = vec![(one, LARGE), (one, LARGE), (two, 20), (two, 30)];
        let second = vec![(one, LARGE), (one, 10), barrier, (three, LARGE), (three, 40)];
        assert_eq!(batches(waiting), [first, second]);
    }

    #[test]
    fn one_write_of_any_size_is_taken_and_small_ones_have_a_bound_too() {
        assert_eq!(batches([(Some(1), BATCH_BYTES * 9), (Some(2), 10)]).len(), 1);
        let many = (0..2 * BATCH_BYTES / SMALL).map(|_| (Some(1), SMALL));
        assert_eq!(batches(many).iter().map(Vec::len).collect::<Vec<_>>(), [BATCH_BYTES / SMALL; 2]);
    }
}

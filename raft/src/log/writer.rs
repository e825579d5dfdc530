//! The one thread that writes the logs and votes of all groups.
//!
//! It drains its queue, writes all that it found as one batch with one sync, and completes the writes in the order in
//! which they came. While it syncs, the next batch gathers: the time of a sync itself forms the batch, and no delay is
//! added. Votes, appends, truncations and purges share the queue, because none may overtake another.

use std::io;
use std::sync::Arc;
use std::time::Instant;

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

/// Writes that may wait. A full queue holds back the Raft core that wants to write, and with it its proposers.
const QUEUE: usize = 8192;
/// Bounds of one batch, so that the first write in it does not wait for too many others.
const BATCH_WRITES: usize = 2048;
const BATCH_BYTES: usize = 8 << 20;

/// Encoded entries: one buffer, and where each ends in it.
#[derive(Default)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<(u64, usize)>,
}

/// One write of one group.
pub(crate) enum Write {
    Append {
        group: Arc<GroupLog>,
        /// Counts the appends of the group; see [`super::cache::Cache`].
        number: u64,
        entries: Encoded,
        done: IOFlushed<TypeConfig>,
    },
    Vote {
        group: Arc<GroupLog>,
        vote: Bytes,
        done: oneshot::Sender<io::Result<()>>,
    },
    /// Deletes the entries from this index on.
    Truncate {
        group: Arc<GroupLog>,
        from: u64,
        done: oneshot::Sender<io::Result<()>>,
    },
    /// Deletes the entries up to this index.
    Purge {
        group: Arc<GroupLog>,
        upto: u64,
        purged: Bytes,
        done: oneshot::Sender<io::Result<()>>,
    },
    /// Deletes everything of a group.
    Erase {
        group: GroupId,
        done: oneshot::Sender<io::Result<()>>,
    },
    /// Completes when everything before it is on disk.
    Barrier {
        done: oneshot::Sender<io::Result<()>>,
    },
    /// Ends the writer when everything before it is on disk.
    Stop {
        done: oneshot::Sender<io::Result<()>>,
    },
}

impl Write {
    fn bytes(&self) -> usize {
        match self {
            Self::Append { entries, .. } => entries.bytes.len(),
            _ => 64,
        }
    }

    fn entry_bytes(&self) -> usize {
        match self {
            Self::Append { entries, .. } => entries.bytes.len(),
            _ => 0,
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
                    batch.put_cf(disk.log(), log_key(group.id(), *index), &entries.bytes[start..*end]);
                    start = *end;
                }
            }
            Self::Vote { group, vote, .. } => batch.put_cf(disk.meta(), meta_key(group.id(), Meta::Vote), vote),
            Self::Truncate { group, from, .. } => {
                batch.delete_range_cf(disk.log(), log_key(group.id(), *from).to_vec(), log_end(group.id()));
            }
            Self::Purge { group, upto, purged, .. } => {
                batch.delete_range_cf(disk.log(), log_key(group.id(), 0), log_key(group.id(), upto + 1));
                batch.put_cf(disk.meta(), meta_key(group.id(), Meta::Purged), purged);
            }
            Self::Erase { group, .. } => {
                batch.delete_range_cf(disk.log(), log_key(*group, 0).to_vec(), log_end(*group));
                for what in [Meta::Vote, Meta::Committed, Meta::Purged] {
                    batch.delete_cf(disk.meta(), meta_key(*group, what));
                }
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
                // The group may have been stopped while its write was on the way; the write itself stands.
                let _ = done.send(result);
            }
        }
    }
}

/// Where groups hand in their writes. The thread ends when all clones are dropped and the queue is empty.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Write>,
    syncs: Arc<Syncs>,
}

impl Writer {
    /// Starts the thread; joining the handle after all writers are dropped waits for the last write.
    pub(crate) fn start(disk: Arc<Disk>) -> io::Result<(Self, std::thread::JoinHandle<()>)> {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let syncs = Arc::new(Syncs::default());
        let noted = syncs.clone();
        let work = move || {
            let written = supervise::noticed_in_thread("the log writer", || run(&disk, receiver, &noted));
            if written.is_none() {
                // Nothing that it had in hand is known to be on disk, and nothing can be written any more.
                disk.refuse("the log writer panicked; the lines above say where".to_owned());
            }
        };
        let thread = std::thread::Builder::new().name("raft-log".into()).spawn(work)?;
        Ok((Self { queue, syncs }, thread))
    }

    /// How long the last syncs took.
    pub(crate) fn syncs(&self) -> &Syncs {
        &self.syncs
    }

    /// Hands in a write; waits while the queue is full.
    pub(crate) async fn push(&self, write: Write) -> io::Result<()> {
        self.queue.send(write).await.map_err(|_| stopped())
    }

    /// Hands in a write and waits until it is on disk.
    pub(crate) async fn written(&self, write: impl FnOnce(oneshot::Sender<io::Result<()>>) -> Write) -> io::Result<()> {
        let (done, result) = oneshot::channel();
        self.push(write(done)).await?;
        result.await.map_err(|_| stopped())?
    }
}

fn stopped() -> io::Error {
    io::Error::other("the log writer has stopped")
}

fn run(disk: &Disk, mut queue: mpsc::Receiver<Write>, syncs: &Syncs) {
    let mut writes = Vec::new();
    // After a failed write nothing more is written: what came after it may depend on it.
    let mut broken: Option<String> = None;
    while let Some(first) = queue.blocking_recv() {
        let mut bytes = first.bytes();
        writes.push(first);
        while writes.len() < BATCH_WRITES && bytes < BATCH_BYTES {
            let Ok(next) = queue.try_recv() else { break };
            bytes += next.bytes();
            writes.push(next);
        }
        if broken.is_none() {
            broken = write_all(disk, &writes, syncs).err().map(|error| error.to_string());
        }
        let stop = writes.iter().any(|write| matches!(write, Write::Stop { .. }));
        for write in writes.drain(..) {
            write.complete(broken.as_ref().map_or(Ok(()), |reason| Err(io::Error::other(reason.clone()))));
        }
        if stop {
            return;
        }
    }
}

fn write_all(disk: &Disk, writes: &[Write], syncs: &Syncs) -> io::Result<()> {
    // An entry takes some bytes for its key; a batch that grows is copied each time.
    let mut batch = WriteBatch::with_capacity_bytes(writes.iter().map(|write| write.bytes() + 64).sum());
    for write in writes {
        write.add_to(&mut batch, disk);
        // A group's commit position is never worth a sync of its own: it rides along.
        if let Some(group) = write.group()
            && let Some(committed) = group.take_unwritten_commit()
        {
            batch.put_cf(disk.meta(), meta_key(group.id(), Meta::Committed), committed);
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

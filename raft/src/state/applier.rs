//! openraft's state machine of one group: passes committed commands to the group's [`Machine`] and writes its changes.

use std::io;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{FutureExt, Stream, TryStreamExt};
use model::format::Foreign;
use openraft::storage::{ApplyResponder, EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use parking_lot::Mutex;
use rocksdb::WriteBatch;
use tokio::sync::{OwnedMutexGuard, watch};

use super::cut::Cut;
use super::disk::{Applied, StateDisk};
use super::meter::Meter;
use super::overlay::Overlay;
use super::reader::StateReader;
use super::snapshot::{self, SnapshotData, Source};
use crate::codec::invalid_data;
use crate::copies::Copies;
use crate::failpoint::{self, Point};
use crate::log::limits::LogLimits;
use crate::log::store::GroupLog;
use crate::machine::{GroupId, Machine, Position};
use crate::supervise;
use crate::telemetry;
use crate::types::{LogId, Membership, Reply, Snapshot, SnapshotMeta, TypeConfig, term_of};

/// Limits of one batch: they bound the delay of answers, and the memory for the changes.
const BATCH_ENTRIES: usize = 1024;
const BATCH_BYTES: usize = 4 << 20;
const BATCH_TIME: Duration = Duration::from_millis(4);

/// The state machine of one group.
///
/// It holds the group's apply right while it lives: when a group is restarted, the new state machine can start only
/// once the old one no longer touches the state.
pub(crate) struct Applier {
    group: GroupId,
    disk: Arc<StateDisk>,
    log: Arc<GroupLog>,
    /// Never contended; openraft requires the state machine to be `Sync`.
    machine: Mutex<Box<dyn Machine>>,
    overlay: Overlay,
    last: Option<LogId>,
    membership: Membership,
    membership_moved: bool,
    position: watch::Sender<Position>,
    meter: Arc<Meter>,
    cut: Arc<Cut>,
    /// Bytes of commands in the current batch.
    bytes: usize,
    limits: LogLimits,
    /// Snapshots that are being sent to peers, and the largest size of the log meanwhile.
    copies: Arc<Copies>,
    most_log_bytes: u64,
    /// Whether openraft has started. A snapshot given to it before counts as built: it may purge the log up to that.
    pub(crate) begun: Arc<AtomicBool>,
    _right: OwnedMutexGuard<()>,
}

/// Replies to proposers, sent when their entries are written.
type Answers = Vec<(ApplyResponder<TypeConfig>, Reply)>;

/// Entries that are applied but not written yet.
struct Batch {
    answers: Answers,
    entries: usize,
    started: Instant,
}

fn position_of(id: Option<&LogId>) -> Position {
    id.map_or(Position::default(), |id| Position { term: term_of(id), index: id.index })
}

impl Applier {
    /// Finishes or undoes an interrupted snapshot install, then restores the machine. Blocks on disk.
    pub(crate) fn open(
        disk: Arc<StateDisk>,
        log: Arc<GroupLog>,
        mut machine: Box<dyn Machine>,
        position: watch::Sender<Position>,
        meter: Arc<Meter>,
        cut: Arc<Cut>,
        right: OwnedMutexGuard<()>,
    ) -> io::Result<Self> {
        let group = log.id;
        snapshot::recover(&disk, group)?;
        // The log may be purged up to the applied position, so that must survive a crash.
        disk.flush()?;
        let applied = disk.applied(group)?;
        check_log_reaches(&log, &applied)?;
        if let Some(last) = &applied.last {
            log.applied(last.index);
        }
        let reader = StateReader::new(disk.clone(), group);
        restore(machine.as_mut(), &reader)?;
        position.send_replace(position_of(applied.last.as_ref()));
        Ok(Self {
            group,
            disk,
            log,
            machine: Mutex::new(machine),
            overlay: Overlay::new(reader),
            last: applied.last,
            membership: applied.membership,
            membership_moved: false,
            position,
            meter,
            cut,
            bytes: 0,
            limits: LogLimits::default(),
            copies: Arc::default(),
            most_log_bytes: 0,
            begun: Arc::default(),
            _right: right,
        })
    }

    /// Sets the limits of the log. While a peer receives a snapshot and the entries after it, the log is not purged
    /// unless it exceeds `most_log_bytes`.
    pub(crate) fn keeping_log(self, limits: LogLimits, copies: Arc<Copies>, most_log_bytes: u64) -> Self {
        Self { limits, copies, most_log_bytes, ..self }
    }

    fn keeps_log(&self) -> bool {
        self.copies.need_log() && self.log.bytes() <= self.most_log_bytes
    }

    fn apply_one(&mut self, at: LogId, payload: EntryPayload<crate::types::Command, u64, ()>) -> io::Result<Reply> {
        let reply = match payload {
            EntryPayload::Blank => Bytes::new(),
            EntryPayload::Normal(command) => {
                self.bytes += command.bytes().len();
                let machine = self.machine.get_mut();
                let overlay = &mut self.overlay;
                let position = position_of(Some(&at));
                // Without this, a panic would kill the worker and leave the group hanging. An error stops the group,
                // which is then restarted from what is written.
                let applied = catch_unwind(AssertUnwindSafe(|| machine.apply(position, command.bytes(), overlay)))
                    .map_err(|_| io::Error::other(format!("the machine of group {} panicked at {at}", self.group)))?;
                applied.map_err(|foreign| self.refuse(at, &foreign))?
            }
            EntryPayload::Membership(membership) => {
                self.membership = Membership::new(Some(at), membership);
                self.membership_moved = true;
                Bytes::new()
            }
        };
        self.last = Some(at);
        Ok(Reply(reply))
    }

    /// Stops the node before an entry that its peers may understand. Nothing of its batch is written, so that a release
    /// that understands the entry can continue from there.
    fn refuse(&self, at: LogId, foreign: &Foreign) -> io::Error {
        let reason = format!(
            "entry {at} of group {} {foreign}; start the release that the other nodes run, which goes on where this one \
             stops",
            self.group
        );
        self.disk.refuse(reason.clone());
        io::Error::new(io::ErrorKind::Unsupported, reason)
    }

    /// Writes the batch, publishes the position, answers the proposers, and updates the metrics. A panic becomes an
    /// error, as in `apply_one`.
    fn commit(&mut self, batch: &mut Batch) -> io::Result<()> {
        let group = self.group;
        let written = supervise::noticed_in_thread("the state machine", || self.write(&mut batch.answers));
        written.unwrap_or_else(|| Err(io::Error::other(format!("writing the state of group {group} panicked"))))?;
        let (now, entries) = (Instant::now(), std::mem::take(&mut batch.entries));
        self.meter.note(entries, std::mem::take(&mut self.bytes), now);
        telemetry::applied(now.saturating_duration_since(batch.started), entries);
        Ok(())
    }

    fn write(&mut self, answers: &mut Answers) -> io::Result<()> {
        let Some(last) = self.last else { return Ok(()) };
        // A quarter extra for the lengths of the rows: a batch that grows is copied each time.
        let mut batch = WriteBatch::with_capacity_bytes(self.overlay.bytes * 5 / 4 + 64);
        self.overlay.drain_into(&self.disk, &mut batch);
        self.disk.put_applied(&mut batch, self.group, &last, self.log.durable());
        if std::mem::take(&mut self.membership_moved) {
            self.disk.put_membership(&mut batch, self.group, &self.membership);
        }
        failpoint::reach(Point::StateBeforeWrite);
        self.disk.write(self.group, batch)?;
        failpoint::reach(Point::StateAfterWrite);
        let position = position_of(Some(&last));
        self.log.applied(last.index);
        let machine = self.machine.get_mut();
        catch_unwind(AssertUnwindSafe(|| machine.flushed(position)))
            .map_err(|_| io::Error::other(format!("the machine of group {} panicked after a flush", self.group)))?;
        self.position.send_replace(position);
        for (responder, reply) in answers.drain(..) {
            responder.send(reply);
        }
        Ok(())
    }

    /// Hands a view of the current state to a request for this index, if there is one.
    async fn keep_for(&self, index: u64) -> io::Result<()> {
        if let Some(out) = self.cut.take(index) {
            let taken = Source::take(self.disk.clone(), self.group).await?;
            // The requester may have given up; the view is then dropped.
            let _ = out.send(taken);
        }
        Ok(())
    }
}

fn restore(machine: &mut dyn Machine, reader: &StateReader) -> io::Result<()> {
    catch_unwind(AssertUnwindSafe(|| machine.restore(reader))).map_err(|_| io::Error::other("restoring it panicked"))
}

/// Refuses a log that has lost synced entries: a damaged WAL only looks shorter, and a node that has forgotten what it
/// acknowledged could help to elect a leader that lacks it.
fn check_log_reaches(log: &GroupLog, applied: &Applied) -> io::Result<()> {
    let end = log.last().map_or(0, |last| last.index);
    if end < applied.durable {
        return Err(invalid_data(format!(
            "the log of group {} ends at {end}, but entries up to {} had been synced: the disk lost data; take this node \
             out of the cluster and join it again with an empty data folder",
            log.id, applied.durable
        )));
    }
    Ok(())
}

impl RaftStateMachine<TypeConfig> for Applier {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, Membership), io::Error> {
        Ok((self.last, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let mut batch = Batch { answers: Vec::new(), entries: 0, started: Instant::now() };
        loop {
            // Only the first entry of a batch is waited for; the batch then takes what is ready.
            let next = if batch.entries == 0 {
                entries.try_next().await?
            } else {
                match entries.try_next().now_or_never() {
                    Some(next) => next?,
                    None => {
                        self.commit(&mut batch)?;
                        continue;
                    }
                }
            };
            let Some((entry, responder)) = next else { break };
            if batch.entries == 0 {
                batch.started = Instant::now();
            }
            let reply = self.apply_one(entry.log_id, entry.payload)?;
            if let Some(responder) = responder {
                batch.answers.push((responder, reply));
            }
            batch.entries += 1;
            if self.cut.is_at(entry.log_id.index) {
                self.commit(&mut batch)?;
                self.keep_for(entry.log_id.index).await?;
                continue;
            }
            let is_full = batch.entries >= BATCH_ENTRIES || self.overlay.bytes >= BATCH_BYTES;
            if is_full || batch.started.elapsed() >= BATCH_TIME {
                self.commit(&mut batch)?;
                // Votes and heartbeats share these threads, and a restarted node may apply entries for seconds.
                tokio::task::yield_now().await;
            }
        }
        if batch.entries > 0 { self.commit(&mut batch) } else { Ok(()) }
    }

    /// A snapshot lets the log be purged, but a peer that receives an earlier one needs the log from that one's end.
    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Self::SnapshotBuilder> {
        if !force && self.keeps_log() { None } else { Some(self.get_snapshot_builder().await) }
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        let applied = self.last.map_or(0, |last| last.index);
        let cut_to = self.log.cut_to(self.limits.max_bytes).unwrap_or_default();
        let from = applied.saturating_sub(self.limits.snapshot_every / 2).max(cut_to);
        Builder { disk: self.disk.clone(), group: self.group, worth: from..=applied }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, data: SnapshotData) -> Result<(), io::Error> {
        let received = match data {
            SnapshotData::Received(received) => received,
            SnapshotData::Source(source) => source.copy_to(&self.disk, self.group).await?,
            SnapshotData::Position => return Err(invalid_data("a snapshot that was built has no content")),
        };
        let (disk, group, installed) = (self.disk.clone(), self.group, meta.clone());
        let installing = self.disk.blocking(move || snapshot::install(&disk, group, &installed, received));
        installing.await.map_err(io::Error::other)??;
        self.last = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.membership_moved = false;
        let reader = StateReader::new(self.disk.clone(), self.group);
        self.overlay = Overlay::new(reader.clone());
        let machine = self.machine.get_mut();
        restore(machine.as_mut(), &reader)?;
        let position = position_of(self.last.as_ref());
        machine.flushed(position);
        self.position.send_replace(position);
        telemetry::snapshot_installed();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<SnapshotData>>, io::Error> {
        if self.last.is_none() {
            return Ok(None);
        }
        if !self.begun.load(Ordering::Acquire) {
            return taken(&self.disk, self.group, None).await.map(Some);
        }
        // A snapshot for a peer: the log is not purged because of it, so no flush is needed. openraft applies nothing
        // while it waits for this, and for a peer that is down it asks several times a second.
        let (meta, source) = Source::take(self.disk.clone(), self.group).await?;
        Ok(Some(Snapshot { meta, snapshot: SnapshotData::Source(source) }))
    }
}

/// Takes a snapshot that consists of a position only. When it returns, all state up to it is in tables, so the log may
/// be purged up to there.
///
/// Tables are shared by all groups: if a flush for another group has already persisted this one up to an index in
/// `worth`, that position is used, and nothing is written.
async fn taken(
    disk: &Arc<StateDisk>,
    group: GroupId,
    worth: Option<RangeInclusive<u64>>,
) -> io::Result<Snapshot<SnapshotData>> {
    let read = disk.clone();
    let taking = disk.blocking(move || {
        if let Some(worth) = worth {
            let kept = read.in_tables(group)?;
            if kept.last.is_some_and(|last| worth.contains(&last.index)) {
                return Ok::<_, io::Error>(kept);
            }
        }
        // The position first, then the flush, which includes it.
        let applied = read.applied_in(&read.db.snapshot(), group)?;
        read.flush()?;
        Ok(applied)
    });
    let applied = taking.await.map_err(io::Error::other)??;
    let meta = SnapshotMeta { last_log_id: applied.last, last_membership: applied.membership };
    Ok(Snapshot { meta, snapshot: SnapshotData::Position })
}

/// Builds a snapshot that consists of a position only: the state up to it is on disk, and can replace the log.
pub(crate) struct Builder {
    disk: Arc<StateDisk>,
    group: GroupId,
    /// Indexes at which a snapshot is worthwhile; none is beyond what the group has applied since it was opened.
    worth: RangeInclusive<u64>,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<Snapshot<SnapshotData>, io::Error> {
        taken(&self.disk, self.group, Some(self.worth.clone())).await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::folder::USUAL_BUFFER;
    use crate::log::disk::Disk;
    use crate::machine::{State, View};
    use crate::types::{Entry, log_id};

    struct Idle;

    /// A command that takes as long as a batch may.
    const SLOW: &[u8] = b"slow";

    impl Machine for Idle {
        fn restore(&mut self, _: &dyn View) {}

        fn apply(&mut self, _: Position, command: &[u8], _: &mut dyn State) -> Result<Bytes, Foreign> {
            if command == SLOW {
                std::thread::sleep(BATCH_TIME);
                return Ok(Bytes::new());
            }
            if command.is_empty() { Ok(Bytes::new()) } else { Err(Foreign::Newer(command[0])) }
        }
    }

    /// Opens a group with an empty log whose state is applied up to 9 and was synced up to `durable`.
    async fn open_with_durable(durable: u64) -> io::Result<Applier> {
        open_with(durable, Arc::new(|reason| panic!("{reason}"))).await
    }

    async fn open_with(durable: u64, fatal: crate::fatal::Fatal) -> io::Result<Applier> {
        open_in(tempfile::tempdir().unwrap().path(), durable, fatal).await
    }

    async fn open_in(folder: &Path, durable: u64, fatal: crate::fatal::Fatal) -> io::Result<Applier> {
        let log = GroupLog::open(1, Disk::open(&folder.join("raft"), USUAL_BUFFER, fatal.clone()).unwrap()).unwrap();
        let disk = StateDisk::open(&folder.join("data"), folder.join("install"), USUAL_BUFFER, fatal).unwrap();
        let mut batch = WriteBatch::default();
        disk.put_applied(&mut batch, 1, &log_id(1, 9), durable);
        disk.write(1, batch).unwrap();
        let right = Arc::new(tokio::sync::Mutex::new(())).lock_owned().await;
        let meter = Arc::new(Meter::new(Instant::now()));
        Applier::open(disk, log, Box::new(Idle), watch::Sender::new(Position::default()), meter, Arc::default(), right)
    }

    #[tokio::test]
    async fn a_log_that_lost_what_was_synced_is_refused() {
        let error = open_with_durable(7).await.err().unwrap().to_string();
        assert!(error.contains("up to 7") && error.contains("lost data"), "{error}");
        // Entries that were applied because a quorum of others had synced them may be missing from the local log.
        assert!(open_with_durable(0).await.is_ok());
    }

    #[tokio::test]
    async fn an_entry_that_this_release_does_not_understand_stops_the_node_before_it() {
        let said = Arc::new(Mutex::new(String::new()));
        let hears = said.clone();
        let mut applier = open_with(0, Arc::new(move |reason| *hears.lock() = reason)).await.unwrap();
        let entry =
            |bytes: &'static [u8]| EntryPayload::Normal(crate::types::Command::logged(Bytes::from_static(bytes)));
        applier.apply_one(log_id(1, 10), entry(b"")).unwrap();
        let error = applier.apply_one(log_id(1, 11), entry(b"\x07")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(said.lock().contains("format 7") && said.lock().contains("start the release"), "{}", said.lock());
        assert_eq!(applier.last, Some(log_id(1, 10)));
        let mut batch = Batch { answers: Vec::new(), entries: 0, started: Instant::now() };
        assert!(applier.commit(&mut batch).is_err(), "nothing is written any more");
    }

    #[tokio::test]
    async fn others_have_their_turns_while_much_is_applied() {
        let folder = tempfile::tempdir().unwrap();
        let mut applier = open_in(folder.path(), 0, Arc::new(|reason| panic!("{reason}"))).await.unwrap();
        let has_had_its_turn = Arc::new(AtomicBool::new(false));
        let has_it = has_had_its_turn.clone();
        let other = tokio::spawn(async move { has_it.store(true, Ordering::Release) });
        let slow = |index| {
            let payload = EntryPayload::Normal(crate::types::Command::logged(Bytes::from_static(SLOW)));
            Ok((Entry { log_id: log_id(1, index), payload }, None))
        };
        applier.apply(futures::stream::iter((10..15).map(slow))).await.unwrap();
        assert!(has_had_its_turn.load(Ordering::Acquire) && applier.last == Some(log_id(1, 14)));
        other.await.unwrap();
    }

    #[tokio::test]
    async fn a_snapshot_that_is_sent_is_not_written_to_tables_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut applier = open_in(folder.path(), 0, Arc::new(|reason| panic!("{reason}"))).await.unwrap();
        let tables = |applier: &Applier| applier.disk.db.live_files().unwrap().len();
        let write = |applier: &Applier, index| {
            let mut batch = WriteBatch::default();
            applier.disk.put_applied(&mut batch, 1, &log_id(1, index), 0);
            applier.disk.write(1, batch).unwrap();
        };
        let (begun, before) = (applier.begun.clone(), tables(&applier));
        write(&applier, 10);
        assert!(applier.get_current_snapshot().await.unwrap().is_some());
        assert_eq!(tables(&applier), before + 1, "openraft begins, and may cut the log up to there");
        begun.store(true, Ordering::Release);
        write(&applier, 11);
        let sent = applier.get_current_snapshot().await.unwrap().unwrap();
        assert_eq!((sent.meta.last_log_id, tables(&applier)), (Some(log_id(1, 11)), before + 1));
    }

    #[tokio::test]
    async fn a_snapshot_writes_no_tables_where_another_groups_has_written_enough_of_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let limits = LogLimits { snapshot_every: 20, ..LogLimits::default() };
        let applier = open_in(folder.path(), 0, Arc::new(|reason| panic!("{reason}"))).await.unwrap();
        let mut applier = applier.keeping_log(limits, Arc::default(), 0);
        let write = |applier: &mut Applier, index| {
            let mut batch = WriteBatch::default();
            applier.disk.put_applied(&mut batch, 1, &log_id(1, index), 0);
            applier.disk.write(1, batch).unwrap();
            applier.last = Some(log_id(1, index));
        };
        write(&mut applier, 10);
        let other = taken(&applier.disk, 2, None).await.unwrap();
        assert_eq!(other.meta.last_log_id, None);
        for (applied, reached) in [(20, 10), (21, 21), (31, 21), (32, 32)] {
            write(&mut applier, applied);
            let tables = applier.disk.db.live_files().unwrap().len();
            let built = applier.get_snapshot_builder().await.build_snapshot().await.unwrap();
            assert_eq!(built.meta.last_log_id, Some(log_id(1, reached)), "at {applied}");
            let written = applier.disk.db.live_files().unwrap().len() - tables;
            assert_eq!(written > 0, reached == applied, "{written} tables at {applied}");
            assert!(matches!(built.snapshot, SnapshotData::Position));
        }
    }

    #[tokio::test]
    async fn no_log_is_cut_while_a_snapshot_is_on_its_way_unless_it_has_grown_too_large() {
        let copies = Arc::<Copies>::default();
        let mut applier = open_with_durable(0).await.unwrap().keeping_log(LogLimits::default(), copies.clone(), 0);
        assert!(applier.try_create_snapshot_builder(false).await.is_some());
        let copying = copies.begin(2);
        assert!(applier.try_create_snapshot_builder(false).await.is_none(), "its log is not too large");
        assert!(applier.try_create_snapshot_builder(true).await.is_some(), "openraft cannot do without");
        drop(copying);
        assert!(applier.try_create_snapshot_builder(false).await.is_some());
    }
}

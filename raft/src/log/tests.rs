//! The log through its store: truncation and purge, recovery after a reopen, and the order of writes.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, RaftLogReader};

use tokio::task::coop::unconstrained;

use super::disk::Disk;
use super::store::{GroupLog, LogStore};
use super::writer::Writer;
use crate::folder::USUAL_BUFFER;
use crate::machine::GroupId;
use crate::types::{Command, Entry, TypeConfig, Vote, log_id};

struct Log {
    disk: Arc<Disk>,
    writer: Writer,
    thread: std::thread::JoinHandle<()>,
}

impl Log {
    fn open(path: &Path) -> Self {
        Self::open_with(path, Arc::new(|reason| panic!("{reason}")))
    }

    fn open_with(path: &Path, fatal: crate::fatal::Fatal) -> Self {
        let disk = Disk::open(&path.join("raft"), USUAL_BUFFER, fatal).unwrap();
        let (writer, thread) = Writer::start(disk.clone()).unwrap();
        Self { disk, writer, thread }
    }

    fn group(&self, id: GroupId) -> LogStore {
        LogStore { log: GroupLog::open(id, self.disk.clone()).unwrap(), writer: self.writer.clone() }
    }

    fn close(self) {
        drop(self.writer);
        self.thread.join().unwrap();
    }
}

fn entry(term: u64, index: u64) -> Entry {
    let command = Command::logged(Bytes::from(format!("{term}/{index}")));
    Entry { log_id: log_id(term, index), payload: EntryPayload::Normal(command) }
}

async fn append(store: &mut LogStore, entries: Vec<Entry>) {
    let (done, written) = TypeConfig::oneshot();
    store.append(entries, IOFlushed::signal(done)).await.unwrap();
    written.await.unwrap().unwrap();
}

async fn ids(store: &mut LogStore) -> Vec<(u64, u64)> {
    let entries = store.try_get_log_entries(..).await.unwrap();
    entries.iter().map(|entry| (entry.log_id.leader_id.term, entry.log_id.index)).collect()
}

#[tokio::test]
async fn what_was_cut_at_both_ends_is_gone_after_a_reopen_and_groups_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path());
    let (mut one, mut two) = (log.group(1), log.group(2));
    append(&mut one, (0..10).map(|index| entry(1, index)).collect()).await;
    append(&mut two, vec![entry(7, 0)]).await;
    one.truncate_after(Some(log_id(1, 6))).await.unwrap();
    append(&mut one, vec![entry(2, 7)]).await;
    one.purge(log_id(1, 3)).await.unwrap();
    let vote = Vote { leader_id: RaftLeaderId::new(2, 1), committed: true };
    one.save_committed(Some(log_id(1, 5))).await.unwrap();
    one.save_vote(&vote).await.unwrap();
    assert_eq!(ids(&mut one).await, [(1, 4), (1, 5), (1, 6), (2, 7)]);
    drop((one, two));
    log.close();

    let log = Log::open(folder.path());
    let (mut one, mut two) = (log.group(1), log.group(2));
    assert_eq!(ids(&mut one).await, [(1, 4), (1, 5), (1, 6), (2, 7)]);
    assert_eq!(ids(&mut two).await, [(7, 0)]);
    let state = one.get_log_state().await.unwrap();
    assert_eq!(state.last_purged_log_id, Some(log_id(1, 3)));
    assert_eq!(state.last_log_id, Some(log_id(2, 7)));
    assert_eq!(one.read_vote().await.unwrap(), Some(vote));
    assert_eq!(one.read_committed().await.unwrap(), Some(log_id(1, 5)));
    assert_eq!(two.read_vote().await.unwrap(), None);
    drop((one, two));
    log.close();
}

#[tokio::test]
async fn entries_are_readable_before_they_are_on_disk_and_complete_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path());
    let mut store = log.group(3);
    let mut completions = Vec::new();
    for index in 0..200 {
        let (done, written) = TypeConfig::oneshot();
        store.append(vec![entry(1, index)], IOFlushed::signal(done)).await.unwrap();
        completions.push(written);
        assert_eq!(ids(&mut store).await.len() as u64, index + 1);
    }
    // Writes complete in order: when the last one is on disk, all earlier ones are completed.
    completions.pop().unwrap().await.unwrap().unwrap();
    for earlier in completions {
        unconstrained(earlier).now_or_never().unwrap().unwrap().unwrap();
    }
    drop(store);
    log.close();
}

#[tokio::test]
async fn a_log_that_left_memory_is_read_from_disk_up_to_the_seam_and_beyond() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path());
    let mut store = log.group(1);
    let large = |index| Entry {
        log_id: log_id(1, index),
        payload: EntryPayload::Normal(Command::logged(Bytes::from(vec![0; 1 << 20]))),
    };
    for index in 0..8 {
        append(&mut store, vec![large(index)]).await;
    }
    assert_eq!(ids(&mut store).await.len(), 8);
    let limited = store.limited_get_log_entries(0, 8).await.unwrap();
    assert_eq!(limited.len(), 1);
    drop(store);
    log.close();
}

#[tokio::test]
async fn an_append_takes_a_quarter_of_a_mebibyte_and_one_larger_entry_alone_also_over_the_seam() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path());
    let mut store = log.group(1);
    // Some entries are on disk only, some in memory. An entry takes 18 bytes besides its command.
    let sizes = [100 << 10, 100 << 10, (56 << 10) - 54, 1, 9 << 20, 40 << 20, 100 << 10, 200 << 10];
    for (index, size) in (0..).zip(sizes) {
        let command = Command::logged(Bytes::from(vec![0; size]));
        append(&mut store, vec![Entry { log_id: log_id(1, index), payload: EntryPayload::Normal(command) }]).await;
    }
    let mut carried = Vec::new();
    let mut next = 0;
    while next < sizes.len() as u64 {
        let entries = store.limited_get_log_entries(next, sizes.len() as u64).await.unwrap();
        assert_eq!(entries[0].log_id.index, next);
        next += entries.len() as u64;
        carried.push(entries.len());
    }
    assert_eq!(carried, [3, 1, 1, 1, 1, 1]);
    drop(store);
    log.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_that_overtakes_a_reader_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path());
    let mut store = log.group(1);
    append(&mut store, (0..100).map(|index| entry(1, index)).collect()).await;
    drop(store);
    // After a reopen, no entry is in memory.
    let group = GroupLog::open(1, log.disk.clone()).unwrap();
    let store = LogStore { log: group.clone(), writer: log.writer.clone() };
    let runtime = tokio::runtime::Handle::current();
    let purged = std::sync::Once::new();
    let meanwhile = || {
        purged.call_once(|| {
            let mut store = store.clone();
            std::thread::scope(|scope| {
                scope.spawn(|| runtime.block_on(store.purge(log_id(1, 59))).unwrap());
            });
        })
    };
    let read = tokio::task::block_in_place(|| group.read_while(10, 70, usize::MAX, meanwhile)).unwrap();
    let read: Vec<u64> = read.iter().map(|entry| entry.log_id.index).collect();
    assert_eq!(read, (60..70).collect::<Vec<_>>());
    // A peer is sent only entries that directly follow what it has.
    let mut reader = store.clone();
    assert!(reader.limited_get_log_entries(10, 70).await.unwrap().is_empty());
    assert_eq!(reader.limited_get_log_entries(60, 70).await.unwrap().len(), 10);
    drop((store, reader, group));
    log.close();
}

#[tokio::test]
async fn a_log_that_outgrew_its_bytes_says_where_to_cut_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path());
    let group = GroupLog::open(1, log.disk.clone()).unwrap();
    let mut store = LogStore { log: group.clone(), writer: log.writer.clone() };
    append(&mut store, (0..2000).map(|index| entry(1, index)).collect()).await;
    assert_eq!(group.cut_to(1 << 20), None);
    assert!(group.bytes() > 20_000, "{}", group.bytes());
    let cut = group.cut_to(20_000).unwrap();
    assert!((1000..1800).contains(&cut), "{cut}");
    store.purge(log_id(1, cut)).await.unwrap();
    assert_eq!(group.cut_to(20_000), None);
    assert!(group.bytes() <= 20_000, "{}", group.bytes());
    drop((store, group));
    log.close();
}

/// Damages a log of a hundred entries; returns the error with which every start refuses it.
async fn refusal(damage: impl FnOnce(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path());
    let mut store = log.group(1);
    for index in 0..100 {
        append(&mut store, vec![entry(1, index)]).await;
    }
    drop(store);
    log.close();
    let raft = folder.path().join("raft");
    damage(&raft);
    let open =
        || Disk::open(&raft, USUAL_BUFFER, Arc::new(|reason| panic!("{reason}"))).map(|_| ()).unwrap_err().to_string();
    let refused = open();
    assert!(open().contains("raft"), "the second start is refused, too");
    refused
}

/// Damages the WAL file, and checks that the error names it.
async fn refusal_of_file(damage: impl FnOnce(&Path)) {
    let mut damaged = String::new();
    let refused = refusal(|raft| {
        let files = std::fs::read_dir(raft).unwrap().map(|file| file.unwrap().path());
        let written = files.filter(|path| path.extension().is_some_and(|end| end == "log"));
        let file = written.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
        damage(&file);
        damaged = file.display().to_string();
    });
    let refused = refused.await;
    assert!(refused.contains(&damaged) && refused.contains("had been synced"), "{damaged}: {refused}");
}

#[tokio::test]
async fn a_write_ahead_file_that_lost_what_was_synced_is_refused_by_name() {
    refusal_of_file(|file| {
        let length = std::fs::metadata(file).unwrap().len();
        std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length / 2).unwrap();
    })
    .await;
    refusal_of_file(|file| {
        let mut bytes = std::fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(file, bytes).unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_older_write_ahead_file_that_is_gone_or_ends_between_two_writes_is_refused() {
    let damages: [fn(&Path, u64); 2] = [
        |file, length| std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length).unwrap(),
        |file, _| std::fs::remove_file(file).unwrap(),
    ];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let raft = folder.path().join("raft");
        let log = Log::open(folder.path());
        let mut store = log.group(1);
        store.save_vote(&Vote { leader_id: RaftLeaderId::new(1, 1), committed: true }).await.unwrap();
        append(&mut store, vec![entry(1, 0)]).await;
        let files = std::fs::read_dir(&raft).unwrap().map(|file| file.unwrap().path());
        let older = files.filter(|path| path.extension().is_some_and(|end| end == "log")).max().unwrap();
        let between = std::fs::metadata(&older).unwrap().len();
        append(&mut store, vec![entry(1, 1)]).await;
        log.disk.flush_meta();
        append(&mut store, vec![entry(1, 2)]).await;
        drop(store);
        log.close();
        damage(&older, between);
        let opened = Disk::open(&raft, USUAL_BUFFER, Arc::new(|reason| panic!("{reason}"))).map(drop);
        assert!(opened.unwrap_err().to_string().contains("WAL"));
    }
}

#[tokio::test]
async fn a_log_that_is_gone_and_one_without_its_mark_are_refused() {
    let gone = refusal(|raft| std::fs::remove_dir_all(raft).unwrap()).await;
    assert!(gone.contains("had been synced"), "{gone}");
    let unmarked = refusal(|raft| std::fs::remove_file(raft.with_extension("synced")).unwrap()).await;
    assert!(unmarked.contains("raft.synced"), "{unmarked}");
}

#[tokio::test]
async fn a_first_start_that_had_no_room_for_the_mark_is_followed_by_another() {
    // The mark file after its creation failed: empty, or with its size set but no content.
    for left in [Vec::new(), vec![0_u8; 1024]] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("raft.synced"), left).unwrap();
        let log = Log::open(folder.path());
        append(&mut log.group(1), vec![entry(1, 0)]).await;
        log.close();
        let log = Log::open(folder.path());
        assert_eq!(ids(&mut log.group(1)).await, [(1, 0)]);
        log.close();
    }
}

#[tokio::test]
async fn what_is_committed_or_applied_is_never_cut_off() {
    for by_state in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let said = Arc::new(parking_lot::Mutex::new(String::new()));
        let hears = said.clone();
        let log = Log::open_with(folder.path(), Arc::new(move |reason| *hears.lock() = reason));
        let state = GroupLog::open(1, log.disk.clone()).unwrap();
        let mut store = LogStore { log: state.clone(), writer: log.writer.clone() };
        append(&mut store, (0..10).map(|index| entry(1, index)).collect()).await;
        match by_state {
            true => state.applied(6),
            false => store.save_committed(Some(log_id(1, 6))).await.unwrap(),
        }
        store.truncate_after(Some(log_id(1, 7))).await.unwrap();
        store.truncate_after(Some(log_id(1, 6))).await.unwrap();
        assert_eq!(said.lock().as_str(), "");
        assert!(store.truncate_after(Some(log_id(1, 5))).await.is_err());
        assert!(said.lock().contains("from 6 on") && said.lock().contains("up to 6"), "{}", said.lock());
        assert_eq!(ids(&mut store).await.len(), 7, "and nothing is cut");
        drop((store, state));
        log.close();
    }
}

#[tokio::test]
async fn a_leader_that_has_other_entries_than_were_committed_here_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path());
    let state = GroupLog::open(1, log.disk.clone()).unwrap();
    let mut store = LogStore { log: state.clone(), writer: log.writer.clone() };
    append(&mut store, (0..10).map(|index| entry(1, index)).collect()).await;
    let vote = |term| Vote { leader_id: RaftLeaderId::new(term, 1), committed: true };
    store.save_vote(&vote(3)).await.unwrap();
    let judged = |term, prev, entries: &[Entry]| state.contradiction(&vote(term), prev, entries).unwrap().is_some();
    // Nothing is committed, so the leader is always right.
    assert!(!judged(3, Some(log_id(2, 5)), &[entry(2, 6)]));
    store.save_committed(Some(log_id(1, 6))).await.unwrap();
    store.purge(log_id(1, 2)).await.unwrap();
    let table = [
        (3, Some(log_id(1, 6)), vec![entry(3, 7)], false),
        (3, Some(log_id(2, 7)), vec![entry(3, 8)], false),
        (3, Some(log_id(2, 6)), vec![], true),
        (3, Some(log_id(1, 4)), vec![entry(1, 5), entry(2, 6), entry(2, 7)], true),
        (3, Some(log_id(1, 4)), vec![entry(1, 5), entry(1, 6), entry(2, 7)], false),
        (4, Some(log_id(2, 2)), vec![], true),
        // Purged entries are no longer known.
        (4, Some(log_id(2, 1)), vec![], false),
        // An append of an earlier term comes from a former leader.
        (2, Some(log_id(2, 6)), vec![], false),
    ];
    for (term, prev, entries, wrong) in table {
        assert_eq!(judged(term, prev, &entries), wrong, "{term} {prev:?} {entries:?}");
    }
    drop((store, state));
    log.close();
}

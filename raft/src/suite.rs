//! openraft's own test suite for log stores and state machines, run against ours.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use model::format::Foreign;
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::folder::USUAL_BUFFER;
use crate::log::disk::Disk;
use crate::log::limits::LogLimits;
use crate::log::store::{GroupLog, LogStore};
use crate::log::writer::Writer;
use crate::machine::{Machine, Position, State, View};
use crate::state::applier::Applier;
use crate::state::disk::StateDisk;
use crate::state::meter::Meter;
use crate::types::TypeConfig;

struct Idle;

impl Machine for Idle {
    fn restore(&mut self, _: &dyn View) {}

    fn apply(&mut self, _: Position, _: &[u8], _: &mut dyn State) -> Result<Bytes, Foreign> {
        Ok(Bytes::new())
    }
}

/// Joins the writer at the end of a test: the test process must not exit while a database is being closed.
struct Guard {
    thread: Option<std::thread::JoinHandle<()>>,
    _folder: TempDir,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, Applier, Guard> for Builder {
    async fn build(&self) -> Result<(Guard, LogStore, Applier), StorageError<TypeConfig>> {
        let folder = tempfile::tempdir().unwrap();
        let fatal: crate::fatal::Fatal = Arc::new(|reason| panic!("{reason}"));
        let disk = Disk::open(&folder.path().join("raft"), USUAL_BUFFER, fatal.clone()).unwrap();
        let state =
            StateDisk::open(&folder.path().join("data"), folder.path().join("install"), USUAL_BUFFER, fatal).unwrap();
        let (writer, thread) = Writer::start(disk.clone()).unwrap();
        let log = GroupLog::open(1, disk).unwrap();
        let right = Arc::new(tokio::sync::Mutex::new(())).lock_owned().await;
        let (position, meter) = (watch::Sender::new(Position::default()), Arc::new(Meter::new(Instant::now())));
        let applier =
            Applier::open(state, log.clone(), Box::new(Idle), position, meter, Arc::default(), right).unwrap();
        // The suite expects snapshots of everything that is applied; a snapshot may lag by half of `snapshot_every`.
        let limits = LogLimits { snapshot_every: 1, ..LogLimits::default() };
        let applier = applier.keeping_log(limits, Arc::default(), 0);
        // The suite sends the snapshots that it gets: those from before openraft has started have no content.
        applier.begun.store(true, Ordering::Release);
        Ok((Guard { thread: Some(thread), _folder: folder }, LogStore { log, writer }, applier))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_passes_openrafts_own_suite() {
    Suite::test_all(Builder).await.unwrap();
}

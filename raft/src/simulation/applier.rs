//! openraft's state machine of one simulated group: passes committed commands to the group's [`Machine`].

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use parking_lot::Mutex;

use super::disk::{Disk, StateSlot};
use super::router::Life;
use super::state::Stored;
use super::types::SimulatedTypes;
use super::world::Observer;
use crate::machine::{GroupId, Machine};
use crate::types::{Entry, LogId, Membership, Reply, Snapshot, SnapshotMeta};

/// A snapshot as openraft passes it around: a state at one moment.
pub(super) type SnapshotData = Arc<Stored>;

pub(crate) struct Applier {
    life: Life,
    group: GroupId,
    disk: Arc<Disk>,
    /// The applied state.
    pub(super) slot: Arc<Mutex<StateSlot>>,
    /// Never contended; openraft requires the state machine to be `Sync`.
    machine: Mutex<Box<dyn Machine>>,
    observer: Arc<dyn Observer>,
}

fn guarded<T>(group: GroupId, work: impl FnOnce() -> T) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| io::Error::other(format!("the machine of group {group} panicked")))
}

impl Applier {
    /// Takes a group's state from the disk and restores the machine.
    pub(super) fn open(
        life: Life,
        group: GroupId,
        disk: Arc<Disk>,
        mut machine: Box<dyn Machine>,
        observer: Arc<dyn Observer>,
    ) -> io::Result<Self> {
        let slot = disk.take_state(group);
        // The log may be purged up to the applied position, so that must survive a power failure.
        slot.lock().sync();
        guarded(group, || machine.restore(&slot.lock().now.state))?;
        Ok(Self { life, group, disk, slot, machine: Mutex::new(machine), observer })
    }

    fn apply_one(&mut self, entry: Entry) -> io::Result<Reply> {
        let mut slot = self.slot.lock();
        let at = entry.log_id;
        slot.now.last = Some(at);
        let position = slot.now.position();
        let reply = match entry.payload {
            EntryPayload::Blank => Bytes::new(),
            EntryPayload::Normal(command) => {
                let machine = self.machine.get_mut();
                let reply = guarded(self.group, || machine.apply(position, command.bytes(), &mut slot.now.state))?;
                let reply = reply.map_err(io::Error::other)?;
                machine.flushed(position);
                reply
            }
            EntryPayload::Membership(membership) => {
                slot.now.membership = Membership::new(Some(at), membership);
                Bytes::new()
            }
        };
        if self.disk.flushes_state() {
            slot.sync();
        }
        self.observer.applied(self.life, self.group, position, slot.now.state.hash);
        Ok(Reply(reply))
    }
}

impl RaftStateMachine<SimulatedTypes> for Applier {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, Membership), io::Error> {
        let slot = self.slot.lock();
        Ok((slot.now.last, slot.now.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<SimulatedTypes>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let reply = self.apply_one(entry)?;
            if let Some(responder) = responder {
                responder.send(reply);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        Builder { slot: self.slot.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, data: SnapshotData) -> Result<(), io::Error> {
        let mut slot = self.slot.lock();
        slot.now = (*data).clone();
        (slot.now.last, slot.now.membership) = (meta.last_log_id, meta.last_membership.clone());
        slot.sync();
        let machine = self.machine.get_mut();
        guarded(self.group, || machine.restore(&slot.now.state))?;
        let position = slot.now.position();
        machine.flushed(position);
        self.observer.installed(self.life, self.group, position, slot.now.state.hash);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<SnapshotData>>, io::Error> {
        let slot = self.slot.lock();
        if slot.now.last.is_none() {
            return Ok(None);
        }
        Ok(Some(Snapshot { meta: slot.now.meta(), snapshot: Arc::new(slot.now.clone()) }))
    }
}

/// Builds a snapshot: a position up to which the state is on disk.
pub(crate) struct Builder {
    slot: Arc<Mutex<StateSlot>>,
}

impl RaftSnapshotBuilder<SimulatedTypes> for Builder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<Snapshot<SnapshotData>, io::Error> {
        let safe = self.slot.lock().sync();
        Ok(Snapshot { meta: safe.meta(), snapshot: safe })
    }
}

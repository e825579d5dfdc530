//! The host of all Raft groups of a node: owns their logs and states on disk, and opens and closes them.

mod beat;
mod compare;
mod life;
pub mod report;
mod services;
mod stores;
#[cfg(test)]
mod tests;
mod witness;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use model::id::NodeId;
use openraft::{Config, SnapshotPolicy};
use parking_lot::{Mutex, RwLock};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::compare::Comparisons;
use self::life::Life;
pub use self::stores::{Stores, StoresConfig};
use self::witness::{Listener, Witness};
pub use crate::fatal::Fatal;
use crate::folder::StoreFolder;
pub use crate::folder::{StartError, USUAL_BUFFER};
use crate::group::{Core, Group};
use crate::local_copy::LocalCopy;
use crate::log::disk::Disk;
pub use crate::log::limits::LogLimits;
use crate::log::writer::{Write, Writer};
use crate::machine::{DIRECTORY_GROUP, GroupId, Machine};
use crate::network::service;
use crate::rate_limiter::RateLimiter;
use crate::room::{Marks, Room};
use crate::state::disk::StateDisk;
use crate::supervise;
use crate::telemetry;
pub use crate::timing::Timing;
use crate::transport::Peers;

/// Creates a group's machine; called again when the group is restarted.
pub type Factory = Box<dyn Fn() -> Box<dyn Machine> + Send + Sync>;

pub struct HostConfig {
    pub stores: Stores,
    pub timing: Timing,
    pub log: LogLimits,
    /// Limit for the snapshots of all groups to other nodes together.
    pub snapshot_bytes_per_second: u64,
    /// Free space to keep on the node's disks.
    pub room: Marks,
    /// Folder of the media files, on the same file system or another one.
    pub media_dir: PathBuf,
    pub peers: Arc<Peers>,
}

#[derive(Debug, Error)]
pub enum OpenError {
    #[error("group {0} is open already")]
    AlreadyOpen(GroupId),
    #[error("group {group}: {reason}")]
    Failed { group: GroupId, reason: String },
    #[error("the host is stopped")]
    Stopped,
}

/// Health of the groups, for readiness and `gateway status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Groups that died and have not been restarted yet.
    pub dead: Vec<GroupId>,
    /// Groups that this node leads without committing what it has proposed.
    pub stalled: Vec<GroupId>,
    /// Groups that run.
    pub running: Vec<GroupId>,
}

impl Health {
    pub fn is_ready(&self) -> bool {
        self.dead.is_empty()
    }
}

/// Shared by the tasks of all groups.
struct Shared {
    node: NodeId,
    timing: Timing,
    limits: LogLimits,
    peers: Arc<Peers>,
    logs: Arc<Disk>,
    writer: Writer,
    state: Arc<StateDisk>,
    fatal: Fatal,
    dead: Mutex<BTreeSet<GroupId>>,
    stalled: Mutex<BTreeSet<GroupId>>,
    rate_limiter: Arc<RateLimiter>,
    comparisons: Comparisons,
    room: Arc<Room>,
}

impl Shared {
    fn note_dead(&self, group: GroupId, is_dead: bool) {
        note(&self.dead, group, is_dead, telemetry::groups_dead);
    }

    /// Records whether a group is stalled on this node; true if that has changed.
    fn note_stalled(&self, group: GroupId, stalls: bool) -> bool {
        note(&self.stalled, group, stalls, telemetry::groups_stalled)
    }
}

/// Records whether a group is in this set, and reports the set's size; true if that has changed.
fn note(groups: &Mutex<BTreeSet<GroupId>>, group: GroupId, is_one: bool, tell: fn(usize)) -> bool {
    let mut groups = groups.lock();
    let is_news = if is_one { groups.insert(group) } else { groups.remove(&group) };
    if is_news {
        tell(groups.len());
    }
    is_news
}

pub(crate) fn config(timing: &Timing, limits: &LogLimits, name: String) -> Config {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Config {
        cluster_name: name,
        heartbeat_interval: millis(timing.heartbeat),
        // In openraft, `election_timeout_max` is also the lease that followers grant; they stand for election a random
        // time between the two after it. The fence relies on the lease being the shortest election timeout.
        election_timeout_min: millis(timing.after_lease()),
        election_timeout_max: millis(timing.election_min),
        // A node that was partitioned must not disrupt the group with a higher term when it returns.
        enable_pre_vote: Some(true),
        // A leader that restarts must win a new term: the term fences what it did before.
        enable_leader_restore: Some(false),
        // Replication starts before the leader's own sync has finished.
        broadcast_submitted_on_append: Some(true),
        max_payload_entries: 1024,
        // A core blocks, and hears no heartbeat, while its state machine is this many commits behind.
        state_machine_channel_size: Some(1 << 16),
        // A follower that the log still reaches gets entries: a snapshot costs more and risks more.
        replication_lag_threshold: 1 << 48,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(limits.snapshot_every),
        max_in_snapshot_log_to_keep: limits.keep_entries,
        // Each purge is a range deletion in the log database: few large ones are better than many small ones.
        purge_batch_size: limits.snapshot_every.min(1000),
        install_snapshot_timeout: 200_000,
        backoff: "10ms 20ms 40ms 80ms ...200ms".into(),
        ..Config::default()
    }
}

/// An open group.
struct Open {
    core: Arc<Core>,
    stop: CancellationToken,
    life: JoinHandle<()>,
    right: Arc<tokio::sync::Mutex<()>>,
}

/// The part of the host that the transport's services use.
pub(crate) struct Inner {
    shared: Arc<Shared>,
    groups: RwLock<HashMap<GroupId, Open>>,
}

impl Inner {
    pub(crate) fn core(&self, group: GroupId) -> Option<Arc<Core>> {
        self.groups.read().get(&group).map(|open| open.core.clone())
    }
}

/// All Raft groups of this node.
pub struct Host {
    /// Exchanges sync positions with the peers ([`Witness`]). Dropped before `folder`, which holds the lock.
    telling: AbortOnDropHandle<()>,
    /// Compares the replicas of the groups that this node leads.
    comparing: AbortOnDropHandle<()>,
    /// Sends the heartbeats of the groups that this node leads.
    beating: AbortOnDropHandle<()>,
    inner: Arc<Inner>,
    /// Serializes opening and closing; true once the host is stopped.
    changing: tokio::sync::Mutex<bool>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
    folder: StoreFolder,
    copy: LocalCopy,
}

impl Host {
    /// Checks with the other nodes that the data folder is not an older copy; starts no group yet.
    ///
    /// # Errors
    /// When the timing is invalid, a thread cannot be started, or the data folder cannot be read.
    pub async fn start(host: HostConfig) -> Result<Self, StartError> {
        telemetry::describe();
        config(&host.timing, &host.log, "check".into())
            .validate()
            .map_err(|error| StartError::Timing(error.to_string()))?;
        let Stores { node, folder, logs, state, copy, fatal } = host.stores;
        let room =
            Room::watch(host.room, vec![folder.logs(), folder.state()], host.media_dir).map_err(StartError::Thread)?;
        let (writer, thread) = Writer::start(logs.clone()).map_err(StartError::Thread)?;
        let shared = Arc::new(Shared {
            node,
            timing: host.timing,
            limits: host.log,
            peers: host.peers.clone(),
            logs,
            writer,
            state,
            fatal,
            dead: Mutex::default(),
            stalled: Mutex::default(),
            rate_limiter: Arc::new(RateLimiter::new(host.snapshot_bytes_per_second)),
            comparisons: Comparisons::new(),
            room,
        });
        let witness = Self::witness(&folder, &shared).await?;
        let inner = Arc::new(Inner { shared, groups: RwLock::default() });
        services::register(&host.peers, Arc::downgrade(&inner));
        let told = Arc::downgrade(&inner);
        let telling = AbortOnDropHandle::new(host.peers.runtime().spawn(async move {
            supervise::restarted("the witness", || witness.clone().tell(told.clone())).await;
        }));
        let compared = Arc::downgrade(&inner);
        let comparing = AbortOnDropHandle::new(host.peers.runtime().spawn(async move {
            supervise::restarted("the comparison of replicas", || compare::run(compared.clone())).await;
        }));
        let (beaten, heartbeat, fatal) = (Arc::downgrade(&inner), host.timing.heartbeat, inner.shared.fatal.clone());
        let beating = AbortOnDropHandle::new(host.peers.runtime().spawn(async move {
            supervise::required("the heartbeat of all groups", &fatal, beat::run(beaten, heartbeat)).await;
        }));
        let (changing, writer) = (tokio::sync::Mutex::new(false), Mutex::new(Some(thread)));
        Ok(Self { telling, comparing, beating, inner, changing, writer, folder, copy })
    }

    /// Handler that ends the node when it cannot continue safely.
    pub fn fatal(&self) -> &Fatal {
        &self.inner.shared.fatal
    }

    /// This node's copy of the directory.
    pub fn local_copy(&self) -> &LocalCopy {
        &self.copy
    }

    /// Asks the other nodes how far they know this node's log to be synced; ends the node if its log has less.
    async fn witness(folder: &StoreFolder, shared: &Shared) -> Result<Arc<Witness>, StartError> {
        let failed = |error: std::io::Error| StartError::of_folder(&folder.heard(), error.to_string());
        let storage_id = shared.peers.identity().storage_id;
        let witness =
            Witness::open(folder.heard(), storage_id, shared.logs.clone(), shared.fatal.clone()).map_err(failed)?;
        // Peers that start at the same time ask as well, so this node answers before it takes part in any group.
        let listener = Listener { witness: witness.clone(), runtime: shared.peers.runtime().clone() };
        shared.peers.serve_raft(service::WITNESS, Arc::new(listener));
        let members = shared.state.applied(DIRECTORY_GROUP).map_err(failed)?.members();
        witness.ask(&shared.peers, &members).await;
        Ok(witness)
    }

    /// Starts a group and returns when its state is restored. It takes part once its members know this node.
    pub fn open_group(&self, id: GroupId, factory: Factory) -> BoxFuture<'_, Result<Group, OpenError>> {
        Box::pin(async move {
            let stopped = self.changing.lock().await;
            if *stopped {
                return Err(OpenError::Stopped);
            }
            if self.inner.core(id).is_some() {
                return Err(OpenError::AlreadyOpen(id));
            }
            let shared = self.inner.shared.clone();
            let core = Core::new(
                id,
                shared.node,
                shared.peers.clone(),
                shared.state.clone(),
                shared.timing.election_max * 2,
                shared.fatal.clone(),
            );
            let stop = CancellationToken::new();
            let right: Arc<tokio::sync::Mutex<()>> = Arc::default();
            let life =
                Life { core: core.clone(), factory, shared: shared.clone(), right: right.clone(), stop: stop.clone() };
            let (started, result) = oneshot::channel();
            let fatal = shared.fatal.clone();
            let life = shared.peers.runtime().spawn(async move {
                supervise::required("the life of a group", &fatal, life.run(started)).await;
            });
            // Registered before it has started: a leader may address it as soon as it can answer.
            self.inner.groups.write().insert(id, Open { core: core.clone(), stop, life, right });
            match result.await {
                Ok(Ok(())) => Ok(Group::new(core)),
                failed => {
                    self.inner.groups.write().remove(&id);
                    let reason = failed
                        .map_or_else(|_| "its task is gone".to_owned(), |result| result.err().unwrap_or_default());
                    Err(OpenError::Failed { group: id, reason })
                }
            }
        })
    }

    /// Free space on this node's disks.
    pub fn room(&self) -> &Arc<Room> {
        &self.inner.shared.room
    }

    pub fn group(&self, id: GroupId) -> Option<Group> {
        self.inner.core(id).map(Group::new)
    }

    /// Whether the disk holds any log or state of a group.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub async fn holds(&self, id: GroupId) -> std::io::Result<bool> {
        let (logs, state) = (self.inner.shared.logs.clone(), self.inner.shared.state.clone());
        let looking = self.inner.shared.peers.runtime().spawn_blocking(move || {
            let log = logs.recover(id)?;
            Ok(log.last.is_some() || log.vote.is_some() || state.applied(id)?.last.is_some())
        });
        looking.await.map_err(std::io::Error::other)?
    }

    /// Stops a group; its log and state stay on disk.
    async fn close(&self, id: GroupId) {
        let open = self.inner.groups.write().remove(&id);
        let Some(open) = open else { return };
        open.stop.cancel();
        if open.life.await.is_err() {
            tracing::error!(group = id, "the task of a group panicked");
        }
        life::released(&open.right, id).await;
        open.core.settled().await;
        self.inner.shared.note_dead(id, false);
        self.inner.shared.note_stalled(id, false);
    }

    /// Stops a group and deletes its log and state. Only for a node that is no longer a member of the group: a member
    /// that forgets its votes could help to elect two leaders.
    pub fn remove_group(&self, id: GroupId) -> BoxFuture<'_, Result<(), OpenError>> {
        Box::pin(async move {
            let _changing = self.changing.lock().await;
            self.close(id).await;
            let failed = |error: std::io::Error| OpenError::Failed { group: id, reason: error.to_string() };
            let shared = self.inner.shared.clone();
            // The log first: a state without a log counts as a leftover, a log without its state as damage.
            shared.writer.written(|done| Write::Erase { group: id, done }).await.map_err(failed)?;
            let state = shared.state.clone();
            let erasing = shared.peers.runtime().spawn_blocking(move || state.erase(id));
            erasing.await.map_err(|error| failed(std::io::Error::other(error)))?.map_err(failed)
        })
    }

    pub fn health(&self) -> Health {
        let dead: Vec<_> = self.inner.shared.dead.lock().iter().copied().collect();
        let mut running: Vec<_> =
            self.inner.groups.read().keys().filter(|group| !dead.contains(group)).copied().collect();
        running.sort_unstable();
        let stalled = self.inner.shared.stalled.lock().iter().copied().collect();
        Health { dead, stalled, running }
    }

    /// Stops all groups and flushes what is still in memory. No group can be opened afterwards.
    pub fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut stopped = self.changing.lock().await;
            *stopped = true;
            self.comparing.abort();
            let open: Vec<_> = self.inner.groups.read().keys().copied().collect();
            futures::future::join_all(open.into_iter().map(|id| self.close(id))).await;
            self.telling.abort();
            self.beating.abort();
            let shared = &self.inner.shared;
            services::unregister(&shared.peers);
            shared.peers.unserve(service::WITNESS);
            let state = shared.state.clone();
            match shared.peers.runtime().spawn_blocking(move || state.flush()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "the state was not written"),
                Err(error) => tracing::error!(%error, "the state was not written"),
            }
            self.stop_writer().await;
            // Snapshot transfers that nobody waits for end by themselves.
            if tokio::time::timeout(Duration::from_secs(5), shared.state.settled()).await.is_err() {
                tracing::warn!("work on the state is still under way");
            }
        })
    }

    /// Stops the writer after its last write, and waits until the readers of closed groups release the log.
    async fn stop_writer(&self) {
        let thread = self.writer.lock().take();
        let Some(thread) = thread else { return };
        let shared = &self.inner.shared;
        if shared.writer.written(|done| Write::Stop { done }).await.is_err() {
            tracing::error!("the last writes of the log did not reach the disk");
        }
        if shared.peers.runtime().spawn_blocking(move || thread.join()).await.is_err() {
            tracing::error!("the log writer did not end");
        }
        let deadline = Instant::now() + Duration::from_secs(2);
        while Arc::strong_count(&shared.logs) > 1 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Groups that were not closed end with the runtime; the writer's thread ends with the last of them.
        for (_, open) in self.inner.groups.write().drain() {
            open.stop.cancel();
        }
    }
}

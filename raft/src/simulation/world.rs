//! The nodes of a simulated run.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use model::id::NodeId;
use openraft::async_runtime::WatchReceiver;
use parking_lot::Mutex;

use super::applier::Applier;
use super::chance::Chance;
use super::clock::{self, Instant};
use super::disk::{Change, Disk, StateSlot};
use super::group::SimulatedGroup;
use super::log::LogStore;
use super::network::Factory as NetworkFactory;
use super::router::{Life, Router};
use super::types::Raft;
use crate::contacts::Contacts;
use crate::group::{ReadError, confirm_leader, quorum_contact};
use crate::host::{LogLimits, Timing, config};
use crate::machine::{GroupId, Machine, Position};

/// Delay before a group that died is restarted.
const REBUILD_AFTER: Duration = Duration::from_millis(100);

/// How a node dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies; everything it has written survives.
    Kill,
    /// The machine loses power; what was not synced is lost.
    PowerCut,
}

/// A deliberate bug in the storage or the network, to check that the simulation finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Entries are reported as synced before they are.
    SkipSync,
    /// Votes are granted before they are synced.
    ForgetVote,
    /// A node votes right after its start, whatever it had promised before.
    VoteAtOnce,
    /// A snapshot arrives without its last pair.
    CutSnapshot,
    /// Appends above a certain size are lost, as by a transport that refuses them; heartbeats get through.
    NoLongAppends,
}

/// Observes the replicas.
pub trait Observer: Send + Sync + 'static {
    /// A replica has applied the entry at `at`; its state now has this hash.
    fn applied(&self, life: Life, group: GroupId, at: Position, hash: u64);

    /// A replica has installed a snapshot.
    fn installed(&self, life: Life, group: GroupId, at: Position, hash: u64);

    /// openraft stopped a group for good; it will be restarted.
    fn died(&self, life: Life, group: GroupId, reason: &str);
}

/// Creates a group's machine on a node; called again whenever the group is restarted.
pub type Machines = Box<dyn Fn(Life, GroupId) -> Box<dyn Machine> + Send + Sync>;

pub struct WorldConfig {
    pub timing: Timing,
    pub limits: LogLimits,
    /// Duration of a sync of the log.
    pub sync: Range<Duration>,
    pub flaw: Option<Flaw>,
    pub machines: Machines,
    pub observer: Arc<dyn Observer>,
}

struct Running {
    raft: Raft,
    /// Until this instant, the replica grants no votes, not even its own; see [`crate::group::Running`].
    votes_from: Instant,
    contacts: Arc<Contacts<Instant>>,
    slot: Arc<Mutex<StateSlot>>,
}

struct Node {
    disk: Arc<Disk>,
    starts: u64,
    /// The running groups; empty while the node is down.
    groups: BTreeMap<GroupId, Running>,
}

/// State shared by all parts of a run.
pub(super) struct Shared {
    pub(super) config: WorldConfig,
    pub(super) router: Arc<Router>,
    chance: Chance,
    nodes: Mutex<BTreeMap<NodeId, Node>>,
}

impl Shared {
    pub(super) fn raft(&self, life: Life, group: GroupId) -> Option<Raft> {
        self.running(life, group, |running| running.raft.clone())
    }

    /// The group, and the answers of its followers.
    pub(super) fn leading(&self, life: Life, group: GroupId) -> Option<(Raft, Arc<Contacts<Instant>>)> {
        self.running(life, group, |running| (running.raft.clone(), running.contacts.clone()))
    }

    /// When the leader sent the latest message that a quorum has answered.
    pub(super) fn quorum_contact(&self, life: Life, group: GroupId) -> Option<Instant> {
        let (raft, contacts) = self.leading(life, group)?;
        let metrics = raft.metrics();
        let metrics = metrics.borrow_watched();
        quorum_contact(&metrics, life.node, &contacts, clock::now())
    }

    /// Read index of this node as the leader.
    pub(super) async fn read_index(&self, life: Life, group: GroupId, patience: Duration) -> Result<u64, ReadError> {
        let (raft, contacts) = self.leading(life, group).ok_or(ReadError::Stopped)?;
        let confirmed = confirm_leader(&raft, life.node, patience, &contacts, clock::now);
        clock::within(patience, confirmed).await.unwrap_or(Err(ReadError::NoLeader))
    }

    /// The group, if it grants votes already.
    pub(super) fn voter(&self, life: Life, group: GroupId) -> Option<Raft> {
        let now = clock::now();
        self.running(life, group, |running| (running.votes_from <= now).then(|| running.raft.clone())).flatten()
    }

    pub(super) fn slot(&self, life: Life, group: GroupId) -> Option<Arc<Mutex<StateSlot>>> {
        self.running(life, group, |running| running.slot.clone())
    }

    pub(super) fn is_pristine(&self, life: Life, group: GroupId) -> bool {
        let disk = self.nodes.lock().get(&life.node).map(|node| node.disk.clone());
        disk.is_some_and(|disk| {
            let log = disk.log(group);
            self.router.lives(life) && log.last().is_none() && log.vote.is_none()
        })
    }

    fn running<T>(&self, life: Life, group: GroupId, with: impl FnOnce(&Running) -> T) -> Option<T> {
        if !self.router.lives(life) { None } else { self.nodes.lock().get(&life.node)?.groups.get(&group).map(with) }
    }

    /// Starts a group from what is on the node's disk, in place of an earlier one.
    async fn build(self: &Arc<Self>, life: Life, group: GroupId) -> Result<Raft, String> {
        let disk = self.nodes.lock().get(&life.node).map(|node| node.disk.clone()).ok_or("no such node")?;
        // Changes requested by the group's former life belong to its log: wait for them.
        disk.written(life.start, group, Change::Barrier).await.map_err(|error| error.to_string())?;
        let pristine = self.is_pristine(life, group);
        let abstains = if pristine || self.config.flaw == Some(Flaw::VoteAtOnce) {
            Duration::ZERO
        } else {
            self.config.timing.election_min
        };
        let votes_from = clock::now() + abstains;
        let machine = (self.config.machines)(life, group);
        let applier = Applier::open(life, group, disk.clone(), machine, self.config.observer.clone())
            .map_err(|error| error.to_string())?;
        let slot = applier.slot.clone();
        let store = LogStore::open(group, disk, life.start, self.config.flaw);
        let contacts: Arc<Contacts<Instant>> = Arc::default();
        let network = NetworkFactory { shared: self.clone(), life, group, contacts: contacts.clone() };
        let settings = config(&self.config.timing, &self.config.limits, format!("group {group}"));
        let raft = Raft::new(life.node, Arc::new(settings), network, store, applier).await;
        let raft = raft.map_err(|error| error.to_string())?;
        let alive = self.router.lives(life);
        if let Some(node) = self.nodes.lock().get_mut(&life.node).filter(|_| alive) {
            node.groups.insert(group, Running { raft: raft.clone(), votes_from, contacts, slot });
        }
        Ok(raft)
    }

    /// Watches a group, and restarts it when it dies, as long as its node lives.
    async fn watch(self: Arc<Self>, life: Life, group: GroupId, mut raft: Raft) {
        loop {
            let mut metrics = raft.metrics();
            let reason = loop {
                let fatal = metrics.borrow_watched().running_state.as_ref().err().map(ToString::to_string);
                if let Some(fatal) = fatal {
                    break fatal;
                }
                if metrics.changed().await.is_err() {
                    break "its core is gone".to_owned();
                }
            };
            if self.raft(life, group).is_none() {
                return;
            }
            self.config.observer.died(life, group, &reason);
            raft = loop {
                clock::sleep(REBUILD_AFTER).await;
                if self.raft(life, group).is_none() {
                    return;
                }
                match self.build(life, group).await {
                    Ok(raft) => break raft,
                    Err(reason) => self.config.observer.died(life, group, &reason),
                }
            };
        }
    }
}

/// The nodes of a run, the network between them, and what they run. Clones share it.
#[derive(Clone)]
pub struct World {
    shared: Arc<Shared>,
}

impl World {
    pub fn new(config: WorldConfig, chance: Chance) -> Self {
        let router = Router::new(chance.clone());
        Self { shared: Arc::new(Shared { config, router, chance, nodes: Mutex::default() }) }
    }

    pub fn router(&self) -> &Arc<Router> {
        &self.shared.router
    }

    /// Number of syncs of all logs so far.
    pub fn syncs(&self) -> u64 {
        self.shared.nodes.lock().values().map(|node| node.disk.syncs()).sum()
    }

    /// Sets how long a node's syncs take from now on.
    pub fn set_sync(&self, node: NodeId, latency: Range<Duration>) {
        if let Some(node) = self.shared.nodes.lock().get(&node) {
            node.disk.set_latency(latency);
        }
    }

    /// Starts a node on its disk, with the groups that are there; returns the new life.
    pub async fn start(&self, node: NodeId) -> Life {
        let (life, disk) = {
            let mut nodes = self.shared.nodes.lock();
            let known = nodes.entry(node).or_insert_with(|| Node {
                disk: Disk::new(self.shared.chance.clone(), self.shared.config.sync.clone()),
                starts: 0,
                groups: BTreeMap::new(),
            });
            known.starts += 1;
            (Life { node, start: known.starts }, known.disk.clone())
        };
        disk.begin(life.start);
        self.shared.router.comes_up(life);
        for group in disk.groups() {
            self.open(life, group).await;
        }
        life
    }

    /// Ends a node's life at once.
    pub fn crash(&self, node: NodeId, crash: Crash) {
        self.shared.router.goes_down(node);
        let groups = {
            let mut nodes = self.shared.nodes.lock();
            let Some(node) = nodes.get_mut(&node) else { return };
            node.disk.crash(crash);
            std::mem::take(&mut node.groups)
        };
        for running in groups.into_values() {
            // None of its messages are delivered any more; this only ends its tasks.
            clock::spawn(async move { running.raft.shutdown().await });
        }
    }

    /// Opens a group on a node, unless it is open or the life has ended.
    pub async fn open(&self, life: Life, group: GroupId) {
        if !self.shared.router.lives(life) || self.shared.raft(life, group).is_some() {
            return;
        }
        match self.shared.build(life, group).await {
            Ok(raft) => {
                clock::spawn(self.shared.clone().watch(life, group, raft));
            }
            // If the node has crashed meanwhile, the failure does not matter.
            Err(reason) if self.shared.router.lives(life) => self.shared.config.observer.died(life, group, &reason),
            Err(_) => {}
        }
    }

    /// Stops a group on a node that is no longer a member, and deletes its log and state.
    pub async fn remove(&self, life: Life, group: GroupId) {
        let running = {
            let mut nodes = self.shared.nodes.lock();
            let node = nodes.get_mut(&life.node).filter(|_| self.shared.router.lives(life));
            node.and_then(|node| Some((node.groups.remove(&group)?, node.disk.clone())))
        };
        let Some((running, disk)) = running else { return };
        // A core that died before has nothing to stop.
        let _ = running.raft.shutdown().await;
        // The log first, as in the host. A crash in between leaves a state without a log, which the group's next start
        // takes for a current one.
        if disk.written(life.start, group, Change::Erase).await.is_ok() {
            disk.erase_state(group);
        }
    }

    /// Groups that run on a node.
    pub fn groups(&self, life: Life) -> Vec<GroupId> {
        let nodes = self.shared.nodes.lock();
        nodes.get(&life.node).map(|node| node.groups.keys().copied().collect()).unwrap_or_default()
    }

    /// Handle of a group on a node. It stays valid when the group is restarted, and fails when the node's life ends.
    pub fn group(&self, life: Life, group: GroupId) -> SimulatedGroup {
        SimulatedGroup { shared: self.shared.clone(), life, id: group }
    }
}

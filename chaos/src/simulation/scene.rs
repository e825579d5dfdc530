//! State that the parts of a run share.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::FutureExt;
use model::id::{ChannelId, CustomerId, MessageId, ShardId, Slot};
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::directory::records::ClusterRecord;
use raft::directory::simulated::Replica;
use raft::host::Timing;
use raft::machine::Machine;
use raft::simulation::{Chance, Life, SimulatedGroup, World, WorldConfig, clock};
use shard::machine::ShardMachine;
use uuid::Uuid;

use super::bug::Bug;
use super::checks::Checks;
use super::machines;
use super::messaging::Messaging;
use super::owner::Owner;
use super::plan::Plan;
use super::trace::Trace;

/// The directory's group.
pub const DIRECTORY: u16 = raft::directory::DIRECTORY_GROUP;

/// Wall-clock time at which every run begins, in milliseconds since 1970.
const EPOCH: i64 = 1_790_000_000_000;

type Copies = Arc<Mutex<BTreeMap<Life, Replica>>>;

pub struct Scene {
    pub plan: Plan,
    pub bug: Option<Bug>,
    pub timing: Timing,
    pub world: World,
    pub chance: Chance,
    pub trace: Arc<Trace>,
    pub checks: Checks,
    pub network: Messaging,
    pub customer: CustomerId,
    pub channels: Vec<ChannelId>,
    /// The shard of each slot.
    pub slots: Vec<ShardId>,
    /// Sends that were answered.
    pub answered: Mutex<Vec<(ChannelId, MessageId)>>,
    /// The sends of clients: each with the ids under which it was tried.
    pub tried: Mutex<Vec<(ChannelId, Vec<MessageId>)>>,
    /// The current owners.
    pub owners: Mutex<BTreeMap<(Life, ShardId), Arc<Owner>>>,
    copies: Copies,
    began: clock::Instant,
    numbers: AtomicU64,
    busy: AtomicU64,
    over: AtomicBool,
}

impl Scene {
    pub fn new(plan: Plan, bug: Option<Bug>, traced: bool) -> Arc<Self> {
        let chance = Chance::new(plan.seed);
        let trace = Arc::new(Trace::new(traced));
        let checks = Checks::new(trace.clone());
        let copies: Copies = Arc::default();
        let timing = Timing::LAN;
        let world = World::new(
            WorldConfig {
                timing,
                limits: plan.limits,
                sync: plan.sync.clone(),
                flaw: bug.and_then(Bug::flaw),
                machines: machines(copies.clone(), checks.clone(), bug),
                observer: Arc::new(checks.clone()),
            },
            chance.clone(),
        );
        let channels = (0..plan.channels).map(|_| ChannelId(Uuid::from_u128(chance.id()))).collect();
        Arc::new(Self {
            bug,
            timing,
            world,
            trace,
            network: Messaging::new(checks.clone()),
            checks,
            customer: CustomerId(Uuid::from_u128(chance.id())),
            channels,
            slots: ClusterRecord::even_slots(plan.shards),
            chance,
            answered: Mutex::default(),
            tried: Mutex::default(),
            owners: Mutex::default(),
            copies,
            began: clock::now(),
            numbers: AtomicU64::new(1),
            busy: AtomicU64::new(0),
            over: AtomicBool::new(false),
            plan,
        })
    }

    /// Spawns a part of the run. If it panics, that is a violation.
    pub fn spawn(self: &Arc<Self>, what: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let scene = self.clone();
        clock::spawn(async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                scene.checks.violated(format_args!("{what} panicked"));
            }
        });
    }

    pub fn group(&self, life: Life, group: u16) -> SimulatedGroup {
        self.world.group(life, group)
    }

    pub fn lives(&self, life: Life) -> bool {
        self.world.router().lives(life)
    }

    /// Nodes that are up.
    pub fn up(&self) -> Vec<Life> {
        self.plan.nodes.iter().filter_map(|node| self.world.router().life_of(*node)).collect()
    }

    /// A random node that is up.
    pub fn any(&self) -> Option<Life> {
        self.chance.pick(&self.up()).copied()
    }

    /// A node's copy of the directory.
    pub fn copy(&self, life: Life) -> Replica {
        self.copies.lock().entry(life).or_default().clone()
    }

    pub fn shard_of(&self, channel: ChannelId) -> ShardId {
        self.slots[usize::from(Slot::of_channel(channel).0)]
    }

    pub fn channels_of(&self, shard: ShardId) -> Vec<ChannelId> {
        self.channels.iter().copied().filter(|channel| self.shard_of(*channel) == shard).collect()
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(EPOCH + i64::try_from((clock::now() - self.began).as_millis()).unwrap_or(0))
    }

    /// A number that is unique within the run.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// A new message id, as the node that receives a request mints it.
    pub fn message(&self) -> MessageId {
        let mut random = [0; 18];
        random[..16].copy_from_slice(&self.chance.id().to_be_bytes());
        MessageId::mint(random)
    }

    pub fn uuid(&self) -> Uuid {
        Uuid::from_u128(self.chance.id())
    }

    /// Makes clients stop beginning calls.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The node that leads a group by its own view.
    pub fn leader_of(&self, group: u16) -> Option<Life> {
        self.up().into_iter().find(|life| self.group(*life, group).leadership().ready_epoch.is_some())
    }

    /// Called when a client begins, and when it ends, a call that it must complete.
    pub fn begins(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    pub fn ends(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }
}

fn machines(copies: Copies, checks: Checks, bug: Option<Bug>) -> raft::simulation::world::Machines {
    Box::new(move |life, group| -> Box<dyn Machine> {
        if group == DIRECTORY {
            let machine = copies.lock().entry(life).or_default().machine();
            return Box::new(machines::Directory { machine, bug });
        }
        Box::new(machines::Shard { machine: ShardMachine, life, group, checks: checks.clone(), bug })
    })
}

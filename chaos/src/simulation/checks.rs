//! Checks during a run: the parts of the run report what they observe, and what breaks a rule is a violation.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::id::{ChannelId, Epoch, MessageId, NodeId, ShardId};
use parking_lot::Mutex;
use raft::machine::{GroupId, Position};
use raft::simulation::{Life, Observer};

use super::trace::Trace;

/// The most violations kept: later ones mostly repeat the first.
const KEPT: usize = 20;

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Log entries applied, summed over all replicas.
    pub applied: u64,
    /// Snapshots installed.
    pub installed: u64,
    /// Ownerships begun.
    pub owners: u64,
    /// Commands of earlier owners that the store rejected.
    pub fenced: u64,
    pub sends_answered: u64,
    pub sends_in_doubt: u64,
    pub writes: u64,
    pub reads: u64,
    pub crashes: u64,
    pub faults: u64,
    /// Replicas moved to another node.
    pub moves: u64,
    /// Groups that openraft stopped for good, and that were rebuilt.
    pub deaths: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.applied += other.applied;
        self.installed += other.installed;
        self.owners += other.owners;
        self.fenced += other.fenced;
        self.sends_answered += other.sends_answered;
        self.sends_in_doubt += other.sends_in_doubt;
        self.writes += other.writes;
        self.reads += other.reads;
        self.crashes += other.crashes;
        self.faults += other.faults;
        self.moves += other.moves;
        self.deaths += other.deaths;
    }
}

/// The name of a channel in the directory, used as a register: one client writes rising values, and everybody reads.
#[derive(Default)]
struct Register {
    /// The last value whose write has begun, and the last whose write was answered.
    begun: u64,
    answered: u64,
    /// The highest value that a read has shown.
    seen: u64,
}

#[derive(Default)]
struct Inner {
    violations: Vec<String>,
    counts: Counts,
    /// Term and state hash of each applied entry, with the node that applied it first.
    states: BTreeMap<(GroupId, u64), (u64, u64, NodeId)>,
    /// The node that acted as the owner of a shard in an epoch.
    owners: BTreeMap<(ShardId, Epoch), NodeId>,
    /// The log index at which a send was accepted in its shard.
    accepted: BTreeMap<(ChannelId, MessageId), u64>,
    registers: BTreeMap<ChannelId, Register>,
}

/// The checks of one run. Clones share them.
#[derive(Clone)]
pub struct Checks {
    inner: Arc<Mutex<Inner>>,
    trace: Arc<Trace>,
}

impl Checks {
    pub(super) fn new(trace: Arc<Trace>) -> Self {
        Self { inner: Arc::default(), trace }
    }

    pub fn violated(&self, what: impl std::fmt::Display) {
        self.trace.note(format_args!("VIOLATION {what}"));
        let mut inner = self.inner.lock();
        if inner.violations.len() < KEPT {
            inner.violations.push(what.to_string());
        }
    }

    pub fn violations(&self) -> Vec<String> {
        self.inner.lock().violations.clone()
    }

    pub fn counts(&self) -> Counts {
        self.inner.lock().counts
    }

    pub fn count(&self, with: impl FnOnce(&mut Counts)) {
        with(&mut self.inner.lock().counts);
    }

    /// Checks that replicas that have applied the same entries are equal (I9), and that an index holds one entry.
    fn state(&self, life: Life, group: GroupId, at: Position, hash: u64) {
        let known = *self.inner.lock().states.entry((group, at.index)).or_insert((at.term, hash, life.node));
        let (term, first, by) = known;
        if term != at.term {
            let index = at.index;
            self.violated(format_args!(
                "group {group}: node {} applied term {} at {index}, node {by} had applied term {term}",
                life.node, at.term
            ));
        } else if first != hash {
            let index = at.index;
            self.violated(format_args!("group {group}: nodes {by} and {} differ after {index}", life.node));
        }
    }

    /// Records that an owner begins to act: an epoch has only one (I3).
    pub fn owns(&self, life: Life, shard: ShardId, epoch: Epoch) {
        let other = {
            let mut inner = self.inner.lock();
            inner.counts.owners += 1;
            *inner.owners.entry((shard, epoch)).or_insert(life.node)
        };
        self.trace.note(format_args!("node {} owns shard {shard} in epoch {epoch}", life.node));
        if other != life.node {
            self.violated(format_args!("shard {shard}: nodes {other} and {} own it in epoch {epoch}", life.node));
        }
    }

    /// Records that a replica accepted a send: all replicas accept it at the same index, and only once (I2).
    pub fn accepted(&self, channel: ChannelId, message: &MessageId, index: u64) {
        let known = *self.inner.lock().accepted.entry((channel, message.clone())).or_insert(index);
        if known != index {
            self.violated(format_args!("send {} was taken at {known} and again at {index}", message.as_str()));
        }
    }

    pub fn place_of(&self, channel: ChannelId, message: &MessageId) -> Option<u64> {
        self.inner.lock().accepted.get(&(channel, message.clone())).copied()
    }

    pub fn write_begins(&self, register: ChannelId, value: u64) {
        self.inner.lock().registers.entry(register).or_default().begun = value;
    }

    pub fn write_ends(&self, register: ChannelId, value: u64) {
        let mut inner = self.inner.lock();
        inner.counts.writes += 1;
        inner.registers.entry(register).or_default().answered = value;
    }

    /// The least value that a read that begins now must show.
    pub fn read_begins(&self, register: ChannelId) -> u64 {
        let mut inner = self.inner.lock();
        let register = inner.registers.entry(register).or_default();
        register.answered.max(register.seen)
    }

    /// Checks the value that a read has shown: not older than one answered or shown before the read began, and none
    /// that was never written (I8). As one client writes rising values one at a time, linearizability requires no more.
    pub fn read_ends(&self, node: NodeId, register: ChannelId, at_least: u64, value: u64) {
        let begun = {
            let mut inner = self.inner.lock();
            inner.counts.reads += 1;
            let register = inner.registers.entry(register).or_default();
            register.seen = register.seen.max(value);
            register.begun
        };
        if value < at_least || value > begun {
            self.violated(format_args!(
                "a read at node {node} shows {value}, after {at_least} had been answered and before {begun} was done"
            ));
        }
    }
}

impl Observer for Checks {
    fn applied(&self, life: Life, group: GroupId, at: Position, hash: u64) {
        self.inner.lock().counts.applied += 1;
        self.trace.note(format_args!("node {} applied {group}/{}.{} {hash:016x}", life.node, at.term, at.index));
        self.state(life, group, at, hash);
    }

    fn installed(&self, life: Life, group: GroupId, at: Position, hash: u64) {
        self.inner.lock().counts.installed += 1;
        self.trace.note(format_args!("node {} installed {group}/{}.{} {hash:016x}", life.node, at.term, at.index));
        self.state(life, group, at, hash);
    }

    fn died(&self, life: Life, group: GroupId, reason: &str) {
        self.inner.lock().counts.deaths += 1;
        self.trace.note(format_args!("node {}: group {group} died: {reason}", life.node));
    }
}

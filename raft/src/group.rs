//! One Raft group, as its users see it.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use model::id::NodeId;
use thiserror::Error;
use tokio::sync::watch;

use crate::machine::{GroupId, Pairs, View};

/// Why a command was not, or may not have been, applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProposeError {
    /// This node does not lead the group; the command was not proposed.
    #[error("not the leader (leader: {leader:?})")]
    NotLeader { leader: Option<NodeId> },
    /// The command may have been applied, or may still be: the time passed, or leadership was lost on the way.
    #[error("the outcome is unknown")]
    Unknown,
    /// Too many commands wait; this one was not proposed.
    #[error("too many commands wait")]
    Busy,
    /// The group is stopped, or is being rebuilt; the command was not proposed.
    #[error("the group is stopped")]
    Stopped,
}

/// Why a read could not be made linearizable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    #[error("the group has no reachable leader")]
    NoLeader,
    #[error("timed out")]
    TimedOut,
    #[error("the group is stopped")]
    Stopped,
}

/// Why members could not be changed or leadership not be moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    #[error("not the leader (leader: {leader:?})")]
    NotLeader { leader: Option<NodeId> },
    #[error("timed out")]
    TimedOut,
    #[error("refused: {0}")]
    Refused(String),
    #[error("the group is stopped")]
    Stopped,
}

/// Who leads a group, and whether this node may act as its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    pub term: u64,
    pub leader: Option<NodeId>,
    /// The term, once this node leads and has applied the first entry of that term: all that earlier leaders had
    /// answered is then in the state here.
    pub ready_epoch: Option<u64>,
}

/// Who takes part in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    pub voters: BTreeSet<NodeId>,
    pub learners: BTreeSet<NodeId>,
}

/// A command on its way; awaiting it gives the machine's answer.
pub struct Pending {}

impl Future for Pending {
    type Output = Result<Bytes, ProposeError>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        unimplemented!()
    }
}

/// A handle of one group; it stays valid when the group dies and is rebuilt.
#[derive(Clone)]
pub struct Group {}

impl Group {
    pub fn id(&self) -> GroupId {
        unimplemented!()
    }

    /// Gives a pristine group its first members; a group that has members already is left alone.
    pub async fn initialize(&self, _members: BTreeSet<NodeId>) -> Result<(), ChangeError> {
        unimplemented!()
    }

    /// Whether the group has never had members here: no log, no vote.
    pub async fn is_pristine(&self) -> bool {
        unimplemented!()
    }

    /// Enqueues a command and returns at once. Commands stand in the log in the order of these calls.
    pub fn submit(&self, _command: Bytes) -> Result<Pending, ProposeError> {
        unimplemented!()
    }

    /// Submits a command and waits for its answer.
    pub async fn propose(&self, _command: Bytes, _deadline: Instant) -> Result<Bytes, ProposeError> {
        unimplemented!()
    }

    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        unimplemented!()
    }

    pub fn leader(&self) -> Option<NodeId> {
        unimplemented!()
    }

    /// When this leader last heard from a quorum: the time at which the acknowledged message was sent, so that no
    /// other node can have been elected before that time plus the shortest election time-out.
    pub fn quorum_contact(&self) -> Option<Instant> {
        unimplemented!()
    }

    /// An index such that a state that has applied it shows everything that was answered before this call.
    pub async fn read_index(&self, _deadline: Instant) -> Result<u64, ReadError> {
        unimplemented!()
    }

    pub async fn wait_applied(&self, _index: u64, _deadline: Instant) -> Result<(), ReadError> {
        unimplemented!()
    }

    /// Returns when the local state shows everything that was answered before this call, on any node.
    pub async fn linearizable(&self, _deadline: Instant) -> Result<(), ReadError> {
        unimplemented!()
    }

    /// The index of the last entry whose effects are written here.
    pub fn applied(&self) -> u64 {
        unimplemented!()
    }

    pub fn members(&self) -> Members {
        unimplemented!()
    }

    /// Hands leadership to a voter, and returns when it leads.
    pub async fn transfer_leader(&self, _to: NodeId, _deadline: Instant) -> Result<(), ChangeError> {
        unimplemented!()
    }

    /// Adds a node that replicates and does not vote; returns when the change is committed, not when it caught up.
    pub async fn add_learner(&self, _node: NodeId, _deadline: Instant) -> Result<(), ChangeError> {
        unimplemented!()
    }

    /// Makes these nodes the voters; earlier voters that are not among them leave the group.
    pub async fn change_members(&self, _voters: BTreeSet<NodeId>, _deadline: Instant) -> Result<(), ChangeError> {
        unimplemented!()
    }

    /// Sends a heartbeat now: refreshes the quorum contact without waiting for the next one.
    pub fn trigger_heartbeat(&self) {
        unimplemented!()
    }

    pub fn reader(&self) -> StateReader {
        unimplemented!()
    }

    /// The applied position's index and a hash of all keys and values at that index.
    pub async fn state_hash(&self, _deadline: Instant) -> Result<(u64, u64), ReadError> {
        unimplemented!()
    }
}

/// Reads what is written of a group's state, from any thread.
#[derive(Clone)]
pub struct StateReader {}

impl View for StateReader {
    fn get(&self, _key: &[u8]) -> Option<Vec<u8>> {
        unimplemented!()
    }

    fn scan(&self, _from: &[u8], _to: &[u8], _limit: usize) -> Pairs {
        unimplemented!()
    }

    fn scan_back(&self, _from: &[u8], _to: &[u8], _limit: usize) -> Pairs {
        unimplemented!()
    }
}

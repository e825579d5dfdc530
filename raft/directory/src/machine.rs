//! The directory as a replicated state machine: decodes proposals from the log, drops repeats, and publishes changes.

use std::sync::Arc;

use bytes::Bytes;
use model::format::Foreign;
use model::msgpack;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::command::{Proposal, Rejection, Reply};
use super::keys;
use super::state::{Change, DirectoryState};
use machine::record::{decode, encode};
use machine::{Machine, Position, State, View};

/// How many log positions a proposal's reply is kept for, in case it is proposed again.
const REPEATS_KEPT: u64 = 20_000;

/// Interval, in log positions, at which old replies are cleared.
const CLEAR_EVERY: u64 = 256;

/// A node's copy of the directory in memory.
pub trait Mirror: Send + Sync + 'static {
    fn change<T>(&self, with: impl FnOnce(&mut DirectoryState) -> T) -> T;

    /// Replaces the whole state, and publishes that.
    fn replace(&self, state: DirectoryState);

    /// Publishes a change that the copy shows from now on.
    fn publish(&self, change: Change);
}

/// Reply of the machine. By the log index, the proposer can wait until other nodes have applied the proposal, too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub index: u64,
    pub result: Result<Reply, Rejection>,
}

pub struct DirectoryMachine<M> {
    mirror: Arc<M>,
}

impl<M: Mirror> DirectoryMachine<M> {
    pub fn new(mirror: Arc<M>) -> Self {
        Self { mirror }
    }

    fn run(&mut self, index: u64, command: &[u8], store: &mut dyn State) -> Result<Outcome, Foreign> {
        let proposal = Proposal::read(command)?;
        let id = proposal.id;
        if let Some(earlier) = store.get(&keys::applied(id)) {
            return Ok(decode(&earlier));
        }
        let (result, changes) = self.mirror.change(|state| state.apply(proposal, store));
        changes.into_iter().for_each(|change| self.mirror.publish(change));
        let outcome = Outcome { index, result };
        store.put(&keys::applied(id), &encode(&outcome));
        store.put(&keys::applied_order(index), id.as_bytes());
        Ok(outcome)
    }
}

/// Clears replies of proposals too old to be repeated. Depends on the log index only, so that replicas agree.
fn clear_old_replies(index: u64, store: &mut dyn State) {
    let range = (keys::applied_order(0), keys::applied_order(index.saturating_sub(REPEATS_KEPT)));
    for (key, id) in store.scan_range(range, usize::MAX) {
        if let Ok(id) = Uuid::from_slice(&id) {
            store.delete(&keys::applied(id));
        }
        store.delete(&key);
    }
}

impl<M: Mirror> Machine for DirectoryMachine<M> {
    fn restore(&mut self, view: &dyn View) {
        self.mirror.replace(DirectoryState::load(view));
    }

    fn apply(&mut self, at: Position, command: &[u8], store: &mut dyn State) -> Result<Bytes, Foreign> {
        let outcome = self.run(at.index, command, store)?;
        if at.index.is_multiple_of(CLEAR_EVERY) {
            clear_old_replies(at.index, store);
        }
        Ok(Bytes::from(msgpack::to_vec_named(&outcome).expect("an outcome of plain fields is always written")))
    }
}

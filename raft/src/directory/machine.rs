//! The directory as a replicated machine: reads proposals from the log, drops repeats, and publishes what changed.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use model::format::Foreign;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use uuid::Uuid;

use super::command::{Proposal, Rejection, Reply};
use super::freshness::OwnCopy;
use super::keys;
use super::state::{Change, DirectoryState};
use super::streamed::Heard;
use crate::machine::{Machine, Position, State, View};
use crate::record::{decode, encode};

/// How many log positions a proposal's reply is kept for, in case it is proposed again.
const REPEATS_KEPT: u64 = 20_000;

/// How often old replies are cleared, in log positions.
const CLEAR_EVERY: u64 = 256;

/// How many changes a slow watcher may fall behind before it is told to look at everything.
const CHANGES_KEPT: usize = 4096;

/// The state that the machine writes and every reader on the node shares.
pub(super) struct Shared {
    pub state: RwLock<DirectoryState>,
    pub changes: broadcast::Sender<Change>,
    pub streamed: RwLock<Heard>,
    pub own_copy: OwnCopy,
}

impl Shared {
    pub fn new() -> Arc<Self> {
        let (changes, _) = broadcast::channel(CHANGES_KEPT);
        Arc::new(Self { state: RwLock::default(), changes, streamed: RwLock::default(), own_copy: OwnCopy::default() })
    }
}

/// What the machine answers: the log position lets the proposer wait until other nodes have applied it too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub index: u64,
    pub result: Result<Reply, Rejection>,
}

pub(super) struct DirectoryMachine {
    shared: Arc<Shared>,
}

impl DirectoryMachine {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn run(&mut self, index: u64, command: &[u8], store: &mut dyn State) -> Result<Outcome, Foreign> {
        let proposal = Proposal::read(command)?;
        let id = proposal.id;
        if let Some(earlier) = store.get(&keys::applied(id)) {
            return Ok(decode(&earlier));
        }
        let (result, changes) = self.shared.state.write().apply(proposal, store);
        for change in changes {
            if let Change::Streamed(customer) = change {
                self.shared.streamed.write().note([customer], Instant::now());
            }
            // No watcher is no error.
            let _ = self.shared.changes.send(change);
        }
        let outcome = Outcome { index, result };
        store.put(&keys::applied(id), &encode(&outcome));
        store.put(&keys::applied_order(index), id.as_bytes());
        Ok(outcome)
    }
}

/// Clears the replies of proposals that nobody repeats any more. A function of the position, so that replicas agree.
fn clear_old_replies(index: u64, store: &mut dyn State) {
    let (from, _) = keys::applied_order_range();
    let to = keys::applied_order(index.saturating_sub(REPEATS_KEPT));
    for (key, id) in store.scan(&from, &to, usize::MAX) {
        if let Ok(id) = Uuid::from_slice(&id) {
            store.delete(&keys::applied(id));
        }
        store.delete(&key);
    }
}

impl Machine for DirectoryMachine {
    fn restore(&mut self, view: &dyn View) {
        let state = DirectoryState::load(view);
        self.shared.streamed.write().note(state.streamed_customers(), Instant::now());
        *self.shared.state.write() = state;
        let _ = self.shared.changes.send(Change::Everything);
    }

    fn apply(&mut self, at: Position, command: &[u8], store: &mut dyn State) -> Result<Bytes, Foreign> {
        let outcome = self.run(at.index, command, store)?;
        if at.index.is_multiple_of(CLEAR_EVERY) {
            clear_old_replies(at.index, store);
        }
        Ok(Bytes::from(rmp_serde::to_vec_named(&outcome).expect("an outcome of plain fields is always written")))
    }
}

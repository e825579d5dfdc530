//! The directory without a host, for simulated groups: its machine, its in-memory copy, and the encoding of its log.

use std::sync::Arc;

use bytes::Bytes;
use model::msgpack;

use super::command::{Proposal, Rejection, Reply};
use super::machine::{DirectoryMachine, Outcome};
use super::state::DirectoryState;
use crate::local_copy::Shared;
use crate::machine::Machine;

/// A node's copy of the directory.
#[derive(Clone)]
pub struct Replica {
    shared: Arc<Shared>,
}

impl Default for Replica {
    fn default() -> Self {
        Self { shared: Shared::new() }
    }
}

impl Replica {
    /// The machine that maintains this copy.
    pub fn machine(&self) -> Box<dyn Machine> {
        Box::new(DirectoryMachine::new(self.shared.clone()))
    }

    /// Reads the state that is applied here.
    pub fn read<T>(&self, with: impl FnOnce(&DirectoryState) -> T) -> T {
        with(&self.shared.state.read())
    }
}

/// Encodes a proposal as in the log.
pub fn encode(proposal: &Proposal) -> Bytes {
    Bytes::from(msgpack::to_vec_named(proposal).expect("a proposal of plain fields is always written"))
}

/// Decodes the machine's reply: the proposal's log index, and its outcome.
pub fn answer(bytes: &[u8]) -> Option<(u64, Result<Reply, Rejection>)> {
    let outcome: Outcome = msgpack::from_slice(bytes).ok()?;
    Some((outcome.index, outcome.result))
}

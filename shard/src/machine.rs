//! The shard's state machine as the host runs it: that of crate [`state`], with the faults that a build for tests is told to have.

use bytes::Bytes;
use model::format::Foreign;
use raft::failpoint::{self, Bug};
use raft::machine::{Machine, Pairs, Position, State, View};
pub use state::machine::{OFFLINE_QUEUE, credentials_to_thin};

use crate::command::{Batch, Command};
use crate::history::Direction;
use crate::keys;

/// See [`state::machine::ShardMachine`].
#[derive(Default)]
pub struct ShardMachine;

impl Machine for ShardMachine {
    fn restore(&mut self, _state: &dyn View) {}

    fn apply(&mut self, mut at: Position, command: &[u8], state: &mut dyn State) -> Result<Bytes, Foreign> {
        if failpoint::has(Bug::IgnoreFence) {
            at.term = Batch::read(command)?.epoch;
        }
        if failpoint::has(Bug::TakeRepeatForNew) {
            let hidden = repeatable(&Batch::read(command)?);
            return state::machine::ShardMachine.apply(at, command, &mut Forgetful { state, hidden });
        }
        state::machine::ShardMachine.apply(at, command, state)
    }
}

/// What tells messages that come in from repeats.
fn repeatable(batch: &Batch) -> Vec<Vec<u8>> {
    let received = batch.commands.iter().filter_map(|command| match command {
        Command::Receive { message, event, .. } => Some((message, event)),
        _ => None,
    });
    let keys = received.flat_map(|(message, event)| {
        let id = keys::message_id(message.channel, Direction::Inbound, &message.message_id);
        [id, keys::event(event.id.as_str())]
    });
    keys.collect()
}

/// A state in which some rows are not found.
struct Forgetful<'a> {
    state: &'a mut dyn State,
    hidden: Vec<Vec<u8>>,
}

impl View for Forgetful<'_> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        if self.hidden.iter().any(|hidden| hidden == key) { None } else { self.state.get(key) }
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.state.scan(from, to, limit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.state.scan_back(from, to, limit)
    }
}

impl State for Forgetful<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.state.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.state.delete(key);
    }
}

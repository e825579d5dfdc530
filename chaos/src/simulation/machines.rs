//! The state machines of a run: the real ones, observed, with bugs put back where requested.

use bytes::Bytes;
use model::format::Foreign;
use model::msgpack;
use raft::directory::command::Proposal;
use raft::directory::simulated;
use raft::machine::{GroupId, Machine, Position, State, View};
use raft::simulation::Life;
use shard::command::{Batch, BatchReply, Command, Reply};
use shard::machine::ShardMachine;
use uuid::Uuid;

use super::bug::Bug;
use super::checks::Checks;

/// The directory's state machine, with its bugs.
pub struct Directory {
    pub machine: Box<dyn Machine>,
    pub bug: Option<Bug>,
}

impl Machine for Directory {
    fn restore(&mut self, state: &dyn View) {
        self.machine.restore(state);
    }

    fn apply(&mut self, at: Position, command: &[u8], state: &mut dyn State) -> Result<Bytes, Foreign> {
        if self.bug == Some(Bug::NoRepeatCheck) {
            let proposal = Proposal::read(command)?;
            let unheard_of = Proposal { id: Uuid::from_u128(u128::from(at.index)), ..proposal };
            return self.machine.apply(at, &simulated::encode(&unheard_of), state);
        }
        self.machine.apply(at, command, state)
    }
}

/// A shard's state machine. It reports accepted sends and rejected commands to the checks.
pub struct Shard {
    pub machine: ShardMachine,
    pub life: Life,
    pub group: GroupId,
    pub checks: Checks,
    pub bug: Option<Bug>,
}

impl Machine for Shard {
    fn restore(&mut self, state: &dyn View) {
        self.machine.restore(state);
    }

    fn apply(&mut self, at: Position, command: &[u8], state: &mut dyn State) -> Result<Bytes, Foreign> {
        let mut batch = Batch::read(command)?;
        let epoch = batch.epoch;
        let reply = match self.bug {
            Some(Bug::NoEpochCheck) => {
                batch.epoch = at.term;
                let command = msgpack::to_vec_named(&batch).expect("a batch of plain fields is always written");
                self.machine.apply(at, &command, state)?
            }
            Some(Bug::UnequalReplicas) => {
                if at.index.is_multiple_of(16) {
                    state.put(b"~node", &self.life.node.to_be_bytes());
                }
                self.machine.apply(at, command, state)?
            }
            _ => self.machine.apply(at, command, state)?,
        };
        match msgpack::from_slice(&reply) {
            Ok(BatchReply::Replies(replies, _)) => {
                if epoch != at.term {
                    let group = self.group;
                    self.checks.violated(format_args!(
                        "shard {group}: the store took commands of epoch {epoch} in term {}",
                        at.term
                    ));
                }
                for (command, reply) in batch.commands.iter().zip(replies) {
                    if let (Command::Send { message, .. }, Reply::Done) = (command, reply) {
                        self.checks.accepted(message.channel, &message.message_id, at.index);
                    }
                }
            }
            Ok(BatchReply::Fenced) => self.checks.count(|counts| counts.fenced += 1),
            Err(error) => self.checks.violated(format_args!("group {}: a reply cannot be read: {error}", self.group)),
        }
        Ok(reply)
    }
}

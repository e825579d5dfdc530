//! What the state machine answers.

use model::id::ShardId;
use model::status::Status;
use serde::{Deserialize, Serialize};

use crate::deliveries::Job;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Done; the events that came with it stand.
    Done,
    /// The command had happened before, or there was nothing to do. Its events were not written.
    Unchanged,
    /// More of the command's work is left to do.
    More,
    /// The status does not permit it (any longer).
    Refused(Status),
    /// The offline queue is full.
    QueueFull,
    /// The version was another.
    LostRace,
    /// The channel is deleted.
    #[serde(rename = "Forgotten")]
    ChannelDeleted,
    /// The account's media fills its quota; so many bytes of it are in this shard.
    OverQuota { used: u64 },
    /// No log entry can hold the command: said by the committer, never by the state machine.
    TooLarge,
}

/// What is to be done outside of the state once a batch is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// A delivery came to be.
    Deliver(Job),
    /// A home has an event for streams to fetch.
    Relayed(ShardId),
}

/// The answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchReply {
    /// One a command, and what follows from all of them.
    Replies(Vec<Reply>, Vec<Effect>),
    /// From an owner of the past: nothing was done.
    Fenced,
}

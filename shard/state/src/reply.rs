//! The replies of the state machine.

use model::id::ShardId;
use model::status::Status;
use serde::{Deserialize, Serialize};

use crate::deliveries::Job;

/// The reply to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The command was applied, and its events were written.
    Done,
    /// The command had been applied before, or changes nothing. Its events were not written.
    Unchanged,
    /// A part of the command's work is left.
    More,
    /// The channel's status does not permit the command, or no longer.
    Refused(Status),
    /// The offline queue is full.
    QueueFull,
    /// The version was not the expected one.
    LostRace,
    /// The channel is deleted.
    #[serde(rename = "Forgotten")]
    ChannelDeleted,
    /// The account's media quota is exceeded; `used` bytes of it are in this shard.
    OverQuota { used: u64 },
    /// No log entry can hold the command: returned by the committer, never by the state machine.
    TooLarge,
}

/// An action outside the state, to be taken once a batch is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// A delivery was created.
    Deliver(Job),
    /// Events were added to the relay for the coordinators in this shard.
    Relayed(ShardId),
}

/// The reply to a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchReply {
    /// One reply for each command, and the effects of all.
    Replies(Vec<Reply>, Vec<Effect>),
    /// The batch came from a former owner: nothing was done.
    Fenced,
}

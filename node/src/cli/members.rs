//! Arguments of the commands for join tokens, nodes and the layout.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::{Args, Subcommand};
use model::id::{NodeId, ShardId};

use super::operator::{OperatorArgs, duration};

#[derive(Args, Debug)]
pub struct TokenArgs {
    /// How long the token is valid, as in 10m or 1h; 10s to 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = life)]
    pub expires: Duration,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

/// Allowed lifetime of a join token in seconds, the same as at the operators' port.
const LIFE: RangeInclusive<u64> = 10..=7 * 24 * 3600;

fn life(text: &str) -> Result<Duration, String> {
    let life = duration(text)?;
    if life.subsec_nanos() == 0 && LIFE.contains(&life.as_secs()) {
        Ok(life)
    } else {
        Err("give a time of whole seconds from 10s to 7d".to_owned())
    }
}

/// One node of the cluster.
#[derive(Args, Debug)]
pub struct NodeRef {
    /// The node's number
    pub node: NodeId,
    /// Wait until it is done instead of returning once it has begun; stopping the command then undoes nothing
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

/// For commands that say what they will do, and ask.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ConfirmArgs {
    /// Do it without asking, as in a script
    #[arg(long, short = 'y')]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct RemoveArgs {
    #[command(flatten)]
    pub node: NodeRef,
    /// Remove it even if no node could be lost afterwards
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

#[derive(Args, Debug)]
pub struct DrainArgs {
    #[command(flatten)]
    pub node: NodeRef,
    /// Drain it even if another node does not answer, or is drained
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Remove a node for good, dead or alive; what it holds moves elsewhere first
    #[command(
        after_help = "Refused when a group would be left without a quorum that answers, or would wait for a node \
            that does not; and, without --force, where one node can be lost now and none could then. This cannot be \
            undone: it says what it will do, and asks first.\n\n\
            Examples:\n  \
            gateway node remove 3 --wait        then stop it; its id is not used again\n  \
            gateway node remove 3 --wait --yes  in a script\n  \
            gateway token                       add its successor"
    )]
    Remove(RemoveArgs),
    /// Change a node's share of the shards
    #[command(after_help = "Example:\n  gateway node weigh 2 3 && gateway layout plan")]
    Weigh {
        /// The node's number
        node: NodeId,
        /// Its share, relative to the other nodes: 1 to 1000
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
        weight: u32,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum LayoutCommand {
    /// Show where the shards are, and the last change
    #[command(after_help = "Example:\n  gateway layout show")]
    Show(OperatorArgs),
    /// Show which moves would balance the shards, and what they cost; changes nothing
    #[command(after_help = "Example:\n  gateway layout plan")]
    Plan(OperatorArgs),
    /// Show these moves, ask, start them and show their progress; the cluster goes on if this command is stopped
    #[command(after_help = "Examples:\n  \
            gateway layout apply\n  \
            gateway layout apply --at-once 4 --detach --yes\n  \
            gateway layout apply --number 7    unless another change began since")]
    Apply(ApplyArgs),
    /// Follow the change that is in progress until it is over
    #[command(after_help = "Example:\n  gateway layout apply --detach --yes && gateway layout watch")]
    Watch(OperatorArgs),
    /// Cancel the moves that have not begun
    #[command(after_help = "Example:\n  gateway layout cancel")]
    Cancel(OperatorArgs),
}

#[derive(Args, Debug)]
pub struct ApplyArgs {
    /// How many moves run at once
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub at_once: u16,
    /// Only if no other change of the layout has begun since the plan with this number
    #[arg(long, value_name = "NUMBER")]
    pub number: Option<u64>,
    /// Return once the moves have begun
    #[arg(long)]
    pub detach: bool,
    #[command(flatten)]
    pub confirm: ConfirmArgs,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Debug, Subcommand)]
pub enum ShardCommand {
    /// Move a shard to a node: only its leadership, if the node has a replica already
    #[command(
        after_help = "It stays there until the layout changes: the next gateway layout apply may move it back, which \
            gateway layout plan shows.\n\n\
            Example:\n  gateway shard move 7 --to 2 --wait"
    )]
    Move {
        /// The shard's number, as gateway shards shows it
        shard: ShardId,
        /// The node that is to lead it
        #[arg(long, value_name = "NODE")]
        to: NodeId,
        /// Wait until the node leads it instead of returning once the move has begun; stopping the command then undoes nothing
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

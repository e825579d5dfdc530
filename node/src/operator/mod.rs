//! The commands of an operator: each asks the operator's port of a running cluster, and shows what it says.
//!
//! - [`access`]: where that port is and the token that it wants; [`client`]: asking it.
//! - [`show`]: tables for people, JSON for programs; [`confirm`]: asking before something is done.
//! - The rest: a file for each command, or a few that belong together.

pub mod access;
mod audit;
mod channel;
pub mod client;
mod confirm;
mod customers;
mod format;
mod health;
mod keys;
mod layout;
mod members;
mod message;
mod nodes;
mod secrets;
mod shards;
pub mod show;
mod webhooks;

use crate::cli::operator::{AuditCommand, MessageCommand, OperatorCommand, WebhooksCommand};

/// What a command found; the process ends with its exit code. Errors have codes of their own: 1 for what did not work,
/// and 2 for what was asked for wrongly ([`Refusal`](crate::refusal::Refusal)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Well = 0,
    /// The command did its work, and the cluster is not as it should be.
    Degraded = 1,
}

impl Verdict {
    pub fn of(is_well: bool) -> Self {
        if is_well { Self::Well } else { Self::Degraded }
    }
}

/// Runs a command to its end.
///
/// # Errors
/// A [`Refusal`](crate::refusal::Refusal) for what was asked for wrongly; anything else when the cluster did not answer.
pub async fn run(command: OperatorCommand) -> anyhow::Result<Verdict> {
    match command {
        OperatorCommand::Status(args) => health::status(&args).await,
        OperatorCommand::Check(args) => health::check(&args).await,
        OperatorCommand::Nodes(args) => nodes::run(&args).await,
        OperatorCommand::Format(command) => format::run(command).await,
        OperatorCommand::Shards(args) => shards::run(&args).await,
        OperatorCommand::Token(args) => members::token(&args).await,
        OperatorCommand::Drain(args) => members::drain(&args).await,
        OperatorCommand::Undrain(args) => members::undrain(&args).await,
        OperatorCommand::Node(command) => members::node(command).await,
        OperatorCommand::Layout(command) => layout::run(command).await,
        OperatorCommand::Shard(command) => layout::shard(command).await,
        OperatorCommand::Channel(command) => channel::run(command).await,
        OperatorCommand::Message(MessageCommand::Trace(args)) => message::trace(&args).await,
        OperatorCommand::Webhooks(WebhooksCommand::Stuck(args)) => webhooks::stuck(&args).await,
        OperatorCommand::Customer(command) => customers::customer(command).await,
        OperatorCommand::User(command) => customers::user(command).await,
        OperatorCommand::Key(command) => customers::key(command).await,
        OperatorCommand::Keys(args) => keys::run(&args).await,
        OperatorCommand::Secrets(command) => secrets::run(command).await,
        OperatorCommand::Audit(AuditCommand::Tail(args)) => audit::tail(&args).await,
    }
}

//! The commands of an operator: each calls the operators' port of a running cluster, and prints the response.
//!
//! - [`access`]: address and token of that port; [`client`]: calls to it.
//! - [`show`]: tables for people, JSON for programs; [`confirm`]: confirmation before a change.
//! - The other modules: one per command, or per group of related commands.

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

/// What a command found; its value is the exit code. Errors have their own exit codes: 1 when something failed, 2 when
/// the request was wrong ([`Refusal`](crate::refusal::Refusal)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is as it should be.
    Well = 0,
    /// The command succeeded, but the cluster is not as it should be.
    Degraded = 1,
}

impl Verdict {
    pub fn of(is_well: bool) -> Self {
        if is_well { Self::Well } else { Self::Degraded }
    }
}

/// Runs a command.
///
/// # Errors
/// A [`Refusal`](crate::refusal::Refusal) when the request was wrong; any other error when the cluster did not answer.
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

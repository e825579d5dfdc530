//! The directory's state machine, which every node replicates completely (docs/design/directory.md). No disk, runtime,
//! network or clock.
//!
//! - [`records`]: its records. [`users`]: members and their sessions. [`command`]: commands and replies.
//! - [`health`]: health of endpoints. [`support`]: support tickets.
//! - [`secrets`]: replacing the master key, rotating data keys and the key of session tokens. [`authority`]: rotating
//!   the cluster's authority. [`deletions`]: what ends with a channel or a customer.
//! - [`members`]: the life cycle of nodes. [`layout`]: changes of the placement.
//! - [`audit`]: reading the audit log. [`observed`]: what the cluster itself records there.
//! - [`state`]: the pure function from state and command to reply; [`machine`] drops repeats and keeps a node's copy.
//! - [`keys`]: keys of the records in the store.

pub mod audit;
pub mod authority;
pub mod command;
pub mod deletions;
pub mod health;
pub mod keys;
pub mod layout;
pub mod machine;
pub mod members;
pub mod observed;
pub mod records;
pub mod secrets;
pub mod state;
pub mod support;
#[cfg(test)]
mod tests;
pub mod users;

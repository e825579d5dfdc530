//! The directory's state machine: the one that every node replicates whole (docs/design/directory.md). No disk, runtime,
//! network or clock.
//!
//! - [`records`]: what it holds. [`users`]: of it, members and their sessions. [`command`]: what can be asked of it.
//! - [`health`]: of it, how endpoints answer. [`support`]: of it, support tickets.
//! - [`secrets`]: of it, the exchange of the master key and of the key of session tokens. [`authority`]: of it, the rotation
//!   of the cluster's authority. [`deletions`]: what ends with a channel or a customer.
//! - [`members`]: of it, the lives of nodes. [`layout`]: of it, changes of the placement.
//! - [`audit`]: reading the audit log. [`observed`]: what the cluster itself notes there.
//! - [`state`]: the pure function from state and command to reply; [`machine`] drops repeats, and keeps a node's copy.
//! - [`keys`]: where it stands.

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

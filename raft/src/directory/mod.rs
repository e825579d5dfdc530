//! The directory: the one state machine that every node replicates whole (design section 6).
//!
//! - [`records`]: what it holds. [`users`]: of it, members and their sessions. [`command`]: what can be asked of it.
//! - [`health`]: of it, how endpoints answer. [`support`]: of it, support tickets.
//! - [`secrets`]: of it, the exchange of the master key.
//! - [`members`]: of it, the lives of nodes. [`layout`]: of it, changes of the placement.
//! - [`state`]: the pure function from state and command to reply; `machine` puts it behind Raft.
//! - [`Directory`]: the handle that the rest of the node uses: reads from memory, updates through the leader, and
//!   knows how old its copy may be.

pub mod command;
pub mod freshness;
mod handle;
pub mod health;
mod keys;
pub mod layout;
mod local_copy;
mod machine;
pub mod members;
pub mod records;
pub mod restore;
mod retention;
mod revocations;
pub mod secrets;
#[cfg(feature = "simulation")]
pub mod simulated;
pub mod state;
mod streamed;
pub mod support;
#[cfg(test)]
mod tests;
pub mod users;
mod voters;

pub use crate::machine::DIRECTORY_GROUP;
pub use handle::{AuditQuery, Directory, UpdateError};
pub use local_copy::LocalCopy;
pub use revocations::{Ended, PORTION};
pub use state::Change;
pub use streamed::STREAMED_FOR;

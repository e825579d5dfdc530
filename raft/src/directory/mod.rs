//! The directory on a node: its state machine, crate [`::directory`], behind Raft.
//!
//! - [`Directory`]: the handle that the rest of the node uses: reads from memory, updates through the leader, and the
//!   age of its copy.

mod deletions;
mod handle;
pub mod restore;
mod retention;
#[cfg(feature = "simulation")]
pub mod simulated;
mod tickets;
mod voters;

pub use crate::machine::DIRECTORY_GROUP;
pub use ::directory::{authority, command, health, layout, members, observed, records, secrets, state, support, users};
use ::directory::{keys, machine};

pub use crate::local_copy::{LocalCopy, STREAMED_FOR};
pub use ::directory::audit::{AuditPage, AuditPlace, AuditQuery};
pub use handle::{Directory, UpdateError};
pub use records::{Ended, PORTION};
pub use state::Change;

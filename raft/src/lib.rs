//! Raft for the gateway: many groups in one process, with one log and one transport.
//!
//! - [`machine`]: the interface of replicated state machines. [`record`]: encoding of their records.
//! - [`directory`]: the state machine that the whole cluster shares.
//! - [`host`]: owns the groups, their log and state on disk, and the threads that serve them.
//! - [`group`]: handle of one Raft group: propose, read, watch its leadership.
//! - [`backup`]: a group's state outside of a cluster.
//! - [`failpoint`]: steps at which a test build can be told to fail.
//! - [`fuzz`]: entry points for fuzzing the decoders.
//! - [`room`]: free space on the disks.
//! - [`rt`]: time and tasks, real or simulated.
//! - [`supervise`]: handling of tasks that panic.
//! - [`transport`]: mutual TLS between the nodes; also carries the calls of higher layers.
//!
//! An async function is compiled in each crate that awaits it, with everything it awaits. Rarely called functions
//! return a boxed future, which is compiled here: otherwise a quarter of the crate `shard` would be openraft.

pub mod backup;
pub mod directory;
pub mod failpoint;
pub mod fuzz;
pub mod group;
pub mod host;
pub mod room;
pub mod rt;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod supervise;
pub mod transport;

mod codec;
mod contacts;
mod copies;
mod core_runtime;
mod database;
mod fatal;
mod folder;
mod freshness;
mod local_copy;
mod log;
mod network;
mod rate_limiter;
mod replication;
mod state;
#[cfg(test)]
mod suite;
mod telemetry;
#[cfg(test)]
mod testing;
mod timing;
mod types;

pub use machine::{self, record};

//! Raft for the gateway: many groups in one process, one log, one transport.
//!
//! - [`machine`]: what a replicated state machine is. [`record`]: how machines store their records.
//! - [`directory`]: the state machine that the whole cluster shares.
//! - [`host`]: owns the groups, their log and their state on disk, and the threads that serve them.
//! - [`group`]: one Raft group as its users see it: propose, read, watch its leadership.
//! - [`backup`]: a group's state outside of a cluster.
//! - [`failpoint`]: where a build for tests can be told to fail.
//! - [`fuzz`]: what reads foreign bytes, for fuzzing.
//! - [`room`]: how much the disks can still take.
//! - [`rt`]: time and tasks of what runs in life and in simulation.
//! - [`supervise`]: what becomes of a task that panics.
//! - [`transport`]: mutual TLS between the nodes; also carries the calls of the floors above.
//!
//! An async function is compiled in each crate that awaits it, with all that it awaits. What is called seldom returns a boxed
//! future instead, and is compiled here: otherwise openraft would be a quarter of the crate `shard`.

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

//! Measurements and faults on real clusters, with the harness of the crate `tests` beneath.
//!
//! - [`bench`]: what the cluster can do, in figures.
//! - [`commands`]: programs of the system that are run to their end.
//! - [`connection`]: one kept HTTP connection with as little work per request as can be.
//! - [`simulation`]: the core of a cluster on simulated time.
//! - [`world`]: a cluster that is made to be broken. [`schedule`]: with which faults, and when. [`setup`]: what a run is made
//!   from. [`run`]: doing it.
//! - [`workload`]: what goes on in it meanwhile. [`history`]: what was seen of a run. [`check`]: judges of it, one for each
//!   invariant.
//! - [`report`]: what a run leaves to be read.
//! - [`disk`]: a disk that fails when it is told to.
//! - [`fuzz`]: what reads bytes that come from elsewhere.
//! - [`mutation`]: faults of the product put back on purpose. [`prove`]: each is found.

#![allow(clippy::disallowed_methods, reason = "it stands outside of the product, and looks at real clocks")]

pub mod bench;
pub mod check;
pub mod commands;
pub mod connection;
pub mod disk;
pub mod fuzz;
pub mod history;
pub mod mutation;
pub mod prove;
pub mod report;
pub mod run;
pub mod schedule;
pub mod setup;
pub mod simulation;
pub mod workload;
pub mod world;

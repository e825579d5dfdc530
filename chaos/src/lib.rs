//! Benchmarks and fault injection on real clusters, built on the harness of the crate `tests`.
//!
//! - [`mod@bench`]: measures what a cluster can do.
//! - [`commands`]: runs programs of the system to completion.
//! - [`connection`]: one persistent HTTP connection with as little work per request as possible.
//! - [`simulation`]: the core of a cluster on simulated time.
//! - [`world`]: a cluster that faults can be injected into. [`schedule`]: which faults a run injects, and when.
//!   [`setup`]: what a run is made from. [`run`]: executes a run.
//! - [`workload`]: the load during a run. [`history`]: the record of what a run observed. [`check`]: checkers of that
//!   record, one for each invariant.
//! - [`report`]: the reports that a run leaves behind.
//! - [`disk`]: a disk that fails on command.
//! - [`fuzz`]: fuzz targets for code that parses bytes from outside.
//! - [`mutation`]: bugs of the product put back on purpose. [`prove`]: proves that each is found.

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

//! Benchmarks of a real cluster on this machine, beside etcd on the same machine.
//!
//! Benchmarks, by the numbers of the targets:
//!
//! - B1 [`throughput`], B2 [`accepting`], B3 [`forwarding`], B4 [`hearing`], B5 [`failover`], [`returning`] and
//!   [`moving`], B6 [`restarting`], B7 and B8 [`idle`], B9 [`joining`], B10 [`limiting`], B11 [`growing`]; [`suite`]
//!   runs them.
//! - [`sends`] and [`waiting`] have no targets: the cost of sends, and what pending deliveries add to it.
//! - [`day`]: whether disk use stays bounded. [`directory`]: memory of channels and keys in every node.
//!
//! Their parts:
//!
//! - [`plan`]: how much is measured, and the two sides that are compared.
//! - [`target`]: the measured cluster, a new or a running one, and its connected channels.
//! - [`etcd`]: the system for comparison.
//! - [`caller`]: makes writes; [`closed`] and [`open`]: the two kinds of loops; [`tally`]: counts outcomes.
//! - [`usage`]: processor time, fsyncs and log bytes of the processes under load.
//! - [`healthy`]: how soon a healthy endpoint receives events meanwhile.
//! - [`machine`]: the machine that all of it ran on.
//! - [`results`]: rows against targets; [`report`]: lines for people during a run.

pub mod accepting;
pub mod caller;
pub mod closed;
pub mod day;
pub mod directory;
pub mod etcd;
pub mod failover;
pub mod forwarding;
pub mod growing;
pub mod healthy;
pub mod hearing;
pub mod idle;
pub mod joining;
pub mod limiting;
pub mod machine;
pub mod moving;
pub mod open;
pub mod plan;
pub mod report;
pub mod restarting;
pub mod results;
pub mod returning;
pub mod sends;
pub mod suite;
pub mod tally;
pub mod target;
pub mod throughput;
pub mod usage;
pub mod waiting;

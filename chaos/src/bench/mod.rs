//! Measurements of a real cluster on this machine, beside etcd on the same machine.
//!
//! What is measured, by the numbers of the targets:
//!
//! - B1 [`throughput`], B2 [`accepting`], B3 [`forwarding`], B4 [`hearing`], B5 [`failover`], [`returning`] and [`moving`],
//!   B6 [`restarting`], B7 and B8 [`idle`], B9 [`joining`], B10 [`limiting`], B11 [`growing`]; [`suite`] runs them.
//! - [`sends`] and [`waiting`] have no targets: what sends cost, and what deliveries that wait cost them.
//! - [`day`]: whether disk use stays bounded. [`directory`]: what channels and keys take of every node's memory.
//!
//! With what:
//!
//! - [`plan`]: how much is measured, and the two sides that are compared.
//! - [`target`]: the cluster that is measured, its own or one that runs already, and its connected channels.
//! - [`etcd`]: the peer.
//! - [`caller`]: who makes writes; [`closed`] and [`open`]: when; [`tally`]: what became of them.
//! - [`usage`]: processor time, fsyncs and log bytes of the processes under load.
//! - [`healthy`]: how soon an endpoint that is well hears of an event meanwhile.
//! - [`machine`]: what all of it ran on.
//! - [`results`]: rows against targets; [`report`]: lines for people while it runs.

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

//! Measurements of a real cluster on this machine.
//!
//! - [`target`]: the cluster that is measured, its own or one that runs already, and its connected channels.
//! - [`usage`]: processor time and fsyncs of the processes under load.
//! - [`sends`]: durable sends a second, closed loop.
//! - [`failover`]: from the kill of an owner to the first accepted send of each of its channels.
//! - [`waiting`]: what deliveries that wait cost the sends beside them.
//! - [`healthy`]: how soon an endpoint that is well hears of an event meanwhile.
//! - [`report`]: tables for people, JSON for programs.

pub mod failover;
pub mod healthy;
pub mod report;
pub mod sends;
pub mod target;
pub mod usage;
pub mod waiting;

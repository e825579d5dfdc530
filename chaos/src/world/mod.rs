//! A cluster of real processes that is made to be broken.
//!
//! - [`map`]: where its nodes, the simulator and the receivers are; all that a workload knows of it.

pub mod map;

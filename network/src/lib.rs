//! The messaging network: the traits behind which every driver stands, the `simulated` driver, and the simulator.
//!
//! - [`driver`]: [`driver::Network`] and [`driver::Session`], what a driver is given and what it reports.
//! - [`operation`]: what a channel asks beside sending; [`notice`]: what it is told beside messages.
//! - [`bounds`]: how much of it is taken in, at most.
//! - [`fence`]: the token and deadline that stop an owner's bytes before another owner can exist.
//! - [`fuzz`]: what reads foreign bytes, for fuzzing.
//! - [`simulated`]: the driver that reaches the simulator over TCP.
//! - [`simulator`]: the network simulator: its engine, its server for nodes, and what its control API calls.

pub mod bounds;
pub mod driver;
pub mod fence;
pub mod fuzz;
pub mod notice;
pub mod operation;
pub mod simulated;
pub mod simulator;
mod wire;

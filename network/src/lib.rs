//! The messaging network: the traits behind which every driver stands, the `simulated` driver, and the simulator.
//!
//! - [`driver`]: [`driver::Network`] and [`driver::Session`], what a driver is given and what it reports.
//! - Crate [`traffic`]: what goes through a driver, as plain values.
//! - [`fence`]: the token and deadline that stop an owner's bytes before another owner can exist.
//! - [`fuzz`]: what reads foreign bytes, for fuzzing.
//! - [`simulated`]: the driver that reaches the simulator over TCP.
//! - [`simulator`]: the network simulator: its engine, its server for nodes, and what its control API calls.

pub mod driver;
pub mod fence;
pub mod fuzz;
pub mod simulated;
pub mod simulator;
mod wire;

pub use traffic::{bounds, notice, operation};

//! The messaging network: the traits that every driver implements, the `simulated` driver, and the network simulator.
//!
//! - [`driver`]: [`driver::Network`] and [`driver::Session`], what a driver receives and what it reports.
//! - Crate [`traffic`]: what passes through a driver, as plain values.
//! - [`fence`]: the epoch and deadline that stop an owner's bytes before another owner can exist.
//! - [`fuzz`]: entry points for fuzzing the code that parses foreign bytes.
//! - [`simulated`]: the driver that connects to the simulator over TCP.
//! - [`simulator`]: the network simulator: its engine, its server for nodes, and the methods behind its control API.

pub mod driver;
pub mod fence;
pub mod fuzz;
pub mod simulated;
pub mod simulator;
mod wire;

pub use traffic::{bounds, notice, operation};

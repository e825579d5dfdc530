//! The messaging network: the traits behind which every driver stands, the `simulated` driver, and the simulator.
//!
//! - [`driver`]: [`driver::Network`] and [`driver::Session`], what a driver is given and what it reports.
//! - [`fence`]: the token and deadline that stop an owner's bytes before another owner can exist.

pub mod driver;
pub mod fence;

//! Calls to webhook receivers: one HTTP attempt to a checked address, bounded in time and size.
//!
//! Which attempts are made, and when, is decided in [`crate::deliveries`].

pub mod attempt;
pub(crate) mod connection;
pub mod material;
pub mod resolver;

#[cfg(test)]
mod tests;

//! Calling webhook receivers: one HTTP attempt to a checked address, bounded in time and size.
//!
//! When and what to attempt is not decided here.

pub mod attempt;
pub(crate) mod connection;
pub mod material;
pub mod resolver;

#[cfg(test)]
mod tests;

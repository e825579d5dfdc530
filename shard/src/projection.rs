//! The projection of crate [`state`], and its rows as an owner reads them.

pub mod read;

pub use state::projection::*;

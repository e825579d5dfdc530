//! What goes between a channel and its network, as plain values: no connection, no runtime, no clock.
//!
//! - [`item`]: messages, receipts and what else is taken in and acknowledged.
//! - [`operation`]: what a channel asks beside sending; [`notice`]: what it is told beside messages.
//! - [`bounds`]: how much of it is taken in, at most.

pub mod bounds;
pub mod item;
pub mod notice;
pub mod operation;

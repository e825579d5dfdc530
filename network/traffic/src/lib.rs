//! The values that a channel and its network exchange, without connection, runtime or clock.
//!
//! - [`item`]: messages, receipts and other items that are received and acknowledged.
//! - [`operation`]: requests of a channel other than sends; [`notice`]: news for a channel other than messages.
//! - [`bounds`]: the size limits of what is accepted.

pub mod bounds;
pub mod item;
pub mod notice;
pub mod operation;

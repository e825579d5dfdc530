//! A session's state, between the client library and the replicated store.
//!
//! - [`log`]: writes of the library, in order, on their way to a quorum, and the barrier that the wire waits for.
//!   [`steps`]: which step of the protocol a batch is, for tests.
//! - [`keys`]: names of rows. [`rows`]: encoding of values.
//! - [`backend`]: the five store traits of the library, on top of the log.

pub mod backend;
pub mod keys;
pub mod log;
pub mod rows;
mod steps;

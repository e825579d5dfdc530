//! A session's state between the client library and the replicated store.
//!
//! - [`log`]: what the library stores, in its order, on its way to a quorum; and what the wire waits for. [`steps`]: what tests know a batch by.
//! - [`keys`]: the names under which it stands. [`rows`]: how values are written.
//! - [`backend`]: the library's five store traits over it.

pub mod backend;
pub mod keys;
pub mod log;
pub mod rows;
mod steps;

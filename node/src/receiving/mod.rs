//! `gateway listen` and `gateway trigger`, for developers of webhook receivers: they run on any machine, with an API
//! key.
//!
//! [`access`]: address and key of the API. [`frames`]: parser of the event stream. [`forward`]: sends an event to a
//! receiver.

mod access;
mod forward;
mod frames;
pub mod listen;
pub mod trigger;

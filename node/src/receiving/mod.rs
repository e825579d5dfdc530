//! For whoever writes a receiver of webhooks, on any machine, with an API key: `gateway listen` and `gateway trigger`.
//!
//! [`access`]: where the API is. [`frames`]: the event stream as it is read. [`forward`]: an event on its way to a receiver.

mod access;
mod forward;
mod frames;
pub mod listen;
pub mod trigger;

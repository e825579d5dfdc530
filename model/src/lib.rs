//! The words of the gateway: identifiers, addresses, the channel's status machine, messages, events and error codes.
//!
//! Pure types and functions; no I/O, no clock of its own, no knowledge of Raft, storage or HTTP.

pub mod address;
pub mod id;
pub mod message;
pub mod status;
pub mod time;

//! A shard's state machine: what it is told, what it keeps and how that is read. No disk, runtime, network or clock.
//!
//! - [`machine`]: applies a [`command`] and gives a [`reply`].
//! - [`keys`], [`records`]: what it stores. [`retention`]: how long it is kept.
//! - [`sameness`]: when a message that comes in is a repeat.
//! - [`projection`]: what the network has told of groups, chats and the like. [`settings`]: a channel's.
//! - [`history`]: pages of stored messages. [`deliveries`]: of webhooks. [`media`]: rows and references to bytes.
//! - [`stream`]: relays and rings. [`usage`]: what is counted.

pub mod command;
pub mod deliveries;
pub mod history;
pub mod keys;
pub mod machine;
pub mod media;
pub mod projection;
pub mod records;
pub mod reply;
pub mod retention;
pub mod sameness;
pub mod settings;
pub mod stream;
pub mod usage;

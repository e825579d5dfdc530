//! The state machine of a shard: its commands, its rows, and how they are read. No disk, runtime, network or clock.
//!
//! - [`machine`]: applies a [`command`] and returns a [`reply`].
//! - [`keys`], [`records`]: the stored rows. [`retention`]: how long they are kept.
//! - [`sameness`]: detects inbound messages that are repeats.
//! - [`projection`]: what the network has reported of groups, chats and the like. [`settings`]: a channel's settings.
//! - [`history`]: pages of stored messages. [`deliveries`]: webhook deliveries. [`media`]: rows and references to
//!   bytes.
//! - [`stream`]: relays and rings. [`usage`]: usage counters.

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

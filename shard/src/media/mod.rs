//! Media: the bytes that come with messages, and those that are uploaded to be sent.
//!
//! ```text
//! bytes ──► Spool (temporary file, hashed) ──► Blobs::keep: a quorum of the shard's replicas, or the bucket
//!                                                  └─► then MediaCommand: the row that refers to them, in the log
//! ```
//!
//! - [`record`], [`command`], [`apply`]: the rows, in the shard's state machine.
//!   What is asked of them: [`crate::call::media`]; what their owner does with that, and their end: [`crate::owner`].
//! - [`blobs`]: the bytes. [`spool`], [`sniff`]: on their way in. [`fetch`]: from a URL,
//!   `voice`: made a voice note for a send, or measured; [`picture`]: made fit for a profile or a group.
//!   `workshop`: the threads on which the last two are done.
//! - [`token`]: links. [`store`]: all of it for the floors above; [`crate::cluster`] has what crosses nodes.

pub mod blobs;
pub mod fetch;
pub mod picture;
pub mod sniff;
pub mod spool;
pub mod store;
pub mod token;
pub(crate) mod voice;
mod workshop;

pub(crate) use state::media::apply;
pub use state::media::{command, record};
pub use workshop::give_way;

//! Media: the bytes that come with messages, and those that are uploaded to be sent.
//!
//! ```text
//! bytes ──► Spool (temporary file, hashed) ──► Blobs::keep: a quorum of the shard's replicas, or the bucket
//!                                                  └─► then MediaCommand: the row that refers to them, in the log
//! ```
//!
//! - [`record`], [`command`], [`apply`]: the rows, in the shard's state machine. [`crate::call::media`]: requests about
//!   them. [`crate::owner`]: how their owner answers these, and their expiry.
//! - [`blobs`]: the bytes. [`spool`], [`sniff`]: bytes that come in. [`fetch`]: bytes from a URL. `voice`: sound that
//!   is converted to a voice note, or measured. [`picture`]: pictures for profiles and groups. `workshop`: the threads
//!   of the last two.
//! - [`token`]: links. [`store`]: all of it for the layers above; [`crate::cluster`] has what crosses nodes.

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

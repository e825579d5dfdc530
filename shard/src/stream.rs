//! The event stream of a customer, without its HTTP side.
//!
//! ```text
//!  shard of a channel            home: the shard of the customer's slot            any node
//!  event ──► relay row ──pull──► ring: one order for all events of the account ──pull──► stream
//! ```
//!
//! Events originate in the shards of their channels. While a customer is *streamed* (a flag in the directory, see
//! [`crate::cluster::Cluster::announce_stream`]), each event is also written into the shard's relay, in the same log
//! entry. The customer's coordinator (its *home*) pulls the relays of all shards and commits the events into the
//! customer's ring. So the account's events have one replicated order, and a stream that ended on any node can continue
//! on any other one after the id of the last event that it delivered. A customer without open streams costs nothing.
//!
//! - [`ring`]: the rows that the state machine writes, and how they are read. [`places`]: counts the open streams of an
//!   account.
//! - `owner::streams`: both sides of a pull, and the coordinator's responses to streams.

pub mod notifier;
pub mod places;

use std::time::Duration;

use model::event::EventId;
use model::id::{CustomerId, ShardId};
use model::time::Timestamp;
pub use state::stream::*;

use self::notifier::Notifier;
use self::places::Places;

/// How long a ticket can be used.
pub const TICKET_LIFE: Duration = Duration::from_secs(60);

/// A new id for a stream that is about to open.
pub fn mint_stream() -> StreamId {
    let id = EventId::mint(Timestamp::now(), rand::random());
    StreamId(id.as_str().trim_start_matches("evt_").to_owned())
}

/// An owner's in-memory state of streams.
#[derive(Default)]
pub struct Streams {
    /// Open streams of the customers whose coordinator is here.
    pub places: Places,
    /// Notifies when a customer's ring has grown.
    pub grown: Notifier<CustomerId>,
    /// Notifies when this shard has events for a coordinator's shard.
    pub relayed: Notifier<ShardId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_named_by_a_ulid() {
        let id = mint_stream();
        assert_eq!(id.0.len(), 26);
        assert!(id.0.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()));
    }
}

//! The event stream of a customer, as far as it is no HTTP.
//!
//! ```text
//!  shard of a channel            home: the shard of the customer's slot            any node
//!  event ──► relay row ──pull──► ring: one order for all events of the account ──pull──► stream
//! ```
//!
//! Events are born in the shards of their channels. While a customer is *streamed* (the directory says so, see
//! [`crate::cluster::Cluster::announce_stream`]), each event is also written into the shard's relay, in the same log
//! entry. The customer's home pulls the relays of all shards and commits what it gets into the customer's ring. So the
//! account's events have one order that is replicated, and a stream that ended on any node goes on at any other one
//! from the id of the last event that it showed. A customer that nobody watches costs nothing.
//!
//! - [`ring`]: what the state machine writes, and how it is read. [`places`]: how many streams an account has open.
//! - `owner::streams`: both sides of a pull, and what the home answers to streams.

pub mod notifier;
pub mod places;

use std::time::Duration;

use model::event::EventId;
use model::id::{CustomerId, ShardId};
use model::time::Timestamp;
pub use state::stream::*;

use self::notifier::Notifier;
use self::places::Places;

/// How long a ticket waits to be used.
pub const TICKET_LIFE: Duration = Duration::from_secs(60);

/// Names a stream that is about to open.
pub fn mint_stream() -> StreamId {
    let id = EventId::mint(Timestamp::now(), rand::random());
    StreamId(id.as_str().trim_start_matches("evt_").to_owned())
}

/// What an owner holds in memory for streams.
#[derive(Default)]
pub struct Streams {
    /// Open streams of the customers at home here.
    pub places: Places,
    /// Rings when a customer's ring has grown.
    pub grown: Notifier<CustomerId>,
    /// Rings when this shard has events for a home.
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

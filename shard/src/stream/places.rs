//! Counts the open streams of an account over the whole cluster, at the customer's coordinator, with leases.
//!
//! Leases are in memory. A stream renews its lease with each pull, and pulls again at once when its coordinator moves;
//! so a new coordinator knows all streams after a moment, and refuses none before it has waited for that long.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::id::CustomerId;
use parking_lot::Mutex;

use super::StreamId;

/// The most open streams of one account.
pub const MOST_STREAMS: usize = 10;

/// A stream whose node has not renewed it for this long is no longer counted.
///
/// This frees the permit within 30 s of the node's death: a busy node renews up to the moment of its death, and a new
/// stream may have to find a new coordinator first. An idle stream renews every 13 s at the latest.
pub const LEASE: Duration = Duration::from_secs(25);

/// How long a new coordinator waits for the renewals of open streams.
pub const ROLL_CALL: Duration = Duration::from_secs(2);

/// The open streams that a coordinator counts.
pub struct Places {
    began: Instant,
    taken: Mutex<HashMap<CustomerId, HashMap<StreamId, Instant>>>,
}

impl Default for Places {
    fn default() -> Self {
        Self { began: Instant::now(), taken: Mutex::default() }
    }
}

impl Places {
    /// When this coordinator knows all open streams.
    pub fn counted_from(&self) -> Instant {
        self.began + ROLL_CALL
    }

    /// Takes a permit for a stream; idempotent for the same stream.
    ///
    /// # Errors
    /// The number of open streams, if all permits are taken.
    pub fn take(&self, customer: CustomerId, stream: StreamId, now: Instant) -> Result<(), usize> {
        let mut taken = self.taken.lock();
        let streams = taken.entry(customer).or_default();
        streams.retain(|_, until| *until > now);
        if streams.len() >= MOST_STREAMS && !streams.contains_key(&stream) {
            return Err(streams.len());
        }
        streams.insert(stream, now + LEASE);
        Ok(())
    }

    /// Renews the permit of a stream that this or an earlier coordinator admitted.
    pub fn renew(&self, customer: CustomerId, stream: StreamId, now: Instant) {
        self.taken.lock().entry(customer).or_default().insert(stream, now + LEASE);
    }

    /// Removes expired streams, and accounts without any.
    pub fn expire(&self, now: Instant) {
        self.taken.lock().retain(|_, streams| {
            streams.retain(|_, until| *until > now);
            !streams.is_empty()
        });
    }

    pub fn free(&self, customer: CustomerId, stream: &StreamId) {
        let mut taken = self.taken.lock();
        if let Some(streams) = taken.get_mut(&customer) {
            streams.remove(stream);
            if streams.is_empty() {
                taken.remove(&customer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(number: usize) -> StreamId {
        StreamId(number.to_string())
    }

    #[test]
    fn an_account_has_ten_places_and_gets_one_back_when_a_stream_ends_or_falls_silent() {
        let (places, customer, now) = (Places::default(), CustomerId::random(), Instant::now());
        for number in 0..MOST_STREAMS {
            assert_eq!(places.take(customer, stream(number), now), Ok(()));
        }
        assert_eq!(places.take(customer, stream(10), now), Err(10));
        assert_eq!(places.take(customer, stream(3), now), Ok(()), "the same stream asks again");
        assert_eq!(places.take(CustomerId::random(), stream(10), now), Ok(()), "another account");
        places.free(customer, &stream(3));
        assert_eq!(places.take(customer, stream(10), now), Ok(()));
        let later = now + LEASE / 2;
        places.renew(customer, stream(0), later);
        let silent = now + LEASE;
        for number in 11..20 {
            assert_eq!(places.take(customer, stream(number), silent), Ok(()));
        }
        assert_eq!(places.take(customer, stream(20), silent), Err(10), "the renewed one counts");
        places.expire(silent + LEASE);
        assert!(places.taken.lock().is_empty());
    }

    #[test]
    fn a_dead_node_gives_its_places_back_within_thirty_seconds() {
        let (places, customer, died) = (Places::default(), CustomerId::random(), Instant::now());
        (0..MOST_STREAMS).for_each(|number| places.renew(customer, stream(number), died));
        assert_eq!(places.take(customer, stream(10), died + Duration::from_secs(14)), Err(10), "it may be at rest");
        assert_eq!(places.take(customer, stream(10), died + Duration::from_secs(28)), Ok(()));
    }

    #[test]
    fn a_stream_that_an_earlier_home_let_in_counts() {
        let (places, customer, now) = (Places::default(), CustomerId::random(), Instant::now());
        (0..MOST_STREAMS).for_each(|number| places.renew(customer, stream(number), now));
        assert_eq!(places.take(customer, stream(10), now), Err(10));
    }
}

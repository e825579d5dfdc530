//! Customers whose events are kept for streams, as this node has heard.
//!
//! The directory stores until when, by the wall clock of the announcing node. Owners do not use that: one whose clock
//! jumped ahead would stop keeping events for open streams, and the clients would never learn that events are missing.
//! An announcement is valid for [`STREAMED_FOR`] from the moment at which it was applied here, by a monotonic clock.
//! Announcements read from disk count as just heard: keeping a few events too many is cheap.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::id::CustomerId;

/// How long an announcement keeps a customer streamed. Streams renew it long before that, so that it is still valid for
/// an event's owner and for a client that resumes within the ring's retention.
pub const STREAMED_FOR: Duration = Duration::from_secs(30 * 60);

/// When this node last heard of each customer.
#[derive(Default)]
pub(crate) struct Heard(HashMap<CustomerId, Instant>);

impl Heard {
    pub fn note(&mut self, customers: impl IntoIterator<Item = CustomerId>, now: Instant) {
        self.0.retain(|_, heard| now.saturating_duration_since(*heard) < STREAMED_FOR);
        self.0.extend(customers.into_iter().map(|customer| (customer, now)));
    }

    /// Whether a customer was announced within `age`.
    pub fn within(&self, customer: CustomerId, age: Duration, now: Instant) -> bool {
        self.0.get(&customer).is_some_and(|heard| now.saturating_duration_since(*heard) < age)
    }

    /// Customers that are streamed.
    pub fn living(&self, now: Instant) -> impl Iterator<Item = CustomerId> {
        self.0.keys().copied().filter(move |customer| self.within(*customer, STREAMED_FOR, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_stands_for_its_time_from_when_it_was_heard_and_is_dropped_then() {
        let (one, two) = (CustomerId::random(), CustomerId::random());
        let begin = Instant::now();
        let mut heard = Heard::default();
        heard.note([one], begin);
        let last = begin + STREAMED_FOR - Duration::from_secs(1);
        assert!(heard.within(one, STREAMED_FOR, last) && !heard.within(one, STREAMED_FOR / 2, last));
        heard.note([two], last);
        assert_eq!(heard.living(last).count(), 2);
        let over = begin + STREAMED_FOR;
        assert_eq!(heard.living(over).collect::<Vec<_>>(), [two]);
        heard.note([two], over);
        assert_eq!(heard.0.len(), 1, "what is over takes no room");
    }
}

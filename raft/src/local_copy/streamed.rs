//! Whose events are kept for streams, as this node has heard it.
//!
//! The directory says until when, by the wall clock of the node that announced it. Owners do not go by that: one whose clock
//! jumped ahead would keep nothing more for streams that are open, and their clients would never hear that something is
//! missing. An announcement stands for [`STREAMED_FOR`] from the moment at which it was applied here, by a clock that does
//! not jump. What a node finds on its disk counts as heard just then: to keep a little too much costs little.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::id::CustomerId;

/// For how long an announcement keeps a customer streamed. Streams renew it long before, so that an event's owner and
/// a client that resumes within the ring's age both find it standing.
pub const STREAMED_FOR: Duration = Duration::from_secs(30 * 60);

/// When this node last heard of each customer.
#[derive(Default)]
pub(crate) struct Heard(HashMap<CustomerId, Instant>);

impl Heard {
    pub fn note(&mut self, customers: impl IntoIterator<Item = CustomerId>, now: Instant) {
        self.0.retain(|_, heard| now.saturating_duration_since(*heard) < STREAMED_FOR);
        self.0.extend(customers.into_iter().map(|customer| (customer, now)));
    }

    /// Whether a customer was announced within a time.
    pub fn within(&self, customer: CustomerId, age: Duration, now: Instant) -> bool {
        self.0.get(&customer).is_some_and(|heard| now.saturating_duration_since(*heard) < age)
    }

    /// The customers that are streamed.
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

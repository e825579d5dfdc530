//! Timers: a queue ordered by time, and by insertion where times are equal.

use std::collections::BTreeMap;

use model::time::Timestamp;

/// A queue of items that become due.
#[derive(Debug)]
pub struct Timers<T> {
    /// Items by due time and insertion number.
    queue: BTreeMap<(Timestamp, u64), T>,
    arrivals: u64,
}

impl<T> Timers<T> {
    pub fn new() -> Self {
        Self { queue: BTreeMap::new(), arrivals: 0 }
    }

    pub fn push(&mut self, due: Timestamp, what: T) {
        self.arrivals += 1;
        self.queue.insert((due, self.arrivals), what);
    }

    /// When the first item is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.queue.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes the first item due by `now`, together with its due time.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, T)> {
        let first = self.queue.first_entry().filter(|first| first.key().0 <= now)?;
        let due = first.key().0;
        Some((due, first.remove()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_due_in_the_order_of_time_and_then_of_arrival() {
        let mut timers = Timers::new();
        for (due, what) in [(20, "c"), (10, "a"), (10, "b"), (30, "d")] {
            timers.push(Timestamp(due), what);
        }
        assert_eq!(timers.next_due(), Some(Timestamp(10)));
        let mut due = Vec::new();
        while let Some((_, what)) = timers.pop_due(Timestamp(20)) {
            due.push(what);
        }
        assert_eq!(due, ["a", "b", "c"]);
        assert_eq!(timers.next_due(), Some(Timestamp(30)));
    }
}

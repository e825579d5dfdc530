//! What the engine has to do later: a queue ordered by time, and by arrival where times are equal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::time::Timestamp;

/// A queue of things that become due.
#[derive(Debug)]
pub struct Timers<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    arrivals: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due: Timestamp,
    arrival: u64,
    what: T,
}

impl<T> Timers<T> {
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), arrivals: 0 }
    }

    pub fn push(&mut self, due: Timestamp, what: T) {
        self.arrivals += 1;
        self.heap.push(Reverse(Entry { due, arrival: self.arrivals, what }));
    }

    /// When the first thing is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse(entry)| entry.due)
    }

    /// Takes the first thing that is due at `now`, with the time at which it was due.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, T)> {
        if self.next_due()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.due, entry.what))
    }
}

impl<T> Entry<T> {
    fn order(&self) -> (Timestamp, u64) {
        (self.due, self.arrival)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
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

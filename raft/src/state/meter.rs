//! Load of a group: how much it has applied recently, on the leader and on each follower alike.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time constant of the decay: work this long ago counts for about a third of current work.
const LATELY: Duration = Duration::from_secs(60);

/// Bytes of commands that cost about as much as one more entry.
const BYTES_AS_AN_ENTRY: f64 = 1024.0;

/// Exponentially weighted mean of the work applied per second: entries, plus one for each KiB of them.
#[derive(Debug)]
pub(crate) struct Meter(Mutex<Measured>);

#[derive(Clone, Copy, Debug)]
struct Measured {
    per_second: f64,
    at: Instant,
}

impl Measured {
    fn faded(self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.per_second * (-passed / LATELY.as_secs_f64()).exp()
    }
}

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(Measured { per_second: 0.0, at: now }))
    }

    /// Counts a batch that was applied.
    pub(crate) fn note(&self, entries: usize, bytes: usize, now: Instant) {
        let work = entries as f64 + bytes as f64 / BYTES_AS_AN_ENTRY;
        let mut measured = self.0.lock();
        *measured = Measured { per_second: measured.faded(now) + work / LATELY.as_secs_f64(), at: now };
    }

    pub(crate) fn per_second(&self, now: Instant) -> f64 {
        self.0.lock().faded(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_within_minutes_and_forgotten_as_fast() {
        let start = Instant::now();
        let meter = Meter::new(start);
        let mut now = start;
        for _ in 0..3_000 {
            now += Duration::from_millis(100);
            meter.note(4, 1024, now);
        }
        assert!((meter.per_second(now) - 50.0).abs() < 1.0, "{}", meter.per_second(now));
        let left = meter.per_second(now + 3 * LATELY);
        assert!(left < 3.0, "{left}");
        assert!(meter.per_second(start) <= meter.per_second(now), "a moment that is over already");
    }
}

//! Limits the bytes per second of the snapshots that a node sends, so that copying shards leaves bandwidth for sends.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Assigns each piece a time slot; a piece that finds the current slot taken gets the next one.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    bytes_per_second: u64,
    /// When the last assigned slot ends.
    free_at: Mutex<Option<Instant>>,
}

impl RateLimiter {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), free_at: Mutex::new(None) }
    }

    /// Reserves a slot for a piece, and returns when it may be sent.
    pub(crate) fn reserve(&self, bytes: usize, now: Instant) -> Instant {
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let mut free_at = self.free_at.lock();
        let starts_at = free_at.map_or(now, |free_at| free_at.max(now));
        *free_at = Some(starts_at + takes);
        starts_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_all_groups_share_the_rate_and_time_that_nobody_used_is_gone() {
        let (limiter, now) = (RateLimiter::new(1_000), Instant::now());
        let after = |millis| now + Duration::from_millis(millis);
        assert_eq!(limiter.reserve(500, now), now);
        assert_eq!(limiter.reserve(500, now), after(500));
        assert_eq!(limiter.reserve(500, after(100)), after(1_000));
        assert_eq!(limiter.reserve(500, after(9_000)), after(9_000));
        assert_eq!(limiter.reserve(500, after(9_000)), after(9_500));
    }
}

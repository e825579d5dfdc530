//! Limits how fast a node starts sessions, and how many it holds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Assigns start times, so that a node that takes over many channels does not start them all at once.
pub struct StartLimiter {
    gap: Duration,
    next: Mutex<Instant>,
    /// Until when the start rate is halved.
    slow_until: Mutex<Option<Instant>>,
}

/// How many starts may happen at once after a quiet time.
const BURST: u32 = 20;

/// How long the start rate is halved after the network has reported too many logins.
const SLOW_FOR: Duration = Duration::from_secs(600);

impl StartLimiter {
    pub fn new(starts_per_second: u32) -> Self {
        let gap = Duration::from_secs(1) / starts_per_second.max(1);
        Self { gap, next: Mutex::new(Instant::now()), slow_until: Mutex::new(None) }
    }

    /// Halves the start rate for a while, because the network has reported too many logins.
    pub fn slow_down(&self) {
        *self.slow_until.lock() = Some(Instant::now() + SLOW_FOR);
    }

    pub fn is_slow(&self) -> bool {
        self.slow_until.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Books a start.
    pub fn book(self: &Arc<Self>) -> Booking {
        let now = Instant::now();
        let gap = if self.is_slow() { 2 * self.gap } else { self.gap };
        let mut next = self.next.lock();
        let earliest = now.checked_sub(gap * BURST).unwrap_or(now);
        let booked = (*next).max(earliest);
        *next = booked + gap;
        Booking { at: booked.max(now), gap, start_limiter: self.clone() }
    }

    /// Time until all booked starts have happened.
    pub fn backlog(&self) -> Duration {
        self.next.lock().saturating_duration_since(Instant::now())
    }
}

/// A booked start. Dropped before its time, it is released: an ownership that ends and begins again, perhaps
/// repeatedly, books all its starts each time, and they would delay later starts further and further.
pub struct Booking {
    at: Instant,
    gap: Duration,
    start_limiter: Arc<StartLimiter>,
}

impl Booking {
    /// When the start may happen.
    pub fn at(&self) -> Instant {
        self.at
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        if self.at > Instant::now() {
            let mut next = self.start_limiter.next.lock();
            *next = next.checked_sub(self.gap).unwrap_or(*next);
        }
    }
}

/// The sessions that a node may hold.
pub struct Slots {
    cap: u32,
    free: Arc<Semaphore>,
}

/// A taken slot; dropping it frees it.
pub type SlotGuard = OwnedSemaphorePermit;

impl Slots {
    pub fn new(cap: u32) -> Arc<Self> {
        Arc::new(Self { cap, free: Arc::new(Semaphore::new(cap as usize)) })
    }

    pub fn take(&self) -> Option<SlotGuard> {
        self.free.clone().try_acquire_owned().ok()
    }

    pub fn is_full(&self) -> bool {
        self.free.available_permits() == 0
    }

    pub fn cap(&self) -> u32 {
        self.cap
    }

    pub fn used(&self) -> u32 {
        self.cap - self.free.available_permits() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_again_when_its_guard_is_dropped() {
        let slots = Slots::new(1);
        let guard = slots.take();
        assert!(guard.is_some() && slots.take().is_none());
        drop(guard);
        assert!(slots.take().is_some());
    }

    #[test]
    fn starts_are_spread_after_the_burst() {
        let start_limiter = Arc::new(StartLimiter::new(100));
        let now = Instant::now();
        assert_eq!(start_limiter.backlog(), Duration::ZERO);
        let booked: Vec<Booking> = (0..=200).map(|_| start_limiter.book()).collect();
        let last = booked.last().map_or(now, Booking::at);
        assert!(last >= now + Duration::from_millis(1700), "{:?}", last - now);
        assert!(start_limiter.backlog() > Duration::from_secs(1), "{:?}", start_limiter.backlog());
    }

    #[test]
    fn starts_come_half_as_fast_once_the_network_has_had_too_many() {
        let start_limiter = Arc::new(StartLimiter::new(100));
        start_limiter.slow_down();
        assert!(start_limiter.is_slow());
        let now = Instant::now();
        let booked: Vec<Booking> = (0..=200).map(|_| start_limiter.book()).collect();
        let last = booked.last().map_or(now, Booking::at);
        assert!(last >= now + Duration::from_millis(3500), "{:?}", last - now);
        drop(booked);
        assert!(start_limiter.backlog() <= Duration::from_millis(500), "{:?}", start_limiter.backlog());
    }

    #[test]
    fn starts_that_never_happen_leave_no_backlog_however_often_they_are_booked() {
        let start_limiter = Arc::new(StartLimiter::new(1));
        for _ in 0..50 {
            let booked: Vec<Booking> = (0..100).map(|_| start_limiter.book()).collect();
            assert!(booked.last().is_some_and(|last| last.at() > Instant::now()));
        }
        // The starts of the burst were due at once, and count as used.
        assert!(
            start_limiter.backlog() <= Duration::from_secs(50 * u64::from(BURST) + 1),
            "{:?}",
            start_limiter.backlog()
        );
    }
}

//! Limits how fast this node attempts backlogs, by what its processors have to spare.
//!
//! A new event gives its queue one start that waits for nobody, so a healthy endpoint keeps up whatever others do. All
//! other starts share one rate: retries, backlogs of receivers that were down, jobs of deleted endpoints. The rate
//! rises while the processors have time to spare; when they are busy it falls to a floor, so that sends and first
//! attempts go first and backlogs are never forgotten. Endpoints take turns.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use model::id::EndpointId;

use super::cpu_load::Busy;

/// Starts per second and core that are always possible: a few percent of what a core can do.
const FLOOR_PER_CORE: f64 = 25.0;

/// Maximum starts per second and core: more than a core can do.
const CEILING_PER_CORE: f64 = 2_000.0;

/// How often the rate is adjusted.
pub const SET_EVERY: Duration = Duration::from_millis(250);

/// A measurement over a longer time says nothing about the present.
const STALE: Duration = Duration::from_secs(1);

/// Minimum time between two turns, so that a high rate does not wake the engine for each start.
const REST: Duration = Duration::from_millis(5);

/// How many starts an endpoint gets in its turn.
pub const STARTS_A_TURN: usize = 4;

/// The rate, and the endpoints that wait for it.
pub struct RetryLimiter {
    cores: f64,
    rate: f64,
    /// Starts that may be made now.
    tokens: f64,
    filled_at: Instant,
    set_at: Instant,
    queue: VecDeque<EndpointId>,
    queued: HashSet<EndpointId>,
}

impl RetryLimiter {
    pub fn new(cores: usize, now: Instant) -> Self {
        let cores = cores.max(1) as f64;
        Self {
            cores,
            rate: FLOOR_PER_CORE * cores,
            tokens: 1.0,
            filled_at: now,
            set_at: now,
            queue: VecDeque::new(),
            queued: HashSet::new(),
        }
    }

    /// Starts per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Adjusts the rate by how busy the processors were; `measure` is called when it is time.
    pub fn set(&mut self, now: Instant, measure: impl FnOnce() -> Option<Busy>) {
        let since = now.saturating_duration_since(self.set_at);
        if since < SET_EVERY {
            return;
        }
        self.set_at = now;
        // Measured even if not used, so that the next measurement starts here.
        let measured = measure().filter(|_| since < STALE);
        self.rate = match measured {
            Some(Busy::Full) => self.rate / 2.0,
            None | Some(Busy::Enough) => self.rate,
            Some(Busy::Spare) => self.rate * 1.5,
        };
        self.rate = self.rate.clamp(FLOOR_PER_CORE * self.cores, CEILING_PER_CORE * self.cores);
    }

    /// Whether a start may be made now.
    pub fn has_start(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.filled_at);
        self.filled_at = now;
        // Unused starts are not saved up: a burst is at most what `SET_EVERY` permits.
        let most = (self.rate * SET_EVERY.as_secs_f64()).max(1.0);
        self.tokens = (self.tokens + self.rate * elapsed.as_secs_f64()).min(most);
        self.tokens >= 1.0
    }

    /// Takes one start, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let taken = self.has_start(now);
        if taken {
            self.tokens -= 1.0;
        }
        taken
    }

    /// Whether an endpoint waits for its turn.
    pub fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Puts an endpoint at the end of the queue, if it is not in it.
    pub fn wait(&mut self, endpoint: EndpointId) {
        if self.queued.insert(endpoint) {
            self.queue.push_back(endpoint);
        }
    }

    /// The endpoint whose turn is next.
    pub fn next(&mut self) -> Option<EndpointId> {
        let endpoint = self.queue.pop_front()?;
        self.queued.remove(&endpoint);
        Some(endpoint)
    }

    /// Time until a start may be made, if an endpoint waits for one.
    pub fn wake_after(&self, now: Instant) -> Option<Duration> {
        self.has_queue().then(|| {
            let missing = Duration::from_secs_f64((1.0 - self.tokens).max(0.0) / self.rate);
            (self.filled_at + missing).saturating_duration_since(now).max(REST)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts_in_a_second(retry_limiter: &mut RetryLimiter, from: Instant) -> usize {
        (0..1_000).filter(|ms| retry_limiter.take(from + Duration::from_millis(*ms))).count()
    }

    #[test]
    fn the_pace_rises_while_there_is_time_to_spare_and_falls_to_its_floor() {
        let start = Instant::now();
        let mut retry_limiter = RetryLimiter::new(2, start);
        assert!((45..=55).contains(&starts_in_a_second(&mut retry_limiter, start)), "the floor of two cores");
        let mut now = start + Duration::from_secs(1);
        for _ in 0..40 {
            now += SET_EVERY;
            retry_limiter.set(now, || Some(Busy::Spare));
        }
        assert_eq!(retry_limiter.rate(), 4_000.0);
        retry_limiter.set(now + SET_EVERY / 2, || Some(Busy::Full));
        retry_limiter.set(now + STALE * 2, || Some(Busy::Full));
        assert_eq!(retry_limiter.rate(), 4_000.0, "too soon, and too late to say anything");
        now += STALE * 2;
        for _ in 0..40 {
            now += SET_EVERY;
            retry_limiter.set(now, || Some(Busy::Full));
        }
        assert_eq!(retry_limiter.rate(), 50.0);
    }

    #[test]
    fn endpoints_take_turns() {
        let mut retry_limiter = RetryLimiter::new(1, Instant::now());
        let [a, b] = [EndpointId::random(), EndpointId::random()];
        [a, b, a].into_iter().for_each(|endpoint| retry_limiter.wait(endpoint));
        assert_eq!(retry_limiter.next(), Some(a));
        retry_limiter.wait(a);
        assert_eq!((retry_limiter.next(), retry_limiter.next(), retry_limiter.next()), (Some(b), Some(a), None));
        assert_eq!(retry_limiter.wake_after(Instant::now()), None, "nobody waits");
    }
}

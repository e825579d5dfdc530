//! Notices that the machine was suspended. [`Instant`] stands still meanwhile, as a virtual machine does that is paused or moved:
//! what was heard before seems young, and a right that ended long ago seems to have an end that is still to come.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// A shorter pause is none: nothing that is reckoned in such times is exact to that.
const NOTICED: Duration = Duration::from_millis(5);

/// What was seen so far of the difference between the clock that goes on and the one that stands still.
struct Seen {
    /// Nanoseconds, and one more; 0 before the first look.
    ahead: AtomicU64,
    /// Nanoseconds from the origin to when a pause was noticed, and one more; 0 while there was none.
    resumed: AtomicU64,
}

impl Seen {
    const fn new() -> Self {
        Self { ahead: AtomicU64::new(0), resumed: AtomicU64::new(0) }
    }

    /// Takes how far the clock that goes on is ahead; no more than it is. Nearly always it is no further than before, and nothing
    /// is written that all threads share: everything that a node may do by a right that ends asks here first.
    fn look(&self, ahead: Duration, now: impl FnOnce() -> Duration) -> Option<Duration> {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        let ahead = nanos(ahead);
        let before = self.ahead.load(Ordering::Acquire);
        if ahead > before {
            // First when it was noticed: who finds the clocks as far apart as they are finds that, too.
            if before != 0 && ahead > before.saturating_add(nanos(NOTICED)) {
                self.resumed.fetch_max(nanos(now()), Ordering::AcqRel);
            }
            self.ahead.fetch_max(ahead, Ordering::AcqRel);
        }
        self.resumed.load(Ordering::Acquire).checked_sub(1).map(Duration::from_nanos)
    }
}

/// When it was noticed that the machine had been suspended, the last time: whatever was heard before says nothing of now. `None`
/// when it never was. What is to be noticed has to be looked for: the first call remembers how the clocks stand.
pub fn resumed_at() -> Option<Instant> {
    static SEEN: Seen = Seen::new();
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    // In this order: a thread that is held up in between sees a smaller difference, never a larger one.
    let boot = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).ok()?;
    let steady = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).ok()?;
    let resumed = SEEN.look(boot.saturating_sub(steady), || origin.elapsed())?;
    Some(origin + resumed)
}

/// Whether a moment lies behind the last suspension of the machine, so that the time since then is known.
pub fn is_since_resumption(moment: Instant) -> bool {
    resumed_at().is_none_or(|resumed| moment >= resumed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_suspension_is_what_takes_the_clocks_apart() {
        let seen = Seen::new();
        let look = |ahead, now| seen.look(millis(ahead), || millis(now));
        assert_eq!(look(9_000, 10), None, "of before the first look nothing is known");
        assert_eq!(look(8_000, 20), None, "a thread that was held up");
        assert_eq!(look(9_004, 30), None);
        assert_eq!(look(9_500, 40), Some(millis(40)));
        assert_eq!(look(9_500, 50), Some(millis(40)));
        assert_eq!(look(70_000, 60), Some(millis(60)));
    }

    #[test]
    fn a_machine_that_runs_was_not_suspended() {
        assert_eq!(resumed_at(), resumed_at());
        assert!(is_since_resumption(Instant::now()));
    }
}

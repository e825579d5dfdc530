//! Detects that the machine was suspended. [`Instant`] does not advance while a virtual machine is paused or migrated:
//! afterwards, what was heard before the pause seems recent, and a deadline that has passed seems to lie ahead.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Shorter pauses are ignored: no deadline in the gateway depends on such precision.
const NOTICED: Duration = Duration::from_millis(5);

/// The largest difference seen between `CLOCK_BOOTTIME`, which counts suspensions, and `CLOCK_MONOTONIC`.
struct Seen {
    /// The difference in nanoseconds, plus 1; 0 before the first call of [`Self::look`].
    ahead: AtomicU64,
    /// When the last suspension was noticed, in nanoseconds since the origin, plus 1; 0 while there was none.
    resumed: AtomicU64,
}

impl Seen {
    const fn new() -> Self {
        Self { ahead: AtomicU64::new(0), resumed: AtomicU64::new(0) }
    }

    /// Records the current difference between the clocks, which may be understated, never overstated, and returns when
    /// the last suspension was noticed. Everything that acts under a deadline calls this first, so the common case, an
    /// unchanged difference, writes nothing to memory that threads share.
    fn look(&self, ahead: Duration, now: impl FnOnce() -> Duration) -> Option<Duration> {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        let ahead = nanos(ahead);
        let before = self.ahead.load(Ordering::Acquire);
        if ahead > before {
            // Store `resumed` before `ahead`: a thread that sees the new difference then also sees the suspension.
            if before != 0 && ahead > before.saturating_add(nanos(NOTICED)) {
                self.resumed.fetch_max(nanos(now()), Ordering::AcqRel);
            }
            self.ahead.fetch_max(ahead, Ordering::AcqRel);
        }
        self.resumed.load(Ordering::Acquire).checked_sub(1).map(Duration::from_nanos)
    }
}

/// When a suspension of the machine was last noticed; `None` if it never was. What was heard before that moment says
/// nothing about the present. Suspensions are noticed only by calling this; the first call records the baseline.
pub fn resumed_at() -> Option<Instant> {
    static SEEN: Seen = Seen::new();
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    // Read the boot clock first: a delay between the two reads then only makes the difference smaller.
    let boot = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).ok()?;
    let steady = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).ok()?;
    let resumed = SEEN.look(boot.saturating_sub(steady), || origin.elapsed())?;
    Some(origin + resumed)
}

/// Whether `moment` is after the last noticed suspension, so that the time elapsed since then is known.
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

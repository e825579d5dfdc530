//! The clock by which waits and rights are reckoned: the machine's, or that of the simulated run whose code is asking.

use std::time::Instant;

/// This moment.
pub fn now() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// Puts another clock in the place of the machine's.
#[cfg(feature = "simulation")]
pub mod simulated {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    thread_local! {
        /// How long the run of this thread has lasted.
        static ELAPSED: Cell<Option<fn() -> Duration>> = const { Cell::new(None) };
    }

    /// Further ahead than any moment of the machine's clock that a process may have taken before.
    const AHEAD: Duration = Duration::from_secs(24 * 3600);

    /// The moment of a run that has lasted so long. All runs of the process begin at the same one.
    pub fn moment(elapsed: Duration) -> Instant {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        *BEGIN.get_or_init(|| Instant::now() + AHEAD) + elapsed
    }

    pub(super) fn now() -> Option<Instant> {
        ELAPSED.get().map(|elapsed| moment(elapsed()))
    }

    /// Whether this thread makes a simulated run.
    pub fn is_running() -> bool {
        ELAPSED.get().is_some()
    }

    /// Does work whose clock says how long it has lasted; until it is done, this thread knows no other.
    pub fn during<T>(elapsed: fn() -> Duration, work: impl FnOnce() -> T) -> T {
        struct Restore(Option<fn() -> Duration>);
        impl Drop for Restore {
            fn drop(&mut self) {
                ELAPSED.set(self.0);
            }
        }
        let _restore = Restore(ELAPSED.replace(Some(elapsed)));
        work()
    }
}

#[cfg(all(test, feature = "simulation"))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_run_has_a_clock_of_its_own_until_it_ends() {
        const LATER: Duration = Duration::from_secs(7);
        assert!(!simulated::is_running());
        let at = simulated::during(|| LATER, now);
        assert_eq!(at, simulated::moment(Duration::ZERO) + LATER);
        assert!(!simulated::is_running() && now() < at);
    }
}

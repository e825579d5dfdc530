//! The clock for timeouts and deadlines: the machine's, or that of the simulation that the calling thread runs.

use std::time::Instant;

/// The current time.
pub fn now() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// Replaces the machine's clock during a simulation.
#[cfg(feature = "simulation")]
pub mod simulated {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    thread_local! {
        /// Returns the time elapsed in the simulation that this thread runs.
        static ELAPSED: Cell<Option<fn() -> Duration>> = const { Cell::new(None) };
    }

    /// Puts simulated time ahead of every instant that the process may have taken from the machine's clock.
    const AHEAD: Duration = Duration::from_secs(24 * 3600);

    /// The instant at which a simulation has run for `elapsed`. All simulations of the process share the start.
    pub fn moment(elapsed: Duration) -> Instant {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        *BEGIN.get_or_init(|| Instant::now() + AHEAD) + elapsed
    }

    pub(super) fn now() -> Option<Instant> {
        ELAPSED.get().map(|elapsed| moment(elapsed()))
    }

    /// Whether this thread runs a simulation.
    pub fn is_running() -> bool {
        ELAPSED.get().is_some()
    }

    /// Runs `work` under the simulated clock `elapsed`; until it returns, this thread reads no other clock.
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

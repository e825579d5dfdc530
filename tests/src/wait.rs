//! Conditions with a deadline: the only way in which tests wait.

use std::time::{Duration, Instant};

/// The shortest and longest pause between two probes. In between, the pause is as long as the probe took, so that
/// expensive probes do not keep a core busy.
const SOONEST: Duration = Duration::from_millis(25);
const LATEST: Duration = Duration::from_millis(250);

/// Calls `probe` until it returns `Ok`.
///
/// # Panics
/// If `within` has passed, with the condition and the last `Err`.
pub async fn eventually<T>(what: &str, within: Duration, mut probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        let asked = Instant::now();
        match probe().await {
            Ok(value) => return value,
            Err(last) => assert!(start.elapsed() < within, "not within {within:?}: {what}; last seen: {last}"),
        }
        tokio::time::sleep(asked.elapsed().clamp(SOONEST, LATEST)).await;
    }
}

/// Turns a condition into a result for [`eventually`].
///
/// # Errors
/// `otherwise`, if `holds` is false.
pub fn check(holds: bool, otherwise: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

/// A shorter name for seconds.
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

//! Conditions with a deadline: the one way in which tests wait.

use std::time::{Duration, Instant};

/// How soon a condition is asked again at the earliest, and at the latest. Between them after as long as it took to ask: what costs
/// much is not to keep a processor busy that others wait for.
const SOONEST: Duration = Duration::from_millis(25);
const LATEST: Duration = Duration::from_millis(250);

/// Asks `probe` until it answers `Ok`.
///
/// # Panics
/// With what was waited for and the last `Err`, when `within` has passed.
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

/// Turns a truth into what [`eventually`] understands.
///
/// # Errors
/// `otherwise`, when `holds` is false.
pub fn check(holds: bool, otherwise: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

/// Seconds, shorter to read in a test.
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

//! Conditions with a deadline: the one way in which tests wait.

use std::time::{Duration, Instant};

/// How often a condition is asked again. Short against everything that is waited for, long against its cost.
const INTERVAL: Duration = Duration::from_millis(25);

/// Asks `probe` until it answers `Ok`.
///
/// # Panics
/// With what was waited for and the last `Err`, when `within` has passed.
pub async fn eventually<T>(what: &str, within: Duration, mut probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(last) => assert!(start.elapsed() < within, "not within {within:?}: {what}; last seen: {last}"),
        }
        tokio::time::sleep(INTERVAL).await;
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

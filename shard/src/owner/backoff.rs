//! Delays before a channel tries something again.

use std::time::Duration;

/// Delay of the next attempt to reconnect after this many consecutive failures (T14). `spread` in 0..1 gives the
/// jitter.
pub fn reconnect_delay(failures: u32, since: Duration, spread: f64) -> Duration {
    const FIRST: [u64; 9] = [200, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000];
    let millis = match FIRST.get(failures as usize) {
        Some(millis) => *millis,
        None if since < Duration::from_secs(3600) => 60_000,
        None => 300_000,
    };
    Duration::from_secs_f64(millis as f64 / 1000.0 * (0.8 + 0.4 * spread))
}

/// Delay before a send that the network has not answered is written again, after this many writes.
pub fn resend_delay(writes: u32) -> Duration {
    const FIRST: [u64; 3] = [10, 20, 40];
    Duration::from_secs(FIRST.get(writes.saturating_sub(1) as usize).copied().unwrap_or(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnects_back_off_to_a_minute_and_after_an_hour_to_five() {
        let delays: Vec<u64> = (0..10).map(|n| reconnect_delay(n, Duration::ZERO, 0.5).as_millis() as u64).collect();
        assert_eq!(delays, [200, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(reconnect_delay(50, Duration::from_secs(3601), 0.5), Duration::from_secs(300));
        assert_eq!(reconnect_delay(0, Duration::ZERO, 0.0), Duration::from_millis(160));
        assert_eq!(reconnect_delay(0, Duration::ZERO, 1.0), Duration::from_millis(240));
    }

    #[test]
    fn unanswered_sends_are_repeated_after_10_20_40_and_then_every_60_seconds() {
        let delays: Vec<u64> = (1..6).map(|writes| resend_delay(writes).as_secs()).collect();
        assert_eq!(delays, [10, 20, 40, 60, 60]);
    }
}

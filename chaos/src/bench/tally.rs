//! What became of the calls of a load.

use std::time::Duration;

use anyhow::ensure;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::bench::caller::Accepted;

/// Latencies are kept to three digits.
const DIGITS: u8 = 3;

/// One worker's count.
pub struct Tally {
    latency: Histogram<u64>,
    queued: u64,
    failed: u64,
    first_failure: Option<String>,
    /// The ids of what was promised.
    pub taken: Vec<String>,
}

/// The calls of all workers.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub seconds: f64,
    pub accepted: u64,
    /// Accepted with `queued` rather than `sent`.
    pub queued: u64,
    /// Answered otherwise, or not at all.
    pub failed: u64,
    /// The first of these.
    pub first_failure: Option<String>,
    pub accepted_per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Tally {
    /// # Errors
    /// Never with so few digits.
    pub fn new() -> anyhow::Result<Self> {
        let latency = Histogram::new(DIGITS)?;
        Ok(Self { latency, queued: 0, failed: 0, first_failure: None, taken: Vec::new() })
    }

    /// Counts a call and how long it took.
    ///
    /// # Errors
    /// When it took longer than a histogram can hold.
    pub fn count(&mut self, took: Duration, outcome: anyhow::Result<Accepted>) -> anyhow::Result<()> {
        match outcome {
            Ok(accepted) => {
                self.wait(took)?;
                self.queued += u64::from(accepted.queued);
                self.taken.extend(accepted.message_id);
            }
            Err(error) => {
                self.failed += 1;
                self.first_failure.get_or_insert_with(|| format!("{error:#}"));
            }
        }
        Ok(())
    }

    /// Counts a latency alone.
    ///
    /// # Errors
    /// When it is longer than a histogram can hold.
    pub fn wait(&mut self, took: Duration) -> anyhow::Result<()> {
        Ok(self.latency.record(u64::try_from(took.as_micros())?)?)
    }

    /// Takes another's calls to its own.
    ///
    /// # Errors
    /// When their latencies do not fit together.
    pub fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.latency.add(&other.latency)?;
        self.queued += other.queued;
        self.failed += other.failed;
        self.first_failure = self.first_failure.take().or(other.first_failure);
        self.taken.extend(other.taken);
        Ok(())
    }

    /// Figures of calls that were made within `length`.
    ///
    /// # Errors
    /// When none was accepted: there is nothing to tell then.
    pub fn summary(&self, length: Duration) -> anyhow::Result<Summary> {
        let accepted = self.latency.len();
        ensure!(accepted > 0, "nothing was accepted: {}", self.first_failure.as_deref().unwrap_or("no call ended"));
        let ms = |micros: u64| micros as f64 / 1_000.0;
        Ok(Summary {
            seconds: length.as_secs_f64(),
            accepted,
            queued: self.queued,
            failed: self.failed,
            first_failure: self.first_failure.clone(),
            accepted_per_second: accepted as f64 / length.as_secs_f64(),
            p50_ms: ms(self.latency.value_at_quantile(0.5)),
            p99_ms: ms(self.latency.value_at_quantile(0.99)),
            max_ms: ms(self.latency.max()),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn accepted_calls_have_latencies_and_others_a_reason() {
        let mut one = Tally::new().unwrap();
        one.count(Duration::from_millis(2), Ok(Accepted { queued: true, message_id: Some("a".to_owned()) })).unwrap();
        let mut two = Tally::new().unwrap();
        two.count(Duration::from_millis(4), Ok(Accepted::default())).unwrap();
        two.count(Duration::from_secs(9), Err(anyhow::anyhow!("503"))).unwrap();
        one.add(two).unwrap();
        let summary = one.summary(Duration::from_secs(2)).unwrap();
        assert_eq!((summary.accepted, summary.queued, summary.failed), (2, 1, 1));
        assert_eq!(summary.first_failure.as_deref(), Some("503"));
        assert!((summary.accepted_per_second - 1.0).abs() < 1e-9);
        assert!((3.9..4.1).contains(&summary.max_ms), "what failed has no latency: {}", summary.max_ms);
        assert_eq!(one.taken, ["a"]);
    }
}

//! Counts the outcomes of the calls of a load, by the same rules for the gateway and for etcd.
//!
//! A failed call is infinitely late: it counts in the percentiles, after all accepted ones. If more than one call in a
//! hundred fails, the p99 is infinite, and so is the [`ratio`] to etcd if that is the gateway's p99. JSON has no such
//! number, and shows `null`.

use std::time::Duration;

use anyhow::ensure;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::bench::caller::Accepted;

/// Significant digits of latencies.
const DIGITS: u8 = 3;

/// One worker's counts.
pub struct Tally {
    latency: Histogram<u64>,
    queued: u64,
    failed: u64,
    first_failure: Option<String>,
    /// The ids of promised messages.
    pub taken: Vec<String>,
}

/// The results of all workers.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub seconds: f64,
    pub accepted: u64,
    /// Accepted with `queued` rather than `sent`.
    pub queued: u64,
    /// Refused or not answered; infinitely late in the percentiles.
    pub failed: u64,
    /// The first failure.
    pub first_failure: Option<String>,
    pub accepted_per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Of the calls that did not fail.
    pub max_ms: f64,
}

impl Tally {
    /// # Errors
    /// Never with so few digits.
    pub fn new() -> anyhow::Result<Self> {
        let latency = Histogram::new(DIGITS)?;
        Ok(Self { latency, queued: 0, failed: 0, first_failure: None, taken: Vec::new() })
    }

    /// Counts a call and its latency.
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

    /// Counts only a latency.
    ///
    /// # Errors
    /// When it is longer than a histogram can hold.
    pub fn wait(&mut self, took: Duration) -> anyhow::Result<()> {
        Ok(self.latency.record(u64::try_from(took.as_micros())?)?)
    }

    /// Adds the counts of another tally.
    ///
    /// # Errors
    /// When the latencies cannot be merged.
    pub fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.latency.add(&other.latency)?;
        self.queued += other.queued;
        self.failed += other.failed;
        self.first_failure = self.first_failure.take().or(other.first_failure);
        self.taken.extend(other.taken);
        Ok(())
    }

    /// The results of calls that were made within `length`.
    ///
    /// # Errors
    /// When none was accepted, so that there are no figures.
    pub fn summary(&self, length: Duration) -> anyhow::Result<Summary> {
        let accepted = self.latency.len();
        ensure!(accepted > 0, "nothing was accepted: {}", self.first_failure.as_deref().unwrap_or("no call ended"));
        Ok(Summary {
            seconds: length.as_secs_f64(),
            accepted,
            queued: self.queued,
            failed: self.failed,
            first_failure: self.first_failure.clone(),
            accepted_per_second: accepted as f64 / length.as_secs_f64(),
            p50_ms: self.percentile_ms(50),
            p99_ms: self.percentile_ms(99),
            max_ms: ms(self.latency.max()),
        })
    }

    /// The time within which `percent` of the calls were accepted.
    fn percentile_ms(&self, percent: u64) -> f64 {
        let accepted = self.latency.len();
        let rank = ((accepted + self.failed) * percent).div_ceil(100);
        if rank > accepted {
            return f64::INFINITY;
        }
        // The middle of the rank's own range, so that rounding does not select a neighbour.
        ms(self.latency.value_at_quantile((rank as f64 - 0.5) / accepted as f64))
    }
}

fn ms(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

/// Ratio of two sides' latencies; infinite if the gateway's is, whatever etcd's is.
pub fn ratio(ours: f64, theirs: f64) -> f64 {
    if ours.is_infinite() { f64::INFINITY } else { ours / theirs }
}

/// The failed calls of two sides, for the note of a row.
pub fn failed<'a>(sends: impl Iterator<Item = &'a Summary>, puts: impl Iterator<Item = &'a Summary>) -> String {
    let sends: u64 = sends.map(|summary| summary.failed).sum();
    let puts: u64 = puts.map(|summary| summary.failed).sum();
    format!("failed: {sends} sends, {puts} puts")
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
        assert!((3.9..4.1).contains(&summary.max_ms), "the longest of what was accepted: {}", summary.max_ms);
        assert_eq!(one.taken, ["a"]);
        let puts = [summary.clone(), summary.clone()];
        assert_eq!(failed([&summary].into_iter(), puts.iter()), "failed: 1 sends, 2 puts");
    }

    #[test]
    fn a_call_that_failed_is_later_than_any_other() {
        let of = |accepted: u64, failed: u64| {
            let mut tally = Tally::new().unwrap();
            for n in 0..accepted {
                tally.count(Duration::from_millis(n + 1), Ok(Accepted::default())).unwrap();
            }
            for _ in 0..failed {
                tally.count(Duration::ZERO, Err(anyhow::anyhow!("503"))).unwrap();
            }
            let summary = tally.summary(Duration::from_secs(1)).unwrap();
            (summary.p50_ms.round(), summary.p99_ms.round())
        };
        assert_eq!(of(100, 0), (50.0, 99.0));
        assert_eq!(of(99, 1), (50.0, 99.0), "one in a hundred is beyond the 99th");
        assert_eq!(of(98, 2), (50.0, f64::INFINITY));
        assert_eq!(of(10, 10), (10.0, f64::INFINITY));
        assert_eq!(of(10, 11), (f64::INFINITY, f64::INFINITY));
        assert_eq!(of(1, 0), (1.0, 1.0));
        assert_eq!(ratio(f64::INFINITY, f64::INFINITY), f64::INFINITY);
        assert_eq!((ratio(1.0, f64::INFINITY), ratio(1.0, 2.0)), (0.0, 0.5));
    }
}

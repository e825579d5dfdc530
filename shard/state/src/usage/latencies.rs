//! Latency histograms that are small enough to be kept for each channel and hour.

use serde::{Deserialize, Serialize};

/// Upper bounds of the buckets in milliseconds; the last bucket also holds longer latencies.
const BOUNDS: [u64; 18] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000, 300_000, 3_600_000, 86_400_000];

/// A histogram with fixed buckets. Empty buckets at its end are not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latencies(Vec<u64>);

impl Latencies {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn record(&mut self, millis: u64) {
        let bucket = BOUNDS.partition_point(|bound| *bound < millis).min(BOUNDS.len() - 1);
        if self.0.len() <= bucket {
            self.0.resize(bucket + 1, 0);
        }
        self.0[bucket] += 1;
    }

    pub fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(own, more)| *own += more);
    }

    /// The quantile `part` of the latencies in milliseconds, interpolated within a bucket; `None` if there are none.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let all: u64 = self.0.iter().sum();
        let rank = (all as f64 * part).ceil().max(1.0);
        let mut below = 0.0;
        self.0.iter().enumerate().find_map(|(bucket, count)| {
            let (count, before) = (*count as f64, below);
            below += count;
            (below >= rank).then(|| {
                let low = bucket.checked_sub(1).map_or(0, |previous| BOUNDS[previous]) as f64;
                let high = BOUNDS[bucket] as f64;
                (low + (high - low) * (rank - before) / count).round() as u64
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_quantile_and_one_lies_in_its_bucket() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), None);
        latencies.record(7);
        assert_eq!((latencies.quantile(0.5), latencies.quantile(0.99)), (Some(10), Some(10)));
        latencies.record(u64::MAX);
        assert_eq!(latencies.quantile(1.0), Some(86_400_000));
    }

    proptest! {
        #[test]
        fn a_quantile_lies_in_the_bucket_of_the_real_one(
            mut values in prop::collection::vec(0_u64..100_000, 1..200), percent in 1_u32..=100,
        ) {
            let mut latencies = Latencies::default();
            values.iter().for_each(|value| latencies.record(*value));
            values.sort_unstable();
            let rank = (values.len() * percent as usize).div_ceil(100).max(1);
            let bucket = |value: u64| BOUNDS.partition_point(|bound| *bound < value);
            let told = latencies.quantile(f64::from(percent) / 100.0).unwrap_or_default();
            // Rounding to whole milliseconds may yield the end of the previous bucket.
            prop_assert!(bucket(told).abs_diff(bucket(values[rank - 1])) <= 1, "{told} for {}", values[rank - 1]);
        }

        #[test]
        fn parts_add_up_to_the_whole(
            one in prop::collection::vec(0_u64..100_000, 0..50), two in prop::collection::vec(0_u64..100_000, 0..50),
        ) {
            let of = |values: &[u64]| {
                let mut latencies = Latencies::default();
                values.iter().for_each(|value| latencies.record(*value));
                latencies
            };
            let mut sum = of(&one);
            sum.add(&of(&two));
            prop_assert_eq!(sum, of(&[one, two].concat()));
        }
    }
}

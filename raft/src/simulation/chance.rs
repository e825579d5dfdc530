//! Random numbers of a run: everything random is drawn from its seed, in the order in which it happens.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Clones draw from the same generator.
#[derive(Clone)]
pub struct Chance(Arc<Mutex<StdRng>>);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// A number of `range`, which must not be empty.
    pub fn among(&self, range: Range<u64>) -> u64 {
        self.0.lock().random_range(range)
    }

    /// A random element; `None` if there are none.
    pub fn pick<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { all.get(self.among(0..all.len() as u64) as usize) }
    }

    /// A duration of `range`, in whole microseconds.
    pub fn time(&self, range: &Range<Duration>) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (from, to) = (micros(range.start), micros(range.end));
        Duration::from_micros(if from < to { self.among(from..to) } else { from })
    }

    /// True with a probability of `per_mille` thousandths.
    pub fn hits(&self, per_mille: u32) -> bool {
        per_mille > 0 && self.among(0..1000) < u64::from(per_mille)
    }

    /// Random bits for an id.
    pub fn id(&self) -> u128 {
        self.0.lock().random()
    }
}

//! Duration of the log's recent syncs: tells operators whether the disk is fast enough.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Number of syncs that are remembered.
const KEPT: usize = 1024;

/// The latest syncs, each with the time at which it ended.
#[derive(Default)]
pub(crate) struct Syncs(Mutex<VecDeque<(Instant, Duration)>>);

/// Number and durations of some syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncFigures {
    pub count: usize,
    pub p50: Duration,
    pub p99: Duration,
    pub longest: Duration,
}

impl Syncs {
    pub(crate) fn note(&self, ended: Instant, took: Duration) {
        let mut last = self.0.lock();
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back((ended, took));
    }

    /// Figures of the syncs that ended after `since`; `None` if there were none.
    pub(crate) fn after(&self, since: Instant) -> Option<SyncFigures> {
        let last = self.0.lock();
        SyncFigures::of(last.iter().filter(|(ended, _)| *ended > since).map(|(_, took)| *took).collect())
    }
}

impl SyncFigures {
    pub(crate) fn of(mut took: Vec<Duration>) -> Option<Self> {
        took.sort_unstable();
        let at = |part: f64| took.get(((took.len() as f64 * part).ceil() as usize).saturating_sub(1)).copied();
        Some(Self { count: took.len(), p50: at(0.5)?, p99: at(0.99)?, longest: *took.last()? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_the_last_syncs_alone() {
        let syncs = Syncs::default();
        let start = Instant::now();
        assert_eq!(syncs.after(start), None);
        for number in 0..(KEPT as u64 + 100) {
            syncs.note(start + Duration::from_secs(number), Duration::from_millis(number));
        }
        let all = syncs.after(start).unwrap();
        assert_eq!((all.count, all.longest), (KEPT, Duration::from_millis(1123)));
        let late = syncs.after(start + Duration::from_secs(1023)).unwrap();
        assert_eq!((late.count, late.p50), (100, Duration::from_millis(1073)));
        assert_eq!(late.p99, Duration::from_millis(1122));
    }
}

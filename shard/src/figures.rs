//! A node's recent activity, in steps of ten seconds over six hours, so that operators see trends without a monitoring
//! system. It is kept in memory only: a restart resets it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use model::time::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// The length of a step, in seconds.
pub const STEP: u32 = 10;

/// How long points are kept, in seconds.
pub const KEPT: u32 = 6 * 3600;

const MOST_POINTS: usize = (KEPT / STEP) as usize;

/// Upper bounds of the histogram of send times, in milliseconds; the last bucket has none.
const BOUNDS_MS: [u64; 13] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_500, 5_000, 10_000];
const BUCKETS: usize = BOUNDS_MS.len() + 1;

/// Counters since the start of the process.
static SENDS: [AtomicU64; BUCKETS] = [const { AtomicU64::new(0) }; BUCKETS];
static FAILED: AtomicU64 = AtomicU64::new(0);
static INBOUND: AtomicU64 = AtomicU64::new(0);
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
static ATTEMPTS_FAILED: AtomicU64 = AtomicU64::new(0);

/// The network accepted a send, `took` after it was accepted here.
pub(crate) fn sent(took: Duration) {
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    SENDS[BOUNDS_MS.partition_point(|bound| *bound < millis)].fetch_add(1, Relaxed);
}

/// A send failed.
pub(crate) fn send_failed() {
    FAILED.fetch_add(1, Relaxed);
}

/// A message was received from the network.
pub(crate) fn received() {
    INBOUND.fetch_add(1, Relaxed);
}

/// A webhook attempt was made.
pub(crate) fn attempted(succeeded: bool) {
    ATTEMPTS.fetch_add(1, Relaxed);
    if !succeeded {
        ATTEMPTS_FAILED.fetch_add(1, Relaxed);
    }
}

/// The activity of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Sends that the network accepted, as a histogram of the time that it took.
    sends: Vec<u64>,
    /// Sends that failed.
    pub failed: u64,
    pub inbound: u64,
    /// Webhook attempts.
    pub attempts: u64,
    pub attempts_failed: u64,
}

impl Work {
    fn so_far() -> Self {
        Self {
            sends: SENDS.iter().map(|bucket| bucket.load(Relaxed)).collect(),
            failed: FAILED.load(Relaxed),
            inbound: INBOUND.load(Relaxed),
            attempts: ATTEMPTS.load(Relaxed),
            attempts_failed: ATTEMPTS_FAILED.load(Relaxed),
        }
    }

    pub fn sends(&self) -> u64 {
        self.sends.iter().sum()
    }

    /// The quantile `part` of send times, in milliseconds, to the precision of a bucket; `None` without sends.
    pub fn send_ms(&self, part: f64) -> Option<u64> {
        let wanted = (self.sends() as f64 * part).ceil() as u64;
        let mut seen = 0;
        let reached = self.sends.iter().position(|bucket| {
            seen += bucket;
            seen >= wanted && wanted > 0
        })?;
        Some(BOUNDS_MS.get(reached).or(BOUNDS_MS.last()).copied().unwrap_or(0))
    }

    /// Combines each pair of counts with `of`.
    fn with(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
        let sends = |work: &Self, bucket: usize| work.sends.get(bucket).copied().unwrap_or(0);
        let buckets = 0..self.sends.len().max(other.sends.len());
        Self {
            sends: buckets.map(|bucket| of(sends(self, bucket), sends(other, bucket))).collect(),
            failed: of(self.failed, other.failed),
            inbound: of(self.inbound, other.inbound),
            attempts: of(self.attempts, other.attempts),
            attempts_failed: of(self.attempts_failed, other.attempts_failed),
        }
    }
}

/// One step of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The start of the step, a multiple of its length.
    pub at: Timestamp,
    pub work: Work,
    pub state: State,
}

/// The state of a node at the end of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Shards that the node owned.
    pub leads: u64,
    /// Connected sessions.
    pub connected: u64,
    /// The resident memory of the process.
    pub rss_bytes: u64,
    /// The 99th percentile of the log's fsync times; `None` when nothing was written. Of merged steps, the maximum.
    pub sync_p99: Option<Duration>,
}

/// The points of this node.
#[derive(Debug, Default)]
pub struct Figures {
    points: Mutex<VecDeque<Point>>,
}

impl Figures {
    /// Adds a point every ten seconds, at the same times on every node, until `stop`. `state` returns the node's state,
    /// with the fsync times since the given instant.
    pub async fn keep(&self, state: impl Fn(Instant) -> State, stop: CancellationToken) {
        let mut before = Work::so_far();
        loop {
            let now = Timestamp::now();
            let (begin, began) = (floor(now, STEP), Instant::now());
            let rest = u64::try_from(begin.0 + i64::from(STEP) * 1000 - now.0).unwrap_or(0);
            if stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(rest))).await.is_none() {
                return;
            }
            let counted = Work::so_far();
            self.add(Point { at: begin, work: counted.with(&before, u64::saturating_sub), state: state(began) });
            before = counted;
        }
    }

    fn add(&self, point: Point) {
        let mut points = self.points.lock();
        if points.len() == MOST_POINTS {
            points.pop_front();
        }
        points.push_back(point);
    }

    /// The points that begin at `since` or later, merged into steps of `step` seconds.
    pub fn since(&self, since: Timestamp, step: u32) -> Vec<Point> {
        let mut folded: Vec<Point> = Vec::new();
        for point in self.points.lock().iter().filter(|point| point.at >= since) {
            let at = floor(point.at, step);
            match folded.last_mut().filter(|last| last.at == at) {
                None => folded.push(Point { at, ..point.clone() }),
                Some(last) => {
                    last.work = last.work.with(&point.work, u64::saturating_add);
                    let sync_p99 = last.state.sync_p99.max(point.state.sync_p99);
                    last.state = State { sync_p99, ..point.state.clone() };
                }
            }
        }
        folded
    }
}

/// Rounds down to a multiple of `step` seconds.
fn floor(at: Timestamp, step: u32) -> Timestamp {
    at.begin_of(i64::from(step.max(1)) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: i64, sends: &[(usize, u64)], sync: Option<u64>) -> Point {
        let mut work = Work { sends: vec![0; BUCKETS], inbound: 1, ..Work::default() };
        sends.iter().for_each(|(bucket, count)| work.sends[*bucket] = *count);
        let sync_p99 = sync.map(Duration::from_millis);
        let state = State { leads: at as u64, connected: 0, rss_bytes: 0, sync_p99 };
        Point { at: Timestamp(at * 1000), work, state }
    }

    #[test]
    fn points_are_brought_together_and_the_oldest_go() {
        let figures = Figures::default();
        for n in 0..MOST_POINTS as i64 + 3 {
            figures.add(point(n * 10, &[(2, 1)], None));
        }
        assert_eq!(figures.since(Timestamp(0), STEP).len(), MOST_POINTS);
        assert_eq!(figures.since(Timestamp(0), STEP)[0].at, Timestamp(30_000));
        let minutes = figures.since(Timestamp(60_000), 60);
        assert_eq!((minutes[0].at, minutes[0].work.sends(), minutes[0].work.inbound), (Timestamp(60_000), 6, 6));
        assert_eq!(minutes[0].state.leads, 110, "how it was at the end");
    }

    #[test]
    fn the_times_of_sends_are_those_of_all_steps_together() {
        let figures = Figures::default();
        figures.add(point(0, &[(0, 98)], Some(3)));
        figures.add(point(10, &[(4, 1), (9, 1)], Some(1)));
        let [whole] = &figures.since(Timestamp(0), 60)[..] else { panic!("one step") };
        assert_eq!(
            (whole.work.send_ms(0.5), whole.work.send_ms(0.99), whole.work.send_ms(1.0)),
            (Some(1), Some(20), Some(1_000))
        );
        assert_eq!(whole.state.sync_p99, Some(Duration::from_millis(3)));
        assert_eq!(Work::default().send_ms(0.5), None);
        let beyond = Work { sends: [vec![0; BUCKETS - 1], vec![1]].concat(), ..Work::default() };
        assert_eq!(beyond.send_ms(0.99), Some(10_000), "at least that");
    }

    #[test]
    fn what_a_process_counted_before_is_not_of_a_step() {
        let before = Work { sends: vec![1, 0], failed: 2, inbound: 3, attempts: 4, attempts_failed: 1 };
        let now = Work { sends: vec![1, 5], failed: 2, inbound: 4, attempts: 9, attempts_failed: 1 };
        let done = now.with(&before, u64::saturating_sub);
        assert_eq!((done.sends(), done.failed, done.inbound, done.attempts), (5, 0, 1, 5));
    }
}

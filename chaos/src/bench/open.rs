//! An open loop: calls begin at their intended times, whether earlier ones were answered or not, and their latency
//! counts from these times. So a server that stalls is charged with every call that it kept waiting, which a closed
//! loop would not see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::bench::caller::Caller;
use crate::bench::tally::{Summary, Tally};

/// Timeout of one call.
const CALL: Duration = Duration::from_secs(30);

/// Longest sleep of the pacer, so that it notices soon that it must stop.
const NAP: Duration = Duration::from_millis(20);

/// A load that runs until [`Self::end`].
pub struct Load {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<anyhow::Result<Tally>>>,
    pacer: thread::JoinHandle<()>,
}

struct Shared {
    begin: Instant,
    /// Calls before this time are made but not counted.
    counted_from: Instant,
    per_second: f64,
    /// A permit for each call that is due and that no worker has taken.
    due: Semaphore,
    /// The number of the next call.
    next: AtomicU64,
    stop: AtomicBool,
}

/// The results of a load.
pub struct Outcome {
    pub summary: Summary,
    /// Due calls without a free worker until the end; their waiting times are in the latencies.
    pub unserved: u64,
    pub taken: Vec<String>,
    /// Calls that were made, including the warm-up.
    pub calls: u64,
    pub counted_from: SystemTime,
    begin: SystemTime,
    per_second: f64,
}

impl Outcome {
    /// When a call should have begun.
    pub fn time_of(&self, n: u64) -> SystemTime {
        self.begin + Duration::from_secs_f64(n as f64 / self.per_second)
    }
}

impl Shared {
    fn time_of(&self, n: u64) -> Instant {
        self.begin + Duration::from_secs_f64(n as f64 / self.per_second)
    }
}

impl Load {
    /// Makes `per_second` calls a second, and counts those that are due after the warm-up. There should be more workers
    /// than calls in flight at any time. If all are busy, calls wait for one, and their waiting times count.
    pub fn start<C: Caller>(callers: Vec<C>, per_second: f64, warm_up: Duration) -> Self {
        let begin = Instant::now();
        let shared = Arc::new(Shared {
            begin,
            counted_from: begin + warm_up,
            per_second,
            due: Semaphore::new(0),
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let workers = callers.into_iter().map(|caller| tokio::spawn(work(caller, shared.clone()))).collect();
        let pacer = {
            let shared = shared.clone();
            thread::spawn(move || pace(&shared))
        };
        Self { shared, workers, pacer }
    }

    /// Makes no more calls, and waits for the answers of those in flight.
    ///
    /// # Errors
    /// When nothing was accepted.
    pub async fn end(self) -> anyhow::Result<Outcome> {
        let end = Instant::now();
        self.shared.stop.store(true, Ordering::Release);
        tokio::task::spawn_blocking(move || self.pacer.join())
            .await?
            .map_err(|_| anyhow::anyhow!("the pacer panicked"))?;
        let unserved = self.shared.due.forget_permits(usize::MAX) as u64;
        self.shared.due.close();
        let mut whole = Tally::new()?;
        for worker in self.workers {
            whole.add(worker.await.context("a worker panicked")??)?;
        }
        let length = end.saturating_duration_since(self.shared.counted_from);
        let accepted = whole.summary(length)?.accepted;
        let served = self.shared.next.load(Ordering::Acquire);
        let left = (served..served + unserved).map(|n| self.shared.time_of(n));
        for due in left.filter(|due| *due >= self.shared.counted_from) {
            whole.wait(end.saturating_duration_since(due))?;
        }
        let accepted_per_second = accepted as f64 / length.as_secs_f64();
        let summary = Summary { accepted, accepted_per_second, ..whole.summary(length)? };
        let begin = SystemTime::now() - self.shared.begin.elapsed();
        Ok(Outcome {
            summary,
            unserved,
            taken: whole.taken,
            calls: served,
            counted_from: begin + self.shared.counted_from.saturating_duration_since(self.shared.begin),
            begin,
            per_second: self.shared.per_second,
        })
    }
}

/// Releases calls at their times, on a thread of its own: the runtime's timer has a resolution of 1 ms, as long as a
/// call.
fn pace(shared: &Shared) {
    let mut released = 0_u64;
    while !shared.stop.load(Ordering::Acquire) {
        let due = (shared.begin.elapsed().as_secs_f64() * shared.per_second) as u64 + 1;
        if due > released {
            shared.due.add_permits((due - released) as usize);
            released = due;
        }
        thread::sleep(shared.time_of(released).saturating_duration_since(Instant::now()).min(NAP));
    }
}

async fn work<C: Caller>(mut caller: C, shared: Arc<Shared>) -> anyhow::Result<Tally> {
    let mut tally = Tally::new()?;
    while let Ok(due) = shared.due.acquire().await {
        due.forget();
        let n = shared.next.fetch_add(1, Ordering::AcqRel);
        let intended = shared.time_of(n);
        let outcome = tokio::time::timeout(CALL, caller.call(n)).await.context("no answer in time").flatten();
        if intended >= shared.counted_from {
            tally.count(intended.elapsed(), outcome)?;
        }
    }
    Ok(tally)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::bench::caller::Accepted;

    /// Stalls for a while at one call, and answers all others at once.
    struct Stalls {
        at: u64,
        during: Duration,
    }

    impl Caller for Stalls {
        async fn call(&mut self, n: u64) -> anyhow::Result<Accepted> {
            if n == self.at {
                tokio::time::sleep(self.during).await;
            }
            Ok(Accepted::default())
        }
    }

    #[tokio::test]
    async fn a_stall_is_charged_with_every_call_that_it_kept_waiting() {
        let during = Duration::from_millis(400);
        let load = Load::start(vec![Stalls { at: 50, during }], 500.0, Duration::ZERO);
        while load.shared.next.load(Ordering::Acquire) < 500 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let summary = load.end().await.unwrap().summary;
        // Some 200 of 500 calls are due during the stall; half of them wait for more than 200 ms.
        assert!(summary.max_ms >= 400.0, "{summary:?}");
        assert!(summary.p99_ms > 350.0, "a closed loop would have seen one slow call in 500: {summary:?}");
        assert!(summary.p50_ms < 200.0, "{summary:?}");
    }
}

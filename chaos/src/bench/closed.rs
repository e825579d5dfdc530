//! A closed loop: a number of workers, each with one call in flight at a time.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinHandle;

use crate::bench::caller::Caller;
use crate::bench::tally::{Summary, Tally};

/// Time before the measurement, for connections, caches, and the first growth of logs.
pub const WARM_UP: Duration = Duration::from_secs(2);

/// Timeout of one call.
const CALL: Duration = Duration::from_secs(30);

/// Pause after a failure. Failures come at once: without a pause the loop would measure little else.
const AFTER_REFUSAL: Duration = Duration::from_millis(10);

/// Workers that call from `start - WARM_UP` to `end`.
pub struct Loop {
    pub start: Instant,
    pub end: Instant,
    workers: Vec<JoinHandle<anyhow::Result<Tally>>>,
}

impl Loop {
    /// Starts the workers. Worker `w` of `W` makes the writes `w`, `w + W`, and so on, so that no two use the same
    /// channel unless there are fewer channels than workers.
    pub fn start<C: Caller>(callers: Vec<C>, length: Duration) -> Self {
        let start = Instant::now() + WARM_UP;
        let end = start + length;
        let count = callers.len() as u64;
        let worker = |(first, caller)| tokio::spawn(call_until(caller, first as u64, count, start, end));
        Self { start, end, workers: callers.into_iter().enumerate().map(worker).collect() }
    }

    /// The calls between `start` and `end`.
    ///
    /// # Errors
    /// When nothing was accepted.
    pub async fn summary(self) -> anyhow::Result<Summary> {
        let mut whole = Tally::new()?;
        for worker in self.workers {
            whole.add(worker.await.context("a worker panicked")??)?;
        }
        whole.summary(self.end - self.start)
    }
}

async fn call_until<C: Caller>(
    mut caller: C,
    first: u64,
    step: u64,
    start: Instant,
    end: Instant,
) -> anyhow::Result<Tally> {
    let mut tally = Tally::new()?;
    for n in (first..).step_by(usize::try_from(step)?) {
        let began = Instant::now();
        if began >= end {
            break;
        }
        let outcome = tokio::time::timeout(CALL, caller.call(n)).await.context("no answer in time").flatten();
        let answered = Instant::now();
        let failed = outcome.is_err();
        if began >= start && answered <= end {
            tally.count(answered - began, outcome)?;
        }
        if failed {
            tokio::time::sleep(AFTER_REFUSAL).await;
        }
    }
    Ok(tally)
}

//! The time of a run. Nothing waits for real: when no task can go on, time jumps to the next moment at which one can.

use std::future::Future;
use std::time::Duration;

use model::clock::simulated;
use openraft::Instant as _;
use openraft::async_runtime::AsyncRuntime;
use openraft_rt_sim::{SimJoinHandle, SimRuntime};

/// A moment of the run.
pub type Instant = openraft_rt_sim::SimInstant;

/// Runs one simulation to its end. Tasks that it leaves behind end with it. Meanwhile [`crate::rt`] is of its time.
pub fn run<F: Future>(seed: u64, simulation: F) -> F::Output {
    // Tasks that end with the run may ask for the time, too.
    let elapsed = || Instant::try_now().map_or(Duration::ZERO, Instant::elapsed_since_start);
    simulated::during(elapsed, || SimRuntime::with_seed(seed).block_on(simulation))
}

/// Whether this thread makes a run.
pub fn is_running() -> bool {
    simulated::is_running()
}

/// A moment of the run, for code that knows none of it.
pub fn moment(at: Instant) -> std::time::Instant {
    simulated::moment(at.elapsed_since_start())
}

pub fn now() -> Instant {
    Instant::now()
}

pub async fn sleep(duration: Duration) {
    SimRuntime::sleep(duration).await;
}

/// Starts a task; it goes on when the handle is dropped.
pub fn spawn<T>(task: T) -> SimJoinHandle<T::Output>
where
    T: Future + Send + 'static,
    T::Output: Send + 'static,
{
    SimRuntime::spawn(task)
}

/// What the future gives within a time; `None` when the time passes first.
pub async fn within<F: Future + Send>(time: Duration, future: F) -> Option<F::Output> {
    SimRuntime::timeout(time, future).await.ok()
}

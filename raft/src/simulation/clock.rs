//! Time of a simulated run. No task waits in real time: when all are blocked, time jumps to the next timer.

use std::future::Future;
use std::time::Duration;

use model::clock::simulated;
use openraft::Instant as _;
use openraft::async_runtime::AsyncRuntime;
use openraft_rt_sim::{SimJoinHandle, SimRuntime};

/// An instant of the run.
pub type Instant = openraft_rt_sim::SimInstant;

/// Runs one simulation, and drops the tasks that it leaves behind. Meanwhile, [`crate::rt`] uses simulated time.
pub fn run<F: Future>(seed: u64, simulation: F) -> F::Output {
    // Tasks that are dropped with the run may ask for the time, too.
    let elapsed = || Instant::try_now().map_or(Duration::ZERO, Instant::elapsed_since_start);
    simulated::during(elapsed, || SimRuntime::with_seed(seed).block_on(simulation))
}

/// Converts an instant of the run for code that is unaware of the simulation.
pub fn moment(at: Instant) -> std::time::Instant {
    simulated::moment(at.elapsed_since_start())
}

pub fn now() -> Instant {
    Instant::now()
}

pub async fn sleep(duration: Duration) {
    SimRuntime::sleep(duration).await;
}

/// Spawns a task; it continues when the handle is dropped.
pub fn spawn<T>(task: T) -> SimJoinHandle<T::Output>
where
    T: Future + Send + 'static,
    T::Output: Send + 'static,
{
    SimRuntime::spawn(task)
}

/// Output of the future; `None` if the time passes first.
pub async fn within<F: Future + Send>(time: Duration, future: F) -> Option<F::Output> {
    SimRuntime::timeout(time, future).await.ok()
}

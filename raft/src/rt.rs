//! Clock and tasks of code that runs both in production and in the simulation: tokio's, or those of the simulated run.

use std::future::Future;
use std::time::{Duration, Instant};

pub use model::clock::now;
#[cfg(feature = "simulation")]
use {model::clock::simulated, openraft::async_runtime::AsyncRuntime, openraft_rt_sim::SimRuntime};

/// Waits until a moment.
pub async fn sleep_until(moment: Instant) {
    #[cfg(feature = "simulation")]
    if simulated::is_running() {
        return SimRuntime::sleep(moment.saturating_duration_since(now())).await;
    }
    tokio::time::sleep_until(moment.into()).await;
}

/// Waits for a time.
pub async fn sleep(time: Duration) {
    sleep_until(now() + time).await;
}

/// Spawns a task, detached.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    #[cfg(feature = "simulation")]
    if simulated::is_running() {
        return drop(SimRuntime::spawn(task));
    }
    drop(tokio::spawn(task));
}

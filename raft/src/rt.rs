//! Time and tasks of what runs in life and in simulation: the machine's clock and tokio's tasks, or those of the simulated run.

use std::future::Future;
use std::time::{Duration, Instant};

pub use model::clock::now;

#[cfg(feature = "simulation")]
use crate::simulation::clock;

/// Waits until a moment has come.
pub async fn sleep_until(moment: Instant) {
    #[cfg(feature = "simulation")]
    if clock::is_running() {
        return clock::sleep(moment.saturating_duration_since(now())).await;
    }
    tokio::time::sleep_until(moment.into()).await;
}

/// Waits for so long.
pub async fn sleep(time: Duration) {
    sleep_until(now() + time).await;
}

/// Starts a task.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    #[cfg(feature = "simulation")]
    if clock::is_running() {
        return drop(clock::spawn(task));
    }
    drop(tokio::spawn(task));
}

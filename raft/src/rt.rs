//! Time and tasks, real or simulated: the system clock and tokio, or those of the simulation.

use std::future::Future;
use std::time::{Duration, Instant};

pub use model::clock::now;

#[cfg(feature = "simulation")]
use crate::simulation::clock;

/// Waits until an instant.
pub async fn sleep_until(moment: Instant) {
    #[cfg(feature = "simulation")]
    if clock::is_running() {
        return clock::sleep(moment.saturating_duration_since(now())).await;
    }
    tokio::time::sleep_until(moment.into()).await;
}

/// Waits for a duration.
pub async fn sleep(time: Duration) {
    sleep_until(now() + time).await;
}

/// Spawns a task.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    #[cfg(feature = "simulation")]
    if clock::is_running() {
        return drop(clock::spawn(task));
    }
    drop(tokio::spawn(task));
}

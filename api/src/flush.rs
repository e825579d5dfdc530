//! When what gathers on a node is written to the directory.

use std::time::Duration;

use raft::supervise;
use tokio_util::sync::CancellationToken;

/// How long a write may take; what fails is tried again at the next flush.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// How long the last write may take: a cluster that stops as a whole has no leader any more.
const LAST_WRITE_PATIENCE: Duration = Duration::from_secs(1);

/// Flushes so often, and once more at the stop; `flush` is told how long it may take.
pub async fn often<F: Future<Output = ()>>(every: Duration, stop: CancellationToken, flush: impl Fn(Duration) -> F) {
    let mut ticks = supervise::ticks(every);
    loop {
        let stopped = stop.run_until_cancelled(ticks.tick()).await.is_none();
        flush(if stopped { LAST_WRITE_PATIENCE } else { WRITE_PATIENCE }).await;
        if stopped {
            return;
        }
    }
}

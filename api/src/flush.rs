//! Writes records that gather on a node to the directory, at an interval.

use std::time::Duration;

use raft::supervise;
use tokio_util::sync::CancellationToken;

/// Timeout of a write. A failed write is retried at the next flush.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// Timeout of the last write. It is short, because a cluster that stops as a whole has no leader any more.
const LAST_WRITE_PATIENCE: Duration = Duration::from_secs(1);

/// Calls `flush` at an interval and once more at the stop, with the time that it may take.
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

//! Limits how many large bodies of one account a node processes at once, so that they leave enough CPU time for the
//! requests of others (docs/design/http.md).

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::error::CallError;
use model::id::CustomerId;
use shard::shares::Shares;
use tokio::sync::{Semaphore, oneshot};

/// Larger bodies, in bytes, wait for a permit.
pub const SMALL: usize = 16 * 1024;

/// How many large bodies of one account a node processes at once. Each node counts separately.
const AT_ONCE: usize = 1;

/// A permit ends after this time in any case, because time spent waiting for a slow network costs no CPU.
const LONGEST_HOLD: Duration = Duration::from_millis(50);

/// The next permit is delayed by this many times the duration of the one before, so that the CPU is free for others
/// most of the time. Even a whole bucket of bodies with the longest permits and delays ends within [`PATIENCE`].
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(75);

/// How long a body waits for a permit. The account's bucket bounds how many wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// Issues a node's permits. Accounts without a large body take no memory.
pub struct BodyLimiter(Arc<Shares>);

impl Default for BodyLimiter {
    fn default() -> Self {
        Self(Arc::new(Shares::new(Semaphore::MAX_PERMITS, AT_ONCE)))
    }
}

/// The right to process a large body. It ends when dropped, or after [`LONGEST_HOLD`].
pub struct BodyPermit {
    _ended: oneshot::Sender<()>,
}

impl BodyLimiter {
    /// Waits for the account's permit.
    ///
    /// # Errors
    /// `worker_at_capacity` when the wait takes too long.
    pub async fn take(&self, account: CustomerId) -> Result<BodyPermit, CallError> {
        self.take_within(account, PATIENCE).await
    }

    async fn take_within(&self, account: CustomerId, patience: Duration) -> Result<BodyPermit, CallError> {
        let free = tokio::time::timeout(patience, self.0.take(account));
        let share = free.await.map_err(|_| CallError::worker_at_capacity())?;
        let (_ended, ended) = oneshot::channel();
        tokio::spawn(async move {
            let begun = Instant::now();
            // The permit ends when it is dropped, at the latest after `LONGEST_HOLD`.
            let _ = tokio::time::timeout(LONGEST_HOLD, ended).await;
            tokio::time::sleep((begun.elapsed() * REST).min(LONGEST_REST)).await;
            drop(share);
        });
        Ok(BodyPermit { _ended })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use futures::FutureExt;
    use model::error::ErrorCode;

    use super::*;

    #[tokio::test]
    async fn an_account_has_one_permit_and_the_next_comes_after_a_rest_or_by_itself() {
        let limiter = BodyLimiter::default();
        let (one, other) = (CustomerId::new(), CustomerId::new());
        let begun = Instant::now();
        let first = limiter.take(one).await.unwrap();
        let second = limiter.take(one);
        tokio::pin!(second);
        assert!(second.as_mut().now_or_never().is_none(), "a second waits");
        limiter.take(other).now_or_never().unwrap().unwrap();
        tokio::time::sleep(LONGEST_HOLD / 5).await;
        drop(first);
        let second = second.await.unwrap();
        assert!(begun.elapsed() >= LONGEST_HOLD / 5 * (1 + REST), "the first rests");
        let begun = Instant::now();
        let third = limiter.take(one).await.unwrap();
        assert!(begun.elapsed() >= LONGEST_HOLD + LONGEST_REST, "the second is held, and rests");
        drop((second, third));
    }

    #[tokio::test]
    async fn who_waits_too_long_is_refused_and_nothing_is_kept_of_accounts_without_large_bodies() {
        let limiter = BodyLimiter::default();
        let account = CustomerId::new();
        let held = limiter.take(account).await.unwrap();
        let refused = limiter.take_within(account, Duration::from_millis(1)).await.err().unwrap();
        assert_eq!(refused.code, ErrorCode::WorkerAtCapacity);
        drop(held);
        while !limiter.0.is_idle() {
            tokio::task::yield_now().await;
        }
    }
}

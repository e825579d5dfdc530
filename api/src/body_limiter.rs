//! A node works on one large body of an account at a time, so that many at once leave the requests of others their share
//! of its processor (docs/design/http.md).

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::error::CallError;
use model::id::CustomerId;
use shard::shares::Shares;
use tokio::sync::{Semaphore, oneshot};

/// A body of more bytes waits for a permit.
pub const SMALL: usize = 16 * 1024;

/// How many large bodies of one account a node works on at once. The cluster's other nodes work on as many.
const AT_ONCE: usize = 1;

/// After so long a permit ends, whatever its body waits for: a slow network is no work.
const LONGEST_HOLD: Duration = Duration::from_millis(50);

/// The next permit is given after a rest of so many times what the one before took: the others' requests find the
/// processor free for most of the time. A bucket full of bodies whose permits and rests last longest still ends within
/// [`PATIENCE`].
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(75);

/// How long a body waits for a permit. No more of them wait than the account's bucket lets in meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gives the permits of a node; accounts without a large body take no room.
pub struct BodyLimiter(Arc<Shares>);

impl Default for BodyLimiter {
    fn default() -> Self {
        Self(Arc::new(Shares::new(Semaphore::MAX_PERMITS, AT_ONCE)))
    }
}

/// The right to work on a body, which ends with it or by itself.
pub struct BodyPermit {
    _ended: oneshot::Sender<()>,
}

impl BodyLimiter {
    /// Waits until the account has few enough large bodies at work.
    ///
    /// # Errors
    /// `worker_at_capacity` when that takes too long.
    pub async fn take(&self, account: CustomerId) -> Result<BodyPermit, CallError> {
        self.take_within(account, PATIENCE).await
    }

    async fn take_within(&self, account: CustomerId, patience: Duration) -> Result<BodyPermit, CallError> {
        let free = tokio::time::timeout(patience, self.0.take(account));
        let share = free.await.map_err(|_| CallError::worker_at_capacity())?;
        let (_ended, ended) = oneshot::channel();
        tokio::spawn(async move {
            let begun = Instant::now();
            // The permit is over when its body's work has ended, and at the latest after this time.
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

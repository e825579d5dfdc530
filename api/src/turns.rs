//! Large bodies of one account take turns at a node, so that many at once leave the requests of others their share of its
//! processor (docs/design/http.md).

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::error::CallError;
use model::id::CustomerId;
use shard::shares::Shares;
use tokio::sync::{Semaphore, oneshot};

/// A body of more bytes waits for its turn.
pub const SMALL: usize = 16 * 1024;

/// How many large bodies of one account a node works on at once. The cluster's other nodes work on as many.
const AT_ONCE: usize = 1;

/// After so long a turn ends, whatever its body waits for: a slow network is no work.
const TURN: Duration = Duration::from_millis(50);

/// The next turn begins after a rest of so many times what the one before took: the others' requests find the processor free for most
/// of the time. A bucket full of bodies whose turns and rests last longest still ends within [`PATIENCE`].
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(75);

/// How long a body waits for its turn. No more of them wait than the account's bucket lets in meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// The turns of a node; accounts without a large body take no room.
pub struct Turns(Arc<Shares>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Shares::new(Semaphore::MAX_PERMITS, AT_ONCE)))
    }
}

/// A body's turn, which ends with it or by itself.
pub struct Turn {
    _ended: oneshot::Sender<()>,
}

impl Turns {
    /// Waits until the account has few enough large bodies at work.
    ///
    /// # Errors
    /// `worker_at_capacity` when that takes too long.
    pub async fn take(&self, account: CustomerId) -> Result<Turn, CallError> {
        self.take_within(account, PATIENCE).await
    }

    async fn take_within(&self, account: CustomerId, patience: Duration) -> Result<Turn, CallError> {
        let free = tokio::time::timeout(patience, self.0.take(account));
        let share = free.await.map_err(|_| CallError::worker_at_capacity())?;
        let (_ended, ended) = oneshot::channel();
        tokio::spawn(async move {
            let begun = Instant::now();
            // The turn is over when its body's work has ended, and at the latest after this time.
            let _ = tokio::time::timeout(TURN, ended).await;
            tokio::time::sleep((begun.elapsed() * REST).min(LONGEST_REST)).await;
            drop(share);
        });
        Ok(Turn { _ended })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use futures::FutureExt;
    use model::error::ErrorCode;

    use super::*;

    #[tokio::test]
    async fn an_account_has_one_turn_and_the_next_comes_after_a_rest_or_by_itself() {
        let turns = Turns::default();
        let (one, other) = (CustomerId::new(), CustomerId::new());
        let begun = Instant::now();
        let first = turns.take(one).await.unwrap();
        let second = turns.take(one);
        tokio::pin!(second);
        assert!(second.as_mut().now_or_never().is_none(), "a second waits");
        turns.take(other).now_or_never().unwrap().unwrap();
        tokio::time::sleep(TURN / 5).await;
        drop(first);
        let second = second.await.unwrap();
        assert!(begun.elapsed() >= TURN / 5 * (1 + REST), "the first rests");
        let begun = Instant::now();
        let third = turns.take(one).await.unwrap();
        assert!(begun.elapsed() >= TURN + LONGEST_REST, "the second is held, and rests");
        drop((second, third));
    }

    #[tokio::test]
    async fn who_waits_too_long_is_refused_and_nothing_is_kept_of_accounts_without_large_bodies() {
        let turns = Turns::default();
        let account = CustomerId::new();
        let held = turns.take(account).await.unwrap();
        let refused = turns.take_within(account, Duration::from_millis(1)).await.err().unwrap();
        assert_eq!(refused.code, ErrorCode::WorkerAtCapacity);
        drop(held);
        while !turns.0.is_idle() {
            tokio::task::yield_now().await;
        }
    }
}

//! Large bodies of one account take turns at a node, so that many at once leave the requests of others their share of its
//! processor (docs/design/http.md).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::error::ApiError;
use model::id::CustomerId;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

/// A body of more bytes waits for its turn.
pub const SMALL: usize = 16 * 1024;

/// How many large bodies of one account a node works on at once.
const AT_ONCE: usize = 2;

/// After so long the next one begins, whatever the one before waits for: a slow network is no work.
const TURN: Duration = Duration::from_millis(50);

/// How long a body waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

type Accounts = Mutex<HashMap<CustomerId, Arc<Semaphore>>>;

/// The turns of a node; accounts without a large body take no room.
#[derive(Default)]
pub struct Turns(Arc<Accounts>);

/// A body's turn, which ends with it or by itself.
pub struct Turn {
    _ended: oneshot::Sender<()>,
}

impl Turns {
    /// Waits until the account has few enough large bodies at work.
    ///
    /// # Errors
    /// `worker_at_capacity` when that takes too long.
    pub async fn take(&self, account: CustomerId) -> Result<Turn, ApiError> {
        let place = Place::of(&self.0, account);
        let free = place.turns.clone().acquire_owned();
        let Ok(Ok(permit)) = tokio::time::timeout(PATIENCE, free).await else {
            return Err(ApiError::worker_at_capacity());
        };
        let (_ended, ended) = oneshot::channel();
        tokio::spawn(async move {
            // Either way it is over.
            let _ = tokio::time::timeout(TURN, ended).await;
            drop(permit);
            drop(place);
        });
        Ok(Turn { _ended })
    }
}

/// Who has a turn of an account, or waits for one.
struct Place {
    accounts: Arc<Accounts>,
    account: CustomerId,
    turns: Arc<Semaphore>,
}

impl Place {
    fn of(accounts: &Arc<Accounts>, account: CustomerId) -> Self {
        let mut known = accounts.lock();
        let turns = known.entry(account).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))).clone();
        Self { accounts: accounts.clone(), account, turns }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut known = self.accounts.lock();
        // The map's and this one's.
        if Arc::strong_count(&self.turns) == 2 {
            known.remove(&self.account);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use futures::FutureExt;
    use model::error::ErrorCode;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_account_has_two_turns_and_the_next_comes_when_one_ends_or_after_50_ms() {
        let turns = Turns::default();
        let (one, other) = (CustomerId::new(), CustomerId::new());
        let first = turns.take(one).await.unwrap();
        let second = turns.take(one).await.unwrap();
        assert!(turns.take(one).now_or_never().is_none(), "a third waits");
        turns.take(other).now_or_never().unwrap().unwrap();

        drop(first);
        let begun = tokio::time::Instant::now();
        let third = turns.take(one).await.unwrap();
        assert!(begun.elapsed() < TURN);
        let fourth = turns.take(one).await.unwrap();
        assert!(begun.elapsed() >= TURN, "the second and third still held theirs");
        drop((second, third, fourth));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_refused_and_nothing_is_kept_of_accounts_without_large_bodies() {
        let turns = Turns::default();
        let account = CustomerId::new();
        let most = 2 * usize::try_from(PATIENCE.as_millis() / TURN.as_millis()).unwrap();
        let asked = futures::future::join_all((0..most + 8).map(|_| turns.take(account))).await;
        let refused: Vec<_> = asked.iter().filter_map(|turn| turn.as_ref().err()).collect();
        assert!((1..=8).contains(&refused.len()), "{}", refused.len());
        assert!(refused.iter().all(|error| error.code == ErrorCode::WorkerAtCapacity));
        drop(turns.take(account).now_or_never());
        tokio::time::sleep(TURN * 2).await;
        assert!(turns.0.lock().is_empty());
    }
}

//! Permits that accounts or addresses share: a total number, of which one account can hold only a part. An account with
//! many requests waits for its own permits, and leaves the others to other accounts.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use model::id::CustomerId;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The permits. Accounts that neither hold nor await one use no memory.
pub struct Shares<K = CustomerId> {
    all: Arc<Semaphore>,
    most_of_one: usize,
    of_each: Arc<Accounts<K>>,
}

type Accounts<K> = Mutex<HashMap<K, Arc<Semaphore>>>;

/// The key by which permits are counted.
pub trait Account: Copy + Eq + Hash + Send + 'static {}

impl<K: Copy + Eq + Hash + Send + 'static> Account for K {}

/// A permit, released on drop. The field order is the drop order: the account's entry is removed last.
pub struct Share<K: Account = CustomerId> {
    of_all: OwnedSemaphorePermit,
    of_own: OwnedSemaphorePermit,
    own: Own<K>,
}

impl<K: Account> Share<K> {
    /// Releases the permit to other accounts at once, and to its own account after `time`. Callable from any thread.
    pub fn rest(self, time: Duration, runtime: &Handle) {
        let Self { of_all, of_own, own } = self;
        drop(of_all);
        runtime.spawn(async move {
            tokio::time::sleep(time).await;
            drop(of_own);
            drop(own);
        });
    }
}

impl<K: Account> Shares<K> {
    pub fn new(most: usize, most_of_one: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(most)), most_of_one, of_each: Arc::default() }
    }

    /// Waits for a permit, behind earlier requests of the account. While it waits for its own account's permit, it
    /// holds none of the shared ones.
    pub async fn take(&self, account: K) -> Share<K> {
        const OPEN: &str = "the places are never closed";
        let own = Own::of(&self.of_each, account, self.most_of_one);
        let of_own = own.places().acquire_owned().await.expect(OPEN);
        let of_all = self.all.clone().acquire_owned().await.expect(OPEN);
        Share { of_all, of_own, own }
    }

    /// Takes a permit, if one is free.
    pub fn try_take(&self, account: K) -> Option<Share<K>> {
        let own = Own::of(&self.of_each, account, self.most_of_one);
        let of_own = own.places().try_acquire_owned().ok()?;
        let of_all = self.all.clone().try_acquire_owned().ok()?;
        Some(Share { of_all, of_own, own })
    }

    /// Whether nobody holds or awaits a permit.
    pub fn is_idle(&self) -> bool {
        self.of_each.lock().is_empty()
    }
}

/// An account that holds or awaits a permit.
struct Own<K: Account> {
    accounts: Arc<Accounts<K>>,
    account: K,
    /// `None` once this is being dropped.
    places: Option<Arc<Semaphore>>,
}

impl<K: Account> Own<K> {
    fn of(accounts: &Arc<Accounts<K>>, account: K, most: usize) -> Self {
        let places = accounts.lock().entry(account).or_insert_with(|| Arc::new(Semaphore::new(most))).clone();
        Self { accounts: accounts.clone(), account, places: Some(places) }
    }

    fn places(&self) -> Arc<Semaphore> {
        self.places.clone().expect("they are there until this one goes")
    }
}

impl<K: Account> Drop for Own<K> {
    fn drop(&mut self) {
        let mut accounts = self.accounts.lock();
        // Dropped under the lock: of two entries dropped at once, the second sees that only the map still holds it.
        self.places = None;
        if accounts.get(&self.account).is_some_and(|places| Arc::strong_count(places) == 1) {
            accounts.remove(&self.account);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn an_account_that_holds_its_share_leaves_the_rest_to_others_and_all_together_hold_no_more_than_there_are() {
        let shares = Shares::new(3, 2);
        let [loud, quiet, third] = [(); 3].map(|()| CustomerId::random());
        let mut held = vec![shares.try_take(loud).unwrap(), shares.try_take(loud).unwrap()];
        assert!(shares.try_take(loud).is_none() && shares.take(loud).now_or_never().is_none());
        held.push(shares.take(quiet).now_or_never().unwrap());
        assert!(shares.try_take(third).is_none(), "there is none left");
        held.remove(0);
        assert!(shares.try_take(third).is_some());
    }

    #[tokio::test]
    async fn while_an_account_rests_its_place_is_the_others() {
        let shares = Shares::new(1, 1);
        let [loud, quiet] = [(); 2].map(|()| CustomerId::random());
        shares.take(loud).await.rest(Duration::from_secs(600), &Handle::current());
        assert!(shares.try_take(loud).is_none());
        shares.try_take(quiet).unwrap().rest(Duration::ZERO, &Handle::current());
        drop(shares.take(quiet).await);
        assert!(shares.try_take(loud).is_none());
    }

    #[tokio::test]
    async fn who_waits_gets_the_place_that_is_given_back_and_nothing_is_kept_of_accounts_without_one() {
        let shares = Arc::new(Shares::new(9, 1));
        let account = CustomerId::random();
        let held = shares.take(account).await;
        let mut waiting = tokio::spawn({
            let shares = shares.clone();
            async move { shares.take(account).await }
        });
        assert!((&mut waiting).now_or_never().is_none());
        drop(held);
        let held = waiting.await.unwrap();
        assert!(!shares.is_idle());
        // A request that is cancelled while it waits leaves nothing behind either.
        assert!(shares.take(account).now_or_never().is_none());
        drop(held);
        assert!(shares.is_idle());
    }
}

//! Bounds the calls of other nodes that this node answers concurrently.

use std::collections::HashMap;
use std::sync::Arc;

use model::id::{CustomerId, NodeId, ShardId};
use parking_lot::Mutex;
use raft::transport::MOST_CALLS;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::shares::{Share, Shares};

/// The most concurrent calls for one shard from one peer. All calls of a peer share its permits ([`MOST_CALLS`]), and a
/// shard that is stuck must not exhaust them.
const CALLS_OF_A_SHARD: usize = 1024;

/// The most of them for one account. Many calls of an account may wait until their deadline: sends to channels whose
/// network does not answer, reads that take turns, or requests for media that does not arrive. Over all shards
/// together, an account has half of a peer's permits.
const CALLS_OF_AN_ACCOUNT: usize = CALLS_OF_A_SHARD / 2;
const CALLS_OF_AN_ACCOUNT_IN_ALL: usize = MOST_CALLS / 2;

/// Permits for the calls that are being answered here, for each peer and shard.
#[derive(Default)]
pub struct Places {
    of: Mutex<HashMap<(NodeId, ShardId), Arc<OfShard>>>,
    /// The permits of accounts, over all shards together.
    accounts: Mutex<HashMap<NodeId, Arc<Shares>>>,
}

struct OfShard {
    all: Arc<Semaphore>,
    accounts: Shares,
}

impl Default for OfShard {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(CALLS_OF_A_SHARD)), accounts: of_accounts(CALLS_OF_AN_ACCOUNT) }
    }
}

/// Permits that are bounded for one account, but not in all.
fn of_accounts(most_of_one: usize) -> Shares {
    Shares::new(Semaphore::MAX_PERMITS, most_of_one)
}

/// The permits of one call, released on drop.
pub struct PlaceOfCall {
    _of_shard: OwnedSemaphorePermit,
    _of_account: Option<[Share; 2]>,
}

impl Places {
    /// Takes the permits of a call; `None` when one is exhausted.
    pub fn take(&self, from: NodeId, shard: ShardId, account: Option<CustomerId>) -> Option<PlaceOfCall> {
        let places = self.of.lock().entry((from, shard)).or_default().clone();
        let of_account = match account {
            Some(account) => {
                let in_all = || Arc::new(of_accounts(CALLS_OF_AN_ACCOUNT_IN_ALL));
                let in_all = self.accounts.lock().entry(from).or_insert_with(in_all).clone();
                Some([places.accounts.try_take(account)?, in_all.try_take(account)?])
            }
            None => None,
        };
        let of_shard = places.all.clone().try_acquire_owned().ok()?;
        Some(PlaceOfCall { _of_shard: of_shard, _of_account: of_account })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_stands_still_takes_no_places_from_others() {
        let places = Places::default();
        let mut held: Vec<_> = (0..CALLS_OF_A_SHARD).filter_map(|_| places.take(1, 7, None)).collect();
        assert!(held.len() == CALLS_OF_A_SHARD && places.take(1, 7, None).is_none());
        assert!(places.take(1, 8, None).is_some() && places.take(2, 7, None).is_some());
        held.pop();
        assert!(places.take(1, 7, None).is_some());
    }

    /// As many permits as the account can get for the shard.
    fn held_by(places: &Places, shard: ShardId, account: CustomerId) -> Vec<PlaceOfCall> {
        (0..CALLS_OF_A_SHARD).filter_map(|_| places.take(1, shard, Some(account))).collect()
    }

    #[test]
    fn an_account_whose_calls_wait_leaves_places_of_its_shard_to_others() {
        let places = Places::default();
        let (loud, quiet) = (CustomerId::random(), CustomerId::random());
        let held = held_by(&places, 7, loud);
        assert!(held.len() < CALLS_OF_A_SHARD && places.take(1, 7, Some(loud)).is_none());
        assert!(places.take(1, 7, Some(quiet)).is_some() && places.take(1, 7, None).is_some());
        let in_all: Vec<_> = (8..16).flat_map(|shard| held_by(&places, shard, loud)).collect();
        assert_eq!(held.len() + in_all.len(), CALLS_OF_AN_ACCOUNT_IN_ALL, "it leaves places of its peer, too");
        drop((held, in_all));
        assert!(places.take(1, 7, Some(loud)).is_some());
    }
}

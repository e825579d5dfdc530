//! Rate limits by client address, charged before a credential is read. The buckets are bounded, in one node's memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use model::limit::{BucketLevel, BucketRule, TokenBucket};
use model::time::Timestamp;
use parking_lot::Mutex;
pub use raft::transport::admission::network_of;

/// The map is split into parts with their own locks, to reduce contention.
const SHARDS: usize = 64;

/// The most addresses in a part. All parts together take some 40 MiB when full.
const SHARD_CAPACITY: usize = 8 * 1024;

/// How often a full part is searched for buckets to evict. A search costs more than a request.
const EVICT_EVERY: Duration = Duration::from_secs(1);

/// The buckets of recent client addresses.
pub struct IpBuckets {
    rule: BucketRule,
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
}

#[derive(Default)]
struct Shard {
    buckets: HashMap<IpAddr, TokenBucket>,
    evicted_at: Timestamp,
}

impl IpBuckets {
    pub fn new(rule: BucketRule) -> Self {
        Self { rule, hasher: RandomState::new(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Takes a token from the bucket of an address.
    ///
    /// # Errors
    /// The level of the bucket if it is empty.
    pub fn take(&self, address: IpAddr, now: Timestamp) -> Result<(), BucketLevel> {
        let address = network_of(address);
        let mut shard = self.shard_of(address).lock();
        if shard.buckets.len() >= SHARD_CAPACITY && !shard.buckets.contains_key(&address) {
            shard.make_room(now);
        }
        let bucket = shard.buckets.entry(address).or_insert_with(|| TokenBucket::full(self.rule, now));
        if bucket.try_take(now) { Ok(()) } else { Err(bucket.level(now)) }
    }

    /// Returns a token that should not have been charged.
    pub fn give_back(&self, address: IpAddr) {
        let address = network_of(address);
        if let Some(bucket) = self.shard_of(address).lock().buckets.get_mut(&address) {
            bucket.give_back();
        }
    }

    fn shard_of(&self, address: IpAddr) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(address) as usize % SHARDS]
    }
}

impl Shard {
    /// Evicts the buckets that are full again, since a new one would be equal. When all are in use, one is evicted
    /// anyway, and its address starts with a full bucket. More addresses than fit are a flood that these buckets cannot
    /// stop.
    fn make_room(&mut self, now: Timestamp) {
        if now.since(self.evicted_at) >= EVICT_EVERY {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            self.evicted_at = now;
        }
        if self.buckets.len() >= SHARD_CAPACITY
            && let Some(address) = self.buckets.keys().next().copied()
        {
            self.buckets.remove(&address);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const RULE: BucketRule = BucketRule { burst: 3, refill_per_second: 1 };

    #[test]
    fn an_address_has_its_burst_and_then_its_refill() {
        let buckets = IpBuckets::new(RULE);
        let address = "198.51.100.1".parse().unwrap();
        let start = Timestamp(1_000_000);
        for _ in 0..3 {
            assert!(buckets.take(address, start).is_ok());
        }
        let level = buckets.take(address, start).unwrap_err();
        assert_eq!((level.limit, level.remaining, level.retry_after), (3, 0, 1));
        assert!(buckets.take("198.51.100.2".parse().unwrap(), start).is_ok());
        assert!(buckets.take(address, Timestamp(1_001_000)).is_ok());
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_share_a_bucket() {
        let buckets = IpBuckets::new(RULE);
        let now = Timestamp(0);
        for host in 1..=3 {
            assert!(buckets.take(format!("2001:db8::{host}").parse().unwrap(), now).is_ok());
        }
        assert!(buckets.take("2001:db8::4".parse().unwrap(), now).is_err());
        assert!(buckets.take("2001:db8:0:1::4".parse().unwrap(), now).is_ok());
    }

    #[test]
    fn a_flood_of_addresses_is_kept_in_bounds() {
        let buckets = IpBuckets::new(RULE);
        let flood = (SHARDS * SHARD_CAPACITY) as u32 + 100_000;
        for n in 0..flood {
            let _ = buckets.take(IpAddr::V4(n.into()), Timestamp(0));
        }
        let kept: usize = buckets.shards.iter().map(|shard| shard.lock().buckets.len()).sum();
        assert!(kept <= SHARDS * SHARD_CAPACITY);
    }
}

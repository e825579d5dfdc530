//! Token buckets at their coordinator: the owner of the slot that a customer or a channel hashes to.
//!
//! Buckets are in memory. After a failover a bucket starts full once, which the interface allows. Times are
//! [`Timestamp::steady`]: with the wall clock, setting it back by an hour would stop the refill for an hour.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

use model::id::{ChannelId, CustomerId};
use model::limit::{AttemptRule, BucketLevel, BucketRule, TokenBucket};
use model::time::Timestamp;
use uuid::Uuid;

/// Above this many buckets of a kind, full ones are evicted: a new bucket starts full anyway.
const EVICT_ABOVE: usize = 10_000;

/// The most buckets of a kind. If more are not full, all are dropped and start full, as after a failover.
const MOST: usize = 500_000;

#[derive(Default)]
pub struct Buckets {
    pub customers: Kind<CustomerId>,
    /// By account and channel, so that a request for another account's channel is charged to its caller.
    pub channels: Kind<(CustomerId, ChannelId)>,
    attempts: Kind<Uuid>,
    given_back: GivenBack,
}

/// The ids of the latest calls that returned a token or an attempt. A call is repeated when its response is lost, and
/// must not return a token twice; it does if it is repeated after more calls than are remembered.
#[derive(Default)]
struct GivenBack {
    calls: HashSet<Uuid>,
    oldest_first: VecDeque<Uuid>,
}

impl GivenBack {
    const REMEMBERED: usize = 4_096;

    /// Records a call. False if it is recorded already.
    fn is_new(&mut self, call: Uuid) -> bool {
        if !self.calls.insert(call) {
            return false;
        }
        self.oldest_first.push_back(call);
        if self.oldest_first.len() > Self::REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.calls.remove(&oldest);
        }
        true
    }
}

impl Buckets {
    /// Returns a token when another bucket refused the request, once per call.
    pub fn refund_customer(&mut self, id: CustomerId, call: Uuid) {
        if let Some(bucket) = self.customers.buckets.get_mut(&id)
            && self.given_back.is_new(call)
        {
            bucket.give_back();
        }
    }

    /// Counts an attempt, such as a login with one e-mail address.
    ///
    /// # Errors
    /// Whole seconds until the next attempt is possible.
    pub fn attempt(&mut self, subject: Uuid, rule: AttemptRule, now: Timestamp) -> Result<(), u32> {
        self.attempts.bucket(subject, rule.bucket(), now).try_attempt(rule, now)
    }

    /// Returns the attempt of an operation that succeeded, once per call.
    pub fn return_attempt(&mut self, subject: Uuid, rule: AttemptRule, call: Uuid) {
        if let Some(bucket) = self.attempts.buckets.get_mut(&subject)
            && self.given_back.is_new(call)
        {
            bucket.return_attempt(rule);
        }
    }
}

/// The buckets of one kind.
pub struct Kind<K> {
    buckets: HashMap<K, TokenBucket>,
    /// At this many buckets, full ones are evicted: twice the number left by the last eviction, to amortize its cost.
    evict_at: usize,
}

impl<K> Default for Kind<K> {
    fn default() -> Self {
        Self { buckets: HashMap::new(), evict_at: EVICT_ABOVE }
    }
}

impl<K: Copy + Eq + Hash> Kind<K> {
    /// Takes a token if there is one, and up to `lend` more for the calling node to hold. Returns the level after that,
    /// whether a token was taken, and how many were lent.
    pub fn take(&mut self, id: K, rule: BucketRule, lend: u32, now: Timestamp) -> (BucketLevel, bool, u32) {
        let bucket = self.bucket(id, rule, now);
        let taken = bucket.try_take(now);
        let lent = bucket.lend(lend, now);
        (bucket.level(now), taken, lent)
    }

    /// The level, without taking a token.
    pub fn peek(&mut self, id: K, rule: BucketRule, now: Timestamp) -> (BucketLevel, bool, u32) {
        (self.bucket(id, rule, now).level(now), false, 0)
    }

    fn bucket(&mut self, id: K, rule: BucketRule, now: Timestamp) -> &mut TokenBucket {
        if self.buckets.len() >= self.evict_at {
            self.evict(now);
        }
        let bucket = self.buckets.entry(id).or_insert_with(|| TokenBucket::full(rule, now));
        if bucket.rule() != rule {
            bucket.set_rule(rule, now);
        }
        bucket
    }

    fn evict(&mut self, now: Timestamp) {
        self.buckets.retain(|_, bucket| !bucket.is_full(now));
        if self.buckets.len() >= MOST {
            self.buckets.clear();
        }
        self.evict_at = (self.buckets.len() * 2).clamp(EVICT_ABOVE, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_made_again_gives_its_token_back_once() {
        let (mut buckets, customer, now) = (Buckets::default(), CustomerId::random(), Timestamp(1_000));
        let rule = BucketRule { burst: 5, refill_per_second: 1 };
        let taken: Vec<bool> = (0..6).map(|_| buckets.customers.take(customer, rule, 0, now).1).collect();
        assert_eq!(taken, [true, true, true, true, true, false]);
        let call = Uuid::new_v4();
        for _ in 0..3 {
            buckets.refund_customer(customer, call);
        }
        let taken: Vec<bool> = (0..2).map(|_| buckets.customers.take(customer, rule, 0, now).1).collect();
        assert_eq!(taken, [true, false]);
    }

    #[test]
    fn full_buckets_are_evicted_when_they_have_doubled_and_never_exceed_their_bound() {
        let (mut buckets, now) = (Kind::<u64>::default(), Timestamp(1_000));
        let rule = BucketRule { burst: 5, refill_per_second: 1 };
        for id in 0..EVICT_ABOVE as u64 {
            assert!(buckets.take(id, rule, 0, now).1);
        }
        assert_eq!(buckets.evict_at, EVICT_ABOVE);
        buckets.take(u64::MAX, rule, 0, now);
        assert_eq!(
            (buckets.buckets.len(), buckets.evict_at),
            (EVICT_ABOVE + 1, EVICT_ABOVE * 2),
            "none of them was full"
        );
        // By then all buckets are full again.
        let later = Timestamp(100_000);
        for id in 0..EVICT_ABOVE as u64 {
            buckets.take(1 << 40 | id, rule, 0, later);
        }
        assert!(buckets.buckets.len() <= EVICT_ABOVE + 1, "{}", buckets.buckets.len());
        for id in 0..=MOST as u64 {
            buckets.take(1 << 50 | id, rule, 0, later);
            assert!(buckets.buckets.len() <= MOST);
        }
        assert!(buckets.buckets.len() < MOST, "one more than the bound drops them");
    }

    #[test]
    fn no_more_calls_are_remembered_than_can_be_repeated() {
        let mut given_back = GivenBack::default();
        let first = Uuid::new_v4();
        assert!(given_back.is_new(first));
        for _ in 1..GivenBack::REMEMBERED {
            assert!(given_back.is_new(Uuid::new_v4()));
        }
        assert!(!given_back.is_new(first));
        assert!(given_back.is_new(Uuid::new_v4()));
        assert_eq!(given_back.calls.len(), GivenBack::REMEMBERED);
        assert!(given_back.is_new(first), "it was the oldest");
    }
}

//! Token buckets at their home: the owner of the slot that a customer or a channel hashes to (design section 7).
//!
//! They live in memory. After a fail-over a bucket starts full once, which the interface allows. Their time is
//! [`Timestamp::steady`]: a clock that was an hour ahead and is put right would leave them without refill for an hour.

use std::collections::HashMap;
use std::hash::Hash;

use model::id::{ChannelId, CustomerId};
use model::limit::{AttemptRule, BucketLevel, BucketRule, TokenBucket};
use model::time::Timestamp;
use raft::failpoint::{self, Bug};
use uuid::Uuid;

/// Above this many buckets, full ones are dropped: a full bucket says nothing that a new one would not.
const SWEEP_ABOVE: usize = 10_000;

#[derive(Default)]
pub struct Buckets {
    customers: HashMap<CustomerId, TokenBucket>,
    channels: HashMap<(CustomerId, ChannelId), TokenBucket>,
    attempts: HashMap<Uuid, TokenBucket>,
}

impl Buckets {
    /// Takes a token, when there is one. Says the level after it, and whether it was taken.
    pub fn take_customer(&mut self, id: CustomerId, rule: BucketRule, now: Timestamp) -> (BucketLevel, bool) {
        take(&mut self.customers, id, rule, now)
    }

    /// As [`Buckets::take_customer`]. Keyed by account and channel, so that a probe for a foreign id costs its own.
    pub fn take_channel(
        &mut self,
        customer: CustomerId,
        channel: ChannelId,
        rule: BucketRule,
        now: Timestamp,
    ) -> (BucketLevel, bool) {
        take(&mut self.channels, (customer, channel), rule, now)
    }

    /// Puts a token back that another bucket's refusal made worthless.
    pub fn refund_customer(&mut self, id: CustomerId) {
        if let Some(bucket) = self.customers.get_mut(&id) {
            bucket.give_back();
        }
    }

    /// Counts an attempt at something, such as a login with one e-mail address.
    ///
    /// # Errors
    /// Whole seconds until the next one is possible.
    pub fn attempt(&mut self, subject: Uuid, rule: AttemptRule, now: Timestamp) -> Result<(), u32> {
        bucket(&mut self.attempts, subject, rule.bucket(), now).try_attempt(rule, now)
    }

    /// Gives an attempt back that succeeded.
    pub fn return_attempt(&mut self, subject: Uuid, rule: AttemptRule) {
        if let Some(bucket) = self.attempts.get_mut(&subject) {
            bucket.return_attempt(rule);
        }
    }

    pub fn customer(&mut self, id: CustomerId, rule: BucketRule, now: Timestamp) -> BucketLevel {
        bucket(&mut self.customers, id, rule, now).level(now)
    }

    pub fn channel(
        &mut self,
        customer: CustomerId,
        channel: ChannelId,
        rule: BucketRule,
        now: Timestamp,
    ) -> BucketLevel {
        bucket(&mut self.channels, (customer, channel), rule, now).level(now)
    }
}

fn take<K: Copy + Eq + Hash>(
    buckets: &mut HashMap<K, TokenBucket>,
    id: K,
    rule: BucketRule,
    now: Timestamp,
) -> (BucketLevel, bool) {
    let bucket = bucket(buckets, id, rule, now);
    let taken = bucket.try_take(now);
    (bucket.level(now), taken)
}

fn bucket<K: Copy + Eq + Hash>(
    buckets: &mut HashMap<K, TokenBucket>,
    id: K,
    rule: BucketRule,
    now: Timestamp,
) -> &mut TokenBucket {
    let rule = if failpoint::has(Bug::DoubleBucket) { rule.doubled() } else { rule };
    if buckets.len() >= SWEEP_ABOVE {
        buckets.retain(|_, bucket| !bucket.is_full(now));
    }
    let bucket = buckets.entry(id).or_insert_with(|| TokenBucket::full(rule, now));
    if bucket.rule() != rule {
        bucket.set_rule(rule, now);
    }
    bucket
}

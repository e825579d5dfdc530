//! Token buckets in exact integer arithmetic; the caller passes the time in.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// One token, in the unit of a bucket's level. Refill rates are whole tokens per second, so every millisecond adds a
/// whole number of these units, and no rounding ever admits a request too many.
const TOKEN: u64 = 1000;

/// How long lent tokens may be used.
pub const HELD_FOR: Duration = Duration::from_secs(1);

crate::words! {
    /// The bucket that a limit belongs to (`X-RateLimit-Scope`).
    LimitScope {
        Ip = "ip",
        Customer = "customer",
        Channel = "channel",
        /// A member's session in the console. Its calls take nothing from the customer's bucket.
        Session = "session",
    }
}

impl LimitScope {
    /// The noun in the message "too many requests for this ...".
    pub fn noun(self) -> &'static str {
        match self {
            Self::Ip => "address",
            Self::Customer => "account",
            Self::Channel => "channel",
            Self::Session => "session",
        }
    }
}

/// Capacity and refill rate of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketRule {
    /// Maximum number of tokens in the bucket.
    pub burst: u32,
    /// Tokens added per second.
    pub refill_per_second: u32,
}

impl BucketRule {
    /// Limits calls per client address, before the credential is read.
    pub const PER_IP: Self = Self { burst: 30, refill_per_second: 30 };
    /// Limits all authenticated routes of a customer.
    pub const PER_CUSTOMER: Self = Self { burst: 60, refill_per_second: 1 };
    /// Limits all routes with a channel id in their path.
    pub const PER_CHANNEL: Self = Self { burst: 60, refill_per_second: 1 };
    /// Limits all calls of the console per session of a member.
    pub const PER_SESSION: Self = Self { burst: 120, refill_per_second: 20 };

    fn capacity(self) -> u64 {
        u64::from(self.burst) * TOKEN
    }
}

/// How often something may be attempted, such as passwords for one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRule {
    pub most: u32,
    /// Seconds after which one more attempt becomes possible.
    pub every_seconds: u32,
}

impl AttemptRule {
    /// A bucket that admits `most` attempts at once, then one every `every_seconds`. Buckets refill by whole tokens per
    /// second, so an attempt costs `every_seconds` tokens ([`Self::cost`]).
    pub fn bucket(self) -> BucketRule {
        BucketRule { burst: self.most.saturating_mul(self.every_seconds), refill_per_second: 1 }
    }

    fn cost(self) -> u64 {
        u64::from(self.every_seconds) * TOKEN
    }
}

/// A token bucket: its level at the time of the last change.
///
/// When the clock steps back, nothing is refilled and no token is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBucket {
    rule: BucketRule,
    /// In thousandths of a token.
    level: u64,
    at: Timestamp,
    /// Lent tokens, in thousandths. Until `lent_until` the bucket does not refill beyond its capacity minus these.
    #[serde(default)]
    lent: u64,
    #[serde(default)]
    lent_until: Timestamp,
}

impl TokenBucket {
    pub fn full(rule: BucketRule, now: Timestamp) -> Self {
        Self { rule, level: rule.capacity(), at: now, lent: 0, lent_until: now }
    }

    pub fn rule(&self) -> BucketRule {
        self.rule
    }

    /// Changes capacity and refill. The tokens stay, up to the new capacity.
    pub fn set_rule(&mut self, rule: BucketRule, now: Timestamp) {
        self.refill(now);
        self.rule = rule;
        self.level = self.level.min(self.room(now));
    }

    /// Takes a token if there is one.
    pub fn try_take(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        if self.level < TOKEN {
            return false;
        }
        self.level -= TOKEN;
        true
    }

    /// Lends up to `most` tokens, for use by another node's requests within [`HELD_FOR`]: at most an eighth of the
    /// capacity, and only what leaves the bucket at least half full. Returns how many were lent.
    pub fn lend(&mut self, most: u32, now: Timestamp) -> u32 {
        self.refill(now);
        let spare = self.level.saturating_sub(self.rule.capacity() / 2) / TOKEN;
        let lent = most.min(self.rule.burst / 8).min(u32::try_from(spare).unwrap_or(u32::MAX));
        if lent > 0 {
            self.level -= u64::from(lent) * TOKEN;
            self.lent = self.held(now) + u64::from(lent) * TOKEN;
            self.lent_until = Timestamp(now.0.saturating_add(HELD_FOR.as_millis() as i64));
        }
        lent
    }

    /// Takes the cost of an attempt if the bucket holds it.
    ///
    /// # Errors
    /// Whole seconds, rounded up, until the next attempt is possible.
    pub fn try_attempt(&mut self, rule: AttemptRule, now: Timestamp) -> Result<(), u32> {
        self.refill(now);
        if self.level < rule.cost() {
            let seconds = self.millis_until(rule.cost(), now).div_ceil(1000);
            return Err(u32::try_from(seconds).unwrap_or(u32::MAX).max(1));
        }
        self.level -= rule.cost();
        Ok(())
    }

    /// Returns the cost of an attempt that did not count after all.
    pub fn return_attempt(&mut self, rule: AttemptRule) {
        self.level = (self.level + rule.cost()).min(self.room(self.at));
    }

    /// Returns a token that was taken for a request which another bucket then refused.
    pub fn give_back(&mut self) {
        self.level = (self.level + TOKEN).min(self.room(self.at));
    }

    /// Whole tokens left, rounded down, including lent ones.
    pub fn remaining(&self, now: Timestamp) -> u32 {
        u32::try_from((self.level_at(now) + self.held(now)) / TOKEN).unwrap_or(u32::MAX)
    }

    /// Whole seconds until a token is available, rounded up; 0 if one is available now.
    pub fn retry_after(&self, now: Timestamp) -> u32 {
        let millis = self.millis_until(TOKEN, now);
        u32::try_from(millis.div_ceil(1000)).unwrap_or(u32::MAX)
    }

    /// When the bucket will be full again at its present refill rate; `now` if it is full.
    pub fn reset_at(&self, now: Timestamp) -> Timestamp {
        let millis = self.millis_until(self.room(now), now);
        Timestamp(now.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// Whether the bucket is full, so that it need not be stored.
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.level_at(now) == self.rule.capacity()
    }

    fn refill(&mut self, now: Timestamp) {
        self.level = self.level_at(now);
        self.at = self.at.max(now);
    }

    fn level_at(&self, now: Timestamp) -> u64 {
        let millis = u64::try_from(now.since(self.at).as_millis()).unwrap_or(u64::MAX);
        // A rate in tokens per second equals thousandths of a token per millisecond.
        let refilled = millis.saturating_mul(u64::from(self.rule.refill_per_second));
        self.level.saturating_add(refilled).min(self.room(now))
    }

    /// Lent tokens that may still be used, in thousandths.
    fn held(&self, now: Timestamp) -> u64 {
        if now < self.lent_until { self.lent } else { 0 }
    }

    /// The maximum level while tokens are lent.
    fn room(&self, now: Timestamp) -> u64 {
        self.rule.capacity().saturating_sub(self.held(now))
    }

    /// Milliseconds until the bucket reaches `level`. Without refill, a number that stands for never.
    fn millis_until(&self, level: u64, now: Timestamp) -> u64 {
        let missing = level.saturating_sub(self.level_at(now));
        match u64::from(self.rule.refill_per_second) {
            _ if missing == 0 => 0,
            0 => u64::from(u32::MAX) * 1000,
            refill => missing.div_ceil(refill),
        }
    }
}

/// The public state of a bucket at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketLevel {
    pub limit: u32,
    pub remaining: u32,
    pub reset_at: Timestamp,
    /// Whole seconds until a token is available; 0 if one is available now.
    pub retry_after: u32,
}

impl TokenBucket {
    pub fn level(&self, now: Timestamp) -> BucketLevel {
        BucketLevel {
            limit: self.rule.burst,
            remaining: self.remaining(now),
            reset_at: self.reset_at(now),
            retry_after: self.retry_after(now),
        }
    }
}

impl BucketLevel {
    /// Converts `reset_at` from a steady clock, by which the bucket counts, to the wall clock, which callers see.
    pub fn by_the_wall(self, wall: Timestamp, steady: Timestamp) -> Self {
        Self { reset_at: Timestamp(self.reset_at.0.saturating_add(wall.0 - steady.0)), ..self }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULE: BucketRule = BucketRule { burst: 3, refill_per_second: 2 };

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_refill() {
        let mut bucket = TokenBucket::full(RULE, Timestamp(0));
        assert!((0..3).all(|_| bucket.try_take(Timestamp(0))));
        assert!(!bucket.try_take(Timestamp(499)));
        assert_eq!(bucket.retry_after(Timestamp(499)), 1);
        assert!(bucket.try_take(Timestamp(500)));
        assert_eq!(bucket.remaining(Timestamp(999)), 0);
        assert_eq!(bucket.reset_at(Timestamp(500)), Timestamp(2000));
        assert_eq!(bucket.reset_at(Timestamp(9000)), Timestamp(9000));
        assert!(bucket.is_full(Timestamp(2000)));
    }

    #[test]
    fn a_clock_that_goes_back_refills_nothing() {
        let mut bucket = TokenBucket::full(RULE, Timestamp(10_000));
        assert!((0..3).all(|_| bucket.try_take(Timestamp(10_000))));
        assert!(!bucket.try_take(Timestamp(5_000)));
        assert!(!bucket.try_take(Timestamp(10_400)));
        assert!(bucket.try_take(Timestamp(10_500)));
    }

    #[test]
    fn a_level_is_told_by_the_wall_clock() {
        let mut bucket = TokenBucket::full(RULE, Timestamp(10_000));
        assert!(bucket.try_take(Timestamp(10_000)));
        let level = bucket.level(Timestamp(10_000));
        assert_eq!(level.reset_at, Timestamp(10_500));
        assert_eq!(level.by_the_wall(Timestamp(3_000), Timestamp(10_000)).reset_at, Timestamp(3_500));
    }

    #[test]
    fn a_bucket_lends_an_eighth_at_most_and_keeps_half() {
        let (rule, now) = (BucketRule { burst: 80, refill_per_second: 1 }, Timestamp(0));
        let mut bucket = TokenBucket::full(rule, now);
        let lent: Vec<u32> = (0..6).map(|_| bucket.lend(1_000, now)).collect();
        assert_eq!(lent, [10, 10, 10, 10, 0, 0]);
        assert_eq!(bucket.level(now).remaining, 80, "nothing is used yet");
        assert_eq!((0..41).filter(|_| bucket.try_take(now)).count(), 40);
        assert_eq!(bucket.lend(3, Timestamp(2_000)), 0, "it is less than half full");
    }

    #[test]
    fn a_bucket_does_not_refill_what_others_hold_of_it() {
        let (rule, now) = (BucketRule { burst: 80, refill_per_second: 1_000 }, Timestamp(0));
        let mut bucket = TokenBucket::full(rule, now);
        assert_eq!(bucket.lend(10, now), 10);
        assert_eq!((0..80).filter(|_| bucket.try_take(Timestamp(999))).count(), 70);
        assert!(!bucket.is_full(Timestamp(999)));
        assert!(bucket.is_full(Timestamp(2_000)));
    }

    #[test]
    fn a_bucket_without_refill_stays_empty() {
        let mut bucket = TokenBucket::full(BucketRule { burst: 1, refill_per_second: 0 }, Timestamp(0));
        assert!(bucket.try_take(Timestamp(0)));
        assert!(!bucket.try_take(Timestamp(i64::MAX)));
        assert_eq!(bucket.retry_after(Timestamp(5)), u32::MAX);
    }

    #[test]
    fn attempts_come_back_one_by_one() {
        let rule = AttemptRule { most: 3, every_seconds: 60 };
        let start = Timestamp(1_000_000);
        let mut bucket = TokenBucket::full(rule.bucket(), start);
        for _ in 0..3 {
            bucket.try_attempt(rule, start).unwrap();
        }
        assert_eq!(bucket.try_attempt(rule, start), Err(60));
        assert_eq!(bucket.try_attempt(rule, Timestamp(start.0 + 59_001)), Err(1));
        bucket.try_attempt(rule, Timestamp(start.0 + 60_000)).unwrap();
        bucket.return_attempt(rule);
        bucket.try_attempt(rule, Timestamp(start.0 + 60_000)).unwrap();
        assert!(bucket.try_attempt(rule, Timestamp(start.0 + 60_000)).is_err());
        assert!(bucket.is_full(Timestamp(start.0 + 60_000 + 180_000)));
    }

    proptest! {
        /// Whatever the pattern, at most rate × time + burst requests are admitted.
        #[test]
        fn no_pattern_of_requests_gets_more_than_rate_times_time_plus_burst(
            burst in 0_u32..50,
            refill_per_second in 0_u32..50,
            steps in prop::collection::vec((0_i64..700, 0_u32..8), 1..400),
        ) {
            let mut bucket = TokenBucket::full(BucketRule { burst, refill_per_second }, Timestamp(0));
            let (mut now, mut admitted) = (0_i64, 0_u64);
            for (step, lend) in steps {
                now += step;
                admitted += u64::from(bucket.try_take(Timestamp(now)));
                // Lent tokens may be spent at any time until they expire; counting them now is the worst case.
                admitted += u64::from(bucket.lend(lend, Timestamp(now)));
                let allowed = u64::from(burst) * 1000 + u64::from(refill_per_second) * now as u64;
                prop_assert!(admitted * 1000 <= allowed);
            }
        }

        /// The wait that a refusal names is long enough.
        #[test]
        fn waiting_as_told_gets_a_token(burst in 1_u32..50, refill_per_second in 1_u32..50, taken in 0_u32..60) {
            let mut bucket = TokenBucket::full(BucketRule { burst, refill_per_second }, Timestamp(0));
            for _ in 0..taken {
                bucket.try_take(Timestamp(7));
            }
            let wait = i64::from(bucket.retry_after(Timestamp(7)));
            prop_assert!(bucket.try_take(Timestamp(7 + wait * 1000)));
        }
    }
}

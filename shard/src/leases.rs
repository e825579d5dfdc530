//! Leases of tokens from customers' buckets, so that not every call of a busy account asks the bucket's coordinator.
//!
//! The coordinator has already taken leased tokens out of the bucket: admitted calls stay within the bucket's bound,
//! and tokens that a node does not use within a second are lost. Tokens are lent only from large buckets that are at
//! least half full, and at most a quarter of the calls of the previous second: so few tokens are lost, and an account
//! near its limit is counted exactly.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::id::CustomerId;
use model::limit::{BucketLevel, BucketRule, HELD_FOR};
use model::standstill::is_since_resumption;
use parking_lot::Mutex;

/// The least burst of a bucket that lends tokens; smaller buckets are counted token by token.
pub const LARGE: u32 = 1_000;

/// How long a token is held; also the window in which calls are counted.
const LIFE: Duration = HELD_FOR;

/// The most accounts with a lease; calls of further accounts ask the coordinator.
const MOST: usize = 10_000;

/// A node asks for the calls of a second, divided by this.
const PART: u32 = 4;

#[derive(Default)]
pub struct Leases(Mutex<Held>);

#[derive(Default)]
struct Held {
    of: HashMap<CustomerId, Lease>,
    /// When idle leases were last removed.
    expired_at: Option<Instant>,
}

/// The tokens that a node holds for one account, and the rate of the account's calls.
struct Lease {
    rule: BucketRule,
    tokens: u32,
    lent: u32,
    /// The bucket's level when the coordinator lent the tokens; `None` before that.
    level: Option<BucketLevel>,
    /// When the tokens were requested. The lease starts before the coordinator lends them, so it ends before the
    /// coordinator stops counting them.
    since: Instant,
    /// When the pending request for tokens was made; there is at most one at a time.
    asked: Option<Instant>,
    window: Instant,
    calls: u32,
    calls_before: u32,
}

/// How a call is paid for.
#[derive(Debug, PartialEq, Eq)]
pub enum Paid {
    /// With a token held here; the level of the bucket after that.
    Here(BucketLevel),
    /// By the coordinator, which may lend up to `lend` tokens in addition.
    AtHome { lend: u32 },
}

impl Leases {
    /// Takes a token that is held here, or returns how many to request from the coordinator. The coordinator's own
    /// node, as `is_home` tells, requests none.
    pub fn take(&self, customer: CustomerId, rule: BucketRule, now: Instant, is_home: impl FnOnce() -> bool) -> Paid {
        if rule.burst < LARGE || is_home() {
            return Paid::AtHome { lend: 0 };
        }
        let mut held = self.0.lock();
        if held.of.len() >= MOST && !held.of.contains_key(&customer) {
            held.expire(now);
            if held.of.len() >= MOST {
                return Paid::AtHome { lend: 0 };
            }
        }
        held.of.entry(customer).or_insert_with(|| Lease::new(rule, now)).take(rule, now)
    }

    /// Records the tokens that the coordinator lent for the request made at `asked`.
    pub fn lent(&self, customer: CustomerId, level: BucketLevel, tokens: u32, asked: Instant) {
        if let Some(lease) = self.0.lock().of.get_mut(&customer)
            && lease.asked == Some(asked)
        {
            lease.asked = None;
            (lease.tokens, lease.lent, lease.level, lease.since) = (tokens, tokens, Some(level), asked);
        }
    }

    /// Returns a token when another bucket refused the request. False if the lease holds as many as the coordinator
    /// lent.
    pub fn give_back(&self, customer: CustomerId, now: Instant) -> bool {
        let mut held = self.0.lock();
        let lease = held.of.get_mut(&customer).filter(|lease| lease.tokens < lease.lent && lease.lasts(now));
        lease.map(|lease| lease.tokens += 1).is_some()
    }
}

impl Held {
    /// Removes idle leases, at most once per [`LIFE`]: while all are busy, calls must not scan them each time.
    fn expire(&mut self, now: Instant) {
        if self.expired_at.is_none_or(|at| now.saturating_duration_since(at) >= LIFE) {
            self.expired_at = Some(now);
            self.of.retain(|_, lease| now.saturating_duration_since(lease.window) < LIFE * 2);
        }
    }
}

impl Lease {
    fn new(rule: BucketRule, now: Instant) -> Self {
        Self { rule, tokens: 0, lent: 0, level: None, since: now, asked: None, window: now, calls: 0, calls_before: 0 }
    }

    /// Whether the tokens are still valid. After a suspension of the machine they are not, whatever its clock says: the
    /// coordinator no longer counts them.
    fn lasts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < LIFE && is_since_resumption(self.since)
    }

    fn take(&mut self, rule: BucketRule, now: Instant) -> Paid {
        if self.rule != rule {
            *self = Self::new(rule, now);
        }
        self.count(now);
        if let Some(level) = self.level.filter(|_| self.tokens > 0 && self.lasts(now)) {
            self.tokens -= 1;
            let remaining = level.remaining.saturating_add(self.tokens).saturating_sub(self.lent);
            return Paid::Here(BucketLevel { remaining, ..level });
        }
        // A request that was cancelled or not answered blocks the next one for at most the lifetime of its tokens.
        if self.asked.is_some_and(|asked| now.saturating_duration_since(asked) < LIFE) {
            return Paid::AtHome { lend: 0 };
        }
        let lend = self.calls_before / PART;
        self.asked = (lend > 0).then_some(now);
        Paid::AtHome { lend }
    }

    fn count(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.window);
        if passed >= LIFE {
            self.calls_before = if passed < LIFE * 2 { self.calls } else { 0 };
            (self.window, self.calls) = (now, 0);
        }
        self.calls += 1;
    }
}

#[cfg(test)]
mod tests {
    use model::limit::TokenBucket;
    use model::time::Timestamp;

    use super::*;

    const RULE: BucketRule = BucketRule { burst: 1_000, refill_per_second: 10 };

    fn level(remaining: u32) -> BucketLevel {
        BucketLevel { limit: RULE.burst, remaining, reset_at: Timestamp(0), retry_after: 0 }
    }

    /// An account with this many calls in the second before `now`.
    fn busy(calls: u32, now: Instant) -> (Leases, CustomerId) {
        let (leases, customer) = (Leases::default(), CustomerId::random());
        for _ in 0..calls {
            assert_eq!(leases.take(customer, RULE, now - LIFE, || false), Paid::AtHome { lend: 0 });
        }
        (leases, customer)
    }

    #[test]
    fn a_busy_account_pays_here_what_its_home_has_lent_for_a_second() {
        let now = Instant::now();
        let (leases, customer) = busy(12, now);
        assert_eq!(leases.take(customer, RULE, now, || false), Paid::AtHome { lend: 3 });
        assert_eq!(leases.take(customer, RULE, now, || false), Paid::AtHome { lend: 0 }, "one asks at a time");
        leases.lent(customer, level(903), 3, now);
        assert_eq!(leases.take(customer, RULE, now, || false), Paid::Here(level(902)));
        assert_eq!(leases.take(customer, RULE, now, || false), Paid::Here(level(901)));
        assert!(leases.give_back(customer, now));
        assert_eq!(leases.take(customer, RULE, now, || false), Paid::Here(level(901)));
        assert!(leases.give_back(customer, now) && leases.give_back(customer, now));
        assert!(!leases.give_back(customer, now), "no more than were lent");
        assert!(!leases.give_back(customer, now + LIFE), "what is left is lost");
        assert!(matches!(leases.take(customer, RULE, now + LIFE, || false), Paid::AtHome { .. }));
    }

    #[test]
    fn who_calls_seldom_and_small_buckets_hold_nothing() {
        let now = Instant::now();
        let (leases, customer) = busy(3, now);
        assert_eq!(leases.take(customer, RULE, now, || false), Paid::AtHome { lend: 0 });
        let (leases, customer) = busy(400, now);
        let small = BucketRule { burst: LARGE - 1, ..RULE };
        assert_eq!(leases.take(customer, small, now, || false), Paid::AtHome { lend: 0 });
        assert_eq!(leases.take(customer, RULE, now + LIFE * 2, || false), Paid::AtHome { lend: 0 }, "it has rested");
    }

    #[test]
    fn another_rule_begins_anew_and_late_answers_lend_nothing() {
        let now = Instant::now();
        let (leases, customer) = busy(400, now);
        assert_eq!(leases.take(customer, RULE, now, || false), Paid::AtHome { lend: 100 });
        let other = BucketRule { burst: 2_000, ..RULE };
        assert_eq!(leases.take(customer, other, now, || false), Paid::AtHome { lend: 0 });
        leases.lent(customer, level(900), 100, now);
        assert_eq!(leases.take(customer, other, now, || false), Paid::AtHome { lend: 0 });
    }

    #[test]
    fn the_accounts_are_bounded_and_those_that_rest_make_room() {
        let (leases, now) = (Leases::default(), Instant::now());
        for _ in 0..MOST + 1 {
            leases.take(CustomerId::random(), RULE, now, || false);
        }
        assert_eq!(leases.0.lock().of.len(), MOST);
        leases.take(CustomerId::random(), RULE, now + LIFE * 2, || false);
        assert_eq!(leases.0.lock().of.len(), 1);
    }

    #[test]
    fn nodes_that_hold_tokens_admit_no_more_than_the_bucket() {
        let rule = BucketRule { burst: 10_000, refill_per_second: 300 };
        let (start, mut bucket) = (Instant::now(), TokenBucket::full(rule, Timestamp(0)));
        let (nodes, customer) = ([Leases::default(), Leases::default(), Leases::default()], CustomerId::random());
        let (mut admitted, mut here) = (0_u64, 0_u64);
        for millis in 0..15_000_u32 {
            let (now, at) = (start + Duration::from_millis(millis.into()), Timestamp(millis.into()));
            let node = &nodes[millis as usize % 3];
            let is_admitted = match node.take(customer, rule, now, || false) {
                Paid::Here(level) => {
                    here += 1;
                    assert!(level.remaining <= level.limit);
                    true
                }
                Paid::AtHome { lend } => {
                    let taken = bucket.try_take(at);
                    let lent = bucket.lend(lend, at);
                    node.lent(customer, bucket.level(at), lent, now);
                    taken
                }
            };
            admitted += u64::from(is_admitted);
            assert!(admitted <= 10_000 + u64::from(millis) * 300 / 1_000);
        }
        assert!(here > 1_000, "{here}");
        assert!(admitted > 9_900, "{admitted}");
    }
}

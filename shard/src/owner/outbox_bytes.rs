//! Bytes of the sends that wait in a node's outboxes, by account.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::id::CustomerId;
use parking_lot::Mutex;

/// Maximum stored bytes of an account's waiting sends on a node, over all its channels. They take about two and a half
/// times as much memory. A full queue of the longest texts fits.
const ACCOUNT_OUTBOX_BYTES: usize = 32 << 20;

/// Above this number of accounts, those without waiting sends are evicted.
const EVICT_ABOVE: usize = 1024;

/// Bytes of the waiting sends, by account.
#[derive(Default)]
pub struct OutboxBytes(Mutex<HashMap<CustomerId, AccountBytes>>);

impl OutboxBytes {
    pub fn of(&self, customer: CustomerId) -> AccountBytes {
        let mut accounts = self.0.lock();
        if accounts.len() > EVICT_ABOVE {
            accounts.retain(|_, account| Arc::strong_count(&account.0) > 1);
        }
        accounts.entry(customer).or_default().clone()
    }
}

/// Bytes of one account's waiting sends.
#[derive(Clone, Default)]
pub struct AccountBytes(Arc<AtomicUsize>);

impl AccountBytes {
    /// Takes bytes for a send; `None` if the account would exceed its limit.
    pub fn try_take(&self, bytes: usize) -> Option<Charge> {
        let charge = self.take(bytes);
        (self.0.load(Ordering::Relaxed) <= ACCOUNT_OUTBOX_BYTES).then_some(charge)
    }

    /// Takes bytes for a send that was accepted before, whatever the limit.
    pub fn take(&self, bytes: usize) -> Charge {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Charge { of: self.clone(), bytes }
    }
}

/// Bytes that a send has taken; released on drop.
pub struct Charge {
    of: AccountBytes,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn an_accounts_waiting_sends_take_so_many_bytes_and_not_one_more() {
        let all = OutboxBytes::default();
        let (one, other) = (CustomerId::random(), CustomerId::random());
        let first = all.of(one).try_take(ACCOUNT_OUTBOX_BYTES - 10).unwrap();
        let rest = all.of(one).try_take(10);
        assert!(rest.is_some());
        assert!(all.of(one).try_take(1).is_none());
        assert!(all.of(other).try_take(1).is_some(), "another account's do not count");
        drop(first);
        assert!(all.of(one).try_take(ACCOUNT_OUTBOX_BYTES - 10).is_some());
        assert!(all.of(one).try_take(ACCOUNT_OUTBOX_BYTES - 9).is_none());
    }
}

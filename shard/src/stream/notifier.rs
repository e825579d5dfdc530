//! Wakes tasks that wait for news of one key among many.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Above this many entries, those without listeners are evicted.
const EVICT_ABOVE: usize = 256;

/// Wakes the listeners of a key, with one channel for each key that has any.
pub struct Notifier<K> {
    senders: Mutex<HashMap<K, watch::Sender<()>>>,
}

impl<K> Default for Notifier<K> {
    fn default() -> Self {
        Self { senders: Mutex::default() }
    }
}

impl<K: Copy + Eq + Hash> Notifier<K> {
    /// Listens from now on. A caller that checks for news after this call misses nothing.
    pub fn listen(&self, key: K) -> watch::Receiver<()> {
        let mut senders = self.senders.lock();
        if senders.len() > EVICT_ABOVE {
            senders.retain(|_, sender| sender.receiver_count() > 0);
        }
        senders.entry(key).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// Wakes all listeners of a key.
    pub fn notify(&self, key: K) {
        let mut senders = self.senders.lock();
        if let Some(sender) = senders.get(&key)
            && sender.send(()).is_err()
        {
            senders.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_listen_to_the_key_hear_it() {
        let notifier = Notifier::default();
        let (one, two) = (notifier.listen(1), notifier.listen(2));
        notifier.notify(1);
        assert!(one.has_changed().is_ok_and(|changed| changed));
        assert!(two.has_changed().is_ok_and(|changed| !changed));
        drop(one);
        notifier.notify(1);
        assert!(!notifier.senders.lock().contains_key(&1));
    }
}

//! Wakes those who wait for news of one thing among many.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Above this many entries, those that nobody listens to are dropped.
const SWEEP_ABOVE: usize = 256;

/// One bell for each key that somebody listens to.
pub struct Notifier<K> {
    ropes: Mutex<HashMap<K, watch::Sender<()>>>,
}

impl<K> Default for Notifier<K> {
    fn default() -> Self {
        Self { ropes: Mutex::default() }
    }
}

impl<K: Copy + Eq + Hash> Notifier<K> {
    /// Listens from now on. Look for news after this, and nothing is missed.
    pub fn listen(&self, key: K) -> watch::Receiver<()> {
        let mut ropes = self.ropes.lock();
        if ropes.len() > SWEEP_ABOVE {
            ropes.retain(|_, rope| rope.receiver_count() > 0);
        }
        ropes.entry(key).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// Wakes all who listen.
    pub fn ring(&self, key: K) {
        let mut ropes = self.ropes.lock();
        if let Some(rope) = ropes.get(&key)
            && rope.send(()).is_err()
        {
            ropes.remove(&key);
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
        notifier.ring(1);
        assert!(one.has_changed().is_ok_and(|changed| changed));
        assert!(two.has_changed().is_ok_and(|changed| !changed));
        drop(one);
        notifier.ring(1);
        assert!(!notifier.ropes.lock().contains_key(&1));
    }
}

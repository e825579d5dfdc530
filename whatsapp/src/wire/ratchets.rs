//! Brings Signal state to the log before any byte leaves that may rest on it.
//!
//! The library stores what a ratchet has become some 25 ms later, and at once only where a message raises a lease of counters.
//! That is too late for the first message after one that came in: it goes out in a chain that is new and in no store, under the
//! lease of the chain before. Had its owner died then, the next one would read what came in once more, make another chain of it,
//! and write what the peer cannot read. (In 0.7.0: `CounterLease::rebase`.) The library writes messages by itself, too: those that a
//! peer could not read. So all bytes wait for all ratchets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use whatsapp_rust::Client;

use crate::failpoint::{Bug, has};

#[derive(Default)]
pub struct Ratchets {
    client: OnceLock<Weak<Client>>,
    /// All that came while the channel was away is taken. Before that the library's flush wants a permit, which whoever waits
    /// for the wire may hold; and no message is written.
    is_live: AtomicBool,
}

impl Ratchets {
    pub fn are_of(&self, client: &Arc<Client>) {
        // A session has one client.
        let _ = self.client.set(Arc::downgrade(client));
    }

    pub fn live(&self) {
        self.is_live.store(true, Ordering::Release);
    }

    /// Has all of them appended to the log.
    ///
    /// # Errors
    /// They could not be.
    pub async fn append(&self) -> anyhow::Result<()> {
        if !self.is_live.load(Ordering::Acquire) || has(Bug::RatchetsAfterWire) {
            return Ok(());
        }
        if let Some(client) = self.client.get().and_then(Weak::upgrade) {
            client.flush_pending_signal_state().await?;
        }
        Ok(())
    }
}

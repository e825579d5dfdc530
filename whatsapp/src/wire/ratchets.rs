//! Appends Signal state to the log before any byte leaves that may depend on it.
//!
//! The library stores an advanced ratchet some 25 ms later, and at once only if a message raises a lease of counters.
//! That is too late for the first reply after a received message: it goes out in a new chain that is not stored yet,
//! under the lease of the chain before. If the owner died then, the next one would process the received message again,
//! make another chain from it, and write messages that the peer cannot read. (In 0.7.0: `CounterLease::rebase`.) The
//! library also sends messages by itself, namely those that a peer could not decrypt. So all bytes wait for all
//! ratchets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use whatsapp_rust::Client;

use crate::failpoint::{Bug, has};

#[derive(Default)]
pub struct Ratchets {
    client: OnceLock<Weak<Client>>,
    /// Whether the offline messages are all in. Before that, the library's flush needs a permit that a task waiting for
    /// the wire may hold; and no message is sent before that.
    is_live: AtomicBool,
}

impl Ratchets {
    pub fn are_of(&self, client: &Arc<Client>) {
        // A session has only one client, so this is set once.
        let _ = self.client.set(Arc::downgrade(client));
    }

    pub fn live(&self) {
        self.is_live.store(true, Ordering::Release);
    }

    /// Appends all pending ratchets to the log.
    ///
    /// # Errors
    /// The state could not be appended.
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

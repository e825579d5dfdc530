//! Sends whose acceptance was answered and is not committed yet. Nobody waits for that entry, so that it may come some
//! milliseconds later; who reads the row right after a 202 `sent` finds `sent` all the same.

use std::collections::HashMap;
use std::sync::Arc;

use model::id::{ChannelId, RowId};
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::group::StateReader;
use raft::machine::{Pairs, View};

use crate::history::MessageStatus;
use crate::keys;
use crate::records::{MessageState, encode};

/// The verdicts of one shard that are on their way into the log, by the key of the state that they write.
#[derive(Default)]
pub struct Settling(Mutex<HashMap<Vec<u8>, Vec<u8>>>);

impl Settling {
    /// The network took a message, and its sender is about to be told. Returns what [`Self::end`] is to be given once
    /// that is committed.
    pub fn begin(&self, channel: ChannelId, row: RowId, at: Timestamp) -> Vec<u8> {
        let state = MessageState { status: MessageStatus::Sent, status_at: at, error: None, group: None };
        let key = keys::message_state(channel, row);
        self.0.lock().insert(key.clone(), encode(&state));
        key
    }

    /// Removes keys whose values stand in the store by now.
    pub fn end(&self, settled: &[Vec<u8>]) {
        let mut settling = self.0.lock();
        for key in settled {
            settling.remove(key);
        }
    }

    /// The state of the shard with what is on its way into it.
    pub fn over(&self, reader: StateReader) -> Shown {
        // Copied before anything is read: what is committed later than that is still here, and what was committed before
        // is found in the store.
        Shown { settling: self.0.lock().clone(), reader }
    }
}

/// Verdicts that go into the log together.
pub struct Settled {
    of: Arc<Settling>,
    keys: Vec<Vec<u8>>,
}

impl Settled {
    /// Of what [`Settling::begin`] has returned; `None` of nothing.
    pub fn of(settling: &Arc<Settling>, keys: Vec<Vec<u8>>) -> Option<Self> {
        (!keys.is_empty()).then(|| Self { of: settling.clone(), keys })
    }

    /// They stand in the store.
    pub fn end(self) {
        self.of.end(&self.keys);
    }
}

/// What readers are shown.
pub struct Shown {
    settling: HashMap<Vec<u8>, Vec<u8>>,
    reader: StateReader,
}

impl View for Shown {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        // A stored row is as far as the one that is being settled, or further.
        self.reader.get(key).or_else(|| self.settling.get(key).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.reader.scan(from, to, limit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.reader.scan_back(from, to, limit)
    }
}

//! Sends whose acceptance was answered but is not committed yet. The deferred commit may come some milliseconds later,
//! yet a read right after a 202 `sent` has to show `sent`.

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

/// The verdicts of a shard that are not committed yet: the states that they write, by key.
#[derive(Default)]
pub struct Settling(Mutex<HashMap<Vec<u8>, Vec<u8>>>);

impl Settling {
    /// Adds the acceptance of a message, before its sender is told. Returns the key for [`Self::end`], which is called
    /// once the acceptance is committed.
    pub fn begin(&self, channel: ChannelId, row: RowId, at: Timestamp) -> Vec<u8> {
        let state = MessageState { status: MessageStatus::Sent, status_at: at, error: None, group: None };
        let key = keys::message_state(channel, row);
        self.0.lock().insert(key.clone(), encode(&state));
        key
    }

    /// Removes keys whose values are in the store by now.
    pub fn end(&self, settled: &[Vec<u8>]) {
        let mut settling = self.0.lock();
        for key in settled {
            settling.remove(key);
        }
    }

    /// The state of the shard, with the verdicts that are not committed yet.
    pub fn over(&self, reader: StateReader) -> Shown {
        // Copied before anything is read: verdicts that are committed later are in the copy, and those committed
        // earlier are in the store.
        Shown { settling: self.0.lock().clone(), reader }
    }
}

/// Verdicts that are committed together.
pub struct Settled {
    of: Arc<Settling>,
    keys: Vec<Vec<u8>>,
}

impl Settled {
    /// Wraps keys that [`Settling::begin`] returned; `None` without any.
    pub fn of(settling: &Arc<Settling>, keys: Vec<Vec<u8>>) -> Option<Self> {
        (!keys.is_empty()).then(|| Self { of: settling.clone(), keys })
    }

    /// Removes the verdicts, which are in the store now.
    pub fn end(self) {
        self.of.end(&self.keys);
    }
}

/// The view of readers.
pub struct Shown {
    settling: HashMap<Vec<u8>, Vec<u8>>,
    reader: StateReader,
}

impl View for Shown {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        // A stored row is as recent as the one that is being settled, or more.
        self.reader.get(key).or_else(|| self.settling.get(key).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.reader.scan(from, to, limit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.reader.scan_back(from, to, limit)
    }
}

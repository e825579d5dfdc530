//! The client library's store, all five traits of it, over the state log.
//!
//! No call waits: each is ready when it is first polled, so nothing else of the client runs between two of them. What each
//! stores, and whether the wire waits for it ([`Class`]), is in `docs` of the driver; a file each for the [`signal`],
//! [`appstate`], [`protocol`], [`secrets`] and [`device`] traits; [`polls`] is what the driver keeps beside.

mod appstate;
mod device;
pub mod polls;
mod protocol;
mod secrets;
mod signal;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests;

use std::sync::Arc;

use model::time::Timestamp;
use network::driver::AuthError;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wacore::store::error::{Result, StoreError};
use wacore::store::traits::LidPnMappingEntry;

use super::keys;
use super::log::{Class, StateLog, Write};
use super::rows::{pack, unpack};

/// Told of each pair of a LID and a phone number that was not known before.
pub type OnPair = Box<dyn Fn(&LidPnMappingEntry) + Send + Sync>;

pub struct Backend {
    log: Arc<StateLog>,
    /// Who the channel is, once it is paired: the users of its phone address and its LID.
    own: Mutex<Own>,
    on_pair: OnPair,
}

#[derive(Clone, Default)]
struct Own {
    users: Vec<String>,
    seed: Option<[u8; 32]>,
}

impl Backend {
    pub fn new(log: Arc<StateLog>, on_pair: OnPair) -> Self {
        Self { log, own: Mutex::default(), on_pair }
    }

    pub fn log(&self) -> &Arc<StateLog> {
        &self.log
    }

    fn check(&self) {
        debug_assert!(self.log.is_home(), "a store call from another thread than the session's");
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.check();
        self.log.get(key).map_err(failed)
    }

    fn append(&self, class: Class, writes: impl IntoIterator<Item = Write>) -> Result<()> {
        self.check();
        self.log.append(class, writes).map_err(failed)
    }

    fn put(&self, class: Class, key: String, value: impl Into<Vec<u8>>) -> Result<()> {
        self.append(class, [Write::put(key, value)])
    }

    fn delete(&self, class: Class, key: String) -> Result<()> {
        self.append(class, [Write::delete(key)])
    }

    fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        self.get(key)?.map(|bytes| unpack(&bytes)).transpose()
    }

    fn write(&self, class: Class, key: String, value: &impl Serialize) -> Result<()> {
        self.put(class, key, pack(value)?)
    }

    /// Deletes rows that one batch after the other can carry.
    fn delete_all(&self, class: Class, names: Vec<String>) -> Result<u32> {
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        self.append(class, names.into_iter().map(Write::delete))?;
        Ok(count)
    }

    /// Forgets what must not be used with an older state of the channel than the network has seen: sessions and senders' keys.
    /// They are made anew from prekeys.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn begin_anew(&self) -> Result<()> {
        for prefix in [keys::SESSIONS, keys::SENDER_KEYS, keys::GROUP_DEVICES, keys::BASE_KEYS] {
            self.delete_all(Class::Wire, self.log.names(prefix))?;
        }
        self.delete(Class::Wire, network::driver::RESTORED.to_owned())
    }
}

fn failed(error: AuthError) -> StoreError {
    StoreError::Database(Box::new(error))
}

/// A row with the time of its writing before it, in unix seconds.
fn dated(at: i64, value: &[u8]) -> Vec<u8> {
    let mut row = at.to_be_bytes().to_vec();
    row.extend_from_slice(value);
    row
}

fn undated(row: &[u8]) -> Result<(i64, &[u8])> {
    let (at, value) = row.split_first_chunk().ok_or_else(|| StoreError::Validation("a row without its time".into()))?;
    Ok((i64::from_be_bytes(*at), value))
}

fn now() -> i64 {
    Timestamp::now().unix_seconds()
}

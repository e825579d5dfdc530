//! The client library's store: all five of its traits, on top of the state log.
//!
//! No call waits: each is ready on its first poll, so nothing else of the client runs between two of them. The driver's
//! document says what each call stores, and whether the wire waits for it ([`Class`]). The traits are in [`signal`],
//! [`appstate`], [`protocol`], [`secrets`] and [`device`]; [`polls`] holds rows of the driver's own.

mod appstate;
mod device;
pub mod polls;
mod protocol;
mod secrets;
mod signal;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use model::time::Timestamp;
use network::driver::AuthError;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wacore::store::error::{Result, StoreError};
use wacore::store::traits::LidPnMappingEntry;

use super::keys;
use super::log::{Class, LARGEST_ROW, StateLog, Write};
use super::rows::{pack, unpack};

/// Size above which a state is thinned when a session begins, and the size that it is thinned to, in bytes. The store
/// takes 32 MiB, and ends a session that needs more.
pub const THINNED_ABOVE: u64 = 24 << 20;
pub const THINNED_TO: u64 = 16 << 20;

/// Called with each new pair of a LID and a phone number.
pub type OnPair = Box<dyn Fn(&LidPnMappingEntry) + Send + Sync>;

pub struct Backend {
    log: Arc<StateLog>,
    /// The channel's own names, once it is paired.
    own: Mutex<Own>,
    on_pair: OnPair,
    told: Mutex<Told>,
    /// Bytes of messages that were kept for resending since these were last bounded.
    sent: AtomicUsize,
}

/// Devices that got a group's key in messages that the network is not known to have accepted, numbered in order.
#[derive(Default)]
struct Told {
    last: u64,
    groups: HashMap<String, HashMap<String, u64>>,
}

#[derive(Clone, Default)]
struct Own {
    users: Vec<String>,
    /// The channel's addresses with this device, as session and sender key names have them.
    addresses: Vec<String>,
    seed: Option<[u8; 32]>,
}

impl Backend {
    pub fn new(log: Arc<StateLog>, on_pair: OnPair) -> Self {
        Self { log, own: Mutex::default(), on_pair, told: Mutex::default(), sent: AtomicUsize::new(0) }
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
        self.log.append(class, writes.into_iter().map(fitting)).map_err(failed)
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

    /// Deletes rows. The log may split the deletes into several batches.
    fn delete_all(&self, class: Class, names: Vec<String>) -> Result<u32> {
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        self.append(class, names.into_iter().map(Write::delete))?;
        Ok(count)
    }

    /// Thins a state that is nearly full. Rows that can be queried again go first, then the largest sessions and sender
    /// keys of others, which are made again when needed: strangers can create any number of them, and large ones.
    /// Learned LIDs go last.
    ///
    /// # Errors
    /// The store cannot be read, or the log is poisoned.
    pub fn thin(&self, above: u64, to: u64) -> Result<()> {
        let mut bytes = self.log.stored_bytes();
        if bytes <= above {
            return Ok(());
        }
        let mut asked_for =
            self.sized(&[keys::BASE_KEYS, keys::DEVICES, keys::GROUPS, keys::GROUP_DEVICES, keys::SECRETS])?;
        // A group's generation stays, or older rows of its devices would become valid again.
        asked_for.retain(|(_, name)| !keys::is_group_generation(name));
        let mut made = self.sized(&[keys::SESSIONS, keys::SENDER_KEYS])?;
        made.retain(|(_, name)| !self.may_be_own_sender_key(name));
        made.sort_unstable_by(|one, other| other.cmp(one));
        // A LID can be learned again once no session under it is left.
        let learned = self.sized(&[keys::LIDS, keys::PHONES])?;
        let mut goes = Vec::new();
        for (size, name) in asked_for.into_iter().chain(made).chain(learned) {
            if bytes <= to {
                break;
            }
            bytes = bytes.saturating_sub(size as u64);
            if let Some(address) = name.strip_prefix(keys::SESSIONS) {
                goes.push(format!("{}{address}", keys::IDENTITIES));
            }
            goes.push(name);
        }
        let rows = self.delete_all(Class::Wire, goes)?;
        tracing::warn!(rows, bytes, "the state of a channel was nearly full, and is thinned");
        Ok(())
    }

    /// The rows under some prefixes, with their sizes in bytes.
    fn sized(&self, prefixes: &[&str]) -> Result<Vec<(usize, String)>> {
        let mut rows = Vec::new();
        for name in prefixes.iter().flat_map(|prefix| self.log.names(prefix)) {
            rows.push((name.len() + self.get(&name)?.map_or(0, |value| value.len()), name));
        }
        Ok(rows)
    }

    /// Whether a sender key may be the channel's own, which its members get only once. A hashed name does not tell.
    fn may_be_own_sender_key(&self, name: &str) -> bool {
        let Some(name) = name.strip_prefix(keys::SENDER_KEYS) else { return false };
        let is_of = |user: &String| [':', '@'].iter().any(|end| name.contains(&format!(":{user}{end}")));
        name.starts_with('%') || self.own.lock().users.iter().any(is_of)
    }

    /// Deletes all rows of an earlier device of the channel: a new device begins without any state, as its peers do.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn forget_all(&self) -> Result<()> {
        self.delete_all(Class::Wire, self.log.names("")).map(drop)
    }

    /// Deletes cached groups, after an owner has died in a request whose outcome is unknown: a member missing in the
    /// cache could not read messages. The channel's own sender keys go, too, since somebody who has them may have left.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn forget_groups(&self) -> Result<()> {
        let own = self.own.lock().addresses.clone();
        let mut goes = self.log.names(keys::SENDER_KEYS);
        // Sender keys of the account's other devices stay.
        goes.retain(|name| own.iter().any(|address| name.ends_with(&format!(":{address}"))));
        goes.extend(self.log.names(keys::GROUPS));
        self.delete_all(Class::Wire, goes).map(drop)
    }

    /// Deletes sessions and sender keys, which must not be used when the channel's state is older than what the network
    /// has seen. They are made again from prekeys. The channel counts as restored until
    /// [`has_begun_anew`](Self::has_begun_anew).
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn begin_anew(&self) -> Result<()> {
        for prefix in [keys::SESSIONS, keys::SENDER_KEYS, keys::GROUP_DEVICES, keys::BASE_KEYS] {
            self.delete_all(Class::Wire, self.log.names(prefix))?;
        }
        Ok(())
    }

    /// Ends the restored state of a channel: the network has prekeys of it whose private halves are stored.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn has_begun_anew(&self) -> Result<()> {
        self.delete(Class::Wire, network::driver::RESTORED.to_owned())
    }
}

/// Turns a write that is too large for a batch into a delete, since the older value is outdated. Sessions and sender
/// keys can grow this large through their other side, and are made again.
fn fitting(write: Write) -> Write {
    if write.value.as_ref().is_some_and(|value| value.len() > LARGEST_ROW) {
        metrics::counter!("gateway_whatsapp_rows_too_large_total").increment(1);
        return Write::delete(write.key);
    }
    write
}

fn failed(error: AuthError) -> StoreError {
    StoreError::Database(Box::new(error))
}

/// Prefixes a row with the time of its write, in unix seconds.
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

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

/// A state of more bytes is thinned to so many when a session begins. The store takes 32 MiB, and ends the session that wants more.
pub const THINNED_ABOVE: u64 = 24 << 20;
pub const THINNED_TO: u64 = 16 << 20;

/// Told of each pair of a LID and a phone number that was not known before.
pub type OnPair = Box<dyn Fn(&LidPnMappingEntry) + Send + Sync>;

pub struct Backend {
    log: Arc<StateLog>,
    /// Who the channel is, once it is paired: the users of its phone address and its LID.
    own: Mutex<Own>,
    on_pair: OnPair,
    told: Mutex<Told>,
    /// Bytes of messages kept to be sent again since those were last bounded.
    sent: AtomicUsize,
}

/// Devices that were told a group's key, by messages that the network is not known to have, in their order.
#[derive(Default)]
struct Told {
    last: u64,
    groups: HashMap<String, HashMap<String, u64>>,
}

#[derive(Clone, Default)]
struct Own {
    users: Vec<String>,
    /// As sessions and senders' keys name this device.
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

    /// Deletes rows that one batch after the other can carry.
    fn delete_all(&self, class: Class, names: Vec<String>) -> Result<u32> {
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        self.append(class, names.into_iter().map(Write::delete))?;
        Ok(count)
    }

    /// Thins a state that is nearly full: what is asked for anew goes first, then the largest sessions and senders' keys of others,
    /// which are made anew where they are wanted. Strangers can make any number of them, and large ones.
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
        // A group's generation stays: without it what older rows say would count again.
        asked_for.retain(|(_, name)| !keys::is_group_generation(name));
        let mut made = self.sized(&[keys::SESSIONS, keys::SENDER_KEYS])?;
        made.retain(|(_, name)| !self.may_be_own_sender_key(name));
        made.sort_unstable_by(|one, other| other.cmp(one));
        // Where no session is left under a LID, that may be learned anew, too.
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

    /// Rows under prefixes, and how large they are.
    fn sized(&self, prefixes: &[&str]) -> Result<Vec<(usize, String)>> {
        let mut rows = Vec::new();
        for name in prefixes.iter().flat_map(|prefix| self.log.names(prefix)) {
            rows.push((name.len() + self.get(&name)?.map_or(0, |value| value.len()), name));
        }
        Ok(rows)
    }

    /// A key of the channel's own is told to members once. Which one a hash stands for cannot be told.
    fn may_be_own_sender_key(&self, name: &str) -> bool {
        let Some(name) = name.strip_prefix(keys::SENDER_KEYS) else { return false };
        let is_of = |user: &String| [':', '@'].iter().any(|end| name.contains(&format!(":{user}{end}")));
        name.starts_with('%') || self.own.lock().users.iter().any(is_of)
    }

    /// Forgets all that an earlier device of the channel's left: a new one begins with nothing, as its peers do.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn forget_all(&self) -> Result<()> {
        self.delete_all(Class::Wire, self.log.names("")).map(drop)
    }

    /// Forgets who is in which group, where an owner has died over a question and nobody heard what became of that: whoever is not known
    /// cannot read what is written. The channel's own keys go, too, as somebody may be out who has them.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn forget_groups(&self) -> Result<()> {
        let own = self.own.lock().addresses.clone();
        let mut goes = self.log.names(keys::SENDER_KEYS);
        // Other devices of the account have keys of their own.
        goes.retain(|name| own.iter().any(|address| name.ends_with(&format!(":{address}"))));
        goes.extend(self.log.names(keys::GROUPS));
        self.delete_all(Class::Wire, goes).map(drop)
    }

    /// Forgets what must not be used with an older state of the channel than the network has seen: sessions and senders' keys.
    /// They are made anew from prekeys. The channel counts as restored until [`has_begun_anew`](Self::has_begun_anew).
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn begin_anew(&self) -> Result<()> {
        for prefix in [keys::SESSIONS, keys::SENDER_KEYS, keys::GROUP_DEVICES, keys::BASE_KEYS] {
            self.delete_all(Class::Wire, self.log.names(prefix))?;
        }
        Ok(())
    }

    /// Notes that a restored channel is as any other: the network has prekeys of it whose private halves are stored.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn has_begun_anew(&self) -> Result<()> {
        self.delete(Class::Wire, network::driver::RESTORED.to_owned())
    }
}

/// What no batch could carry is not kept, nor what stood there, which is of another time. A session or a sender's key grows so large
/// by what its other side leaves out; it is made anew.
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

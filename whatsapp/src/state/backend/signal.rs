//! Sessions, identities, prekeys and sender keys. Each has to be durable before the wire shows that it was used.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use wacore::store::error::{Result, StoreError};
use wacore::store::traits::SignalStore;

use super::Backend;
use crate::failpoint::{Point, reach};
use crate::state::keys;
use crate::state::log::{Class, Write};
use crate::state::rows::pack;

/// Signed prekeys that are kept. Peers may hold older bundles; the library keeps three.
const SIGNED_KEPT: usize = 12;

/// The prekeys of one row, by id.
type Prekeys = BTreeMap<u32, Bytes>;

impl Backend {
    fn highest_prekey(&self) -> Result<u32> {
        let stored = self.get(keys::HIGHEST_PREKEY)?;
        stored.map_or(Ok(0), |bytes| Ok(u32::from_be_bytes(exactly(bytes)?)))
    }

    /// The row of a prekey, from `rows` or the store. With a row each, hundreds of prekeys would take more room for
    /// names, sealing and table entries than for the keys, and all are read at each login.
    fn row_of_prekey<'a>(&self, rows: &'a mut BTreeMap<String, Prekeys>, id: u32) -> Result<&'a mut Prekeys> {
        Ok(match rows.entry(keys::prekeys(id)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let row = self.read(new.key())?.unwrap_or_default();
                new.insert(row)
            }
        })
    }

    fn store_prekeys(&self, records: impl IntoIterator<Item = (u32, Bytes)>) -> Result<()> {
        let before = self.highest_prekey()?;
        let mut highest = before;
        let mut rows = BTreeMap::new();
        for (id, record) in records {
            highest = highest.max(id);
            self.row_of_prekey(&mut rows, id)?.insert(id, record);
        }
        let mut writes = Vec::with_capacity(rows.len() + 1);
        for (name, row) in rows {
            writes.push(Write::put(name, pack(&row)?));
        }
        if highest > before {
            writes.push(Write::put(keys::HIGHEST_PREKEY, highest.to_be_bytes()));
        }
        self.append(Class::Wire, writes)
    }

    fn load_prekeys(&self, ids: &[u32]) -> Result<Vec<(u32, Bytes)>> {
        let mut rows = BTreeMap::new();
        let mut found = Vec::with_capacity(ids.len());
        for &id in ids {
            let record = match self.row_of_prekey(&mut rows, id)?.get(&id) {
                Some(record) => Some(record.clone()),
                None => self.get(&keys::prekey(id))?.map(Bytes::from),
            };
            found.extend(record.map(|record| (id, record)));
        }
        Ok(found)
    }
}

fn exactly<const N: usize>(bytes: Vec<u8>) -> Result<[u8; N]> {
    bytes.try_into().map_err(|bytes: Vec<u8>| StoreError::Validation(format!("{} bytes, and not {N}", bytes.len())))
}

fn id_of(name: &str) -> Option<u32> {
    keys::number_of(name).and_then(|id| u32::try_from(id).ok())
}

#[async_trait]
impl SignalStore for Backend {
    async fn put_identity(&self, address: &str, key: [u8; 32]) -> Result<()> {
        self.put(Class::Wire, keys::identity(address), key)
    }

    async fn put_identities_batch(&self, identities: &[(Arc<str>, [u8; 32])]) -> Result<()> {
        self.append(Class::Wire, identities.iter().map(|(address, key)| Write::put(keys::identity(address), *key)))
    }

    async fn load_identity(&self, address: &str) -> Result<Option<[u8; 32]>> {
        self.get(&keys::identity(address))?.map(exactly).transpose()
    }

    async fn delete_identity(&self, address: &str) -> Result<()> {
        self.delete(Class::Wire, keys::identity(address))
    }

    async fn get_session(&self, address: &str) -> Result<Option<Bytes>> {
        Ok(self.get(&keys::session(address))?.map(Bytes::from))
    }

    async fn put_session(&self, address: &str, session: &[u8]) -> Result<()> {
        self.put(Class::Wire, keys::session(address), session)
    }

    async fn put_sessions_batch(&self, sessions: &[(Arc<str>, Bytes)]) -> Result<()> {
        let writes = sessions.iter().map(|(address, session)| Write::put(keys::session(address), session.to_vec()));
        self.append(Class::Wire, writes)
    }

    async fn delete_session(&self, address: &str) -> Result<()> {
        self.delete(Class::Wire, keys::session(address))
    }

    async fn has_session(&self, address: &str) -> Result<bool> {
        self.check();
        Ok(self.log.has(&keys::session(address)))
    }

    async fn has_signal_state_for_user(&self, user: &str) -> Result<bool> {
        self.check();
        let found = |prefix: &str, behind: char| {
            let under = format!("{prefix}{user}{behind}");
            !self.log.names(&under).is_empty()
        };
        let is_plain = keys::part(user) == user;
        // Long names are stored under their hash, and cannot be found by a prefix.
        Ok(!is_plain || [keys::SESSIONS, keys::IDENTITIES].iter().any(|p| found(p, '@') || found(p, ':')))
    }

    async fn store_prekey(&self, id: u32, record: &[u8], _uploaded: bool) -> Result<()> {
        self.store_prekeys([(id, Bytes::copy_from_slice(record))])
    }

    async fn store_prekeys_batch(&self, keys: &[(u32, Bytes)], _uploaded: bool) -> Result<()> {
        self.store_prekeys(keys.iter().cloned())
    }

    async fn load_prekey(&self, id: u32) -> Result<Option<Bytes>> {
        Ok(self.load_prekeys(&[id])?.pop().map(|(_, record)| record))
    }

    async fn load_prekeys_batch(&self, ids: &[u32]) -> Result<Vec<(u32, Bytes)>> {
        self.load_prekeys(ids)
    }

    /// Nothing to store: the device's watermark says which keys the network has.
    async fn mark_prekeys_uploaded(&self, _ids: &[u32]) -> Result<()> {
        reach(Point::PrekeysUploaded);
        Ok(())
    }

    async fn remove_prekey(&self, id: u32) -> Result<()> {
        let name = keys::prekeys(id);
        let mut row: Prekeys = self.read(&name)?.unwrap_or_default();
        let mut writes = vec![Write::delete(keys::prekey(id))];
        if row.remove(&id).is_some() {
            writes.push(if row.is_empty() { Write::delete(name) } else { Write::put(name, pack(&row)?) });
        }
        self.append(Class::Wire, writes)
    }

    async fn get_max_prekey_id(&self) -> Result<u32> {
        self.highest_prekey()
    }

    async fn store_signed_prekey(&self, id: u32, record: &[u8]) -> Result<()> {
        self.put(Class::Wire, keys::signed_prekey(id), record)
    }

    async fn load_signed_prekey(&self, id: u32) -> Result<Option<Vec<u8>>> {
        self.get(&keys::signed_prekey(id))
    }

    async fn load_all_signed_prekeys(&self) -> Result<Vec<(u32, Vec<u8>)>> {
        self.check();
        let mut found = Vec::new();
        for name in self.log.names(keys::SIGNED_PREKEYS) {
            found.extend(id_of(&name).zip(self.get(&name)?));
        }
        Ok(found)
    }

    /// Deletes a signed prekey, unless it is among the newest [`SIGNED_KEPT`].
    async fn remove_signed_prekey(&self, id: u32) -> Result<()> {
        self.check();
        let names = self.log.names(keys::SIGNED_PREKEYS);
        let goes = names.iter().rev().skip(SIGNED_KEPT).any(|name| id_of(name) == Some(id));
        if goes { self.delete(Class::Wire, keys::signed_prekey(id)) } else { Ok(()) }
    }

    async fn put_sender_key(&self, address: &str, record: &[u8]) -> Result<()> {
        self.put(Class::Wire, keys::sender_key(address), record)
    }

    async fn put_sender_keys_batch(&self, sender_keys: &[(Arc<str>, Bytes)]) -> Result<()> {
        let writes = sender_keys.iter().map(|(address, key)| Write::put(keys::sender_key(address), key.to_vec()));
        self.append(Class::Wire, writes)
    }

    async fn get_sender_key(&self, address: &str) -> Result<Option<Vec<u8>>> {
        self.get(&keys::sender_key(address))
    }

    async fn delete_sender_key(&self, address: &str) -> Result<()> {
        self.delete(Class::Wire, keys::sender_key(address))
    }
}

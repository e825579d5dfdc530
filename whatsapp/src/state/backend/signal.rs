//! Sessions, identities, prekeys, senders' keys: all of it has to be durable before the wire shows that it was used.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use wacore::store::error::{Result, StoreError};
use wacore::store::traits::SignalStore;

use super::Backend;
use crate::state::keys;
use crate::state::log::{Class, Write};

/// How many signed prekeys are kept: peers may hold older bundles, and the library keeps three.
const SIGNED_KEPT: usize = 12;

impl Backend {
    fn highest_prekey(&self) -> Result<u32> {
        let stored = self.get(keys::HIGHEST_PREKEY)?;
        stored.map_or(Ok(0), |bytes| Ok(u32::from_be_bytes(exactly(bytes)?)))
    }

    fn store_prekeys(&self, records: &mut dyn Iterator<Item = (u32, &[u8])>) -> Result<()> {
        let before = self.highest_prekey()?;
        let mut highest = before;
        let mut writes = Vec::new();
        for (id, record) in records {
            highest = highest.max(id);
            writes.push(Write::put(keys::prekey(id), record));
        }
        if highest > before {
            writes.push(Write::put(keys::HIGHEST_PREKEY, highest.to_be_bytes()));
        }
        self.append(Class::Wire, writes)
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
        // Long names stand under their hash, and cannot be looked for by their beginning.
        Ok(!is_plain || [keys::SESSIONS, keys::IDENTITIES].iter().any(|p| found(p, '@') || found(p, ':')))
    }

    async fn store_prekey(&self, id: u32, record: &[u8], _uploaded: bool) -> Result<()> {
        self.store_prekeys(&mut [(id, record)].into_iter())
    }

    async fn store_prekeys_batch(&self, keys: &[(u32, Bytes)], _uploaded: bool) -> Result<()> {
        self.store_prekeys(&mut keys.iter().map(|(id, record)| (*id, record.as_ref())))
    }

    async fn load_prekey(&self, id: u32) -> Result<Option<Bytes>> {
        Ok(self.get(&keys::prekey(id))?.map(Bytes::from))
    }

    async fn load_prekeys_batch(&self, ids: &[u32]) -> Result<Vec<(u32, Bytes)>> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.extend(self.get(&keys::prekey(*id))?.map(|record| (*id, Bytes::from(record))));
        }
        Ok(found)
    }

    /// The device's watermark says which keys the network has.
    async fn mark_prekeys_uploaded(&self, _ids: &[u32]) -> Result<()> {
        Ok(())
    }

    async fn remove_prekey(&self, id: u32) -> Result<()> {
        self.delete(Class::Wire, keys::prekey(id))
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

    /// The newest stay.
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

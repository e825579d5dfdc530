//! Account state that the account's devices share: keys, versions, and the MACs that a version depends on.

use std::collections::HashMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use wacore::appstate::hash::HashState;
use wacore::appstate::processor::AppStateMutationMAC;
use wacore::store::error::Result;
use wacore::store::traits::{AppStateSyncKey, AppSyncStore};

use super::Backend;
use crate::state::keys;
use crate::state::log::{Class, Write};

/// A collection's version, and the generation of its valid MACs.
#[derive(Default, Serialize, Deserialize)]
struct Collection {
    generation: u32,
    state: HashState,
}

impl Backend {
    fn collection(&self, name: &str) -> Result<Collection> {
        Ok(self.read(&keys::collection(name))?.unwrap_or_default())
    }

    fn mac_name(&self, name: &str) -> Result<impl Fn(&[u8]) -> String + use<>> {
        let prefix = keys::macs(name, self.collection(name)?.generation);
        Ok(move |index: &[u8]| format!("{prefix}{}", keys::bytes(index)))
    }
}

#[async_trait]
impl AppSyncStore for Backend {
    async fn get_sync_key(&self, key_id: &[u8]) -> Result<Option<AppStateSyncKey>> {
        self.read(&keys::sync_key(key_id))
    }

    /// The wire waits for it: the phone shares a key only once.
    async fn set_sync_key(&self, key_id: &[u8], key: AppStateSyncKey) -> Result<()> {
        self.write(Class::Wire, keys::sync_key(key_id), &key)?;
        self.put(Class::Wire, keys::LATEST_SYNC_KEY.to_owned(), key_id)
    }

    async fn get_version(&self, name: &str) -> Result<HashState> {
        Ok(self.collection(name)?.state)
    }

    async fn set_version(&self, name: &str, state: HashState) -> Result<()> {
        let collection = Collection { state, ..self.collection(name)? };
        self.write(Class::Wire, keys::collection(name), &collection)
    }

    async fn put_mutation_macs(&self, name: &str, _version: u64, mutations: &[AppStateMutationMAC]) -> Result<()> {
        let row = self.mac_name(name)?;
        let writes = mutations.iter().map(|mac| Write::put(row(&mac.index_mac), mac.value_mac.clone()));
        self.append(Class::Wire, writes)
    }

    async fn get_mutation_mac(&self, name: &str, index_mac: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(&self.mac_name(name)?(index_mac))
    }

    async fn get_mutation_macs(&self, name: &str, index_macs: &[[u8; 32]]) -> Result<HashMap<[u8; 32], Vec<u8>>> {
        let row = self.mac_name(name)?;
        let mut found = HashMap::with_capacity(index_macs.len());
        for index in index_macs {
            if let Some(mac) = self.get(&row(index))? {
                found.insert(*index, mac);
            }
        }
        Ok(found)
    }

    async fn delete_mutation_macs(&self, name: &str, index_macs: &[Vec<u8>]) -> Result<()> {
        let row = self.mac_name(name)?;
        self.append(Class::Wire, index_macs.iter().map(|index| Write::delete(row(index))))
    }

    /// Starts a new generation. MACs of older ones are invalid even if their rows are left, since an owner may die
    /// before it deletes them.
    async fn clear_mutation_macs(&self, name: &str) -> Result<()> {
        let before = self.collection(name)?;
        let old = self.log.names(&keys::all_macs(name));
        let collection = Collection { generation: before.generation + 1, ..before };
        self.write(Class::Wire, keys::collection(name), &collection)?;
        self.delete_all(Class::Lazy, old).map(drop)
    }

    async fn get_latest_sync_key_id(&self) -> Result<Option<Vec<u8>>> {
        self.get(keys::LATEST_SYNC_KEY)
    }
}

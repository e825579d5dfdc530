//! The device: identity, registration, account. A channel that has its row can log in.

use async_trait::async_trait;
use rand::RngExt;
use wacore::stats::StorageResourceReport;
use wacore::store::Device;
use wacore::store::error::{Result, StoreError};
use wacore::store::traits::DeviceStore;
use wacore::types::jid::JidExt;

use super::Backend;
use crate::failpoint::{Due, is_due};
use crate::state::keys;
use crate::state::log::{Class, LARGEST_ROW, Write};
use crate::state::rows::{pack, unpack};

/// The library numbers the devices of a store; a channel has only one.
const ONLY_DEVICE: i32 = 1;

impl Backend {
    /// Stores the device if it is paired and has changed. An unpaired device is useless.
    ///
    /// # Errors
    /// The log is poisoned, or the device is too large for a row.
    pub fn save_device(&self, device: &Device) -> Result<()> {
        if device.pn.is_none() || device.account.is_none() {
            return Ok(());
        }
        self.know_own(device)?;
        let row = pack(device)?;
        if row.len() > LARGEST_ROW {
            return Err(StoreError::Validation(format!("a device of {} bytes", row.len())));
        }
        if self.get(keys::DEVICE)?.as_ref() == Some(&row) {
            return Ok(());
        }
        self.put(Class::Wire, keys::DEVICE.to_owned(), row)
    }

    /// Records the channel's own names, and makes its seed if it has none.
    fn know_own(&self, device: &Device) -> Result<()> {
        let names = [&device.pn, &device.lid].into_iter().flatten();
        let users = names.clone().map(|jid| jid.user.to_string()).collect();
        let addresses = names.map(JidExt::to_protocol_address_string).collect();
        let stored = self.get(keys::SEED)?.and_then(|seed| seed.try_into().ok());
        let seed = match stored {
            Some(seed) => seed,
            None => {
                let seed: [u8; 32] = rand::rng().random();
                self.append(Class::Wire, [Write::put(keys::SEED, seed)])?;
                seed
            }
        };
        *self.own.lock() = super::Own { users, addresses, seed: Some(seed) };
        Ok(())
    }

    /// Records that the account's state has been synced.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn note_bootstrap(&self) -> Result<()> {
        if self.log.has(keys::BOOTSTRAP) { Ok(()) } else { self.put(Class::Wire, keys::BOOTSTRAP.to_owned(), [1_u8]) }
    }
}

#[async_trait]
impl DeviceStore for Backend {
    async fn save(&self, device: &Device) -> Result<()> {
        self.save_device(device)
    }

    /// Loads the device. Until the account's state is synced, its push name is empty, which makes the library sync.
    async fn load(&self) -> Result<Option<Device>> {
        let Some(row) = self.get(keys::DEVICE)? else { return Ok(None) };
        let mut device: Device = unpack(&row)?;
        self.know_own(&device)?;
        if !self.log.has(keys::BOOTSTRAP) {
            device.push_name.clear();
        }
        if is_due(Due::SignedPrekey) {
            // A time long ago; 0 would mean that the time is unknown.
            device.last_signed_pre_key_rotation_ms = 1;
        }
        Ok(Some(device))
    }

    async fn exists(&self) -> Result<bool> {
        self.check();
        Ok(self.log.has(keys::DEVICE))
    }

    async fn create(&self) -> Result<i32> {
        Ok(ONLY_DEVICE)
    }

    /// The state is part of the cluster's backups, and has no file of its own to copy.
    async fn snapshot_db(&self, _name: &str, _extra_content: Option<&[u8]>) -> Result<()> {
        Ok(())
    }

    async fn resource_report(&self) -> StorageResourceReport {
        StorageResourceReport { memory_bytes: Some(self.log.waiting_bytes() as u64), ..Default::default() }
    }
}

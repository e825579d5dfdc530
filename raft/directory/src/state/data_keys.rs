//! Commands about the rotation of the customers' data keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::time::Timestamp;

use super::{Change, DirectoryState, Update};
use crate::command::Rejection;
use crate::records::{ClusterRecord, CustomerRecord, EndpointRecord};
use crate::secrets::{DataKeyRotation, Resealed, ResealedEndpoint, Rewrapped, SecretsCommand};

impl DirectoryState {
    /// The running rotation of data keys.
    pub fn running_data_keys(&self) -> Option<&DataKeyRotation> {
        self.cluster.as_ref()?.data_keys.as_ref().filter(|rotation| rotation.ended_at.is_none())
    }

    /// Customers that have to get a new data key, at most `most`.
    pub fn customers_to_change(&self, began_at: Timestamp, most: usize) -> Vec<Arc<CustomerRecord>> {
        let due =
            |customer: &&Arc<CustomerRecord>| customer.former_data_key.is_none() && customer.created_at < began_at;
        self.customers.values().filter(due).take(most).cloned().collect()
    }

    /// Customers that have a former data key.
    pub fn with_former_data_key(&self) -> impl Iterator<Item = &Arc<CustomerRecord>> {
        self.customers.values().filter(|customer| customer.former_data_key.is_some())
    }

    pub(super) fn run_data_keys(&mut self, command: SecretsCommand, update: &mut Update<'_>) -> Result<(), Rejection> {
        let cluster = self.cluster.clone().ok_or(Rejection::NotFormed)?;
        if command == SecretsCommand::RotateDataKeys {
            if self.running_data_keys().is_some() {
                return Err(Rejection::DataKeysRotate);
            }
            if self.sealed_under_others() > 0 {
                return Err(Rejection::ExchangeRuns);
            }
            let (changed_at, resealed_at, ended_at) = (None, None, None);
            let resealed = BTreeSet::new();
            let begun = DataKeyRotation { began_at: update.at, changed_at, resealed, resealed_at, ended_at };
            self.put_cluster(ClusterRecord { data_keys: Some(begun), ..(*cluster).clone() }, update);
            return Ok(());
        }
        let mut rotation = self.running_data_keys().cloned().ok_or(Rejection::DataKeysStep)?;
        match command {
            SecretsCommand::ChangeDataKeys { customers } if rotation.changed_at.is_none() => {
                customers.iter().try_for_each(|each| self.is_under_master(&each.key))?;
                for Rewrapped { customer, key } in customers {
                    // A customer with a new key keeps it: values sealed since could not be opened otherwise.
                    let known = self.customers.get(&customer).filter(|known| known.former_data_key.is_none());
                    if let Some(known) = known.cloned() {
                        let former_data_key = Some(Box::new(known.data_key.clone()));
                        self.put_customer(
                            CustomerRecord { data_key: key, former_data_key, ..(*known).clone() },
                            update,
                        );
                        update.changes.push(Change::Customer(customer));
                    }
                }
                return Ok(());
            }
            SecretsCommand::DataKeysChanged if rotation.changed_at.is_none() => rotation.changed_at = Some(update.at),
            SecretsCommand::ResealEndpoints(endpoints) if rotation.changed_at.is_some() => {
                endpoints.into_iter().for_each(|endpoint| self.reseal_endpoint(endpoint, update));
                return Ok(());
            }
            SecretsCommand::ShardResealed { shard, began_at }
                if began_at == rotation.began_at && rotation.changed_at.is_some() =>
            {
                rotation.resealed.insert(shard);
                let all = (1..=cluster.shard_count).all(|shard| rotation.resealed.contains(&shard));
                rotation.resealed_at = rotation.resealed_at.or(all.then_some(update.at));
            }
            SecretsCommand::DropDataKeys { customers } if rotation.resealed_at.is_some() => {
                for id in customers {
                    if let Some(known) = self.customers.get(&id).cloned() {
                        self.put_customer(CustomerRecord { former_data_key: None, ..(*known).clone() }, update);
                        update.changes.push(Change::Customer(id));
                    }
                }
                return Ok(());
            }
            SecretsCommand::EndDataKeys
                if rotation.resealed_at.is_some() && self.with_former_data_key().next().is_none() =>
            {
                rotation.ended_at = Some(update.at);
            }
            _ => return Err(Rejection::DataKeysStep),
        }
        self.put_cluster(ClusterRecord { data_keys: Some(rotation), ..(*cluster).clone() }, update);
        Ok(())
    }

    fn reseal_endpoint(&mut self, anew: ResealedEndpoint, update: &mut Update<'_>) {
        let Some(known) = self.endpoints.get(&anew.id).cloned() else { return };
        let exchanged = |present: &Option<Vec<u8>>, anew: Option<Resealed>| match anew {
            Some(Resealed { was, sealed }) if present.as_ref() == Some(&was) => Some(sealed),
            _ => present.clone(),
        };
        let secret = exchanged(&known.secret, anew.secret);
        let sealed_headers = exchanged(&known.sealed_headers, anew.headers);
        self.put_endpoint(EndpointRecord { secret, sealed_headers, ..(*known).clone() }, update);
        update.changes.push(Change::Endpoint(anew.id));
    }
}

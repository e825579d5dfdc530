//! The master keys that seal the data keys, and the commands about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::seal::{MasterKeyId, WrappedKey};

use super::{Change, DirectoryState, Update};
use crate::command::{Rejection, Reply};
use crate::keys;
use crate::members::AuthorityRecord;
use crate::records::{ClusterRecord, CustomerRecord, SealedKey};
use crate::secrets::{FormerSessionKey, MasterExchange, Rewrapped, SecretsCommand, SessionKey};

impl DirectoryState {
    /// Number of data keys sealed under each master key: those of customers, the deployment's and the authority's.
    pub fn sealed_under(&self) -> BTreeMap<MasterKeyId, usize> {
        let mut under = self.data_keys_under.clone();
        let cluster = self.cluster.as_ref().map(|cluster| cluster.master());
        let authority = self.authority.as_ref().map(|authority| authority.key.wrapped_by.master);
        for master in cluster.into_iter().chain(authority) {
            *under.entry(master).or_default() += 1;
        }
        under
    }

    /// Number of data keys sealed under another master key than the cluster's.
    pub fn sealed_under_others(&self) -> usize {
        let master = self.cluster.as_ref().map(|cluster| cluster.master());
        self.sealed_under().into_iter().filter(|(each, _)| Some(*each) != master).map(|(_, count)| count).sum()
    }

    /// Customers whose data keys are sealed under another master key than this one.
    pub fn customers_not_under(&self, master: MasterKeyId, most: usize) -> Vec<Arc<CustomerRecord>> {
        let others = self.customers.values().filter(|customer| customer.data_key.master != master);
        others.take(most).cloned().collect()
    }

    pub(super) fn run_secrets(&mut self, command: SecretsCommand, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        let at = update.at;
        let cluster = self.cluster.clone().ok_or(Rejection::NotFormed)?;
        match command {
            SecretsCommand::Begin { from, deployment_key } => {
                // An announced key would not be rewrapped.
                if self.authority.as_ref().is_some_and(|authority| authority.rotation.is_some()) {
                    return Err(Rejection::AuthorityRotates);
                }
                // Former data keys would not be rewrapped either.
                if self.running_data_keys().is_some() {
                    return Err(Rejection::DataKeysRotate);
                }
                // Data keys that are two replacements behind could be under a master key that no operator has any more.
                if self.sealed_under_others() > 0 {
                    return Err(Rejection::ExchangeRuns);
                }
                if from != cluster.master() || deployment_key.master == from {
                    return Err(Rejection::OtherMasterKey(cluster.master()));
                }
                let exchange = Some(MasterExchange { from, began_at: at, ended_at: None });
                let deployment_key = SealedKey { wrapped_by: deployment_key, ..cluster.deployment_key.clone() };
                self.put_cluster(ClusterRecord { deployment_key, exchange, ..(*cluster).clone() }, update);
            }
            SecretsCommand::Rewrap { authority, customers } => {
                let mut keys = customers.iter().map(|each| &each.key).chain(&authority);
                keys.try_for_each(|key| self.is_under_master(key))?;
                if let (Some(wrapped_by), Some(known)) = (authority, self.authority.clone())
                    && known.key.wrapped_by.master != wrapped_by.master
                {
                    let key = SealedKey { wrapped_by, ..known.key.clone() };
                    self.put_authority(AuthorityRecord { key, ..(*known).clone() }, update);
                }
                for Rewrapped { customer, key } in customers {
                    // A customer that was purged meanwhile needs no key.
                    let known = self.customers.get(&customer).filter(|known| known.data_key.master != key.master);
                    if let Some(known) = known.cloned() {
                        self.put_customer(CustomerRecord { data_key: key, ..(*known).clone() }, update);
                        update.changes.push(Change::Customer(customer));
                    }
                }
            }
            SecretsCommand::End => {
                if self.sealed_under_others() > 0 {
                    return Err(Rejection::ExchangeRuns);
                }
                let running = cluster.exchange.filter(|exchange| exchange.ended_at.is_none());
                let running = running.ok_or(Rejection::ExchangeOver)?;
                let exchange = Some(MasterExchange { ended_at: Some(at), ..running });
                self.put_cluster(ClusterRecord { exchange, ..(*cluster).clone() }, update);
            }
            SecretsCommand::RotateSessionKey { sealed } => {
                let former = match &cluster.session_key {
                    Some(known) if at < known.overlaps_until() => {
                        return Err(Rejection::SessionKeyOverlaps(known.overlaps_until()));
                    }
                    Some(known) => FormerSessionKey::Sealed(known.sealed.clone()),
                    None => FormerSessionKey::Derived,
                };
                let session_key = Some(SessionKey { sealed, since: at, former });
                self.put_cluster(ClusterRecord { session_key, ..(*cluster).clone() }, update);
            }
            SecretsCommand::DropSessionKey => {
                if let Some(known) = cluster.session_key.clone().filter(|known| at >= known.overlaps_until()) {
                    let session_key = Some(SessionKey { former: FormerSessionKey::Dropped, ..known });
                    self.put_cluster(ClusterRecord { session_key, ..(*cluster).clone() }, update);
                }
            }
            of_data_keys => self.run_data_keys(of_data_keys, update)?,
        }
        update.done(Change::Layout, Reply::Done)
    }

    /// Rejects a key under another master key than the cluster's, so that a completed replacement stays complete.
    pub(super) fn is_under_master(&self, key: &WrappedKey) -> Result<(), Rejection> {
        match &self.cluster {
            Some(cluster) if cluster.master() != key.master => Err(Rejection::OtherMasterKey(cluster.master())),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn uncount_data_key(&mut self, former: &CustomerRecord) {
        if let Some(count) = self.data_keys_under.get_mut(&former.data_key.master) {
            *count -= 1;
            if *count == 0 {
                self.data_keys_under.remove(&former.data_key.master);
            }
        }
    }

    pub(super) fn put_cluster(&mut self, cluster: ClusterRecord, update: &mut Update<'_>) {
        update.put(keys::CLUSTER, &cluster);
        self.cluster = Some(Arc::new(cluster));
    }
}

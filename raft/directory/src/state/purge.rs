//! Purges a deleted customer at the end of its grace period: everything in the directory except the audit log, which
//! outlives its subjects.

use model::id::CustomerId;
use model::time::Timestamp;

use super::support::delete_tickets;
use super::{Change, DirectoryState, Update, ids_of};
use crate::command::{Rejection, Reply};
use crate::keys;
use crate::records::Ended;

impl DirectoryState {
    /// A customer that was deleted before `time`.
    pub fn deleted_before(&self, time: Timestamp) -> Option<CustomerId> {
        let over = |deleted_at: Timestamp| deleted_at < time;
        self.customers.values().find(|customer| customer.deleted_at.is_some_and(over)).map(|customer| customer.id)
    }

    /// Removes at most `most` records of a deleted customer, and the customer itself with the last of them.
    pub(super) fn purge_customer(
        &mut self,
        id: CustomerId,
        most: usize,
        update: &mut Update<'_>,
    ) -> Result<Reply, Rejection> {
        let customer = self.customers.get(&id).ok_or(Rejection::CustomerNotFound)?;
        if customer.deleted_at.is_none() {
            return Err(Rejection::CustomerLives);
        }
        let mut left = most;
        left -= delete_tickets(id, left, update);
        left -= self.users.remove_customer(id, left, update);
        let endpoints: Vec<_> = ids_of(&self.endpoints_of, id).take(left).copied().collect();
        left -= endpoints.len();
        for endpoint in endpoints {
            self.remove_endpoint(id, endpoint, update);
            update.changes.push(Change::Endpoint(endpoint));
        }
        let keys: Vec<_> = ids_of(&self.keys_of, id).take(left).copied().collect();
        left -= keys.len();
        for key in keys {
            self.remove_key(key, update);
            update.changes.push(Change::Key(key));
        }
        left -= self.remove_channels(id, left, update);
        if left > 0 {
            update.store.delete(&keys::CUSTOMERS.key(id.as_bytes()));
            if let Some(former) = self.customers.remove(&id) {
                self.uncount_data_key(&former);
            }
            self.ending.remove(&Ended::Customer(id));
            update.changes.push(Change::Customer(id));
        }
        Ok(Reply::Removed { more: left == 0 })
    }

    /// Removes channel records; the shards have deleted their data when the channels were deleted.
    fn remove_channels(&mut self, customer: CustomerId, most: usize, update: &mut Update<'_>) -> usize {
        // No index of deleted channels: needed once per customer. Sorted, as the map's order differs between replicas.
        let of_customer = self.channels.values().filter(|channel| channel.customer_id == customer);
        let mut ids: Vec<_> = of_customer.map(|channel| channel.id).collect();
        ids.sort_unstable();
        ids.truncate(most);
        for id in &ids {
            update.store.delete(&keys::CHANNELS.key(id.as_bytes()));
            self.channels.remove(id);
            self.ending.remove(&Ended::Channel(*id));
            update.changes.push(Change::Channel(*id));
        }
        if ids.len() < most {
            self.live_channels_of.remove(&customer);
            self.slots_of.remove(&customer);
        }
        ids.len()
    }
}

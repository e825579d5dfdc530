//! What ends with a deleted channel or customer. From the deleting entry on, all of it is invalid, by the mark on the
//! channel or customer alone. The records follow: a few in the same entry, many in portions, so that no entry blocks
//! the whole cluster's directory.
//!
//! Which deletions have records left is not recorded: it follows from what is still live of the deleted objects.

use std::sync::Arc;

use model::id::{ChannelId, CustomerId, KeyId, SessionId};
use model::time::Timestamp;

use super::{Change, DirectoryState, Update, ids_of};
use crate::command::{Rejection, Reply};
use crate::records::{ChannelRecord, Ended, KeyRecord, PORTION};

/// Records of a deletion that are left to end.
#[derive(Default)]
pub struct Rest {
    pub keys: Vec<Arc<KeyRecord>>,
    pub channels: Vec<ChannelId>,
    pub sessions: Vec<SessionId>,
}

impl DirectoryState {
    /// When a key ended, even if its own record does not say so yet; `None` if it is not revoked, expired or not.
    pub fn ended_at(&self, key: &KeyRecord) -> Option<Timestamp> {
        let of_channel = || self.deleted_at(Ended::Channel(key.channel_id?));
        key.revoked_at.or_else(|| self.deleted_at(Ended::Customer(key.customer_id))).or_else(of_channel)
    }

    /// A key as it will be once the deletions that include it are complete.
    pub fn as_ended(&self, key: Arc<KeyRecord>) -> Arc<KeyRecord> {
        match self.ended_at(&key) {
            Some(at) if key.revoked_at.is_none() => Arc::new(KeyRecord { revoked_at: Some(at), ..(*key).clone() }),
            _ => key,
        }
    }

    pub fn deleted_at(&self, what: Ended) -> Option<Timestamp> {
        match what {
            Ended::Channel(id) => self.channels.get(&id)?.deleted_at,
            Ended::Customer(id) => self.customers.get(&id)?.deleted_at,
        }
    }

    /// Deletions with records left to end.
    pub fn ending(&self) -> impl Iterator<Item = Ended> {
        self.ending.iter().copied()
    }

    pub fn is_ending(&self, what: Ended) -> bool {
        self.ending.contains(&what)
    }

    /// All records of a deletion that are left to end.
    pub fn rest_of(&self, deleted: Ended) -> Rest {
        let live_keys = |customer| {
            let keys = ids_of(&self.keys_of, customer).filter_map(|id| self.keys.get(id));
            let left = keys.filter(|key| key.revoked_at.is_none() && deleted.includes(key));
            left.cloned().collect()
        };
        match deleted {
            _ if !self.ending.contains(&deleted) => Rest::default(),
            Ended::Channel(id) => {
                let keys = self.channels.get(&id).map(|channel| live_keys(channel.customer_id));
                Rest { keys: keys.unwrap_or_default(), ..Rest::default() }
            }
            Ended::Customer(id) => Rest {
                keys: live_keys(id),
                channels: self.live_channels_of.get(&id).into_iter().flatten().map(|(_, id)| *id).collect(),
                sessions: self.users.live_sessions_of(id).collect(),
            },
        }
    }

    pub(super) fn delete_customer(&mut self, id: CustomerId, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        let mut customer = self.live_customer(id)?;
        customer.deleted_at = Some(update.at);
        self.put_customer(customer, update);
        let deleted = Ended::Customer(id);
        self.ending.insert(deleted);
        let keys = self.keys_of.get(&id).map_or(0, |keys| keys.len());
        let records = keys + self.channel_count(id) + self.users.live_sessions_of(id).take(PORTION + 1).count();
        if self.ends_at_once(records) {
            let Rest { keys, channels, sessions } = self.rest_of(deleted);
            let keys: Vec<KeyId> = keys.iter().map(|key| key.id).collect();
            self.end_all(&keys, &channels, &sessions, update.at, update);
            self.ending.remove(&deleted);
        }
        update.done(Change::Customer(id), Reply::Done)
    }

    pub(super) fn delete_channel(
        &mut self,
        customer: CustomerId,
        id: ChannelId,
        update: &mut Update<'_>,
    ) -> Result<Reply, Rejection> {
        self.live_channel(customer, id)?;
        self.end_all(&[], &[id], &[], update.at, update);
        let deleted = Ended::Channel(id);
        self.ending.insert(deleted);
        if self.ends_at_once(self.keys_of.get(&customer).map_or(0, |keys| keys.len())) {
            let keys: Vec<KeyId> = self.rest_of(deleted).keys.iter().map(|key| key.id).collect();
            self.end_all(&keys, &[], &[], update.at, update);
            self.ending.remove(&deleted);
        }
        Ok(Reply::Done)
    }

    /// Whether this many records end within the deleting entry. Earlier releases end all records there.
    fn ends_at_once(&self, records: usize) -> bool {
        records <= PORTION || !self.is_of_third_format()
    }

    /// Ends a part of a deletion's records, found earlier by [`DirectoryState::rest_of`].
    pub(super) fn end_part(
        &mut self,
        deleted: Ended,
        keys: &[KeyId],
        channels: &[ChannelId],
        sessions: &[SessionId],
        last: bool,
        update: &mut Update<'_>,
    ) -> Result<Reply, Rejection> {
        let at = self.deleted_at(deleted).ok_or(Rejection::NotDeleted)?;
        let with_it = |id: &&KeyId| self.keys.get(id).is_some_and(|key| deleted.includes(key));
        let keys: Vec<KeyId> = keys.iter().filter(with_it).copied().collect();
        let of_it = |id: &&ChannelId| {
            self.channels.get(id).is_some_and(|channel| deleted == Ended::Customer(channel.customer_id))
        };
        let channels: Vec<ChannelId> = channels.iter().filter(of_it).copied().collect();
        let of_its_members = |id: &&SessionId| {
            self.users.session(**id).is_some_and(|session| deleted == Ended::Customer(session.customer_id))
        };
        let sessions: Vec<SessionId> = sessions.iter().filter(of_its_members).copied().collect();
        self.end_all(&keys, &channels, &sessions, at, update);
        if last {
            self.ending.remove(&deleted);
        }
        Ok(Reply::Done)
    }

    /// Ends those of these records that are still live.
    fn end_all(
        &mut self,
        keys: &[KeyId],
        channels: &[ChannelId],
        sessions: &[SessionId],
        at: Timestamp,
        update: &mut Update<'_>,
    ) {
        for id in keys {
            if let Some(key) = self.keys.get(id).filter(|key| key.revoked_at.is_none()).cloned() {
                self.revoke(&key, at, update);
                update.changes.push(Change::Key(*id));
            }
        }
        for id in channels {
            if let Some(channel) = self.channel(*id).cloned() {
                self.put_channel(ChannelRecord { deleted_at: Some(at), updated_at: at, ..(*channel).clone() }, update);
                update.changes.push(Change::Channel(*id));
            }
        }
        for id in sessions {
            self.users.end_session(*id, at, update);
        }
    }

    /// Finds the deletions with records left, after a start.
    pub(super) fn find_ending(&mut self) {
        let lives = self.keys.values().filter(|key| key.revoked_at.is_none());
        let channels = lives.filter_map(|key| key.channel_id).map(Ended::Channel);
        let with_keys = self.live_keys_of.keys();
        let with_channels = self.live_channels_of.iter().filter(|(_, live)| !live.is_empty()).map(|(id, _)| id);
        let customers: Vec<CustomerId> = with_keys.chain(with_channels).copied().collect();
        let members = self.users.customers_with_sessions();
        let customers = customers.into_iter().chain(members).map(Ended::Customer);
        self.ending = channels.chain(customers).filter(|what| self.deleted_at(*what).is_some()).collect();
    }
}

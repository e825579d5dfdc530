//! Expiry in the directory: audit entries, sessions, ended keys and deleted channels. In bounded steps, so that no
//! entry of the log blocks the others.

use model::id::{ChannelId, KeyId};
use model::time::Timestamp;
use serde::de::DeserializeOwned;

use super::{DirectoryState, Update};
use crate::command::Reply;
use crate::keys::{self, Table};
use crate::records::{ChannelRecord, KeyRecord};
use machine::record::decode;
use machine::{View, scan_all};

impl DirectoryState {
    /// Removes at most `most` audit entries from before `audit`, and as many sessions that ended before `sessions`.
    pub(super) fn expire(
        &mut self,
        audit: Timestamp,
        sessions: Timestamp,
        most: usize,
        update: &mut Update<'_>,
    ) -> Reply {
        let old = keys_before(&*update.store, audit, most + 1);
        old.iter().take(most).for_each(|key| update.store.delete(key));
        let more_sessions = self.users.expire_sessions(sessions, most, update);
        Reply::Removed { more: old.len() > most || more_sessions }
    }

    /// Ended keys (revoked or expired) of one account that has more than `most` of them: the oldest ones beyond `most`,
    /// but no more than `step`, and only keys that ended before `before`. Empty if no account has too many.
    pub fn ended_beyond(&self, most: usize, before: Timestamp, step: usize) -> Vec<KeyId> {
        for keys in self.keys_of.values().filter(|keys| keys.len() > most) {
            let place = |id: &KeyId| {
                let key: &KeyRecord = self.keys.get(id)?;
                let at = key.ends_at().filter(|at| key.revoked_at.is_some() || *at < before)?;
                Some((at, *id))
            };
            let mut ended: Vec<(Timestamp, KeyId)> = keys.iter().filter_map(place).collect();
            ended.sort_unstable();
            ended.truncate(ended.len().saturating_sub(most).min(step));
            ended.retain(|(at, _)| *at < before);
            if !ended.is_empty() {
                return ended.into_iter().map(|(_, id)| id).collect();
            }
        }
        Vec::new()
    }

    /// Removes those of these keys and channels that ended before a time. Watchers are not told, as nothing uses them
    /// any more. A deleted channel's deliveries are long gone by then, so nothing refers to it.
    pub(super) fn expire_ended(
        &mut self,
        keys: &[KeyId],
        channels: &[ChannelId],
        before: Timestamp,
        update: &mut Update<'_>,
    ) {
        for id in keys {
            if self.keys.get(id).is_some_and(|key| key.ends_at().is_some_and(|at| at < before)) {
                self.remove_key(*id, update);
            }
        }
        for id in channels {
            if self.channels.get(id).is_some_and(|channel| channel.deleted_at.is_some_and(|at| at < before)) {
                update.store.delete(&keys::CHANNELS.key(id.as_bytes()));
                self.channels.remove(id);
            }
        }
    }
}

/// Keys that were revoked or expired, and channels that were deleted, before a time: at most `most` of each. Reads the
/// tables from disk, because an index in memory is not worthwhile for an occasional check.
pub fn ended_before(view: &(impl View + ?Sized), before: Timestamp, most: usize) -> (Vec<KeyId>, Vec<ChannelId>) {
    let keys =
        each_in(view, keys::API_KEYS, most, |key: KeyRecord| key.ends_at().filter(|at| *at < before).map(|_| key.id));
    let channels = each_in(view, keys::CHANNELS, most, |channel: ChannelRecord| {
        channel.deleted_at.filter(|at| *at < before).map(|_| channel.id)
    });
    (keys, channels)
}

/// Finds at most `most` records in a table, which is read in chunks.
fn each_in<R: DeserializeOwned, T>(
    view: &(impl View + ?Sized),
    table: Table,
    most: usize,
    find: impl Fn(R) -> Option<T>,
) -> Vec<T> {
    const CHUNK: usize = 256;
    let rows = scan_all(view, table.range(), CHUNK);
    rows.filter_map(|(_, row)| find(decode(&row))).take(most).collect()
}

/// Keys of audit entries from before a time, at most `most`. The log sorts by customer first, so each customer's oldest
/// entries are read in turn.
pub fn keys_before(view: &(impl View + ?Sized), before: Timestamp, most: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let (mut from, to) = keys::AUDIT.range();
    while found.len() < most {
        let Some((first, _)) = view.scan(&from, &to, 1).into_iter().next() else { break };
        let Some((old, next)) = keys::audit_before(&first, before) else { break };
        let rows = view.scan(&first, &old, most - found.len());
        found.extend(rows.into_iter().map(|(key, _)| key.to_vec()));
        let Some(next) = next else { break };
        from = next;
    }
    found
}

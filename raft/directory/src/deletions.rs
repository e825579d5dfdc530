//! Completes deletions: the keys that end with a channel or a customer get their records and audit entries, because
//! every revocation is in the audit log.
//!
//! The deleting command alone makes everything invalid, so no key outlives it. Records and entries of a few keys are
//! part of that command; those of many follow in portions, because in a single entry of the Raft log they would block
//! the whole cluster's directory. If a node fails in between, the directory's leader continues: it finds what is left
//! from what is still live of the deleted object.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use model::id::{AuditId, CustomerId, KeyId};
use model::time::Timestamp;
use uuid::Uuid;

use crate::command::Command;
use crate::records::{AuditActor, AuditEntry, AuditTarget, Ended, KeyRecord, PORTION};
use crate::state::{DirectoryState, Rest};

/// A deletion, and what ends with it.
pub struct Deletion {
    what: Ended,
    pub customer: CustomerId,
    pub at: Timestamp,
    /// The keys that ended with it, whether or not their records say so.
    pub keys: Vec<Arc<KeyRecord>>,
    rest: Rest,
}

impl Deletion {
    pub fn of(state: &DirectoryState, what: Ended) -> Option<Self> {
        let at = state.deleted_at(what)?;
        let customer = match what {
            Ended::Channel(id) => state.channels.get(&id)?.customer_id,
            Ended::Customer(id) => id,
        };
        let rest = state.rest_of(what);
        let mut keys = state.keys_of(customer);
        keys.retain(|key| key.revoked_at == Some(at) && what.includes(key));
        keys.extend(rest.keys.iter().cloned());
        Some(Self { what, customer, at, keys, rest })
    }

    /// Id of the deleted object, as in the deletion's own audit entry.
    fn target(&self) -> String {
        match self.what {
            Ended::Channel(id) => id.to_string(),
            Ended::Customer(id) => id.to_string(),
        }
    }

    /// Everything that is left to do, in bounded steps.
    pub fn steps(&self, written: &[AuditEntry]) -> Vec<(Command, Vec<AuditEntry>)> {
        let mut entries: BTreeMap<String, AuditEntry> =
            self.missing(written).into_iter().map(|(key, entry)| (key.to_string(), entry)).collect();
        let mut steps = Vec::new();
        let part = |keys: &[KeyId], channels: &[_], sessions: &[_]| Command::EndPart {
            with: self.what,
            keys: keys.to_vec(),
            channels: channels.to_vec(),
            sessions: sessions.to_vec(),
            last: false,
        };
        for keys in self.rest.keys.chunks(PORTION) {
            let audit = keys.iter().filter_map(|key| entries.remove(&key.id.to_string())).collect();
            let keys: Vec<KeyId> = keys.iter().map(|key| key.id).collect();
            steps.push((part(&keys, &[], &[]), audit));
        }
        steps.extend(self.rest.channels.chunks(PORTION).map(|channels| (part(&[], channels, &[]), Vec::new())));
        steps.extend(self.rest.sessions.chunks(PORTION).map(|sessions| (part(&[], &[], sessions), Vec::new())));
        if let Some((Command::EndPart { last, .. }, _)) = steps.last_mut() {
            *last = true;
        }
        let left: Vec<AuditEntry> = entries.into_values().collect();
        steps.extend(left.chunks(PORTION).map(|entries| (Command::Audit, entries.to_vec())));
        steps
    }

    /// The entries that are missing from those written around the time of the deletion. Their actor is that of the
    /// deletion's own entry.
    fn missing(&self, written: &[AuditEntry]) -> Vec<(KeyId, AuditEntry)> {
        let target = |entry: &AuditEntry| entry.target.as_ref().map(|target| target.id.clone());
        let told: HashSet<_> = written.iter().filter(|entry| entry.action == REVOKED).filter_map(target).collect();
        let deleted = self.target();
        let whole = written.iter().find(|entry| target(entry).as_ref() == Some(&deleted));
        let of = |key: &Arc<KeyRecord>| {
            // The id does not depend on who writes the entry.
            let id = AuditId(Uuid::new_v5(&key.id.0, REVOKED.as_bytes()));
            let actor = whole.map_or_else(|| AuditActor::of_kind("system"), |entry| entry.actor.clone());
            let target = AuditTarget::new("api_key", key.id, key.name.clone());
            AuditEntry {
                customer_id: Some(self.customer),
                ip: whole.and_then(|entry| entry.ip.clone()),
                user_agent: whole.and_then(|entry| entry.user_agent.clone()),
                request_id: whole.and_then(|entry| entry.request_id.clone()),
                ..AuditEntry::done(id, REVOKED, actor, target, self.at)
            }
        };
        let untold = self.keys.iter().filter(|key| !told.contains(&key.id.to_string()));
        untold.map(|key| (key.id, of(key))).collect()
    }
}

const REVOKED: &str = "key.revoked";

/// Objects that were deleted since then.
pub fn ended_since(state: &DirectoryState, since: Timestamp) -> Vec<Ended> {
    let lately = |deleted_at: Option<Timestamp>| deleted_at.is_some_and(|at| at >= since);
    let channels = state.channels.values().filter(|channel| lately(channel.deleted_at));
    let customers = state.customers.values().filter(|customer| lately(customer.deleted_at));
    let channels = channels.map(|channel| Ended::Channel(channel.id));
    channels.chain(customers.map(|customer| Ended::Customer(customer.id))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::id::ChannelId;

    use super::*;
    use crate::records::KeyOrigin;

    fn key(customer: CustomerId) -> Arc<KeyRecord> {
        Arc::new(KeyRecord {
            id: KeyId::new(),
            customer_id: customer,
            name: "k".repeat(120),
            prefix: "zpk_test_a1b2c3d4".into(),
            hash: [0; 32],
            channel_id: None,
            scopes: Vec::new(),
            expires_at: None,
            last_used_at: None,
            revoked_at: Some(Timestamp(5)),
            created_at: Timestamp(1),
            created_by: KeyOrigin::ApiKey,
            created_by_key_id: None,
        })
    }

    #[test]
    fn what_a_node_left_is_found_and_no_revocation_is_told_twice() {
        let customer = CustomerId::new();
        let keys: Vec<_> = (0..5).map(|_| key(customer)).collect();
        let channel = ChannelId::new();
        let what = Ended::Channel(channel);
        let deletion = Deletion { what, customer, at: Timestamp(5), keys, rest: Rest::default() };
        let missing = |written: &[AuditEntry]| {
            let entries = deletion.missing(written).into_iter().map(|(_, entry)| entry);
            entries.collect::<Vec<_>>()
        };
        let entries = missing(&[]);
        assert_eq!((entries.len(), &entries[0].actor.kind[..]), (5, "system"));
        // The deletion's own entry, those of two keys, and one that an earlier release wrote under another id.
        let whole = AuditEntry {
            actor: AuditActor::of_kind("operator"),
            action: "channel.deleted".into(),
            target: Some(AuditTarget { kind: "channel".into(), id: channel.to_string(), label: String::new() }),
            ip: Some("198.51.100.7".into()),
            ..entries[0].clone()
        };
        let other = AuditEntry { id: AuditId::new(), created_at: Timestamp(3), ..entries[2].clone() };
        let written = [whole, entries[0].clone(), entries[1].clone(), other];
        let left = missing(&written);
        let ids = |entries: &[AuditEntry]| entries.iter().map(|entry| entry.id).collect::<Vec<_>>();
        assert_eq!(ids(&left), ids(&entries[3..]));
        assert!(left.iter().all(|entry| entry.actor.kind == "operator" && entry.ip.as_deref() == Some("198.51.100.7")));
        assert!(missing(&entries).is_empty());
    }
}

//! The audit log's entries for the keys that end together with a channel or with a customer: every revocation is in the log
//! (interface 5, point 11).
//!
//! The keys themselves end with the one command that deletes, so that none outlives it. The entries of a few keys come with
//! it, those of many follow in portions: all of them in one entry of the Raft log would hold up the directory of the whole
//! cluster. A node that fails in between leaves them to the directory's leader, which looks at what was deleted lately.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::{AuditId, ChannelId, CustomerId};
use model::time::Timestamp;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::command::Command;
use super::handle::{AuditQuery, Directory, UpdateError};
use super::records::{AuditActor, AuditEntry, AuditTarget, KeyRecord};
use super::state::DirectoryState;

/// Entries in one update: some 100 KiB.
pub const PORTION: usize = 200;

/// How often the leader looks, beside at once when it begins to lead.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Deletions that the leader looks at.
const LATELY: Duration = Duration::from_secs(3600);

/// How far the time of an entry and that of what it tells of may be apart.
const APART: Duration = Duration::from_secs(60);

/// How long the leader may take for one deletion; what is left waits for the next look.
const PATIENCE: Duration = Duration::from_secs(30);

/// What keys end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Channel(ChannelId),
    Customer(CustomerId),
}

impl Ended {
    pub fn includes(self, key: &KeyRecord) -> bool {
        match self {
            Self::Channel(channel) => key.channel_id == Some(channel),
            Self::Customer(customer) => key.customer_id == customer,
        }
    }
}

/// A deletion with the keys that ended with it.
struct Deletion {
    customer: CustomerId,
    /// The id of what was deleted, as its own entry names it.
    target: String,
    at: Timestamp,
    keys: Vec<Arc<KeyRecord>>,
}

impl Deletion {
    fn of(state: &DirectoryState, ended: Ended) -> Option<Self> {
        let (customer, target, at) = match ended {
            Ended::Channel(id) => {
                let channel = state.channels.get(&id)?;
                (channel.customer_id, id.to_string(), channel.deleted_at?)
            }
            Ended::Customer(id) => (id, id.to_string(), state.customers.get(&id)?.deleted_at?),
        };
        let mut keys = state.keys_of(customer);
        keys.retain(|key| key.revoked_at == Some(at) && ended.includes(key));
        Some(Self { customer, target, at, keys })
    }

    /// The entries that are not among those that were written about the time of the deletion. What they say of the actor is
    /// what the deletion's own entry says.
    fn missing(&self, written: &[AuditEntry]) -> Vec<AuditEntry> {
        let target = |entry: &AuditEntry| entry.target.as_ref().map(|target| target.id.clone());
        let told: HashSet<_> = written.iter().filter(|entry| entry.action == REVOKED).filter_map(target).collect();
        let whole = written.iter().find(|entry| target(entry).as_ref() == Some(&self.target));
        let of = |key: &Arc<KeyRecord>| AuditEntry {
            // The same whoever writes it.
            id: AuditId(Uuid::new_v5(&key.id.0, REVOKED.as_bytes())),
            customer_id: Some(self.customer),
            action: REVOKED.to_owned(),
            actor: whole.map_or_else(system, |entry| entry.actor.clone()),
            target: Some(AuditTarget { kind: "api_key".to_owned(), id: key.id.to_string(), label: key.name.clone() }),
            ip: whole.and_then(|entry| entry.ip.clone()),
            user_agent: whole.and_then(|entry| entry.user_agent.clone()),
            request_id: whole.and_then(|entry| entry.request_id.clone()),
            success: true,
            created_at: self.at,
            details: BTreeMap::new(),
        };
        self.keys.iter().filter(|key| !told.contains(&key.id.to_string())).map(of).collect()
    }
}

const REVOKED: &str = "key.revoked";

fn system() -> AuditActor {
    AuditActor { kind: "system".to_owned(), id: None, prefix: None, email: None }
}

/// What was deleted since then.
fn ended_since(state: &DirectoryState, since: Timestamp) -> Vec<Ended> {
    let lately = |deleted_at: Option<Timestamp>| deleted_at.is_some_and(|at| at >= since);
    let channels = state.channels.values().filter(|channel| lately(channel.deleted_at));
    let customers = state.customers.values().filter(|customer| lately(customer.deleted_at));
    let channels = channels.map(|channel| Ended::Channel(channel.id));
    channels.chain(customers.map(|customer| Ended::Customer(customer.id))).collect()
}

impl Directory {
    /// Writes the entries of the keys that ended with what was just deleted, in portions.
    ///
    /// # Errors
    /// Those of [`Directory::update`]. What is missing then, the directory's leader writes within minutes.
    pub async fn audit_revocations(self: &Arc<Self>, ended: Ended, deadline: Instant) -> Result<(), UpdateError> {
        let directory = self.clone();
        // The log lies on disk. A look that panicked has found nothing; the next one may.
        let looking = tokio::task::spawn_blocking(move || directory.missing_revocations(ended));
        for portion in looking.await.unwrap_or_default().chunks(PORTION) {
            self.update(Command::Audit, portion.to_vec(), deadline).await?;
        }
        Ok(())
    }

    fn missing_revocations(&self, ended: Ended) -> Vec<AuditEntry> {
        let Some(deletion) = self.read(|state| Deletion::of(state, ended)) else { return Vec::new() };
        if deletion.keys.is_empty() {
            return Vec::new();
        }
        let (since, until) = (deletion.at.minus(APART), deletion.at.plus(APART));
        let about = AuditQuery { customer: Some(deletion.customer), since, until };
        deletion.missing(&self.audit_log(&about, None, usize::MAX, |_| true))
    }

    /// While this node leads the directory: brings to an end what others began, until cancelled.
    pub async fn keep_revocations_audited(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut leadership = self.group().leadership();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
                changed = leadership.changed() => if changed.is_err() { return },
            }
            if !self.leads() {
                continue;
            }
            let ended = self.read(|state| ended_since(state, Timestamp::now().minus(LATELY)));
            for ended in ended {
                let writing = self.audit_revocations(ended, Instant::now() + PATIENCE);
                match stop.run_until_cancelled(writing).await {
                    None => return,
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        tracing::warn!(?ended, %error, "revocations could not be written to the audit log yet")
                    }
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::id::KeyId;

    use super::*;
    use crate::directory::records::KeyOrigin;

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
        let deletion = Deletion { customer, target: "the channel".into(), at: Timestamp(5), keys };
        let entries = deletion.missing(&[]);
        assert_eq!((entries.len(), &entries[0].actor.kind[..]), (5, "system"));
        // The deletion's own entry, two of the keys', and one that an earlier release wrote under an id of its own.
        let whole = AuditEntry {
            actor: AuditActor { kind: "operator".into(), ..system() },
            action: "channel.deleted".into(),
            target: Some(AuditTarget { kind: "channel".into(), id: "the channel".into(), label: String::new() }),
            ip: Some("198.51.100.7".into()),
            ..entries[0].clone()
        };
        let other = AuditEntry { id: AuditId::new(), created_at: Timestamp(3), ..entries[2].clone() };
        let written = [whole, entries[0].clone(), entries[1].clone(), other];
        let left = deletion.missing(&written);
        let ids = |entries: &[AuditEntry]| entries.iter().map(|entry| entry.id).collect::<Vec<_>>();
        assert_eq!(ids(&left), ids(&entries[3..]));
        assert!(left.iter().all(|entry| entry.actor.kind == "operator" && entry.ip.as_deref() == Some("198.51.100.7")));
        assert!(deletion.missing(&entries).is_empty());
    }
}

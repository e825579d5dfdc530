//! Failed authentications on their way into the audit log.
//!
//! They come as fast as an attacker likes, so they are folded: one entry for each key prefix, address, code and minute
//! (supplement 21.6), under an id that is made of these, so that two nodes that fold the same failure write one entry. It
//! bears the time of the first failure that was written.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::api_key::KeyPrefix;
use model::error::ErrorCode;
use model::id::{AuditId, CustomerId};
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::directory::command::Command;
use raft::directory::records::{AuditActor, AuditEntry, KeyRecord};
use shard::cluster::Cluster;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::exchange::Exchange;

/// How often entries are written.
const FLUSH_EVERY: Duration = Duration::from_secs(2);

/// Entries in one update of the directory.
const BATCH: usize = 256;

/// Entries that may wait. What does not fit is counted and lost: the log must not be a way to fill memory.
const CAPACITY: usize = 8 * 1024;

/// How long a write may take; what fails is tried again at the next flush.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// How long the last write may take: a cluster that stops as a whole has no leader any more.
const LAST_WRITE_PATIENCE: Duration = Duration::from_secs(1);

const MINUTE_MILLIS: i64 = 60_000;

/// What an audit entry is about.
pub struct Target {
    pub kind: &'static str,
    pub id: String,
    /// A name that outlives the target.
    pub label: String,
}

impl Target {
    pub fn new(kind: &'static str, id: impl ToString, label: impl Into<String>) -> Self {
        Self { kind, id: id.to_string(), label: label.into() }
    }
}

/// Whose credential failed, as far as that is known. Of what is unknown no more is kept than a key's display prefix: the
/// rest may be a secret that somebody put in the wrong place.
pub enum Suspect {
    Unknown(Option<KeyPrefix>),
    /// A secret that is none, with the prefix of a key of this customer, who is to see that it is guessed at.
    Guess {
        customer: CustomerId,
        prefix: KeyPrefix,
    },
    Key(Arc<KeyRecord>),
    Member {
        customer: CustomerId,
        subject: String,
        email: String,
    },
}

impl Suspect {
    fn customer(&self) -> Option<CustomerId> {
        match self {
            Self::Unknown(_) => None,
            Self::Key(key) => Some(key.customer_id),
            Self::Guess { customer, .. } | Self::Member { customer, .. } => Some(*customer),
        }
    }

    fn actor(&self) -> AuditActor {
        let (kind, id, prefix, email) = match self {
            Self::Unknown(prefix) => ("unknown", None, prefix.as_ref().map(ToString::to_string), None),
            Self::Guess { prefix, .. } => ("unknown", None, Some(prefix.to_string()), None),
            Self::Key(key) => ("api_key", Some(key.id.to_string()), Some(key.prefix.clone()), None),
            Self::Member { subject, email, .. } => ("session", Some(subject.clone()), None, Some(email.clone())),
        };
        AuditActor { kind: kind.to_owned(), id, prefix, email }
    }
}

/// What makes two failures the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Fold {
    customer: Option<CustomerId>,
    /// A key's prefix, or a member's id.
    shown: String,
    ip: IpAddr,
    code: &'static str,
    minute: Timestamp,
}

impl Fold {
    /// The same on every node.
    fn id(&self) -> AuditId {
        let shown = &self.shown;
        let name = format!("auth.failed|{shown}|{}|{}|{}", self.ip, self.code, self.minute.0);
        AuditId(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()))
    }
}

/// The folded failures that wait to be written, and those of this minute that were.
#[derive(Default)]
pub struct FailureLog {
    folds: Mutex<HashMap<Fold, State>>,
}

/// An entry that waits, or a mark that it was written, so that the next failure of the minute writes no second one.
enum State {
    Waiting(Box<AuditEntry>),
    Written,
}

impl FailureLog {
    /// Notes a failed authentication.
    pub fn note(&self, exchange: &Exchange, suspect: Suspect, code: ErrorCode) {
        let actor = suspect.actor();
        let fold = Fold {
            customer: suspect.customer(),
            shown: actor.prefix.clone().or_else(|| actor.id.clone()).unwrap_or_default(),
            ip: exchange.client.ip,
            code: code.as_str(),
            minute: Timestamp(exchange.now.0 - exchange.now.0.rem_euclid(MINUTE_MILLIS)),
        };
        let mut folds = self.folds.lock();
        if folds.contains_key(&fold) {
            return;
        }
        if folds.len() >= CAPACITY {
            metrics::counter!("gateway_audit_dropped_total").increment(1);
            return;
        }
        let entry = AuditEntry {
            id: fold.id(),
            customer_id: fold.customer,
            action: "auth.failed".to_owned(),
            actor,
            target: None,
            ip: Some(fold.ip.to_string()),
            user_agent: exchange.client.user_agent.clone(),
            request_id: Some(exchange.request_id.to_string()),
            success: false,
            created_at: exchange.now,
            details: BTreeMap::from([("code".to_owned(), code.as_str().to_owned())]),
        };
        folds.insert(fold, State::Waiting(Box::new(entry)));
    }

    /// Writes what waits every two seconds, and once more at the stop.
    pub async fn run(&self, cluster: &Cluster, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(FLUSH_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let stopped = tokio::select! {
                () = stop.cancelled() => true,
                _ = ticks.tick() => false,
            };
            self.flush(cluster, if stopped { LAST_WRITE_PATIENCE } else { WRITE_PATIENCE }).await;
            if stopped {
                return;
            }
        }
    }

    async fn flush(&self, cluster: &Cluster, patience: Duration) {
        loop {
            let batch = self.waiting();
            if batch.is_empty() {
                break;
            }
            let entries = batch.iter().map(|(_, entry)| entry.clone()).collect();
            let deadline = Instant::now() + patience;
            if let Err(error) = cluster.directory().update(Command::Audit, entries, deadline).await {
                tracing::warn!(%error, "failed authentications could not be written to the audit log yet");
                return;
            }
            let mut folds = self.folds.lock();
            for (fold, _) in batch {
                folds.insert(fold, State::Written);
            }
        }
        self.forget_before(Timestamp(Timestamp::now().0 - 2 * MINUTE_MILLIS));
    }

    fn waiting(&self) -> Vec<(Fold, AuditEntry)> {
        let folds = self.folds.lock();
        let waiting = folds.iter().filter_map(|(fold, state)| match state {
            State::Waiting(entry) => Some((fold.clone(), (**entry).clone())),
            State::Written => None,
        });
        waiting.take(BATCH).collect()
    }

    /// Drops the marks of minutes that are over.
    fn forget_before(&self, minute: Timestamp) {
        self.folds.lock().retain(|fold, state| matches!(state, State::Waiting(_)) || fold.minute >= minute);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn fold(ip: &str, minute: i64) -> Fold {
        Fold {
            customer: None,
            shown: String::new(),
            ip: ip.parse().unwrap(),
            code: "auth_invalid",
            minute: Timestamp(minute),
        }
    }

    #[test]
    fn the_same_failure_has_the_same_id_on_every_node() {
        assert_eq!(fold("198.51.100.1", 60_000).id(), fold("198.51.100.1", 60_000).id());
        assert_ne!(fold("198.51.100.1", 60_000).id(), fold("198.51.100.1", 120_000).id());
        assert_ne!(fold("198.51.100.1", 60_000).id(), fold("198.51.100.2", 60_000).id());
    }

    #[test]
    fn marks_of_written_entries_end_with_their_minute() {
        let log = FailureLog::default();
        log.folds.lock().insert(fold("198.51.100.1", 0), State::Written);
        log.folds.lock().insert(fold("198.51.100.1", 120_000), State::Written);
        log.forget_before(Timestamp(60_000));
        assert_eq!(log.folds.lock().len(), 1);
    }
}

//! Folds failed authentications into entries of the audit log.
//!
//! Failures come as fast as an attacker sends them. So they are folded: one entry for each key prefix, address (of
//! IPv6: network), code and minute. Its id is derived from these, so that two nodes that fold the same failure write
//! one entry. It holds the time and the address of the first failure that was written.
//!
//! An attacker can invent prefixes that belong to nobody. Such failures get one entry for each address, code and hour,
//! and addresses beyond a bounded number share one entry for each code and hour. An account can have any number of
//! revoked keys, and fail from any number of addresses once a key's prefix is known. So an account's failures beyond a
//! bounded number of entries share one entry for each code and hour, too.

pub mod logins;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::api_key::KeyPrefix;
use model::error::ErrorCode;
use model::id::{AuditId, CustomerId, RequestId};
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::directory::command::Command;
/// The subject of an audit entry.
pub use raft::directory::records::AuditTarget as Target;
use raft::directory::records::{AuditActor, AuditEntry, KeyRecord};
use shard::cluster::Cluster;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::client::Client;
use crate::flush;
use crate::ip_bucket::network_of;

/// How often waiting entries are written.
const FLUSH_EVERY: Duration = Duration::from_secs(2);

/// The most entries in one update of the directory.
const BATCH: usize = 256;

/// The most entries that wait. Further ones are counted and lost, so that failures cannot fill the memory.
const CAPACITY: usize = 8 * 1024;

const MINUTE_MILLIS: i64 = 60_000;
const HOUR_MILLIS: i64 = 60 * MINUTE_MILLIS;

/// The most entries with a stranger's address, per hour and node. Further strangers share one entry per code.
const MOST_STRANGERS: usize = 256;

/// The most separate entries for failures of one account, per hour and node.
const MOST_OF_AN_ACCOUNT: usize = 256;

/// Whose credential failed, as far as that is known. Of an unknown credential only a key's display prefix is kept,
/// since the rest may be a secret that somebody put in the wrong place.
pub enum Suspect {
    Unknown(Option<KeyPrefix>),
    /// No key has this secret, but a key of this customer has its prefix. The customer sees that somebody is guessing.
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
        let unknown = AuditActor::of_kind("unknown");
        match self {
            Self::Unknown(None) => unknown,
            Self::Unknown(Some(prefix)) | Self::Guess { prefix, .. } => {
                AuditActor { prefix: Some(prefix.to_string()), ..unknown }
            }
            Self::Key(key) => AuditActor::key(key),
            Self::Member { subject, email, .. } => AuditActor::member(subject, email),
        }
    }
}

/// The key by which failures are folded: two failures with equal folds share an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Fold {
    customer: Option<CustomerId>,
    /// A key's prefix or a member's id; empty for unknown credentials.
    shown: String,
    /// The address, or the network of an IPv6 address. `None` for all addresses beyond [`MOST_STRANGERS`], and for all
    /// failures of an account beyond [`MOST_OF_AN_ACCOUNT`].
    ip: Option<IpAddr>,
    code: &'static str,
    /// Begin of the minute that the entry covers; of the hour for unknown credentials and for shared entries.
    begin: Timestamp,
    length: i64,
}

impl Fold {
    fn new(actor: &AuditActor, customer: Option<CustomerId>, ip: IpAddr, code: ErrorCode, at: Timestamp) -> Self {
        let (shown, length) = match customer {
            Some(_) => (actor.prefix.clone().or_else(|| actor.id.clone()).unwrap_or_default(), MINUTE_MILLIS),
            None => (String::new(), HOUR_MILLIS),
        };
        let (ip, begin) = (Some(network_of(ip)), at.begin_of(length));
        Self { customer, shown, ip, code: code.as_str(), begin, length }
    }

    /// Begin of the hour that contains the fold.
    fn hour(&self) -> Timestamp {
        self.begin.begin_of(HOUR_MILLIS)
    }

    /// The most separate entries per hour for failures of this account, or of unknown credentials.
    fn most(&self) -> usize {
        if self.customer.is_some() { MOST_OF_AN_ACCOUNT } else { MOST_STRANGERS }
    }

    /// The entry that all further failures of the same hour, code and account (or lack of one) share.
    fn shared(&self) -> Self {
        // The account keeps the ids of different accounts' shared entries apart.
        let shown = self.customer.map(|customer| customer.to_string()).unwrap_or_default();
        Self { shown, ip: None, begin: self.hour(), length: HOUR_MILLIS, ..self.clone() }
    }

    /// The id of the entry, which is the same on every node.
    fn id(&self, port: Port) -> AuditId {
        let ip = self.ip.map_or_else(|| "others".to_owned(), |ip| ip.to_string());
        let shown = match port {
            Port::Customers => &self.shown,
            Port::Operators => "operators",
        };
        let name = format!("auth.failed|{shown}|{ip}|{}|{}", self.code, self.begin.0);
        AuditId(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()))
    }
}

model::words! {
    /// The port where an authentication failed.
    Port {
        Customers = "customers",
        Operators = "operators",
    }
}

/// Entries that wait to be written, and marks of the current entries that were written.
pub struct FailureLog {
    port: Port,
    folds: Mutex<Folds>,
}

#[derive(Default)]
struct Folds {
    /// Entries that wait. `None` marks a written entry, so that further failures with this fold do not write it again.
    of: HashMap<Fold, Option<AuditEntry>>,
    /// The number of separate entries per account (`None`: unknown credentials) and hour.
    told_apart: HashMap<(Option<CustomerId>, Timestamp), usize>,
}

impl Folds {
    /// Stores the entry of a new fold, unless another thread was faster.
    fn note(&mut self, fold: Fold, entry: Option<AuditEntry>) {
        let counted = fold.ip.map(|_| (fold.customer, fold.hour()));
        if let Entry::Vacant(place) = self.of.entry(fold) {
            place.insert(entry);
            if let Some(counted) = counted {
                *self.told_apart.entry(counted).or_default() += 1;
            }
        }
    }

    /// Whether the fold's hour has so many separate entries that further failures share one.
    fn is_crowded(&self, fold: &Fold) -> bool {
        self.told_apart.get(&(fold.customer, fold.hour())).is_some_and(|entries| *entries >= fold.most())
    }
}

impl FailureLog {
    pub fn of(port: Port) -> Self {
        Self { port, folds: Mutex::default() }
    }

    /// Notes a failed authentication.
    pub fn note(&self, client: &Client, request: &RequestId, now: Timestamp, suspect: Suspect, code: ErrorCode) {
        let labels = [("port", self.port.as_str()), ("code", code.as_str())];
        metrics::counter!("gateway_auth_failures_total", &labels).increment(1);
        let actor = suspect.actor();
        let fold = Fold::new(&actor, suspect.customer(), client.ip, code, now);
        let Some(fold) = self.unwritten(fold) else { return };
        let mut details = BTreeMap::from([("code".to_owned(), code.as_str().to_owned())]);
        if self.port == Port::Operators {
            tracing::warn!(ip = %client.ip, code = code.as_str(), "an operator's token was refused");
            details.insert("port".to_owned(), self.port.as_str().to_owned());
        }
        let entry = AuditEntry {
            id: fold.id(self.port),
            customer_id: fold.customer,
            action: "auth.failed".to_owned(),
            actor,
            target: None,
            ip: fold.ip.map(|_| client.ip.to_string()),
            user_agent: client.user_agent.clone(),
            request_id: Some(request.to_string()),
            success: false,
            created_at: now,
            details,
        };
        self.folds.lock().note(fold, Some(entry));
    }

    /// Returns the fold that a failure needs an entry for; `None` when there is one already, or no room for it.
    fn unwritten(&self, mut fold: Fold) -> Option<Fold> {
        let folds = self.folds.lock();
        if !folds.of.contains_key(&fold) && folds.is_crowded(&fold) {
            fold = fold.shared();
        }
        if folds.of.contains_key(&fold) {
            return None;
        }
        if folds.of.len() >= CAPACITY {
            metrics::counter!("gateway_audit_dropped_total").increment(1);
            return None;
        }
        Some(fold)
    }

    /// Writes waiting entries every two seconds, and once more at the stop.
    pub async fn run(&self, cluster: &Cluster, stop: CancellationToken) {
        flush::often(FLUSH_EVERY, stop, |patience| self.flush(cluster, patience)).await;
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
                folds.of.insert(fold, None);
            }
        }
        self.expire_before(Timestamp(Timestamp::now().0 - MINUTE_MILLIS));
    }

    fn waiting(&self) -> Vec<(Fold, AuditEntry)> {
        let folds = self.folds.lock();
        let waiting = folds.of.iter().filter_map(|(fold, entry)| Some((fold.clone(), entry.clone()?)));
        waiting.take(BATCH).collect()
    }

    /// Drops the marks of minutes and hours that ended before `then`.
    fn expire_before(&self, then: Timestamp) {
        let is_over = |fold: &Fold| fold.begin.0 + fold.length <= then.0;
        let mut folds = self.folds.lock();
        folds.of.retain(|fold, entry| entry.is_some() || !is_over(fold));
        folds.told_apart.retain(|(_, hour), _| hour.0 + HOUR_MILLIS > then.0);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const NOBODY: AuditActor = AuditActor { kind: String::new(), id: None, prefix: None, email: None };

    fn fold(customer: Option<CustomerId>, ip: &str, at: i64) -> Fold {
        Fold::new(&NOBODY, customer, ip.parse().unwrap(), ErrorCode::AuthInvalid, Timestamp(at))
    }

    #[test]
    fn the_same_failure_has_the_same_id_on_every_node() {
        let id = |ip: &str, at| fold(Some(CustomerId(Uuid::nil())), ip, at).id(Port::Customers);
        assert_eq!(id("198.51.100.1", 60_000), id("198.51.100.1", 119_999));
        assert_ne!(id("198.51.100.1", 60_000), id("198.51.100.1", 120_000));
        assert_ne!(id("198.51.100.1", 60_000), id("198.51.100.2", 60_000));
        let stranger = fold(None, "198.51.100.1", 60_000);
        assert_ne!(stranger.id(Port::Customers), stranger.id(Port::Operators));
    }

    /// Notes a failure as if it were written at once. Returns whether it needed a new entry.
    fn noted(log: &FailureLog, actor: &AuditActor, customer: Option<CustomerId>, ip: &str, at: i64) -> bool {
        let fold = Fold::new(actor, customer, ip.parse().unwrap(), ErrorCode::AuthInvalid, Timestamp(at));
        let made = log.unwritten(fold);
        made.map(|fold| log.folds.lock().note(fold, None)).is_some()
    }

    #[test]
    fn invented_prefixes_make_one_entry_for_an_address_and_an_hour() {
        let log = FailureLog::of(Port::Customers);
        let prefix = |n: usize| AuditActor { prefix: Some(format!("zpk_{n:08}")), ..NOBODY };
        let from = |ip: &str, at| (0..1_000).filter(|n| noted(&log, &prefix(*n), None, ip, at)).count();
        assert_eq!(from("198.51.100.1", 0), 1);
        assert_eq!(from("198.51.100.1", HOUR_MILLIS - 1), 0);
        assert_eq!(from("198.51.100.1", HOUR_MILLIS), 1);
        // An IPv6 network counts as one address.
        assert_eq!((from("2001:db8::1", 0), from("2001:db8::2", 0)), (1, 0));
        // Failures of a known key get separate entries, one per minute.
        let customer = Some(CustomerId(Uuid::nil()));
        let of_key = |n: usize, at| noted(&log, &prefix(n), customer, "198.51.100.1", at);
        assert!(of_key(1, 0) && of_key(2, 0) && !of_key(1, 59_999) && of_key(1, 60_000));
        // Entries of a known key are also separate by network.
        let of_one = |ip: &str| noted(&log, &prefix(3), customer, ip, 0);
        assert!(of_one("2001:db8::1") && !of_one("2001:db8::ffff:2") && of_one("2001:db8:0:1::1"));
    }

    #[test]
    fn strangers_beyond_a_bounded_number_share_an_entry() {
        let log = FailureLog::of(Port::Customers);
        let from = |n: usize| noted(&log, &NOBODY, None, &format!("198.18.{}.{}", n / 256, n % 256), 0);
        assert_eq!((0..MOST_STRANGERS).filter(|n| from(*n)).count(), MOST_STRANGERS);
        let shared = (MOST_STRANGERS..4 * MOST_STRANGERS).filter(|n| from(*n)).count();
        assert_eq!(shared, 1);
        assert!(!from(0), "the first ones keep theirs");
    }

    #[test]
    fn an_account_has_so_many_entries_of_an_hour_and_then_one_for_the_rest() {
        let log = FailureLog::of(Port::Customers);
        let [one, other] = [1, 2].map(|number| Some(CustomerId(Uuid::from_u128(number))));
        let prefix = |n: usize| AuditActor { prefix: Some(format!("zpk_{n:08}")), ..NOBODY };
        let made = |customer, keys: std::ops::Range<usize>, at| {
            keys.filter(|key| noted(&log, &prefix(*key), customer, "198.51.100.1", at)).count()
        };
        assert_eq!(made(one, 0..MOST_OF_AN_ACCOUNT, 0), MOST_OF_AN_ACCOUNT);
        assert_eq!(made(one, 0..4 * MOST_OF_AN_ACCOUNT, 0), 1, "the rest shares an entry");
        assert_eq!(made(one, 0..4 * MOST_OF_AN_ACCOUNT, 30 * MINUTE_MILLIS), 0, "for the whole hour");
        assert_eq!(made(other, 0..10, 0), 10, "another account's are told apart");
        assert_eq!(made(one, 0..10, HOUR_MILLIS), 10);
        // The marks of the minute have expired by then, but the counts of the hour have not.
        log.expire_before(Timestamp(10 * MINUTE_MILLIS));
        assert_eq!(made(one, 0..10, 30 * MINUTE_MILLIS), 0);
        log.expire_before(Timestamp(2 * HOUR_MILLIS));
        let left = log.folds.lock();
        assert_eq!((left.of.len(), left.told_apart.len()), (0, 0));
        let shared = |customer| fold(customer, "198.51.100.1", 0).shared().id(Port::Customers);
        assert_ne!(shared(one), shared(other));
    }

    #[test]
    fn marks_of_written_entries_end_with_their_minute_or_hour() {
        let log = FailureLog::of(Port::Customers);
        let customer = Some(CustomerId(Uuid::nil()));
        for (customer, at) in [(customer, 0), (customer, 120_000), (None, 0)] {
            assert!(noted(&log, &NOBODY, customer, "198.51.100.1", at));
        }
        let left = |then| {
            log.expire_before(Timestamp(then));
            log.folds.lock().of.len()
        };
        assert_eq!([59_999, 60_000, HOUR_MILLIS - 1, HOUR_MILLIS].map(left), [3, 2, 1, 0]);
    }
}

//! The bytes that accounts keep as messages and webhook deliveries, and their quota `message_bytes`.
//!
//! They are measured, not counted: counting every row would require a format of the shards' state. The store estimates
//! the bytes of its tables between two keys. Messages are ordered by channel and deliveries by endpoint, so an
//! account's bytes are a sum over these. Events are ordered by id alone, and are left out.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use model::customer::Quota;
use model::error::CallError;
use model::format::Format;
use model::id::{CustomerId, RequestId, ShardId};
use parking_lot::Mutex;
use raft::machine::{View, just_after};
use raft::supervise;

use super::{NodeContext, Owner};
use crate::call::{Answer, Call, OwnerRequest, OwnerResponse};
use crate::keys;
use crate::records::{ChannelRow, decode};

/// How often an owner measures its shard; more often if rows expire more often.
const EVERY: Duration = Duration::from_secs(60);

/// Channels or endpoints measured at a time, which takes a processor some milliseconds.
const CHUNK: usize = 64;

/// Pause after each chunk.
const PAUSE: Duration = Duration::from_millis(50);

/// Timeout of another shard's answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum number of accounts in an answer, those that keep most: where there are more, the others keep little.
const MOST_ACCOUNTS: usize = 10_000;

/// Accounts, and approximately how many bytes each of them keeps in a shard.
pub type KeptBytes = Vec<(CustomerId, u64)>;

/// The last measurement, if there was one since the shard is owned here.
#[derive(Default)]
pub struct MessageBytes(Mutex<Option<Measured>>);

struct Measured {
    /// All accounts with a channel or an endpoint's deliveries here, even if these take nothing yet.
    here: HashMap<CustomerId, u64>,
    /// Including what the other shards reported.
    everywhere: HashMap<CustomerId, u64>,
}

impl MessageBytes {
    fn note(&self, here: HashMap<CustomerId, u64>, elsewhere: &BTreeMap<ShardId, KeptBytes>) {
        let mut everywhere = here.clone();
        for (customer, bytes) in elsewhere.values().flatten() {
            // Other accounts send nothing here, and each owner would hold the accounts of the whole cluster.
            if let Some(sum) = everywhere.get_mut(customer) {
                *sum += bytes;
            }
        }
        *self.0.lock() = Some(Measured { here, everywhere });
    }

    /// The bytes kept in this shard by one account, or by all. `None` before the first measurement: an empty answer
    /// would replace what the previous owner reported.
    fn told(&self, of: Option<CustomerId>) -> Option<KeptBytes> {
        let guard = self.0.lock();
        let measured = guard.as_ref()?;
        if let Some(customer) = of {
            return Some(measured.here.get(&customer).map(|bytes| (customer, *bytes)).into_iter().collect());
        }
        let kept = measured.here.iter().filter(|(_, bytes)| **bytes > 0);
        let mut told: KeptBytes = kept.map(|(customer, bytes)| (*customer, *bytes)).collect();
        drop(guard);
        told.sort_unstable_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        told.truncate(MOST_ACCOUNTS);
        Some(told)
    }

    fn refusal(&self, customer: CustomerId, limit: u64) -> Option<CallError> {
        let used = self.0.lock().as_ref().and_then(|measured| measured.everywhere.get(&customer).copied()).unwrap_or(0);
        (used >= limit).then(|| CallError::plan_limit(Quota::MessageBytes, limit, used))
    }
}

impl NodeContext {
    /// The last measurements of the shards' owners, of one account or of all. A shard without an owner is left out; all
    /// are while the cluster's format does not have the request.
    pub async fn message_bytes(
        &self,
        shards: Vec<ShardId>,
        of: Option<CustomerId>,
        id: &RequestId,
        deadline: Instant,
    ) -> Vec<(ShardId, KeptBytes)> {
        if self.directory.format() < Format::THIRD {
            return Vec::new();
        }
        let deadline = deadline.min(Instant::now() + PATIENCE);
        let asks = shards.into_iter().map(|shard| async move {
            match self.nodes.ask(Call::new(shard, OwnerRequest::MessageBytes { of }, id.clone()), deadline).await {
                Ok(Answer::Result { result: Ok(OwnerResponse::MessageBytes(told)), .. }) => Some((shard, told)),
                _ => None,
            }
        });
        join_all(asks).await.into_iter().flatten().collect()
    }
}

impl Owner {
    /// The refusal of a message with a body, if an account's bytes in all shards fill its quota.
    pub fn over_message_bytes(&self, customer: CustomerId) -> Option<CallError> {
        self.message_bytes.refusal(customer, self.node.allowed(customer, Quota::MessageBytes))
    }

    /// The last measurement of this shard, of one account or of all.
    pub fn message_bytes_here(&self, of: Option<CustomerId>) -> Result<KeptBytes, CallError> {
        self.message_bytes.told(of).ok_or_else(CallError::no_leader)
    }
}

/// Measures regularly while the shard is owned. Not at once: a new owner has more urgent work.
pub async fn run(owner: Arc<Owner>) {
    // For a shard without an owner, its last report is kept.
    let mut elsewhere: BTreeMap<ShardId, KeptBytes> = BTreeMap::new();
    loop {
        tokio::time::sleep(owner.node.retention.expire_every.min(EVERY)).await;
        // Before this format, an operator could not set the quota.
        if owner.node.directory.format() < Format::THIRD {
            continue;
        }
        let Some(here) = measure(&owner).await else { return };
        let mut others: Vec<ShardId> = owner.node.directory.read(|state| state.placement.keys().copied().collect());
        others.retain(|shard| *shard != owner.shard);
        let deadline = Instant::now() + PATIENCE;
        elsewhere.extend(owner.node.message_bytes(others, None, &RequestId::mint(), deadline).await);
        for told in elsewhere.values_mut() {
            told.retain(|(customer, _)| here.contains_key(customer));
            told.shrink_to_fit();
        }
        owner.message_bytes.note(here, &elsewhere);
    }
}

/// The account of the rows behind a row of an index, and the ranges of those rows.
type Behind = fn(&[u8], &[u8]) -> Option<(CustomerId, Vec<keys::Range>)>;

/// Measures the shard, a few channels and endpoints at a time; `None` on shutdown.
async fn measure(owner: &Owner) -> Option<HashMap<CustomerId, u64>> {
    let mut kept: HashMap<CustomerId, u64> = HashMap::new();
    let indexes: [(keys::Range, Behind); 2] =
        [(keys::channels(), behind_channel), (keys::customer_endpoints(), behind_endpoint)];
    for ((mut from, to), behind) in indexes {
        loop {
            let (reader, end) = (owner.reader.clone(), to.clone());
            let measuring = supervise::on_thread(move || {
                let rows = reader.scan(&from, &end, CHUNK);
                let measured = rows.iter().filter_map(|(key, row)| {
                    let (customer, ranges) = behind(key, row)?;
                    Some((customer, reader.size_between(&ranges)))
                });
                (measured.collect::<KeptBytes>(), rows.last().map(|(key, _)| just_after(key)))
            });
            let (measured, next) = supervise::joined(measuring).await?;
            for (customer, bytes) in measured {
                *kept.entry(customer).or_default() += bytes;
            }
            let Some(next) = next else { break };
            from = next;
            tokio::time::sleep(PAUSE).await;
        }
    }
    Some(kept)
}

fn behind_channel(_: &[u8], row: &[u8]) -> Option<(CustomerId, Vec<keys::Range>)> {
    let row: ChannelRow = decode(row);
    (!row.wiped).then(|| (row.customer, keys::messages_with_all(row.id).into()))
}

fn behind_endpoint(key: &[u8], _: &[u8]) -> Option<(CustomerId, Vec<keys::Range>)> {
    let (customer, endpoint) = keys::parse_customer_endpoint(key)?;
    Some((customer, keys::deliveries_with_attempts(endpoint).into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_all_shards_keep_together_is_refused_at_the_limit_and_taken_a_byte_below_it() {
        let (bytes, one, other) = (MessageBytes::default(), CustomerId::random(), CustomerId::random());
        assert!(bytes.refusal(one, 1).is_none(), "nothing was measured yet");
        let elsewhere = BTreeMap::from([(2, vec![(one, 30), (other, 5)]), (3, vec![(one, 10)])]);
        bytes.note(HashMap::from([(one, 60), (other, 0)]), &elsewhere);
        let details = |customer, limit| bytes.refusal(customer, limit).map(|refused| refused.details.unwrap());
        assert_eq!(details(one, 100), Some(json!({ "quota": "message_bytes", "limit": 100, "used": 100 })));
        assert_eq!(details(one, 99), Some(json!({ "quota": "message_bytes", "limit": 99, "used": 100 })));
        assert_eq!(details(one, 101), None);
        assert_eq!((details(other, 6), details(other, 5).is_some()), (None, true));
        bytes.note(HashMap::new(), &BTreeMap::new());
        assert_eq!(details(one, 100), None, "what is deleted counts no more");
    }

    #[test]
    fn other_shards_are_told_of_those_that_keep_most_here() {
        let bytes = MessageBytes::default();
        let accounts: Vec<CustomerId> = (0..=MOST_ACCOUNTS).map(|_| CustomerId::random()).collect();
        let here = accounts.iter().zip(1..).map(|(customer, bytes)| (*customer, bytes));
        bytes.note(here.collect(), &BTreeMap::from([(2, vec![(accounts[0], 1_000_000)])]));
        let told = bytes.told(None).unwrap();
        assert_eq!((told.len(), told[0]), (MOST_ACCOUNTS, (accounts[MOST_ACCOUNTS], MOST_ACCOUNTS as u64 + 1)));
        assert!(told.iter().all(|(customer, _)| *customer != accounts[0]), "the one that keeps least");
        assert_eq!(
            bytes.told(Some(accounts[0])).unwrap(),
            [(accounts[0], 1)],
            "what other shards said is theirs to tell"
        );
        assert!(bytes.told(Some(CustomerId::random())).unwrap().is_empty());
        assert!(MessageBytes::default().told(None).is_none(), "nothing was measured yet");
    }
}

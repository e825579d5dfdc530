//! Replacing the master key: everything that is sealed depends on a few data keys; these are rewrapped under the new
//! key, a bounded number at a time, while the cluster works.
//!
//! ```text
//! nodes restart with both keys ── Begin ──► the new one is the cluster's ── Rewrap ... ── End ──► the old one goes
//! ```
//!
//! Also the rotation of the key that signs session tokens (a new key signs, and the previous one verifies until its
//! tokens have expired), and that of the customers' data keys. For the cluster's authority, see [`super::authority`].

use std::collections::BTreeSet;
use std::time::Duration;

use model::format::Format;
use model::id::{CustomerId, EndpointId, ShardId};
use model::seal::{MasterKeyId, WrappedKey};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Progress of replacing the master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterExchange {
    /// The key that is replaced.
    pub from: MasterKeyId,
    pub began_at: Timestamp,
    /// Set when nothing is sealed under any other key than the cluster's.
    pub ended_at: Option<Timestamp>,
}

/// A customer's data key under the cluster's master key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrapped {
    pub customer: CustomerId,
    pub key: WrappedKey,
}

/// How long the previous key's session tokens are accepted: longer than any token lives, with a margin for clock skew.
pub const SESSION_OVERLAP: Duration = Duration::from_secs(20 * 60);

/// The key that signs session tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionKey {
    /// Sealed with the deployment's data key.
    pub sealed: Vec<u8>,
    pub since: Timestamp,
    pub former: FormerSessionKey,
}

impl SessionKey {
    /// Until when tokens signed by the previous key are accepted.
    pub fn overlaps_until(&self) -> Timestamp {
        self.since.plus(SESSION_OVERLAP)
    }
}

/// The key that signed session tokens before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FormerSessionKey {
    /// The key that is derived from the deployment's key.
    Derived,
    Sealed(Vec<u8>),
    /// All of its tokens have expired.
    Dropped,
}

/// Rotation of the customers' data keys: each customer gets a new key; values sealed with former keys are resealed, by
/// the directory's leader and by each shard's owner; former keys are dropped when nothing is sealed with them any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataKeyRotation {
    pub began_at: Timestamp,
    /// Set when every customer that existed before has a new key. From then on, everything is sealed with new keys.
    pub changed_at: Option<Timestamp>,
    /// Shards in which nothing is sealed with former keys any more.
    pub resealed: BTreeSet<ShardId>,
    /// When the last of these shards was done.
    pub resealed_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl DataKeyRotation {
    /// The rotation in a restored cluster, whose shards may be older than it says: one in progress starts over.
    pub fn begun_again(self) -> Self {
        match self.ended_at {
            None => Self { resealed: BTreeSet::new(), resealed_at: None, ..self },
            Some(_) => self,
        }
    }

    /// Whether a shard must be searched for values sealed with former keys.
    pub fn wants(&self, shard: ShardId) -> bool {
        self.ended_at.is_none() && self.changed_at.is_some() && !self.resealed.contains(&shard)
    }
}

/// A resealed value, and the value it replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resealed {
    pub was: Vec<u8>,
    pub sealed: Vec<u8>,
}

/// Resealed values of an endpoint; values that were changed meanwhile stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResealedEndpoint {
    pub id: EndpointId,
    pub secret: Option<Resealed>,
    pub headers: Option<Resealed>,
}

/// Commands about sealed values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretsCommand {
    /// Starts to replace the master key: the deployment's own key is wrapped under another master key, as is everything
    /// sealed from now on.
    Begin { from: MasterKeyId, deployment_key: WrappedKey },
    /// Rewraps data keys under the cluster's master key; keys that are under it already stay.
    Rewrap { authority: Option<WrappedKey>, customers: Vec<Rewrapped> },
    /// Completes it, when nothing is sealed under another key.
    End,
    /// From now on, this key signs session tokens; it is sealed with the deployment's data key.
    RotateSessionKey { sealed: Vec<u8> },
    /// Drops the previous key, once all of its tokens have expired.
    DropSessionKey,
    /// Starts a rotation of the customers' data keys.
    RotateDataKeys,
    /// Gives customers these data keys; their present keys become former ones.
    ChangeDataKeys { customers: Vec<Rewrapped> },
    /// Every customer that existed before has a new key.
    DataKeysChanged,
    /// Secrets and headers of endpoints, sealed with their customers' present keys.
    ResealEndpoints(Vec<ResealedEndpoint>),
    /// Nothing in the shard is sealed with former keys any more, in the rotation that began at `began_at`.
    ShardResealed { shard: ShardId, began_at: Timestamp },
    /// Drops the former keys of customers, when nothing is sealed with former keys any more.
    DropDataKeys { customers: Vec<CustomerId> },
    /// Completes the rotation, when no customer has a former key.
    EndDataKeys,
}

impl SecretsCommand {
    /// The format that a cluster must have before this is proposed.
    pub fn format(&self) -> Format {
        match self {
            Self::Begin { .. } | Self::Rewrap { .. } | Self::End => Format::SECOND,
            _ => Format::THIRD,
        }
    }
}

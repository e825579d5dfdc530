//! The exchange of the master key: everything that is sealed hangs on a few data keys, and these are sealed anew, a bounded
//! number at a time, while the cluster works.
//!
//! ```text
//! nodes are restarted with both keys ── Begin ──► the new one is the cluster's ── Rewrap ... Rewrap ── End ──► the old one goes
//! ```
//!
//! Beside it the rotation of the key that signs session tokens: a new one signs, and the one before verifies until its tokens
//! have expired; and that of the customers' data keys. That of the cluster's authority stands in [`super::authority`].

use std::collections::BTreeSet;
use std::time::Duration;

use model::format::Format;
use model::id::{CustomerId, EndpointId, ShardId};
use model::seal::{MasterKeyId, WrappedKey};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// How far the exchange of the master key is.
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

/// How long session tokens of the key before are good: longer than any lives, and for clocks that differ.
pub const SESSION_OVERLAP: Duration = Duration::from_secs(20 * 60);

/// The key that signs session tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionKey {
    /// Sealed with the data key of the deployment.
    pub sealed: Vec<u8>,
    pub since: Timestamp,
    pub former: FormerSessionKey,
}

impl SessionKey {
    /// Until when what the one before has signed is good.
    pub fn overlaps_until(&self) -> Timestamp {
        self.since.plus(SESSION_OVERLAP)
    }
}

/// The key that signed session tokens before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FormerSessionKey {
    /// The one that follows from the deployment's key.
    Derived,
    Sealed(Vec<u8>),
    /// None of its tokens can be good any more.
    Dropped,
}

/// The rotation of the customers' data keys: each gets another one, what the former ones have sealed is sealed anew, in the
/// directory by its leader and in each shard by its owner, and the former ones are dropped when nothing of theirs is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataKeyRotation {
    pub began_at: Timestamp,
    /// Set when each customer of before has another key. What is sealed from then on is sealed with that.
    pub changed_at: Option<Timestamp>,
    /// Shards in which nothing is sealed with former keys any more.
    pub resealed: BTreeSet<ShardId>,
    /// When the last of them had come so far.
    pub resealed_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl DataKeyRotation {
    /// The rotation in a cluster whose shards may be older than it says: what is under way begins again.
    pub fn begun_again(self) -> Self {
        match self.ended_at {
            None => Self { resealed: BTreeSet::new(), resealed_at: None, ..self },
            Some(_) => self,
        }
    }

    /// Whether a shard is to be looked through for what former keys have sealed.
    pub fn wants(&self, shard: ShardId) -> bool {
        self.ended_at.is_none() && self.changed_at.is_some() && !self.resealed.contains(&shard)
    }
}

/// A value in the place of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resealed {
    pub was: Vec<u8>,
    pub sealed: Vec<u8>,
}

/// What an endpoint keeps sealed, anew; what it has changed meanwhile stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResealedEndpoint {
    pub id: EndpointId,
    pub secret: Option<Resealed>,
    pub headers: Option<Resealed>,
}

/// What can be asked of the directory about what is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretsCommand {
    /// Begins an exchange: the deployment's own key comes under another master key, and with it whatever is sealed from
    /// now on.
    Begin { from: MasterKeyId, deployment_key: WrappedKey },
    /// Brings data keys under the cluster's master key; those that are there already stay.
    Rewrap { authority: Option<WrappedKey>, customers: Vec<Rewrapped> },
    /// Ends it, when nothing is sealed under another key.
    End,
    /// Session tokens are signed by this key from now on, sealed with the deployment's data key.
    RotateSessionKey { sealed: Vec<u8> },
    /// Drops the one before, when none of its tokens can be good any more.
    DropSessionKey,
    /// Begins a rotation of the customers' data keys.
    RotateDataKeys,
    /// Gives customers these data keys; those that they had are former ones.
    ChangeDataKeys { customers: Vec<Rewrapped> },
    /// Each customer of before has another one.
    DataKeysChanged,
    /// Secrets and headers of endpoints, sealed with their customers' present keys.
    ResealEndpoints(Vec<ResealedEndpoint>),
    /// Nothing in the shard is sealed with former keys, in the rotation that began then.
    ShardResealed { shard: ShardId, began_at: Timestamp },
    /// Drops the former keys of customers, when nothing is sealed with former keys any more.
    DropDataKeys { customers: Vec<CustomerId> },
    /// Ends the rotation, when no customer has a former key.
    EndDataKeys,
}

impl SecretsCommand {
    /// The format that a cluster must have before this is proposed to it.
    pub fn format(&self) -> Format {
        match self {
            Self::Begin { .. } | Self::Rewrap { .. } | Self::End => Format::SECOND,
            _ => Format::THIRD,
        }
    }
}

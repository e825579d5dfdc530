//! The exchange of the master key: everything that is sealed hangs on a few data keys, and these are sealed anew, a bounded
//! number at a time, while the cluster works.
//!
//! ```text
//! nodes are restarted with both keys ── Begin ──► the new one is the cluster's ── Rewrap ... Rewrap ── End ──► the old one goes
//! ```

use model::id::CustomerId;
use model::seal::{MasterKeyId, WrappedKey};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// How far the exchange of the master key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterExchange {
    /// The key that goes.
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
}

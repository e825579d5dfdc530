//! Life cycle of the cluster's members: how a node is admitted, drained and removed.
//!
//! ```text
//!        token           first start          drain / undrain
//! Join ──────► Joining ─────────────► Active ◄───────────────► Draining
//!                 │                      │                         │
//!                 └──────── leave ───────┴───────── leave ─────────┘
//!                                        ▼
//!                                     Leaving ───── nothing is placed there ────► removed: its id is spent
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use model::id::NodeId;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::authority::AuthorityRotation;
pub use super::records::NodeState;
use super::records::{NodeRecord, SealedKey, hash_bytes};

/// Maximum number of join tokens; a further one replaces the oldest.
pub const MAX_TOKENS: usize = 100;

/// How long after the admission of a node its token may give the same data folder the answer again.
pub const ASK_AGAIN: Duration = Duration::from_secs(10 * 60);

/// Maximum number of nodes in a cluster.
pub const MAX_NODES: u32 = 100;

/// A token that admits one node, once. The token itself is never stored, only its SHA-256.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinToken {
    #[serde(with = "hash_bytes")]
    pub hash: [u8; 32],
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// The data folder that used the token: the same one may ask again, in case the answer was lost.
    pub used_by: Option<Uuid>,
    /// Whether it has asked again. From format 3 on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_again: bool,
}

/// A removed node. Its id is never reused, and its certificate is not accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovedNode {
    pub id: NodeId,
    pub storage_id: Uuid,
    pub removed_at: Timestamp,
}

/// The cluster's own certificate authority, so that every node can admit others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthorityRecord {
    /// In PEM.
    pub certificate: String,
    /// Private key in PEM, sealed under the master key.
    pub key: SealedKey,
    /// When it replaced another authority. From format 3 on, like the next field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_at: Option<Timestamp>,
    /// Set during a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<AuthorityRotation>,
}

/// Commands about members.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MemberCommand {
    /// Stores the authority that issued the first certificates, unless one is stored already.
    KeepAuthority(Box<AuthorityRecord>),
    /// Issues a token that admits one node.
    IssueToken(JoinToken),
    /// Admits a node by a token; the state machine assigns the id, whatever the record says.
    Join {
        #[serde(with = "hash_bytes")]
        token: [u8; 32],
        node: NodeRecord,
    },
    /// Drains a node.
    Drain(NodeId),
    /// Puts a drained node back into service.
    Undrain(NodeId),
    /// Starts a node's removal.
    Leave(NodeId),
    /// Like `Leave`, if still these others hold replicas and no other removal is running. From format 3 on.
    LeaveBehind { node: NodeId, others: BTreeSet<NodeId> },
    /// Completes the removal, when nothing is placed on the node any more.
    Remove(NodeId),
    /// Sets a node's share of the load, relative to the other nodes.
    Weigh { node: NodeId, weight: u32 },
}

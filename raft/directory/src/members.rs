//! Members of the cluster over their lives: how a node is let in, is taken out of service, and goes for good.
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

/// Join tokens that are kept at once; the oldest goes when another is issued.
pub const MAX_TOKENS: usize = 100;

/// How long after it let a node in a token may give that node's folder its answer again.
pub const ASK_AGAIN: Duration = Duration::from_secs(10 * 60);

/// Nodes that a cluster may have.
pub const MAX_NODES: u32 = 100;

/// What lets one node in, once. The token itself is never stored, only its SHA-256.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinToken {
    #[serde(with = "hash_bytes")]
    pub hash: [u8; 32],
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// The data folder that used it: the same one may ask again, in case its answer was lost.
    pub used_by: Option<Uuid>,
    /// Whether it did. From format 3 on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_again: bool,
}

/// A node that was removed. Its id is never given to another, and its certificate opens nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovedNode {
    pub id: NodeId,
    pub storage_id: Uuid,
    pub removed_at: Timestamp,
}

/// The cluster's own certificate authority, so that every node can let others in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthorityRecord {
    /// PEM.
    pub certificate: String,
    /// Its private key in PEM, sealed under the master key.
    pub key: SealedKey,
    /// When it took the place of another. From format 3 on, as what follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_at: Option<Timestamp>,
    /// Set while another one takes its place, or it that of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<AuthorityRotation>,
}

/// What can be asked of the directory about members.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MemberCommand {
    /// Takes over the authority that made the first certificates; one that is known stays.
    KeepAuthority(Box<AuthorityRecord>),
    /// A token that lets one node in.
    IssueToken(JoinToken),
    /// Lets a node in by a token; its id is chosen here, whatever the record says.
    Join {
        #[serde(with = "hash_bytes")]
        token: [u8; 32],
        node: NodeRecord,
    },
    /// Takes a node out of service.
    Drain(NodeId),
    /// Puts it back into service.
    Undrain(NodeId),
    /// Begins a node's removal.
    Leave(NodeId),
    /// Begins it as it was judged: with these others to hold replicas, and no other removal beside it. From format 3 on.
    LeaveBehind { node: NodeId, others: BTreeSet<NodeId> },
    /// Ends it, when nothing is placed there any more.
    Remove(NodeId),
    /// How much of the whole falls to a node, beside the others.
    Weigh { node: NodeId, weight: u32 },
}

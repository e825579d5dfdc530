//! Rotation of the cluster's certificate authority, by which nodes recognise each other: both authorities are trusted
//! while any node presents a certificate of the former one.
//!
//! ```text
//! Rotate ──► Wanted ──► Announced ── every node trusts it ──► Overlapping ── every node shows its certificate ──► over
//!                  a key is made    the former signs, and is trusted   the new one signs, both are trusted
//! ```
//!
//! The former authority's key is dropped when the new one takes over.

use model::id::NodeId;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::records::SealedKey;

/// A rotation in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthorityRotation {
    pub began_at: Timestamp,
    pub step: AuthorityStep,
}

/// Step of the rotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AuthorityStep {
    /// The directory's leader has to create a new authority.
    Wanted,
    /// Nodes have to trust the new authority before it signs anything. The certificate is in PEM.
    Announced { certificate: String, key: SealedKey },
    /// The new authority has taken over, and nodes have to get certificates from it. `former` is the former authority's
    /// certificate, in PEM.
    Overlapping { former: String },
}

/// Commands about the cluster's authority.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AuthorityCommand {
    /// Starts a rotation.
    Rotate,
    /// The next authority's certificate and its sealed key.
    Announce { certificate: String, key: SealedKey },
    /// The new authority takes over. Rejected while a member is not in `trusting`, the nodes that trust it.
    TakeOver { trusting: Vec<NodeId> },
    /// Ends the trust in the former authority. Rejected while there is a member that is not in `renewed`, the nodes
    /// that present certificates of the present one.
    DropFormer { renewed: Vec<NodeId> },
}

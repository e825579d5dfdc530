//! The rotation of the cluster's authority, by which nodes know each other: both are trusted for as long as a node shows a
//! certificate of the former one.
//!
//! ```text
//! Rotate ──► Wanted ──► Announced ──── every node trusts it ────► Overlapping ──── every node shows a certificate of it ──► over
//!                  a key is made    the former signs, and is trusted       the new one signs, both are trusted
//! ```
//!
//! The key of the former is dropped when the new one takes over.

use model::id::NodeId;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::records::SealedKey;

/// A rotation that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthorityRotation {
    pub began_at: Timestamp,
    pub step: AuthorityStep,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AuthorityStep {
    /// The directory's leader is to make another one.
    Wanted,
    /// Nodes are to trust it, before anything is signed by it. The certificate is in PEM.
    Announced { certificate: String, key: SealedKey },
    /// The new authority has taken over, and nodes are to make themselves certificates of it. `former` is the certificate of
    /// the one before, in PEM.
    Overlapping { former: String },
}

/// What can be asked of the directory about its authority.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AuthorityCommand {
    /// Begins a rotation.
    Rotate,
    /// The next authority's certificate, and its key, sealed.
    Announce { certificate: String, key: SealedKey },
    /// Refused while another node than these, which trust it, is a member.
    TakeOver { trusting: Vec<NodeId> },
    /// Ends the trust in the former. Refused while another node than these, which show certificates of the present one, is a
    /// member.
    DropFormer { renewed: Vec<NodeId> },
}

//! Calls of phones.

use model::address::Address;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// `POST /phones/{n}/calls`.
#[derive(Clone, Debug, Deserialize)]
pub struct NewCall {
    /// A number or a group address.
    pub to: String,
    #[serde(default)]
    pub video: bool,
    /// How long the call rings if nobody answers.
    pub ring_ms: Option<u64>,
}

/// A call as the network sees it.
#[derive(Clone, Debug, Serialize)]
pub struct ShownCall {
    pub id: String,
    pub from: Address,
    pub video: bool,
    pub group: Option<Address>,
    pub offered_at: Timestamp,
    /// The phones where it rings.
    pub ringing: Vec<Address>,
    /// Whether no party is ringing or speaking any more.
    pub over: bool,
}

//! Calls of phones.

use model::address::Address;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// `POST /phones/{n}/calls`.
#[derive(Clone, Debug, Deserialize)]
pub struct NewCall {
    /// A number, or a group.
    pub to: String,
    #[serde(default)]
    pub video: bool,
    /// How long it rings when nobody answers.
    pub ring_ms: Option<u64>,
}

/// A call, as the network sees it.
#[derive(Clone, Debug, Serialize)]
pub struct ShownCall {
    pub id: String,
    pub from: Address,
    pub video: bool,
    pub group: Option<Address>,
    pub offered_at: Timestamp,
    /// At whom it rings.
    pub ringing: Vec<Address>,
    /// Nobody rings or speaks any more.
    pub over: bool,
}

//! What `presence.updated` says.

use schemars::JsonSchema;
use serde::Serialize;

use crate::address::Address;
use crate::presence::Presence;

/// Somebody is there, away, typing or recording.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PresenceUpdatedData")]
pub struct PresenceUpdated {
    /// Who it is.
    pub id: Address,
    pub chat_id: Address,
    pub presence: Presence,
    /// Unix seconds.
    pub last_seen_at: Option<i64>,
    /// In a group: who it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participant: Option<Address>,
    /// For filters by chat.
    #[serde(skip)]
    pub is_group: bool,
}

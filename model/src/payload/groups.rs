//! What `group.*` says.

use schemars::JsonSchema;
use serde::Serialize;

use crate::address::Address;
use crate::group::{AddedReason, Group, GroupChanges, GroupOrigin, RemovedReason};

/// The channel is in a group from now on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "GroupCreatedData")]
pub struct GroupCreated {
    /// The group as it is then.
    pub group: Group,
    /// How the channel came to be in it.
    pub origin: GroupOrigin,
    pub actor: Option<Address>,
    /// Unix seconds.
    pub timestamp: i64,
}

/// Fields of a group changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "GroupUpdatedData")]
pub struct GroupUpdated {
    pub group_id: Address,
    /// Only the fields that changed.
    pub changes: GroupChanges,
    pub actor: Option<Address>,
    /// Unix seconds.
    pub timestamp: i64,
}

/// Of the four events about members.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "GroupMembersData")]
pub struct GroupMembers {
    pub group_id: Address,
    /// Whom it is about.
    pub participants: Vec<Address>,
    pub actor: Option<Address>,
    /// How they came or went; not told of promotions and demotions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["added", "invite_link", "approved", "removed", "left"]))]
    pub reason: Option<MembersReason>,
    /// Unix seconds.
    pub timestamp: i64,
}

/// Why members came or went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MembersReason {
    Added(AddedReason),
    Removed(RemovedReason),
}

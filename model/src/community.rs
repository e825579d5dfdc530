//! Communities as the API shows them: a parent of groups, one of which is for announcements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Community {
    pub id: Address,
    pub subject: String,
    pub description: Option<String>,
    /// Time of creation in Unix seconds; `null` if unknown.
    pub created_at: Option<i64>,
    pub created_by: Option<Address>,
    /// Group that all members are in, and to which only admins send.
    pub announcement_group_id: Option<Address>,
    /// Number of groups in the community.
    pub group_count: u32,
    /// Number of participants; `null` if unknown.
    pub participant_count: Option<u32>,
    /// Whether every member may add groups.
    pub member_add_groups: bool,
    /// Whether admins approve who joins.
    pub join_approval_mode: bool,
}

/// A group of a community.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubGroup {
    pub id: Address,
    pub subject: String,
    /// Whether it is the announcement group, which all members of the community are in.
    pub is_announcement: bool,
    /// Whether the channel is a member of the group.
    pub joined: bool,
    /// Number of participants; `null` if unknown.
    pub participant_count: Option<u32>,
}

/// A community and its groups, as the network reports them together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownCommunity {
    pub community: Community,
    pub groups: Vec<SubGroup>,
}

impl KnownCommunity {
    pub fn group(&self, id: &Address) -> Option<&SubGroup> {
        self.groups.iter().find(|group| group.id == *id)
    }
}

/// A change to a community: the fields that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommunityChanges {
    pub subject: Option<String>,
    /// An empty text clears the description.
    pub description: Option<String>,
    pub member_add_groups: Option<bool>,
    pub join_approval_mode: Option<bool>,
}

impl CommunityChanges {
    /// Whether the community already has these values.
    pub fn hold_for(&self, community: &Community) -> bool {
        fn holds<T: PartialEq + ?Sized>(change: Option<&T>, now: &T) -> bool {
            change.is_none_or(|change| change == now)
        }
        holds(self.subject.as_ref(), &community.subject)
            && holds(self.description.as_deref(), community.description.as_deref().unwrap_or_default())
            && holds(self.member_add_groups.as_ref(), &community.member_add_groups)
            && holds(self.join_approval_mode.as_ref(), &community.join_approval_mode)
    }
}

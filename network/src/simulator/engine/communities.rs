//! Communities: parents of groups. All members of a community are in its announcement group, whose ranks and settings
//! are the community's.
//!
//! Pure state; the requests are in [`super::operations`].

use std::collections::BTreeMap;

use model::address::{Address, Suffixes};
use model::community::KnownCommunity;
use serde::{Deserialize, Serialize};

use super::gatherings::gathering;
use super::groups::GroupId;
use super::rules::{Allowed, NOT_FOUND, Refusal};
use crate::simulator::number::Number;

/// Number of the first community; later ones count up.
const FIRST: u64 = 120_363_200_000_000_001;

gathering! {
    /// A community's number: the local part of its address.
    CommunityId in group by group_address;
    /// All communities.
    Communities { communities: Community } from FIRST or NO_SUCH_COMMUNITY
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Community {
    pub id: CommunityId,
    /// The group that holds members, ranks, subject and invite.
    pub announcement: GroupId,
    /// The other groups, in the order in which they were added.
    pub groups: Vec<GroupId>,
    /// Whether every member may add groups.
    pub member_add_groups: bool,
    /// What each member was last told about the community.
    pub told: BTreeMap<Number, KnownCommunity>,
}

impl Community {
    /// All groups, the announcement group first.
    pub fn all_groups(&self) -> impl Iterator<Item = GroupId> {
        std::iter::once(self.announcement).chain(self.groups.iter().copied())
    }
}

pub const NO_SUCH_COMMUNITY: Refusal = Refusal::new(NOT_FOUND, "there is no such community");

impl Communities {
    pub fn create(&mut self, announcement: GroupId, groups: Vec<GroupId>) -> CommunityId {
        let id = self.next_id();
        let told = BTreeMap::new();
        self.communities.insert(id, Community { id, announcement, groups, member_add_groups: false, told });
        id
    }

    pub fn get(&self, id: CommunityId) -> Allowed<&Community> {
        self.communities.get(&id).ok_or(NO_SUCH_COMMUNITY)
    }

    pub fn remove(&mut self, id: CommunityId) -> Option<Community> {
        self.communities.remove(&id)
    }

    /// All ids, oldest first.
    pub fn ids(&self) -> Vec<CommunityId> {
        self.communities.keys().copied().collect()
    }

    /// The community that a group belongs to.
    pub fn parent_of(&self, group: GroupId) -> Option<CommunityId> {
        let parent = self.communities.values().find(|community| community.all_groups().any(|of| of == group));
        parent.map(|community| community.id)
    }
}

//! Communities: parents of groups. Whoever is in a community is in its group for announcements, whose ranks and
//! settings are the community's.
//!
//! Pure state; what is asked of it is in [`super::operations`].

use std::collections::BTreeMap;

use model::address::{Address, Suffixes};
use model::community::KnownCommunity;
use serde::{Deserialize, Serialize};

use super::gatherings::gathering;
use super::groups::GroupId;
use super::rules::{Allowed, NOT_FOUND, Refusal};
use crate::simulator::number::Number;

/// The first community's number; the others count on from it.
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
    /// Holds the members, their ranks, the subject, and the invite.
    pub announcement: GroupId,
    /// The other groups, in the order in which they came.
    pub groups: Vec<GroupId>,
    /// Every member may add groups.
    pub member_add_groups: bool,
    /// What its members know of it.
    pub told: BTreeMap<Number, KnownCommunity>,
}

impl Community {
    /// All of its groups, that for announcements first.
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

    /// Oldest first.
    pub fn ids(&self) -> Vec<CommunityId> {
        self.communities.keys().copied().collect()
    }

    /// The community that a group belongs to.
    pub fn parent_of(&self, group: GroupId) -> Option<CommunityId> {
        let parent = self.communities.values().find(|community| community.all_groups().any(|of| of == group));
        parent.map(|community| community.id)
    }
}

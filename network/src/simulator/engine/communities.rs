//! Communities: parents of groups. Whoever is in a community is in its group for announcements, whose ranks and
//! settings are the community's.
//!
//! Pure state; what is asked of it is in [`super::operations`].

use std::collections::BTreeMap;

use model::address::{Address, Suffixes};
use model::community::KnownCommunity;
use serde::{Deserialize, Serialize};

use super::groups::GroupId;
use super::rules::{Allowed, NOT_FOUND, Refusal};
use crate::simulator::number::Number;

/// The first community's number; the others count on from it.
const FIRST: u64 = 120_363_200_000_000_001;

/// A community's number: the local part of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommunityId(u64);

impl CommunityId {
    pub fn of_address(address: &Address, suffixes: &Suffixes) -> Option<Self> {
        (address.domain() == suffixes.group).then(|| address.local().parse().ok().map(Self)).flatten()
    }

    pub fn address(self, suffixes: &Suffixes) -> Address {
        suffixes.group_address(&self.0.to_string())
    }
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

/// All communities.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Communities {
    communities: BTreeMap<CommunityId, Community>,
    next: u64,
}

impl Default for Communities {
    fn default() -> Self {
        Self { communities: BTreeMap::new(), next: FIRST }
    }
}

impl Communities {
    /// Leaves numbers out that a process may have given away before it was killed.
    pub fn leave_out(&mut self, numbers: u64) {
        self.next += numbers;
    }

    pub fn create(&mut self, announcement: GroupId, groups: Vec<GroupId>) -> CommunityId {
        let id = CommunityId(self.next);
        self.next += 1;
        let told = BTreeMap::new();
        self.communities.insert(id, Community { id, announcement, groups, member_add_groups: false, told });
        id
    }

    pub fn get(&self, id: CommunityId) -> Allowed<&Community> {
        self.communities.get(&id).ok_or(NO_SUCH_COMMUNITY)
    }

    pub fn get_mut(&mut self, id: CommunityId) -> Allowed<&mut Community> {
        self.communities.get_mut(&id).ok_or(NO_SUCH_COMMUNITY)
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

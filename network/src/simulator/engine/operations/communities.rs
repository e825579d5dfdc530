//! Operations on communities, and their notices.

use model::address::Address;
use model::community::{Community as ShownCommunity, CommunityChanges, KnownCommunity, SubGroup};
use model::group::{AddedReason, GroupChanges, GroupOrigin, ParticipantAction};

use super::count;
use crate::notice::{GroupNews, News};
use crate::operation::communities::{CommunityAnswer, CommunityOperation};
use crate::operation::groups::GroupAnswer;
use crate::simulator::engine::Engine;
use crate::simulator::engine::communities::{CommunityId, NO_SUCH_COMMUNITY};
use crate::simulator::engine::groups::{Group, GroupId, NO_SUCH_GROUP, NOT_AN_ADMIN};
use crate::simulator::engine::rules::{Allowed, CONFLICT, FORBIDDEN, Refusal};
use crate::simulator::number::Number;

impl Engine {
    pub(super) fn community_operation(&mut self, by: Number, asked: CommunityOperation) -> Allowed<CommunityAnswer> {
        match asked {
            CommunityOperation::List => {
                let ids = self.communities.ids().into_iter();
                Ok(CommunityAnswer::Communities(ids.filter_map(|id| self.community_of(by, id).ok()).collect()))
            }
            CommunityOperation::Show { community } => {
                let id = self.named_community(&community)?;
                self.community_of(by, id).map(|community| CommunityAnswer::Community(Box::new(community)))
            }
            CommunityOperation::Create { subject, description, groups } => {
                let groups = groups.iter().map(|group| self.own_group(by, group)).collect::<Result<Vec<_>, _>>()?;
                let code = self.invite_code();
                let announcement = self.groups.create(self.now, by, &subject, code)?;
                announcement.description = description.filter(|text| !text.is_empty());
                (announcement.announce, announcement.restrict, announcement.member_add_mode) = (true, true, false);
                let announcement = announcement.id;
                let group = Box::new(self.group_of(by, announcement)?);
                self.tell(by, Some(by), announcement, GroupNews::Entered { group, origin: GroupOrigin::Created });
                let id = self.communities.create(announcement, groups);
                self.settle_communities();
                self.community_of(by, id).map(|community| CommunityAnswer::Community(Box::new(community)))
            }
            CommunityOperation::Change { community, changes } => {
                self.change_community(by, self.named_community(&community)?, changes)
            }
            CommunityOperation::Deactivate { community } => {
                let id = self.named_community(&community)?;
                self.check_community_admin(by, id)?;
                for whom in self.communities.remove(id).into_iter().flat_map(|community| community.told.into_keys()) {
                    self.tell_community(whom, id, None);
                }
                Ok(CommunityAnswer::Done)
            }
            CommunityOperation::CreateGroup { community, subject, participants } => {
                let id = self.named_community(&community)?;
                self.check_may_add(by, id)?;
                match self.create_group(by, &subject, participants)? {
                    GroupAnswer::Created { group, .. } => {
                        let made = self.named_group(&group.id)?;
                        self.communities.get_mut(id)?.groups.push(made);
                        Ok(CommunityAnswer::CreatedGroup(Box::new(group)))
                    }
                    _ => Err(NO_SUCH_GROUP),
                }
            }
            CommunityOperation::AddGroup { community, group } => {
                let id = self.named_community(&community)?;
                self.check_may_add(by, id)?;
                let group = self.own_group(by, &group)?;
                self.communities.get_mut(id)?.groups.push(group);
                Ok(CommunityAnswer::Done)
            }
            CommunityOperation::RemoveGroup { community, group } => {
                let id = self.named_community(&community)?;
                self.check_community_admin(by, id)?;
                let group = self.group_in(id, &group)?;
                let community = self.communities.get_mut(id)?;
                if community.announcement == group {
                    return Err(Refusal::new(FORBIDDEN, "the announcement group stays"));
                }
                community.groups.retain(|of| *of != group);
                Ok(CommunityAnswer::Done)
            }
            CommunityOperation::JoinGroup { community, group } => {
                let id = self.named_community(&community)?;
                self.announcement_of(id)?.rank_of(by).ok_or(NOT_A_MEMBER)?;
                let group = self.group_in(id, &group)?;
                self.enter_group(by, group).map(CommunityAnswer::Joined)
            }
            CommunityOperation::Participants { community, action, participants } => {
                let group = self.announcement_of(self.named_community(&community)?)?.id;
                self.change_participants(by, group, action, participants).map(CommunityAnswer::Participants)
            }
            CommunityOperation::Invite { community } => {
                let group = self.announcement_of(self.named_community(&community)?)?.id;
                self.invite_to(by, group).map(|invite_code| CommunityAnswer::Invite { invite_code })
            }
            CommunityOperation::RevokeInvite { community } => {
                let group = self.announcement_of(self.named_community(&community)?)?.id;
                self.renew_invite(by, group).map(|invite_code| CommunityAnswer::Invite { invite_code })
            }
        }
    }

    fn change_community(&mut self, by: Number, id: CommunityId, changes: CommunityChanges) -> Allowed<CommunityAnswer> {
        self.check_community_admin(by, id)?;
        let CommunityChanges { subject, description, member_add_groups, join_approval_mode } = changes;
        let changes = GroupChanges { subject, description, join_approval_mode, ..GroupChanges::default() };
        let announcement = self.announcement_of(id)?.id;
        self.change_group(by, announcement, changes)?;
        if let Some(member_add_groups) = member_add_groups {
            self.communities.get_mut(id)?.member_add_groups = member_add_groups;
        }
        Ok(CommunityAnswer::Done)
    }

    /// Aligns communities with their groups after a change to either, and notifies members of what is new to them.
    /// Members of any group are members of the community; whoever has left the community is in none of its groups.
    pub(super) fn settle_communities(&mut self) {
        for id in self.communities.ids() {
            if self.settle_members(id).is_err() || self.tell_what_is_new(id).is_err() {
                self.communities.remove(id);
            }
        }
    }

    fn settle_members(&mut self, id: CommunityId) -> Allowed<()> {
        let community = self.communities.get_mut(id)?;
        community.groups.retain(|group| self.groups.get(*group).is_some());
        let (announcement, groups) = (community.announcement, community.groups.clone());
        for group in groups {
            for member in self.members_of(group) {
                if self.announcement_of(id)?.rank_of(member).is_some() {
                    continue;
                }
                if self.communities.get(id)?.told.contains_key(&member) {
                    self.leave_group(member, group)?;
                } else {
                    self.groups.get_mut(announcement)?.act(ParticipantAction::Add, member);
                    self.tell_added(announcement, None, &[member], AddedReason::Added)?;
                }
            }
        }
        Ok(())
    }

    fn tell_what_is_new(&mut self, id: CommunityId) -> Allowed<()> {
        let members = self.members_of(self.announcement_of(id)?.id);
        let told = &mut self.communities.get_mut(id)?.told;
        let gone: Vec<Number> = told.keys().filter(|whom| !members.contains(whom)).copied().collect();
        gone.iter().for_each(|whom| drop(told.remove(whom)));
        for whom in gone {
            self.tell_community(whom, id, None);
        }
        for whom in members {
            let shown = self.community_of(whom, id)?;
            let known = self.communities.get_mut(id)?.told.insert(whom, shown.clone());
            if known.as_ref() != Some(&shown) {
                self.tell_community(whom, id, Some(Box::new(shown)));
            }
        }
        Ok(())
    }

    fn tell_community(&mut self, whom: Number, id: CommunityId, now: Option<Box<KnownCommunity>>) {
        let community = id.address(&self.suffixes);
        self.notify(whom, None, News::Community { community, now });
    }

    fn named_community(&self, address: &Address) -> Allowed<CommunityId> {
        CommunityId::of_address(address, &self.suffixes).ok_or(NO_SUCH_COMMUNITY)
    }

    /// The announcement group, which holds the members and ranks of a community.
    fn announcement_of(&self, id: CommunityId) -> Allowed<&Group> {
        self.groups.get(self.communities.get(id)?.announcement).ok_or(NO_SUCH_COMMUNITY)
    }

    fn check_community_admin(&self, by: Number, id: CommunityId) -> Allowed<()> {
        self.announcement_of(id)?.check_admin(by)
    }

    fn check_may_add(&self, by: Number, id: CommunityId) -> Allowed<()> {
        let rank = self.announcement_of(id)?.rank_of(by).ok_or(NOT_A_MEMBER)?;
        let open = self.communities.get(id)?.member_add_groups;
        if rank.is_admin() || open { Ok(()) } else { Err(NOT_AN_ADMIN) }
    }

    /// A group that `by` may add to a community, as its admin.
    fn own_group(&self, by: Number, address: &Address) -> Allowed<GroupId> {
        let id = self.named_group(address)?;
        self.groups.get(id).ok_or(NO_SUCH_GROUP)?.check_admin(by)?;
        match self.communities.parent_of(id) {
            None => Ok(id),
            Some(_) => Err(Refusal::new(CONFLICT, "the group is in a community already")),
        }
    }

    fn group_in(&self, id: CommunityId, address: &Address) -> Allowed<GroupId> {
        let group = self.named_group(address)?;
        let inside = self.communities.get(id)?.all_groups().any(|of| of == group);
        if inside { Ok(group) } else { Err(NO_SUCH_GROUP) }
    }

    /// A community as one of its members sees it.
    fn community_of(&self, viewer: Number, id: CommunityId) -> Allowed<KnownCommunity> {
        let announcement = self.announcement_of(id)?;
        announcement.rank_of(viewer).ok_or(NO_SUCH_COMMUNITY)?;
        let community = self.communities.get(id)?;
        let groups: Vec<SubGroup> = community
            .all_groups()
            .filter_map(|group| self.groups.get(group))
            .map(|group| SubGroup {
                id: group.id.address(&self.suffixes),
                subject: group.subject.clone(),
                is_announcement: group.id == community.announcement,
                joined: group.rank_of(viewer).is_some(),
                participant_count: Some(count(group.members().len())),
            })
            .collect();
        let community = ShownCommunity {
            id: community.id.address(&self.suffixes),
            subject: announcement.subject.clone(),
            description: announcement.description.clone(),
            created_at: Some(announcement.created_at.unix_seconds()),
            created_by: Some(self.name_of(announcement.created_by, viewer)),
            announcement_group_id: Some(announcement.id.address(&self.suffixes)),
            group_count: count(groups.len()),
            participant_count: Some(count(announcement.members().len())),
            member_add_groups: community.member_add_groups,
            join_approval_mode: announcement.join_approval_mode,
        };
        Ok(KnownCommunity { community, groups })
    }
}

const NOT_A_MEMBER: Refusal = Refusal::new(FORBIDDEN, "not a member of the community");

//! Operations on groups, and their notices.

use model::address::Address;
use model::group::{
    AddedReason, Group as ShownGroup, GroupChanges, GroupOrigin, GroupParticipant, GroupPreview, JoinRequest,
    JoinStatus, Joined, ParticipantAction, ParticipantResult, ParticipantStatus, RemovedReason,
};
use model::time::Timestamp;
use rand::RngExt;

use crate::notice::{GroupNews, News};
use crate::operation::groups::{GroupAnswer, GroupOperation};
use crate::operation::picture::Picture;
use crate::simulator::engine::Engine;
use crate::simulator::engine::groups::{Group, GroupId, NO_SUCH_GROUP};
use crate::simulator::engine::pictures::NO_PICTURE;
use crate::simulator::engine::rules::Allowed;
use crate::simulator::number::Number;

impl Engine {
    pub(super) fn group_operation(&mut self, by: Number, operation: GroupOperation) -> Allowed<GroupAnswer> {
        match operation {
            GroupOperation::List => {
                Ok(GroupAnswer::Groups(self.groups.of(by).map(|group| self.show_group(by, group)).collect()))
            }
            GroupOperation::Show { group } => self.group_of(by, self.named_group(&group)?).map(GroupAnswer::Group),
            GroupOperation::Create { subject, participants } => self.create_group(by, &subject, participants),
            GroupOperation::Change { group, changes } => {
                let id = self.named_group(&group)?;
                self.change_group(by, id, changes)?;
                self.group_of(by, id).map(GroupAnswer::Group)
            }
            GroupOperation::SetPicture { group, picture } => {
                self.set_group_picture(by, self.named_group(&group)?, picture)
            }
            GroupOperation::Participants { group, action, participants } => {
                let id = self.named_group(&group)?;
                self.change_participants(by, id, action, participants).map(GroupAnswer::Participants)
            }
            GroupOperation::Leave { group } => {
                self.leave_group(by, self.named_group(&group)?).map(|()| GroupAnswer::Done)
            }
            GroupOperation::Invite { group } => {
                let id = self.named_group(&group)?;
                self.invite_to(by, id).map(|invite_code| GroupAnswer::Invite { invite_code })
            }
            GroupOperation::RevokeInvite { group } => {
                let id = self.named_group(&group)?;
                self.renew_invite(by, id).map(|invite_code| GroupAnswer::Invite { invite_code })
            }
            GroupOperation::Preview { invite_code } => {
                let id = self.groups.invited_by(&invite_code)?;
                self.groups.get(id).map(|group| self.preview(by, group)).ok_or(NO_SUCH_GROUP).map(GroupAnswer::Preview)
            }
            GroupOperation::Join { invite_code } => {
                let id = self.groups.invited_by(&invite_code)?;
                self.enter_group(by, id).map(GroupAnswer::Joined)
            }
            GroupOperation::JoinRequests { group } => {
                let group = self.groups.get(self.named_group(&group)?).ok_or(NO_SUCH_GROUP)?;
                group.check_admin(by)?;
                let show = |(number, at): &(Number, Timestamp)| JoinRequest {
                    id: self.name_of(*number, by),
                    lid: Some(number.lid()),
                    requested_at: at.unix_seconds(),
                };
                Ok(GroupAnswer::JoinRequests(group.requests.iter().map(show).collect()))
            }
            GroupOperation::DecideRequests { group, approve, participants } => {
                let id = self.named_group(&group)?;
                self.groups.get_mut(id)?.check_admin(by)?;
                let mut results = Vec::with_capacity(participants.len());
                for address in participants {
                    let number = Number::of_address(&address, &self.suffixes);
                    let group = self.groups.get_mut(id)?;
                    let status = number.map_or(ParticipantStatus::NotFound, |number| group.decide(number, approve));
                    if let (true, ParticipantStatus::Ok, Some(number)) = (approve, status, number) {
                        self.tell_added(id, Some(by), &[number], AddedReason::Approved)?;
                    }
                    results.push(ParticipantResult { id: address, status, message: None, invite_code: None });
                }
                Ok(GroupAnswer::Participants(results))
            }
        }
    }

    pub(super) fn change_group(&mut self, by: Number, id: GroupId, changes: GroupChanges) -> Allowed<()> {
        let changed = self.groups.get_mut(id)?.change(by, changes)?;
        if !changed.is_empty() {
            self.tell_all(&self.members_of(id), id, Some(by), &[], |_| GroupNews::Changed(changed.clone()));
        }
        Ok(())
    }

    pub(super) fn change_participants(
        &mut self,
        by: Number,
        id: GroupId,
        action: ParticipantAction,
        participants: Vec<Address>,
    ) -> Allowed<Vec<ParticipantResult>> {
        self.groups.get_mut(id)?.check_action(by, action)?;
        let (results, done) = self.act_on(by, id, action, participants)?;
        if !done.is_empty() {
            self.tell_action(id, by, action, &done)?;
        }
        Ok(results)
    }

    pub(super) fn invite_to(&mut self, by: Number, id: GroupId) -> Allowed<String> {
        let group = self.groups.get_mut(id)?;
        group.check_admin(by)?;
        Ok(group.invite_code.clone())
    }

    pub(super) fn renew_invite(&mut self, by: Number, id: GroupId) -> Allowed<String> {
        let invite_code = self.invite_code();
        let group = self.groups.get_mut(id)?;
        group.check_admin(by)?;
        group.invite_code.clone_from(&invite_code);
        Ok(invite_code)
    }

    fn set_group_picture(&mut self, by: Number, id: GroupId, picture: Option<Picture>) -> Allowed<GroupAnswer> {
        let group = self.groups.get_mut(id)?;
        group.check_may_edit(by)?;
        let before = group.picture.take();
        if before.is_none() && picture.is_none() {
            return Err(NO_PICTURE);
        }
        let picture = self.replace_picture(before, picture);
        self.groups.get_mut(id)?.picture.clone_from(&picture);
        Ok(GroupAnswer::Picture { picture_url: picture.map(|id| self.picture_url(&id)) })
    }

    pub(super) fn create_group(
        &mut self,
        by: Number,
        subject: &str,
        participants: Vec<Address>,
    ) -> Allowed<GroupAnswer> {
        let code = self.invite_code();
        let id = self.groups.create(self.now, by, subject, code)?.id;
        let (participants_result, _) = self.act_on(by, id, ParticipantAction::Add, participants)?;
        // The initial members are told of the group as a whole.
        for member in self.members_of(id) {
            let group = Box::new(self.group_of(member, id)?);
            let origin = if member == by { GroupOrigin::Created } else { GroupOrigin::Added };
            self.tell(member, Some(by), id, GroupNews::Entered { group, origin });
        }
        Ok(GroupAnswer::Created { group: self.group_of(by, id)?, participants_result })
    }

    /// Applies a permitted action to each participant, and returns those for whom it changed something.
    fn act_on(
        &mut self,
        by: Number,
        id: GroupId,
        action: ParticipantAction,
        participants: Vec<Address>,
    ) -> Allowed<(Vec<ParticipantResult>, Vec<Number>)> {
        let mut results = Vec::with_capacity(participants.len());
        let mut done = Vec::new();
        for address in participants {
            let known = self.registered(&address).ok();
            let admits = known.is_none_or(|number| self.shows(number, by, |privacy| privacy.group_add));
            let group = self.groups.get_mut(id)?;
            let invited = action == ParticipantAction::Add && !admits;
            if known.is_some_and(|number| invited && group.rank_of(number).is_none()) {
                let status = ParticipantStatus::InviteRequired;
                let invite_code = Some(group.invite_code.clone());
                results.push(ParticipantResult { id: address, status, message: None, invite_code });
                continue;
            }
            let changes = known.is_some_and(|number| match action {
                ParticipantAction::Promote => group.rank_of(number).is_some_and(|rank| !rank.is_admin()),
                ParticipantAction::Demote => group.rank_of(number).is_some_and(|rank| rank.is_admin()),
                ParticipantAction::Add | ParticipantAction::Remove => true,
            });
            let status = known.map_or(ParticipantStatus::NotFound, |number| group.act(action, number));
            if let (ParticipantStatus::Ok, true, Some(number)) = (status, changes, known) {
                done.push(number);
            }
            results.push(ParticipantResult { id: address, status, message: None, invite_code: None });
        }
        Ok((results, done))
    }

    fn tell_action(&mut self, id: GroupId, by: Number, action: ParticipantAction, done: &[Number]) -> Allowed<()> {
        let members = self.members_of(id);
        match action {
            ParticipantAction::Add => self.tell_added(id, Some(by), done, AddedReason::Added)?,
            ParticipantAction::Remove => {
                let removed = |participants| GroupNews::Removed { participants, reason: RemovedReason::Removed };
                self.tell_all(done, id, Some(by), done, removed);
                self.tell_all(&members, id, Some(by), done, removed);
            }
            ParticipantAction::Promote => {
                self.tell_all(&members, id, Some(by), done, |participants| GroupNews::Promoted { participants });
            }
            ParticipantAction::Demote => {
                self.tell_all(&members, id, Some(by), done, |participants| GroupNews::Demoted { participants });
            }
        }
        Ok(())
    }

    /// Notifies the new members of their group, and the other members of them.
    pub(super) fn tell_added(
        &mut self,
        id: GroupId,
        actor: Option<Number>,
        added: &[Number],
        reason: AddedReason,
    ) -> Allowed<()> {
        let origin = if reason == AddedReason::Added { GroupOrigin::Added } else { GroupOrigin::Joined };
        for number in added {
            let group = Box::new(self.group_of(*number, id)?);
            self.tell(*number, actor, id, GroupNews::Entered { group, origin });
        }
        let mut others = self.members_of(id);
        others.retain(|member| !added.contains(member));
        self.tell_all(&others, id, actor, added, |participants| GroupNews::Added { participants, reason });
        Ok(())
    }

    pub(super) fn leave_group(&mut self, by: Number, id: GroupId) -> Allowed<()> {
        let heir = self.groups.leave(id, by)?;
        let left = |participants| GroupNews::Removed { participants, reason: RemovedReason::Left };
        self.tell_all(&[by], id, Some(by), &[by], left);
        let members = self.members_of(id);
        self.tell_all(&members, id, Some(by), &[by], left);
        if let Some(heir) = heir {
            self.tell_all(&members, id, None, &[heir], |participants| GroupNews::Promoted { participants });
        }
        Ok(())
    }

    /// Joins a group by an invite, or requests to join.
    pub(super) fn enter_group(&mut self, by: Number, id: GroupId) -> Allowed<Joined> {
        let status = if self.groups.get_mut(id)?.enter(self.now, by)? {
            self.tell_added(id, Some(by), &[by], AddedReason::InviteLink)?;
            JoinStatus::Joined
        } else {
            JoinStatus::PendingApproval
        };
        Ok(Joined { id: id.address(&self.suffixes), status })
    }

    pub(super) fn named_group(&self, address: &Address) -> Allowed<GroupId> {
        GroupId::of_address(address, &self.suffixes).ok_or(NO_SUCH_GROUP)
    }

    /// An invite code of 22 characters, like those of the real network.
    pub(super) fn invite_code(&mut self) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        (0..22).map(|_| char::from(LETTERS[self.rng.random_range(0..LETTERS.len())])).collect()
    }

    pub(super) fn members_of(&self, id: GroupId) -> Vec<Number> {
        let members = self.groups.get(id).map(Group::members).unwrap_or_default();
        members.iter().map(|member| member.number).collect()
    }

    pub(super) fn tell(&mut self, whom: Number, actor: Option<Number>, id: GroupId, news: GroupNews) {
        let group = id.address(&self.suffixes);
        self.notify(whom, actor, News::Group { group, news });
    }

    /// Notifies each of `whom` about `of`, with the addresses under which the reader knows them.
    fn tell_all(
        &mut self,
        whom: &[Number],
        id: GroupId,
        actor: Option<Number>,
        of: &[Number],
        news: impl Fn(Vec<Address>) -> GroupNews,
    ) {
        for viewer in whom {
            let shown = of.iter().map(|number| self.name_of(*number, *viewer)).collect();
            self.tell(*viewer, actor, id, news(shown));
        }
    }

    /// A group as one of its members sees it.
    pub(super) fn group_of(&self, viewer: Number, id: GroupId) -> Allowed<ShownGroup> {
        let group = self.groups.get(id).filter(|group| group.rank_of(viewer).is_some());
        group.map(|group| self.show_group(viewer, group)).ok_or(NO_SUCH_GROUP)
    }

    /// Renders a group for a member: others may hide their numbers.
    fn show_group(&self, viewer: Number, group: &Group) -> ShownGroup {
        let address = |number: Number| self.name_of(number, viewer);
        let members = group.members().iter();
        ShownGroup {
            id: group.id.address(&self.suffixes),
            subject: group.subject.clone(),
            description: group.description.clone(),
            created_at: Some(group.created_at.unix_seconds()),
            created_by: Some(address(group.created_by)),
            participants: members.map(|m| GroupParticipant { id: address(m.number), rank: m.rank }).collect(),
            invite_code: None,
            announce: group.announce,
            restrict: group.restrict,
            ephemeral: group.ephemeral,
            member_add_mode: group.member_add_mode,
            join_approval_mode: group.join_approval_mode,
        }
    }

    fn preview(&self, viewer: Number, group: &Group) -> GroupPreview {
        let shown = self.show_group(viewer, group);
        GroupPreview {
            size: u32::try_from(shown.participants.len()).unwrap_or(u32::MAX),
            id: shown.id,
            subject: shown.subject,
            description: shown.description,
            created_at: shown.created_at,
            created_by: shown.created_by,
            announce: shown.announce,
            join_approval_mode: shown.join_approval_mode,
        }
    }
}

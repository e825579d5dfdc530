//! Groups: members and their ranks, settings and permissions.
//!
//! Pure state and rules; the requests are in [`super::operations`].

use std::collections::BTreeMap;

use model::address::{Address, Suffixes};
use model::group::{Changeable, GroupChanges, ParticipantAction, ParticipantStatus, Rank};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::gatherings::gathering;
use super::pictures::PictureId;
use super::rules::{Allowed, BAD_REQUEST, CONFLICT, FORBIDDEN, NOT_FOUND, Refusal, check_length};
use crate::simulator::number::Number;

/// Maximum number of members in a group.
const MOST_MEMBERS: usize = 1_024;

/// Number of the first group; later ones count up.
const FIRST: u64 = 120_363_000_000_000_001;

gathering! {
    /// A group's number: the local part of its address.
    GroupId in group by group_address;
    /// All groups.
    Groups { groups: Group } from FIRST or NO_SUCH_GROUP
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    pub id: GroupId,
    pub subject: String,
    pub description: Option<String>,
    pub picture: Option<PictureId>,
    pub invite_code: String,
    /// Pending requests to join, with their times.
    pub requests: Vec<(Number, Timestamp)>,
    pub created_at: Timestamp,
    pub created_by: Number,
    /// In the order of joining.
    members: Vec<Member>,
    /// Whether only admins may send.
    pub announce: bool,
    /// Whether only admins may change the group's data.
    pub restrict: bool,
    /// Whether every member may add others.
    pub member_add_mode: bool,
    pub join_approval_mode: bool,
    /// Seconds after which messages disappear; 0 for never.
    pub ephemeral: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub number: Number,
    pub rank: Rank,
}

impl Group {
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn rank_of(&self, number: Number) -> Option<Rank> {
        self.members.iter().find(|member| member.number == number).map(|member| member.rank)
    }

    /// Checks that `by` is an admin, or a member if the action `is_open` to all members.
    fn check(&self, by: Number, is_open: bool) -> Allowed<()> {
        let rank = self.rank_of(by).ok_or(NOT_A_MEMBER)?;
        if rank.is_admin() || is_open { Ok(()) } else { Err(NOT_AN_ADMIN) }
    }

    /// Checks that `by` may take an action at all.
    pub fn check_action(&self, by: Number, action: ParticipantAction) -> Allowed<()> {
        self.check(by, action == ParticipantAction::Add && self.member_add_mode)
    }

    /// Takes an action that [`Self::check_action`] has allowed on an existing subscriber.
    pub fn act(&mut self, action: ParticipantAction, number: Number) -> ParticipantStatus {
        match (action, self.rank_of(number)) {
            (ParticipantAction::Add, Some(_)) => ParticipantStatus::AlreadyMember,
            (ParticipantAction::Add, None) if self.members.len() >= MOST_MEMBERS => ParticipantStatus::Failed,
            (ParticipantAction::Add, None) => {
                self.members.push(Member { number, rank: Rank::Member });
                ParticipantStatus::Ok
            }
            (_, None) => ParticipantStatus::NotMember,
            // The creator's rank cannot be taken away.
            (ParticipantAction::Remove | ParticipantAction::Demote, Some(Rank::Creator)) => {
                ParticipantStatus::NotAuthorized
            }
            (ParticipantAction::Remove, Some(_)) => {
                self.members.retain(|member| member.number != number);
                ParticipantStatus::Ok
            }
            (ParticipantAction::Promote, Some(Rank::Member)) => self.set_rank(number, Rank::Admin),
            (ParticipantAction::Demote, Some(Rank::Admin)) => self.set_rank(number, Rank::Member),
            (ParticipantAction::Promote | ParticipantAction::Demote, Some(_)) => ParticipantStatus::Ok,
        }
    }

    fn set_rank(&mut self, number: Number, rank: Rank) -> ParticipantStatus {
        self.members.iter_mut().filter(|member| member.number == number).for_each(|member| member.rank = rank);
        ParticipantStatus::Ok
    }

    /// Checks that `by` may change the group's profile.
    pub fn check_may_edit(&self, by: Number) -> Allowed<()> {
        self.check(by, !self.restrict)
    }

    /// Applies the fields that differ and returns those.
    pub fn change(&mut self, by: Number, changes: GroupChanges) -> Allowed<GroupChanges> {
        self.check_may_edit(by)?;
        let GroupChanges { announce, restrict, member_add_mode, join_approval_mode, .. } = changes;
        if [announce, restrict, member_add_mode, join_approval_mode].iter().any(Option::is_some) {
            self.check_admin(by)?;
        }
        changes.subject.as_ref().map_or(Ok(()), |subject| check_length(subject, 100, BAD_SUBJECT))?;
        Ok(changes.apply(Changeable {
            subject: &mut self.subject,
            description: &mut self.description,
            announce: &mut self.announce,
            restrict: &mut self.restrict,
            member_add_mode: &mut self.member_add_mode,
            join_approval_mode: &mut self.join_approval_mode,
            ephemeral: &mut self.ephemeral,
        }))
    }

    /// Checks that `by` is an admin.
    pub fn check_admin(&self, by: Number) -> Allowed<()> {
        self.check(by, false)
    }

    /// Joins by an invite; `false` if the member has to wait for an admin's approval.
    pub fn enter(&mut self, now: Timestamp, number: Number) -> Allowed<bool> {
        if self.rank_of(number).is_some() {
            return Err(ALREADY_A_MEMBER);
        }
        if self.members.len() >= MOST_MEMBERS {
            return Err(Refusal::new(FORBIDDEN, "the group is full"));
        }
        if self.join_approval_mode {
            if !self.requests.iter().any(|(waiting, _)| *waiting == number) {
                self.requests.push((number, now));
            }
            return Ok(false);
        }
        self.members.push(Member { number, rank: Rank::Member });
        Ok(true)
    }

    /// Approves or rejects a request to join.
    pub fn decide(&mut self, number: Number, approve: bool) -> ParticipantStatus {
        let Some(position) = self.requests.iter().position(|(waiting, _)| *waiting == number) else {
            return ParticipantStatus::NotFound;
        };
        self.requests.remove(position);
        if approve { self.act(ParticipantAction::Add, number) } else { ParticipantStatus::Ok }
    }

    /// Removes a member. If no admin is left, the oldest member becomes one and is returned.
    fn lose(&mut self, number: Number) -> Option<Number> {
        self.members.retain(|member| member.number != number);
        if self.members.iter().any(|member| member.rank.is_admin()) {
            return None;
        }
        let oldest = self.members.first_mut()?;
        oldest.rank = Rank::Admin;
        Some(oldest.number)
    }
}

pub const NO_SUCH_GROUP: Refusal = Refusal::new(NOT_FOUND, "there is no such group");
const ALREADY_A_MEMBER: Refusal = Refusal::new(CONFLICT, "a member of the group already");
const BAD_SUBJECT: Refusal = Refusal::new(BAD_REQUEST, "a subject has 1 to 100 characters");
pub const NOT_A_MEMBER: Refusal = Refusal::new(FORBIDDEN, "not a member of the group");
pub const NOT_AN_ADMIN: Refusal = Refusal::new(FORBIDDEN, "not an admin of the group");

impl Groups {
    /// Creates a group whose only member is its creator.
    pub fn create(&mut self, now: Timestamp, by: Number, subject: &str, invite_code: String) -> Allowed<&mut Group> {
        check_length(subject, 100, BAD_SUBJECT)?;
        let id = self.next_id();
        let group = Group {
            id,
            subject: subject.to_owned(),
            description: None,
            picture: None,
            invite_code,
            requests: Vec::new(),
            created_at: now,
            created_by: by,
            members: vec![Member { number: by, rank: Rank::Creator }],
            announce: false,
            restrict: false,
            member_add_mode: true,
            join_approval_mode: false,
            ephemeral: 0,
        };
        Ok(self.groups.entry(id).or_insert(group))
    }

    pub fn get(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// The groups of a member, oldest first.
    pub fn of(&self, member: Number) -> impl Iterator<Item = &Group> {
        self.groups.values().filter(move |group| group.rank_of(member).is_some())
    }

    /// The group of an invite code.
    pub fn invited_by(&self, code: &str) -> Allowed<GroupId> {
        let group = self.groups.values().find(|group| group.invite_code == code);
        group.map(|group| group.id).ok_or(Refusal::new(NOT_FOUND, "the invite code leads nowhere"))
    }

    /// Removes a member who leaves, and the group if it is empty. Returns who became an admin instead.
    pub fn leave(&mut self, id: GroupId, member: Number) -> Allowed<Option<Number>> {
        let group = self.get_mut(id)?;
        group.rank_of(member).ok_or(NOT_A_MEMBER)?;
        let heir = group.lose(member);
        self.groups.retain(|_, group| !group.members.is_empty());
        Ok(heir)
    }

    /// Removes a deleted number from all groups.
    pub fn remove_number(&mut self, number: Number) {
        for group in self.groups.values_mut().filter(|group| group.rank_of(number).is_some()) {
            group.lose(number);
        }
        self.groups.retain(|_, group| !group.members.is_empty());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    fn group() -> (Groups, GroupId, [Number; 3]) {
        let people = ["1111", "2222", "3333"].map(number);
        let mut groups = Groups::default();
        let group = groups.create(Timestamp(0), people[0], "Friends", "code".into()).unwrap();
        assert_eq!(group.act(ParticipantAction::Add, people[1]), ParticipantStatus::Ok);
        let id = group.id;
        (groups, id, people)
    }

    #[test]
    fn each_participant_is_told_how_the_action_ended_for_it() {
        let (mut groups, id, [ann, ben, cem]) = group();
        let group = groups.get_mut(id).unwrap();
        let cases = [
            (ParticipantAction::Add, ben, ParticipantStatus::AlreadyMember),
            (ParticipantAction::Promote, cem, ParticipantStatus::NotMember),
            (ParticipantAction::Promote, ben, ParticipantStatus::Ok),
            (ParticipantAction::Demote, ann, ParticipantStatus::NotAuthorized),
            (ParticipantAction::Remove, ann, ParticipantStatus::NotAuthorized),
            (ParticipantAction::Demote, ben, ParticipantStatus::Ok),
            (ParticipantAction::Remove, ben, ParticipantStatus::Ok),
            (ParticipantAction::Remove, ben, ParticipantStatus::NotMember),
        ];
        for (action, whom, outcome) in cases {
            assert_eq!(group.act(action, whom), outcome, "{action:?} {whom}");
        }
    }

    #[test]
    fn members_add_while_they_may_and_admins_do_the_rest() {
        let (mut groups, id, [ann, ben, cem]) = group();
        let group = groups.get_mut(id).unwrap();
        assert!(group.check_action(ben, ParticipantAction::Add).is_ok());
        assert_eq!(group.check_action(ben, ParticipantAction::Remove), Err(NOT_AN_ADMIN));
        assert_eq!(group.check_action(cem, ParticipantAction::Add), Err(NOT_A_MEMBER));
        let closed = GroupChanges { member_add_mode: Some(false), ..Default::default() };
        assert_eq!(group.change(ben, closed.clone()), Err(NOT_AN_ADMIN));
        group.change(ann, closed.clone()).unwrap();
        assert_eq!(group.check_action(ben, ParticipantAction::Add), Err(NOT_AN_ADMIN));
        group.change(ben, GroupChanges { ephemeral: Some(60), ..Default::default() }).unwrap();
        group.change(ann, GroupChanges { restrict: Some(true), ..Default::default() }).unwrap();
        let refused = group.change(ben, GroupChanges { ephemeral: Some(0), ..Default::default() });
        assert_eq!((refused, group.ephemeral), (Err(NOT_AN_ADMIN), 60));
    }

    #[test]
    fn a_group_never_lacks_an_admin_and_ends_with_its_last_member() {
        let (mut groups, id, [ann, ben, _]) = group();
        groups.leave(id, ann).unwrap();
        assert_eq!(groups.get(id).unwrap().rank_of(ben), Some(Rank::Admin));
        assert_eq!(groups.leave(id, ann), Err(NOT_A_MEMBER));
        groups.remove_number(ben);
        assert!(groups.get(id).is_none());
    }
}

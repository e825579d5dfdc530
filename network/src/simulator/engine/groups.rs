//! Groups: members and their ranks, settings, and who may do what (interface 2.7, supplement 12).
//!
//! Pure state and rules; what the control API asks of it is in [`super::gatherings`].

use std::collections::BTreeMap;

use model::address::{Address, Suffixes};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::rules::{BAD_REQUEST, FORBIDDEN, NOT_FOUND, Refusal};
use crate::simulator::number::Number;

/// The most members of a group.
const MOST_MEMBERS: usize = 1_024;

/// The first group's number; the others count on from it.
const FIRST: u64 = 120_363_000_000_000_001;

/// A group's number: the local part of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u64);

impl GroupId {
    pub fn of_address(address: &Address, suffixes: &Suffixes) -> Option<Self> {
        // An address of a group that cannot exist still names a group.
        (address.domain() == suffixes.group).then(|| Self(address.local().parse().unwrap_or(0)))
    }

    pub fn address(self, suffixes: &Suffixes) -> Address {
        suffixes.group_address(&self.0.to_string())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    Creator,
    Admin,
    Member,
}

impl Rank {
    pub fn is_admin(self) -> bool {
        self != Self::Member
    }
}

#[derive(Debug)]
pub struct Group {
    pub id: GroupId,
    pub subject: String,
    pub created_at: Timestamp,
    pub created_by: Number,
    /// In the order in which they came.
    members: Vec<Member>,
    /// Only admins send.
    pub announce: bool,
    /// Only admins change the group's data.
    pub restrict: bool,
    /// Every member may add others.
    pub member_add_mode: bool,
    pub join_approval_mode: bool,
    /// Seconds after which messages disappear; 0 for never.
    pub ephemeral: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub number: Number,
    pub rank: Rank,
}

/// What is done to participants (interface 2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Add,
    Remove,
    Promote,
    Demote,
}

/// How it went for one of them (supplement 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok,
    NotFound,
    NotAuthorized,
    AlreadyMember,
    NotMember,
    Failed,
}

/// A change of settings (interface 2.7); what is left out keeps its value.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct GroupSettings {
    pub announce: Option<bool>,
    pub restrict: Option<bool>,
    pub member_add_mode: Option<bool>,
    pub join_approval_mode: Option<bool>,
    pub ephemeral: Option<u32>,
}

impl Group {
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn rank_of(&self, number: Number) -> Option<Rank> {
        self.members.iter().find(|member| member.number == number).map(|member| member.rank)
    }

    fn member_mut(&mut self, number: Number) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.number == number)
    }

    /// Whether `by` may take an action at all.
    pub fn check_action(&self, by: Number, action: Action) -> Result<(), Refusal> {
        let rank = self.rank_of(by).ok_or(NOT_A_MEMBER)?;
        let open = action == Action::Add && self.member_add_mode;
        if rank.is_admin() || open { Ok(()) } else { Err(NOT_AN_ADMIN) }
    }

    /// Takes an action, which [`Self::check_action`] allows, on a subscriber that exists.
    pub fn act(&mut self, action: Action, number: Number) -> Outcome {
        match (action, self.rank_of(number)) {
            (Action::Add, Some(_)) => Outcome::AlreadyMember,
            (Action::Add, None) if self.members.len() >= MOST_MEMBERS => Outcome::Failed,
            (Action::Add, None) => {
                self.members.push(Member { number, rank: Rank::Member });
                Outcome::Ok
            }
            (_, None) => Outcome::NotMember,
            // The creator's rank is nobody's to take.
            (Action::Remove | Action::Demote, Some(Rank::Creator)) => Outcome::NotAuthorized,
            (Action::Remove, Some(_)) => {
                self.members.retain(|member| member.number != number);
                Outcome::Ok
            }
            (Action::Promote, Some(Rank::Member)) => self.set_rank(number, Rank::Admin),
            (Action::Demote, Some(Rank::Admin)) => self.set_rank(number, Rank::Member),
            (Action::Promote | Action::Demote, Some(_)) => Outcome::Ok,
        }
    }

    fn set_rank(&mut self, number: Number, rank: Rank) -> Outcome {
        if let Some(member) = self.member_mut(number) {
            member.rank = rank;
        }
        Outcome::Ok
    }

    pub fn change(&mut self, by: Number, settings: GroupSettings) -> Result<(), Refusal> {
        let rank = self.rank_of(by).ok_or(NOT_A_MEMBER)?;
        let GroupSettings { announce, restrict, member_add_mode, join_approval_mode, ephemeral } = settings;
        let admins_own = [announce, restrict, member_add_mode, join_approval_mode].iter().any(Option::is_some);
        if !rank.is_admin() && (admins_own || self.restrict) {
            return Err(NOT_AN_ADMIN);
        }
        self.announce = announce.unwrap_or(self.announce);
        self.restrict = restrict.unwrap_or(self.restrict);
        self.member_add_mode = member_add_mode.unwrap_or(self.member_add_mode);
        self.join_approval_mode = join_approval_mode.unwrap_or(self.join_approval_mode);
        self.ephemeral = ephemeral.unwrap_or(self.ephemeral);
        Ok(())
    }

    /// A member goes. A group that is left without admins gets its oldest member as one.
    fn lose(&mut self, number: Number) {
        self.members.retain(|member| member.number != number);
        if !self.members.iter().any(|member| member.rank.is_admin())
            && let Some(oldest) = self.members.first_mut()
        {
            oldest.rank = Rank::Admin;
        }
    }
}

const NO_SUCH_GROUP: Refusal = Refusal::new(NOT_FOUND, "there is no such group");
const NOT_A_MEMBER: Refusal = Refusal::new(FORBIDDEN, "not a member of the group");
const NOT_AN_ADMIN: Refusal = Refusal::new(FORBIDDEN, "not an admin of the group");

/// All groups.
#[derive(Debug)]
pub struct Groups {
    groups: BTreeMap<GroupId, Group>,
    next: u64,
}

impl Default for Groups {
    fn default() -> Self {
        Self { groups: BTreeMap::new(), next: FIRST }
    }
}

impl Groups {
    /// Makes a group with its creator alone in it.
    pub fn create(&mut self, now: Timestamp, by: Number, subject: &str) -> Result<&mut Group, Refusal> {
        if !(1..=100).contains(&subject.chars().count()) {
            return Err(Refusal::new(BAD_REQUEST, "a subject has 1 to 100 characters"));
        }
        let id = GroupId(self.next);
        self.next += 1;
        let group = Group {
            id,
            subject: subject.to_owned(),
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

    /// A group that somebody names who wants to change it.
    pub fn get_mut(&mut self, id: GroupId) -> Result<&mut Group, Refusal> {
        self.groups.get_mut(&id).ok_or(NO_SUCH_GROUP)
    }

    /// The groups of a member, oldest first.
    pub fn of(&self, member: Number) -> impl Iterator<Item = &Group> {
        self.groups.values().filter(move |group| group.rank_of(member).is_some())
    }

    /// A member leaves; an empty group is gone.
    pub fn leave(&mut self, id: GroupId, member: Number) -> Result<(), Refusal> {
        let group = self.get_mut(id)?;
        group.rank_of(member).ok_or(NOT_A_MEMBER)?;
        group.lose(member);
        self.groups.retain(|_, group| !group.members.is_empty());
        Ok(())
    }

    /// A number is unregistered.
    pub fn forget(&mut self, number: Number) {
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
        let group = groups.create(Timestamp(0), people[0], "Friends").unwrap();
        assert_eq!(group.act(Action::Add, people[1]), Outcome::Ok);
        let id = group.id;
        (groups, id, people)
    }

    #[test]
    fn actions_on_participants_end_as_the_supplement_names_it() {
        let (mut groups, id, [ann, ben, cem]) = group();
        let group = groups.get_mut(id).unwrap();
        let cases = [
            (Action::Add, ben, Outcome::AlreadyMember),
            (Action::Promote, cem, Outcome::NotMember),
            (Action::Promote, ben, Outcome::Ok),
            (Action::Demote, ann, Outcome::NotAuthorized),
            (Action::Remove, ann, Outcome::NotAuthorized),
            (Action::Demote, ben, Outcome::Ok),
            (Action::Remove, ben, Outcome::Ok),
            (Action::Remove, ben, Outcome::NotMember),
        ];
        for (action, whom, outcome) in cases {
            assert_eq!(group.act(action, whom), outcome, "{action:?} {whom}");
        }
    }

    #[test]
    fn members_add_while_they_may_and_admins_do_the_rest() {
        let (mut groups, id, [ann, ben, cem]) = group();
        let group = groups.get_mut(id).unwrap();
        assert!(group.check_action(ben, Action::Add).is_ok());
        assert_eq!(group.check_action(ben, Action::Remove), Err(NOT_AN_ADMIN));
        assert_eq!(group.check_action(cem, Action::Add), Err(NOT_A_MEMBER));
        let closed = GroupSettings { member_add_mode: Some(false), ..Default::default() };
        assert_eq!(group.change(ben, closed), Err(NOT_AN_ADMIN));
        group.change(ann, closed).unwrap();
        assert_eq!(group.check_action(ben, Action::Add), Err(NOT_AN_ADMIN));
        group.change(ben, GroupSettings { ephemeral: Some(60), ..Default::default() }).unwrap();
        group.change(ann, GroupSettings { restrict: Some(true), ..Default::default() }).unwrap();
        let refused = group.change(ben, GroupSettings { ephemeral: Some(0), ..Default::default() });
        assert_eq!((refused, group.ephemeral), (Err(NOT_AN_ADMIN), 60));
    }

    #[test]
    fn a_group_never_lacks_an_admin_and_ends_with_its_last_member() {
        let (mut groups, id, [ann, ben, _]) = group();
        groups.leave(id, ann).unwrap();
        assert_eq!(groups.get(id).unwrap().rank_of(ben), Some(Rank::Admin));
        assert_eq!(groups.leave(id, ann), Err(NOT_A_MEMBER));
        groups.forget(ben);
        assert!(groups.get(id).is_none());
    }
}

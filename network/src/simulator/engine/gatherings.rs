//! What phones do with groups and newsletters: the control API's side of [`super::groups`] and [`super::newsletters`].

use model::address::Address;
use model::time::Timestamp;

use super::groups::{Action, Group, GroupId, GroupSettings, Outcome};
use super::newsletters::{Newsletter, NewsletterId};
use super::rules::{NOT_FOUND, Refusal};
use super::{ControlError, Engine};
use crate::simulator::answers::gatherings::{
    GroupParticipant, NewGroup, NewNewsletter, ParticipantResult, ShownGroup, ShownNewsletter,
};
use crate::simulator::number::Number;

impl Engine {
    pub fn create_group(
        &mut self,
        now: Timestamp,
        by: Number,
        new: &NewGroup,
    ) -> Result<(ShownGroup, Vec<ParticipantResult>), ControlError> {
        self.advance(now);
        self.subscriber(by)?;
        let people = self.parse_people(&new.participants)?;
        let id = self.groups.create(now, by, &new.subject)?.id;
        let results = self.act_on(id, by, Action::Add, people)?;
        Ok((self.group_of(by, id)?, results))
    }

    /// The groups of a phone.
    pub fn phone_groups(&self, number: Number) -> Result<Vec<ShownGroup>, ControlError> {
        self.subscriber(number)?;
        Ok(self.groups.of(number).map(|group| self.show_group(number, group)).collect())
    }

    pub fn phone_group(&self, number: Number, id: &str) -> Result<ShownGroup, ControlError> {
        self.subscriber(number)?;
        self.group_of(number, self.parse_group(id)?)
    }

    pub fn change_participants(
        &mut self,
        now: Timestamp,
        by: Number,
        id: &str,
        action: Action,
        participants: &[String],
    ) -> Result<Vec<ParticipantResult>, ControlError> {
        self.advance(now);
        self.subscriber(by)?;
        let id = self.parse_group(id)?;
        let people = self.parse_people(participants)?;
        self.act_on(id, by, action, people)
    }

    fn act_on(
        &mut self,
        id: GroupId,
        by: Number,
        action: Action,
        people: Vec<(Address, Option<Number>)>,
    ) -> Result<Vec<ParticipantResult>, ControlError> {
        let known = &self.subscribers;
        let group = self.groups.get_mut(id)?;
        group.check_action(by, action)?;
        let results = people.into_iter().map(|(id, number)| {
            let number = number.filter(|number| known.contains_key(number));
            let status = number.map_or(Outcome::NotFound, |number| group.act(action, number));
            ParticipantResult { id, status }
        });
        Ok(results.collect())
    }

    pub fn change_group(
        &mut self,
        now: Timestamp,
        by: Number,
        id: &str,
        settings: GroupSettings,
    ) -> Result<ShownGroup, ControlError> {
        self.advance(now);
        self.subscriber(by)?;
        let id = self.parse_group(id)?;
        self.groups.get_mut(id)?.change(by, settings)?;
        self.group_of(by, id)
    }

    pub fn leave_group(&mut self, now: Timestamp, number: Number, id: &str) -> Result<(), ControlError> {
        self.advance(now);
        self.subscriber(number)?;
        let id = self.parse_group(id)?;
        Ok(self.groups.leave(id, number)?)
    }

    fn parse_group(&self, text: &str) -> Result<GroupId, ControlError> {
        let address = Address::parse(text).ok();
        let id = address.and_then(|address| GroupId::of_address(&address, &self.suffixes));
        id.ok_or_else(|| ControlError::Invalid(format!("{text:?} is no group's address")))
    }

    /// Each as it was named, and the number behind it.
    fn parse_people(&self, named: &[String]) -> Result<Vec<(Address, Option<Number>)>, ControlError> {
        let parse = |text: &String| {
            let address = self.parse_address(text)?;
            let number = Number::of_address(&address, &self.suffixes);
            Ok((address, number))
        };
        named.iter().map(parse).collect()
    }

    /// A group that a phone is in.
    fn group_of(&self, number: Number, id: GroupId) -> Result<ShownGroup, ControlError> {
        let group = self.groups.get(id).filter(|group| group.rank_of(number).is_some());
        let group = group.ok_or(Refusal::new(NOT_FOUND, "there is no such group"))?;
        Ok(self.show_group(number, group))
    }

    /// A group as one of its members sees it: others may hide their numbers.
    fn show_group(&self, viewer: Number, group: &Group) -> ShownGroup {
        let address = |number: Number| self.shown(number, viewer).address(number, &self.suffixes);
        let members = group.members().iter();
        ShownGroup {
            id: group.id.address(&self.suffixes),
            subject: group.subject.clone(),
            description: None,
            created_at: group.created_at.unix_seconds(),
            created_by: address(group.created_by),
            participants: members.map(|m| GroupParticipant { id: address(m.number), rank: m.rank }).collect(),
            invite_code: None,
            announce: group.announce,
            restrict: group.restrict,
            ephemeral: group.ephemeral,
            member_add_mode: group.member_add_mode,
            join_approval_mode: group.join_approval_mode,
        }
    }

    pub fn create_newsletter(
        &mut self,
        now: Timestamp,
        owner: Number,
        new: &NewNewsletter,
    ) -> Result<ShownNewsletter, ControlError> {
        self.advance(now);
        self.subscriber(owner)?;
        let id = self.newsletters.create(now, owner, &new.name, new.description.clone())?.id;
        self.newsletter_of(owner, id)
    }

    /// The newsletters that a phone publishes or reads.
    pub fn phone_newsletters(&self, number: Number) -> Result<Vec<ShownNewsletter>, ControlError> {
        self.subscriber(number)?;
        let newsletters = self.newsletters.of(number);
        Ok(newsletters.map(|newsletter| show_newsletter(number, newsletter, &self.suffixes)).collect())
    }

    pub fn phone_newsletter(&self, number: Number, id: &str) -> Result<ShownNewsletter, ControlError> {
        self.subscriber(number)?;
        self.newsletter_of(number, self.parse_newsletter(id)?)
    }

    /// A phone subscribes to a newsletter, or ends that.
    pub fn subscribe(
        &mut self,
        now: Timestamp,
        number: Number,
        id: &str,
        subscribed: bool,
    ) -> Result<ShownNewsletter, ControlError> {
        self.advance(now);
        self.subscriber(number)?;
        let id = self.parse_newsletter(id)?;
        let newsletter = self.newsletters.get_mut(id)?;
        if subscribed {
            newsletter.subscribe(number);
        } else {
            newsletter.unsubscribe(number)?;
        }
        self.newsletter_of(number, id)
    }

    /// The owner makes a subscriber an admin, or takes that back.
    pub fn set_newsletter_admin(
        &mut self,
        now: Timestamp,
        by: Number,
        id: &str,
        whom: &str,
        admin: bool,
    ) -> Result<(), ControlError> {
        self.advance(now);
        self.subscriber(by)?;
        let (id, whom) = (self.parse_newsletter(id)?, self.parse_peer(whom)?);
        Ok(self.newsletters.get_mut(id)?.set_admin(by, whom, admin)?)
    }

    fn parse_newsletter(&self, text: &str) -> Result<NewsletterId, ControlError> {
        let address = Address::parse(text).ok();
        let id = address.and_then(|address| NewsletterId::of_address(&address, &self.suffixes));
        id.ok_or_else(|| ControlError::Invalid(format!("{text:?} is no newsletter's address")))
    }

    fn newsletter_of(&self, number: Number, id: NewsletterId) -> Result<ShownNewsletter, ControlError> {
        let newsletter = self.newsletters.get(id).ok_or(Refusal::new(NOT_FOUND, "there is no such newsletter"))?;
        Ok(show_newsletter(number, newsletter, &self.suffixes))
    }
}

fn show_newsletter(viewer: Number, newsletter: &Newsletter, suffixes: &model::address::Suffixes) -> ShownNewsletter {
    ShownNewsletter {
        id: newsletter.id.address(suffixes),
        name: newsletter.name.clone(),
        description: newsletter.description.clone(),
        role: newsletter.role_of(viewer),
        subscriber_count: newsletter.subscriber_count(),
        created_at: newsletter.created_at.unix_seconds(),
    }
}

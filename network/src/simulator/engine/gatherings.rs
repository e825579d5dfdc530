//! What phones do with newsletters: the control API's side of [`super::newsletters`].

use model::address::Address;
use model::time::Timestamp;

use super::newsletters::{Newsletter, NewsletterId};
use super::rules::{NOT_FOUND, Refusal};
use super::{ControlError, Engine};
use crate::simulator::answers::gatherings::{NewNewsletter, ShownNewsletter};
use crate::simulator::number::Number;

impl Engine {
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

//! Newsletters: an owner and admins who publish, and subscribers who read (supplement 14).

use std::collections::{BTreeMap, BTreeSet};

use model::address::{Address, Suffixes};
use model::time::Timestamp;
use serde::Serialize;

use super::rules::{BAD_REQUEST, FORBIDDEN, NOT_FOUND, Refusal};
use crate::simulator::number::Number;

/// The first newsletter's number; the others count on from it.
const FIRST: u64 = 120_363_500_000_000_001;

/// A newsletter's number: the local part of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NewsletterId(u64);

impl NewsletterId {
    pub fn of_address(address: &Address, suffixes: &Suffixes) -> Option<Self> {
        // An address of a newsletter that cannot exist still names a newsletter.
        (address.domain() == suffixes.newsletter).then(|| Self(address.local().parse().unwrap_or(0)))
    }

    pub fn address(self, suffixes: &Suffixes) -> Address {
        suffixes.newsletter_address(&self.0.to_string())
    }
}

/// What somebody is to a newsletter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Owner,
    Admin,
    Subscriber,
    Guest,
}

#[derive(Debug)]
pub struct Newsletter {
    pub id: NewsletterId,
    pub name: String,
    pub description: Option<String>,
    pub created_at: Timestamp,
    owner: Number,
    admins: BTreeSet<Number>,
    subscribers: BTreeSet<Number>,
}

impl Newsletter {
    pub fn role_of(&self, number: Number) -> Role {
        if number == self.owner {
            Role::Owner
        } else if self.admins.contains(&number) {
            Role::Admin
        } else if self.subscribers.contains(&number) {
            Role::Subscriber
        } else {
            Role::Guest
        }
    }

    pub fn publishes(&self, number: Number) -> bool {
        matches!(self.role_of(number), Role::Owner | Role::Admin)
    }

    /// Everybody who is shown what is published.
    pub fn readers(&self) -> impl Iterator<Item = Number> {
        let publishers = self.admins.iter().chain([&self.owner]);
        publishers.copied().chain(self.subscribers.difference(&self.admins).copied())
    }

    pub fn subscriber_count(&self) -> usize {
        self.readers().count()
    }

    pub fn subscribe(&mut self, number: Number) {
        if self.role_of(number) == Role::Guest {
            self.subscribers.insert(number);
        }
    }

    pub fn unsubscribe(&mut self, number: Number) -> Result<(), Refusal> {
        match self.role_of(number) {
            Role::Owner => return Err(Refusal::new(FORBIDDEN, "the owner stays")),
            Role::Guest => return Err(Refusal::new(BAD_REQUEST, "not a subscriber")),
            Role::Admin | Role::Subscriber => {}
        }
        self.admins.remove(&number);
        self.subscribers.remove(&number);
        Ok(())
    }

    /// The owner makes a subscriber an admin, or takes that back.
    pub fn set_admin(&mut self, by: Number, whom: Number, admin: bool) -> Result<(), Refusal> {
        if by != self.owner {
            return Err(Refusal::new(FORBIDDEN, "not the owner of the newsletter"));
        }
        match (self.role_of(whom), admin) {
            (Role::Subscriber, true) => {
                self.subscribers.remove(&whom);
                self.admins.insert(whom);
                Ok(())
            }
            (Role::Admin, false) => {
                self.admins.remove(&whom);
                self.subscribers.insert(whom);
                Ok(())
            }
            (Role::Admin, true) | (Role::Subscriber, false) => Ok(()),
            (Role::Owner | Role::Guest, _) => Err(Refusal::new(BAD_REQUEST, "not a subscriber")),
        }
    }
}

/// All newsletters.
#[derive(Debug)]
pub struct Newsletters {
    newsletters: BTreeMap<NewsletterId, Newsletter>,
    next: u64,
}

impl Default for Newsletters {
    fn default() -> Self {
        Self { newsletters: BTreeMap::new(), next: FIRST }
    }
}

impl Newsletters {
    pub fn create(
        &mut self,
        now: Timestamp,
        owner: Number,
        name: &str,
        description: Option<String>,
    ) -> Result<&Newsletter, Refusal> {
        if !(1..=100).contains(&name.chars().count()) {
            return Err(Refusal::new(BAD_REQUEST, "a name has 1 to 100 characters"));
        }
        let id = NewsletterId(self.next);
        self.next += 1;
        let (admins, subscribers) = Default::default();
        let newsletter =
            Newsletter { id, name: name.to_owned(), description, created_at: now, owner, admins, subscribers };
        Ok(self.newsletters.entry(id).or_insert(newsletter))
    }

    pub fn get(&self, id: NewsletterId) -> Option<&Newsletter> {
        self.newsletters.get(&id)
    }

    pub fn get_mut(&mut self, id: NewsletterId) -> Result<&mut Newsletter, Refusal> {
        self.newsletters.get_mut(&id).ok_or(Refusal::new(NOT_FOUND, "there is no such newsletter"))
    }

    /// The newsletters that somebody publishes or reads, oldest first.
    pub fn of(&self, number: Number) -> impl Iterator<Item = &Newsletter> {
        self.newsletters.values().filter(move |newsletter| newsletter.role_of(number) != Role::Guest)
    }

    /// A number is unregistered: its newsletters end, and it reads no other.
    pub fn forget(&mut self, number: Number) {
        self.newsletters.retain(|_, newsletter| newsletter.owner != number);
        for newsletter in self.newsletters.values_mut() {
            newsletter.admins.remove(&number);
            newsletter.subscribers.remove(&number);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn roles_follow_from_subscribing_and_the_owners_choice() {
        let [owner, reader, guest] = ["1111", "2222", "3333"].map(|text| Number::parse(text).unwrap());
        let mut newsletters = Newsletters::default();
        let id = newsletters.create(Timestamp(0), owner, "News", None).unwrap().id;
        let newsletter = newsletters.get_mut(id).unwrap();
        newsletter.subscribe(reader);
        newsletter.subscribe(owner);
        assert_eq!(newsletter.readers().collect::<Vec<_>>(), [owner, reader]);
        assert!(newsletter.set_admin(reader, reader, true).is_err());
        assert!(newsletter.set_admin(owner, guest, true).is_err());
        newsletter.set_admin(owner, reader, true).unwrap();
        assert!(newsletter.publishes(reader) && !newsletter.publishes(guest));
        assert_eq!(newsletter.subscriber_count(), 2);
        newsletter.set_admin(owner, reader, false).unwrap();
        assert_eq!(newsletter.role_of(reader), Role::Subscriber);
        newsletter.unsubscribe(reader).unwrap();
        assert!(newsletter.unsubscribe(reader).is_err() && newsletter.unsubscribe(owner).is_err());
        newsletters.forget(owner);
        assert_eq!(newsletters.of(owner).count(), 0);
    }
}

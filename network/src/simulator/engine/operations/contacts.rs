//! Operations on contacts and the address book.

use model::address::Address;
use model::contact::{ContactCheck, Person};
use model::time::Timestamp;

use crate::notice::{ContactNews, News};
use crate::operation::contacts::{ContactAnswer, ContactOperation};
use crate::simulator::engine::Engine;
use crate::simulator::engine::rules::{Allowed, NOT_FOUND, Refusal};
use crate::simulator::number::Number;

const NOBODY: Refusal = Refusal::new(NOT_FOUND, "nobody has this number");

impl Engine {
    pub(super) fn contact_operation(&mut self, by: Number, operation: ContactOperation) -> Allowed<ContactAnswer> {
        match operation {
            ContactOperation::List => {
                let book = self.subscribers.get(&by).map(|subscriber| &subscriber.account.book);
                let saved = book.into_iter().flat_map(|book| book.keys());
                Ok(ContactAnswer::People(saved.filter_map(|number| self.person(by, *number).ok()).collect()))
            }
            ContactOperation::Show { contact } => {
                let number = self.registered(&contact)?;
                self.person(by, number).map(ContactAnswer::Person)
            }
            ContactOperation::Check { phones } => {
                let checks = phones.into_iter().map(|digits| self.check_number(by, digits));
                Ok(ContactAnswer::Checked(checks.collect()))
            }
            ContactOperation::Rename { contact, name } => {
                let number = self.registered(&contact)?;
                let subscriber = self.subscribers.get_mut(&by).ok_or(NOBODY)?;
                match &name {
                    Some(name) => subscriber.account.book.insert(number, name.clone()),
                    None => subscriber.account.book.remove(&number),
                };
                let contact = self.name_of(number, by);
                self.notify(by, Some(by), News::Contact { contact, news: ContactNews::Saved { name } });
                Ok(ContactAnswer::Done)
            }
        }
    }

    /// The registered subscriber behind an address.
    pub(super) fn registered(&self, address: &Address) -> Allowed<Number> {
        let number = Number::of_address(address, &self.suffixes);
        number.filter(|number| self.subscribers.contains_key(number)).ok_or(NOBODY)
    }

    /// A contact, as far as `viewer` may see it.
    fn person(&self, viewer: Number, number: Number) -> Allowed<Person> {
        let subscriber = self.subscribers.get(&number).ok_or(NOBODY)?;
        let name = subscriber.name.as_deref().map(str::to_owned);
        let book = self.subscribers.get(&viewer).map(|viewer| &viewer.account.book);
        Ok(Person {
            id: self.name_of(number, viewer),
            lid: Some(number.lid()),
            saved_name: book.and_then(|book| book.get(&number).cloned()),
            business_name: name.clone().filter(|_| subscriber.business),
            push_name: name,
            about: subscriber.account.about.clone().filter(|_| self.shows(number, viewer, |privacy| privacy.about)),
            is_business: subscriber.business,
            last_seen_at: (subscriber.account.last_seen_at)
                .filter(|_| self.shows(number, viewer, |privacy| privacy.last_seen))
                .map(Timestamp::unix_seconds),
            picture_url: (subscriber.account.picture.as_ref())
                .filter(|_| self.shows(number, viewer, |privacy| privacy.profile_photo))
                .map(|picture| self.picture_url(picture)),
        })
    }

    /// Checks a number. Whoever knows the digits is also told the LID.
    fn check_number(&mut self, by: Number, digits: String) -> ContactCheck {
        let number = Number::parse(&digits).filter(|number| self.subscribers.contains_key(number));
        let Some(number) = number else {
            return ContactCheck { input: digits, exists: false, id: None, lid: None, is_business: false };
        };
        if let Some(subscriber) = self.subscribers.get_mut(&by) {
            subscriber.disclosed.insert(number);
        }
        ContactCheck {
            input: digits,
            exists: true,
            id: Some(self.suffixes.phone_address(&number.to_string())),
            lid: Some(number.lid()),
            is_business: self.subscribers.get(&number).is_some_and(|subscriber| subscriber.business),
        }
    }
}

//! Contacts: rows of [`ContactRow`], filled from every source about a person: messages, groups, checks of numbers, the
//! address book.

use model::address::{Address, AddressKind};
use model::contact::{CommonGroup, Contact, ContactCheck, Person};
use model::error::CallError;
use model::group::Group;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use traffic::notice::ContactNews;
use traffic::operation::Refused;
use traffic::operation::contacts::{ContactAnswer, ContactOperation};

use super::{Context, NOT_FOUND, Rows, Synced, entity};

pub const AREA: &str = "contacts";

/// A contact, and the two names from which the shown one is chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContactRow {
    pub contact: Contact,
    pub saved_name: Option<String>,
    pub push_name: Option<String>,
    /// When the network was last asked for the picture.
    #[serde(default)]
    pub picture_seen_at: Option<Timestamp>,
}

entity!(ContactRow, Contact, |row| row.contact.id.to_string());

impl ContactRow {
    /// The row of a person, by the best address; a new one if the person is unknown.
    fn of(id: &Address, rows: &Rows<'_>, context: &Context<'_>) -> Self {
        let known = rows.get::<Self>(id.as_str());
        let mut row = known.unwrap_or_else(|| Self {
            contact: Contact::unknown(id.clone()),
            saved_name: None,
            push_name: None,
            picture_seen_at: None,
        });
        if row.contact.lid.is_none() {
            row.contact.lid = if id.is_lid() { Some(id.clone()) } else { (context.lid_behind)(id) };
        }
        row
    }

    /// Merges another row of the same person into this one.
    fn with(self, other: Self) -> Self {
        let (own, others) = (self.contact, other.contact);
        Self {
            contact: Contact {
                business_name: own.business_name.or(others.business_name),
                about: own.about.or(others.about),
                picture_url: own.picture_url.or(others.picture_url),
                is_business: own.is_business || others.is_business,
                is_blocked: own.is_blocked || others.is_blocked,
                last_seen_at: own.last_seen_at.max(others.last_seen_at),
                ..Contact::unknown(own.id)
            },
            saved_name: self.saved_name.or(other.saved_name),
            push_name: self.push_name.or(other.push_name),
            picture_seen_at: self.picture_seen_at.max(other.picture_seen_at),
        }
    }

    fn keep(mut self, rows: &mut Rows<'_>) {
        self.contact.name = self.saved_name.clone().or_else(|| self.push_name.clone());
        rows.put(&self);
    }
}

pub fn refusal(operation: &ContactOperation, refused: &Refused) -> Option<CallError> {
    match operation {
        ContactOperation::Show { contact } | ContactOperation::Rename { contact, .. } if refused.code == NOT_FOUND => {
            Some(CallError::contact_not_found(contact.as_str()))
        }
        _ => None,
    }
}

pub fn absorb(operation: &ContactOperation, answer: &ContactAnswer, rows: &mut Rows<'_>, context: &Context<'_>) {
    match (operation, answer) {
        (ContactOperation::List, ContactAnswer::People(people)) => {
            people.iter().for_each(|person| learn(person, rows, context));
            rows.put(&Synced { area: AREA.to_owned() });
        }
        (_, ContactAnswer::Person(person)) => learn(person, rows, context),
        (_, ContactAnswer::Checked(checks)) => checks.iter().for_each(|check| checked(check, rows, context)),
        // The notice of the change came before the answer.
        (_, ContactAnswer::People(_) | ContactAnswer::Done) => {}
    }
}

pub fn learn(person: &Person, rows: &mut Rows<'_>, context: &Context<'_>) {
    let id = context.best(&person.id);
    let mut row = ContactRow::of(&id, rows, context);
    row.saved_name.clone_from(&person.saved_name);
    row.push_name = person.push_name.clone().or(row.push_name);
    let contact = &mut row.contact;
    contact.lid = person.lid.clone().or(contact.lid.take());
    contact.business_name.clone_from(&person.business_name);
    contact.about.clone_from(&person.about);
    contact.is_business = person.is_business;
    contact.picture_url.clone_from(&person.picture_url);
    contact.last_seen_at = person.last_seen_at.or(contact.last_seen_at);
    row.picture_seen_at = Some(context.at);
    row.keep(rows);
}

fn checked(check: &ContactCheck, rows: &mut Rows<'_>, context: &Context<'_>) {
    let Some(id) = &check.id else { return };
    let mut row = ContactRow::of(id, rows, context);
    row.contact.lid = check.lid.clone().or(row.contact.lid);
    row.contact.is_business = check.is_business;
    row.keep(rows);
}

pub fn take(contact: &Address, news: &ContactNews, rows: &mut Rows<'_>, context: &Context<'_>) {
    let mut row = ContactRow::of(&context.best(contact), rows, context);
    match news {
        ContactNews::Saved { name } => row.saved_name.clone_from(name),
    }
    row.keep(rows);
}

/// A person wrote: updates the row of the best address with the name that came along.
pub fn met(id: &Address, lid: Option<&Address>, push_name: Option<&str>, rows: &mut Rows<'_>, context: &Context<'_>) {
    let kind = id.kind(context.suffixes);
    if context.is_own(id) || !matches!(kind, AddressKind::Phone | AddressKind::Lid) {
        return;
    }
    let mut row = ContactRow::of(id, rows, context);
    row.contact.lid = lid.cloned().or(row.contact.lid);
    row.push_name = push_name.map(str::to_owned).or(row.push_name);
    row.keep(rows);
}

/// A person was blocked or unblocked.
pub fn mirror_blocked(id: &Address, is_blocked: bool, rows: &mut Rows<'_>, context: &Context<'_>) {
    let mut row = ContactRow::of(id, rows, context);
    row.contact.is_blocked = is_blocked;
    row.keep(rows);
}

/// Makes contacts of the members of a group that the channel is in.
pub fn of_group(group: &Group, rows: &mut Rows<'_>, context: &Context<'_>) {
    group.participants.iter().for_each(|member| met(&context.best(&member.id), None, None, rows, context));
}

/// Merges the rows of a LID and of its phone address, after the phone address became known.
pub fn resolved(lid: &Address, phone: &Address, rows: &mut Rows<'_>) {
    let (of_lid, of_phone) = (rows.get::<ContactRow>(lid.as_str()), rows.get::<ContactRow>(phone.as_str()));
    rows.remove::<ContactRow>(lid.as_str());
    let mut row = match (of_phone, of_lid) {
        (Some(of_phone), Some(of_lid)) => of_phone.with(of_lid),
        (Some(row), None) | (None, Some(row)) => row,
        (None, None) => return,
    };
    row.contact.id = phone.clone();
    row.contact.lid = Some(lid.clone());
    row.keep(rows);
}

/// Filters of a list of contacts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContactFilter {
    /// A prefix of the name, case-insensitive.
    pub name: Option<String>,
    pub is_business: Option<bool>,
    pub is_blocked: Option<bool>,
}

impl ContactFilter {
    pub fn passes(&self, contact: &Contact) -> bool {
        let named = |prefix: &String| {
            let name = contact.name.as_deref().unwrap_or_default().to_lowercase();
            name.starts_with(&prefix.to_lowercase())
        };
        self.name.as_ref().is_none_or(named)
            && self.is_business.is_none_or(|wanted| wanted == contact.is_business)
            && self.is_blocked.is_none_or(|wanted| wanted == contact.is_blocked)
    }
}

/// The groups that both a contact and the channel are in.
pub fn common_groups(contact: &Address, rows: &Rows<'_>, best: impl Fn(&Address) -> Address) -> Vec<CommonGroup> {
    let groups = rows.all::<Group>().into_iter();
    let common = groups.filter(|group| group.participants.iter().any(|member| best(&member.id) == *contact));
    common.map(|group| CommonGroup { id: group.id, subject: group.subject }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::fixture::{Projection, address};

    const LID: &str = "25@lid";
    const PHONE: &str = "1555@s.example";

    fn find(projection: &mut Projection, id: &str) -> Option<Contact> {
        projection.at(Timestamp(0), |rows, _| rows.get::<ContactRow>(id)).map(|row| row.contact)
    }

    #[test]
    fn a_saved_name_goes_before_the_one_that_somebody_bears() {
        let mut projection = Projection::new().knowing(LID, PHONE);
        let mut name = |work: &dyn Fn(&mut Rows<'_>, &Context<'_>)| {
            projection.at(Timestamp(0), |rows, context| work(rows, context));
            find(&mut projection, PHONE).and_then(|contact| contact.name)
        };
        let saved = |name: Option<&str>| ContactNews::Saved { name: name.map(str::to_owned) };
        let pushed = |rows: &mut Rows<'_>, context: &Context<'_>| {
            met(&address(PHONE), None, Some("Ann"), rows, context);
        };
        assert_eq!(name(&pushed).as_deref(), Some("Ann"));
        // The contact may be named by either address.
        assert_eq!(
            name(&|rows, context| take(&address(LID), &saved(Some("Boss")), rows, context)).as_deref(),
            Some("Boss")
        );
        assert_eq!(name(&pushed).as_deref(), Some("Boss"));
        assert_eq!(name(&|rows, context| take(&address(PHONE), &saved(None), rows, context)).as_deref(), Some("Ann"));
        assert_eq!(find(&mut projection, PHONE).and_then(|contact| contact.lid), Some(address(LID)));
    }

    #[test]
    fn what_was_known_under_both_addresses_is_one_contact() {
        let mut projection = Projection::new();
        projection.at(Timestamp(0), |rows, context| {
            met(&address(LID), None, Some("Ann"), rows, context);
            mirror_blocked(&address(LID), true, rows, context);
            take(&address(PHONE), &ContactNews::Saved { name: Some("Boss".to_owned()) }, rows, context);
            resolved(&address(LID), &address(PHONE), rows);
        });
        assert_eq!(find(&mut projection, LID), None);
        let expected = Contact {
            lid: Some(address(LID)),
            name: Some("Boss".to_owned()),
            is_blocked: true,
            ..Contact::unknown(address(PHONE))
        };
        assert_eq!(find(&mut projection, PHONE), Some(expected));
        projection.at(Timestamp(0), |rows, context| {
            take(&address(PHONE), &ContactNews::Saved { name: None }, rows, context);
        });
        assert_eq!(find(&mut projection, PHONE).and_then(|contact| contact.name).as_deref(), Some("Ann"));
    }

    #[test]
    fn only_people_are_contacts() {
        let mut projection = Projection::new();
        for other in ["120363@g.example", "120363@n.example"] {
            projection.at(Timestamp(0), |rows, context| met(&address(other), None, Some("x"), rows, context));
            assert_eq!(find(&mut projection, other), None);
        }
    }
}

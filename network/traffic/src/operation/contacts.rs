//! Operations on contacts.

use model::address::Address;
use model::contact::{ContactCheck, Person};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ContactOperation {
    /// Returns the account's address book.
    List,
    /// Returns what is known of a contact.
    Show { contact: Address },
    /// Checks which phone numbers, given as digits, are registered.
    Check { phones: Vec<String> },
    /// Sets a contact's name in the address book, or removes it.
    Rename { contact: Address, name: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ContactAnswer {
    Done,
    People(Vec<Person>),
    Person(Person),
    Checked(Vec<ContactCheck>),
}

//! What is asked about people.

use model::address::Address;
use model::contact::{ContactCheck, Person};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ContactOperation {
    /// The account's address book.
    List,
    /// What is known of somebody.
    Show { contact: Address },
    /// Which numbers, in digits, are registered.
    Check { phones: Vec<String> },
    /// Saves a name in the address book, or takes it out.
    Rename { contact: Address, name: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ContactAnswer {
    Done,
    People(Vec<Person>),
    Person(Person),
    Checked(Vec<ContactCheck>),
}

//! What is asked about presence.

use model::address::Address;
use model::presence::Presence;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PresenceOperation {
    /// Shows how the channel is: the whole account, or the chat `to`, which is not used for what is the account's. The
    /// network repeats nothing.
    Show { presence: Presence, to: Option<Address> },
    /// Lets the session hear of people's presence, as far as they show it. What it is now comes as notices.
    Subscribe { contacts: Vec<Address> },
    /// The session need not hear of it any more.
    Unsubscribe { contact: Address },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PresenceAnswer {
    Done,
}

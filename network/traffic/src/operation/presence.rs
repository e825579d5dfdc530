//! Operations on presence.

use model::address::Address;
use model::presence::Presence;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PresenceOperation {
    /// Shows a presence of the channel: of the whole account, or in the chat `to`, which is ignored for presences of
    /// the account. The network does not repeat it.
    Show { presence: Presence, to: Option<Address> },
    /// Subscribes the session to the presence of contacts, as far as they show it; the current one arrives as a notice.
    Subscribe { contacts: Vec<Address> },
    /// Unsubscribes the session.
    Unsubscribe { contact: Address },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PresenceAnswer {
    Done,
}

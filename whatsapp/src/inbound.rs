//! Inbound traffic: [`hook`] takes messages, [`events`] everything else, [`inbox`] queues items for the owner.
//! [`message`] turns the library's messages into the gateway's, with [`content`] for their content, [`polls`] for votes
//! and [`groups`] for group notices.

mod content;
pub mod events;
pub mod groups;
pub mod hook;
pub mod inbox;
pub mod message;
mod polls;

use model::address::Address;
use wacore_binary::Jid;

/// The phone address if there is one, else the given one.
fn best(jid: &Jid, alternative: Option<&Jid>) -> Option<Address> {
    message::address(alternative.filter(|alternative| alternative.is_pn()).unwrap_or(jid))
}

//! What comes in: [`hook`] for messages, [`events`] for everything else, [`inbox`] on its way to the owner; [`message`] turns
//! the library's messages into the gateway's, [`content`] what they say, [`polls`] what was voted for, [`groups`] what it tells of groups.

mod content;
pub mod events;
pub mod groups;
pub mod hook;
pub mod inbox;
pub mod message;
mod polls;

use model::address::Address;
use wacore_binary::Jid;

/// The phone address, where there is one.
fn best(jid: &Jid, alternative: Option<&Jid>) -> Option<Address> {
    message::address(alternative.filter(|alternative| alternative.is_pn()).unwrap_or(jid))
}

//! What comes in: [`hook`] for messages, [`events`] for everything else, [`inbox`] on its way to the owner; [`message`] turns
//! the library's messages into the gateway's.

pub mod events;
pub mod hook;
pub mod inbox;
pub mod message;

//! Turns the library's messages into the gateway's.

use chrono::{DateTime, Utc};
use model::address::Address;
use model::id::MessageId;
use model::message::{Content, Surroundings, UndecryptableReason};
use model::time::Timestamp;
use network::driver::{InboundKind, InboundMessage};
use wacore::types::message::MessageInfo;
use wacore_binary::{Jid, JidExt};
use waproto::whatsapp as wa;
use whatsapp_rust::Client;

use super::content::Reader;
use super::polls;
use crate::state::backend::Backend;

/// The channel's own addresses.
#[derive(Clone, Default)]
pub struct Own {
    phone: Option<Address>,
    lid: Option<Address>,
}

impl Own {
    pub fn of(client: &Client) -> Self {
        Self { phone: client.pn().and_then(|pn| address(&pn)), lid: client.lid().and_then(|lid| address(&lid)) }
    }

    pub fn phone(&self) -> Option<&Address> {
        self.phone.as_ref()
    }

    /// The addresses as the network writes them.
    pub fn names(&self) -> Vec<String> {
        [&self.phone, &self.lid].into_iter().flatten().map(Address::to_string).collect()
    }

    pub fn is(&self, address: &Address) -> bool {
        self.phone.as_ref() == Some(address) || self.lid.as_ref() == Some(address)
    }
}

pub fn time(at: DateTime<Utc>) -> Timestamp {
    Timestamp(at.timestamp_millis())
}

/// The name of an address without the device.
pub fn without_device(jid: &Jid) -> String {
    jid.to_non_ad().to_string()
}

/// The address without the device; `None` if the gateway has no name for it.
pub fn address(jid: &Jid) -> Option<Address> {
    Address::parse(&without_device(jid)).ok()
}

/// The item kind of a message; `None` for a message of the protocol itself.
pub fn kind(message: &wa::Message, info: &MessageInfo, own: &Own, backend: &Backend) -> Option<InboundKind> {
    let (content, around) = Reader { info, own, backend }.read(message)?;
    polls::keep(backend, message, &content, info);
    of(content, around, info, own)
}

/// The item kind of a message that could not be decrypted.
pub fn undecryptable(info: &MessageInfo, own: &Own, reason: UndecryptableReason) -> Option<InboundKind> {
    let around = Surroundings { ephemeral_expiration: info.ephemeral_expiration, ..Surroundings::default() };
    of(Content::Undecryptable { reason }, around, info, own)
}

fn of(content: Content, around: Surroundings, info: &MessageInfo, own: &Own) -> Option<InboundKind> {
    let source = &info.source;
    let own_phone = own.phone.clone();
    let chat = address(&source.chat)?;
    let is_direct = !source.is_group && !source.chat.is_group();
    let (from, to) = if source.is_from_me {
        (own_phone?, chat.clone())
    } else {
        let from = address(&source.sender)?;
        let to = if is_direct { own_phone? } else { chat.clone() };
        (from, to)
    };
    let from_phone = source.sender_alt.as_ref().filter(|alt| alt.is_pn() && source.sender.is_lid());
    let message = InboundMessage {
        id: MessageId(info.id.to_string()),
        // A direct chat has the address of the other side.
        chat: if is_direct && !source.is_from_me { from.clone() } else { chat },
        from,
        from_phone: from_phone.and_then(address),
        to,
        push_name: Some(info.push_name.clone()).filter(|name| !name.is_empty()),
        content,
        around,
    };
    Some(if source.is_from_me { InboundKind::OwnMessage(message) } else { InboundKind::Message(message) })
}

//! The library's messages as the gateway's.

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

/// Who the channel is.
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

    /// As the network writes them.
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

/// A name without the device.
pub fn without_device(jid: &Jid) -> String {
    jid.to_non_ad().to_string()
}

/// An address without the device; none for what the gateway has no name for.
pub fn address(jid: &Jid) -> Option<Address> {
    Address::parse(&without_device(jid)).ok()
}

/// What a message is to the gateway; none when it is the protocol's own.
pub fn kind(message: &wa::Message, info: &MessageInfo, own: &Own, backend: &Backend) -> Option<InboundKind> {
    let (content, around) = Reader { info, own, backend }.read(message)?;
    polls::keep(backend, message, &content, info);
    of(content, around, info, own)
}

/// A message that could not be read.
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
        // A direct conversation is named as its author is.
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

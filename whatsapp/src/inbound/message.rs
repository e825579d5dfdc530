//! The library's messages as the gateway's.

use chrono::{DateTime, Utc};
use model::address::Address;
use model::id::MessageId;
use model::message::{Content, MessageKey, Surroundings, UndecryptableReason};
use model::time::Timestamp;
use network::driver::{InboundKind, InboundMessage};
use wacore::types::message::MessageInfo;
use wacore_binary::{Jid, JidExt};
use waproto::whatsapp as wa;
use whatsapp_rust::Client;

/// Who the channel is.
#[derive(Clone, Default)]
pub struct Own {
    phone: Option<Address>,
}

impl Own {
    pub fn of(client: &Client) -> Self {
        Self { phone: client.pn().and_then(|pn| address(&pn)) }
    }
}

pub fn time(at: DateTime<Utc>) -> Timestamp {
    Timestamp(at.timestamp_millis())
}

/// An address without the device; none for what the gateway has no name for.
pub fn address(jid: &Jid) -> Option<Address> {
    Address::parse(&jid.to_non_ad().to_string()).ok()
}

/// What a message is to the gateway; none when it is the protocol's own.
pub fn kind(message: &wa::Message, info: &MessageInfo, own: &Own) -> Option<InboundKind> {
    let content = content(message)?;
    of(content, info, own)
}

/// A message that could not be read.
pub fn undecryptable(info: &MessageInfo, own: &Own, reason: UndecryptableReason) -> Option<InboundKind> {
    of(Content::Undecryptable { reason }, info, own)
}

fn of(content: Content, info: &MessageInfo, own: &Own) -> Option<InboundKind> {
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
        around: Surroundings { ephemeral_expiration: info.ephemeral_expiration, ..Surroundings::default() },
    };
    Some(if source.is_from_me { InboundKind::OwnMessage(message) } else { InboundKind::Message(message) })
}

/// Names of content that this release does not take apart, by the field that bears it.
macro_rules! unknown {
    ($message:expr; $($field:ident => $name:literal),* $(,)?) => {
        None$(.or_else(|| $message.$field.is_set().then_some($name)))*
    };
}

/// What a message says; none for what carries keys or is otherwise the protocol's own business.
fn content(message: &wa::Message) -> Option<Content> {
    use wacore::proto_helpers::MessageExt;
    let message = message.get_base_message();
    if let Some(text) = &message.conversation {
        return Some(Content::Text { text: text.clone() });
    }
    if let Some(text) = message.extended_text_message.as_option() {
        return Some(Content::Text { text: text.text.clone().unwrap_or_default() });
    }
    if let Some(reaction) = message.reaction_message.as_option() {
        let target = key(reaction.key.as_option()?)?;
        return Some(Content::Reaction { target, emoji: reaction.text.clone().unwrap_or_default() });
    }
    if message.protocol_message.is_set() {
        return None;
    }
    let raw_type = unknown!(message;
        image_message => "imageMessage",
        video_message => "videoMessage",
        audio_message => "audioMessage",
        document_message => "documentMessage",
        sticker_message => "stickerMessage",
        location_message => "locationMessage",
        live_location_message => "liveLocationMessage",
        contact_message => "contactMessage",
        contacts_array_message => "contactsArrayMessage",
        poll_creation_message => "pollCreationMessage",
        poll_creation_message_v3 => "pollCreationMessageV3",
        poll_update_message => "pollUpdateMessage",
        order_message => "orderMessage",
        product_message => "productMessage",
        event_message => "eventMessage",
    );
    raw_type.map(|raw_type| Content::Unknown { raw_type: raw_type.to_owned() })
}

fn key(key: &wa::MessageKey) -> Option<MessageKey> {
    let remote_jid = key.remote_jid.as_deref().and_then(|jid| Address::parse(jid).ok())?;
    Some(MessageKey { id: MessageId(key.id.clone()?), from_me: key.from_me.unwrap_or_default(), remote_jid })
}

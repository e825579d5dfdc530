//! A message in the network: stored once, compact, and shared by ledger, inboxes and mailboxes.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use model::address::Address;
use model::id::MessageId;
use model::message::{Content, MessageKey, Surroundings};
use model::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use super::groups::GroupId;
use super::newsletters::NewsletterId;
use super::stored::{message_of, number_of};
use crate::simulator::number::Number;

/// A conversation from its sender's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Chat {
    Direct(Number),
    Group(GroupId),
    Newsletter(NewsletterId),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Message {
    pub id: Arc<str>,
    pub from: Number,
    /// The device that sent it; `None` for the phone.
    pub device: Option<u32>,
    pub chat: Chat,
    /// The recipient as addressed by the sender.
    pub to: Address,
    #[serde(rename = "content")]
    pub body: Body,
    pub around: Option<Box<Surroundings>>,
    /// The message that it reacts to, edits, deletes, pins, stars or votes on.
    #[serde(with = "numbered_if_any")]
    pub target: Option<Arc<Message>>,
    /// The author of the quoted message, if the network knows that message.
    pub quoted_from: Option<Number>,
    pub at: Timestamp,
}

/// The content. Most messages are texts; other contents are large and rare, so they are behind a pointer.
#[derive(Debug, Deserialize)]
#[serde(from = "Content")]
pub enum Body {
    Text(Box<str>),
    Other(Arc<Content>),
}

impl From<Content> for Body {
    fn from(content: Content) -> Self {
        Self::from(Arc::new(content))
    }
}

impl From<Arc<Content>> for Body {
    fn from(content: Arc<Content>) -> Self {
        match &*content {
            Content::Text { text } => Self::Text(text.as_str().into()),
            _ => Self::Other(content),
        }
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.content().serialize(serializer)
    }
}

impl Body {
    pub fn content(&self) -> Content {
        match self {
            Self::Text(text) => Content::Text { text: text.to_string() },
            Self::Other(content) => (**content).clone(),
        }
    }

    pub fn other(&self) -> Option<&Content> {
        match self {
            Self::Text(_) => None,
            Self::Other(content) => Some(content),
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(content) => content.text(),
        }
    }
}

impl Message {
    pub fn message_id(&self) -> MessageId {
        MessageId(self.id.to_string())
    }

    /// Whether the message belongs to the conversation that `member` has in `chat`.
    pub fn is_in(&self, member: Number, chat: Chat) -> bool {
        match (self.chat, chat) {
            (Chat::Direct(to), Chat::Direct(peer)) => {
                (self.from == member && to == peer) || (self.from == peer && to == member)
            }
            (own, other) => own == other,
        }
    }

    /// The conversation in which `viewer` sees the message.
    pub fn chat_for(&self, viewer: Number) -> Chat {
        match self.chat {
            Chat::Direct(_) if self.from != viewer => Chat::Direct(self.from),
            chat => chat,
        }
    }

    /// The content as shown to `viewer`, who knows the conversation under the address `chat`.
    pub fn content_for(&self, viewer: Number, chat: &Address) -> Content {
        let mut content = self.body.content();
        if let (Some(key), Some(target)) = (content.target_mut(), &self.target) {
            *key = MessageKey { id: target.message_id(), from_me: target.from == viewer, remote_jid: chat.clone() };
        }
        content
    }
}

/// Serializes a shared message as its number.
pub mod numbered {
    use super::*;

    pub fn serialize<S: Serializer>(message: &Arc<Message>, serializer: S) -> Result<S::Ok, S::Error> {
        number_of(message).map_err(ser::Error::custom)?.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Message>, D::Error> {
        message_of(u32::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Like [`numbered`], for an optional message.
mod numbered_if_any {
    use super::*;

    pub fn serialize<S: Serializer>(message: &Option<Arc<Message>>, serializer: S) -> Result<S::Ok, S::Error> {
        let number = message.as_ref().map(number_of).transpose();
        number.map_err(ser::Error::custom)?.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<Message>>, D::Error> {
        let number = Option::<u32>::deserialize(deserializer)?;
        number.map(message_of).transpose().map_err(de::Error::custom)
    }
}

/// Serializes shared messages, each with a count, as their numbers.
pub mod numbered_with {
    use super::*;

    pub fn serialize<S: Serializer>(messages: &[(Arc<Message>, u32)], serializer: S) -> Result<S::Ok, S::Error> {
        let numbers = messages.iter().map(|(message, count)| Ok((number_of(message)?, *count)));
        let numbers: Vec<(u32, u32)> = numbers.collect::<io::Result<_>>().map_err(ser::Error::custom)?;
        numbers.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Arc<Message>, u32)>, D::Error> {
        let numbers = Vec::<(u32, u32)>::deserialize(deserializer)?;
        let messages = numbers.into_iter().map(|(number, count)| Ok((message_of(number)?, count)));
        messages.collect::<io::Result<_>>().map_err(de::Error::custom)
    }
}

/// All messages by id, to resolve reactions, edits and quotes.
#[derive(Debug, Default)]
pub struct Messages {
    by_id: HashMap<Arc<str>, Arc<Message>>,
    /// Further messages whose id another sender has used as well.
    namesakes: HashMap<Arc<str>, Vec<Arc<Message>>>,
}

impl Messages {
    pub fn insert(&mut self, message: &Arc<Message>) {
        let id = Arc::clone(&message.id);
        let earlier = self.by_id.insert(Arc::clone(&id), Arc::clone(message));
        if let Some(earlier) = earlier.filter(|earlier| earlier.from != message.from) {
            self.namesakes.entry(id).or_default().push(earlier);
        }
    }

    /// The message with an id in the conversation that `member` has in `chat`.
    pub fn find(&self, id: &str, member: Number, chat: Chat) -> Option<&Arc<Message>> {
        self.named(id).find(|message| message.is_in(member, chat))
    }

    /// All messages with an id; of each sender only the last one.
    pub fn named(&self, id: &str) -> impl Iterator<Item = &Arc<Message>> {
        self.by_id.get(id).into_iter().chain(self.namesakes.get(id).into_iter().flatten())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    fn message(from: &str, to: &str) -> Arc<Message> {
        Arc::new(Message {
            id: "A".into(),
            from: number(from),
            device: None,
            chat: Chat::Direct(number(to)),
            to: Address::parse(&format!("{to}@s.example")).unwrap(),
            body: Content::Text { text: "hi".into() }.into(),
            around: None,
            target: None,
            quoted_from: None,
            at: Timestamp(0),
        })
    }

    #[test]
    fn messages_of_one_id_are_told_apart_by_their_conversation() {
        let mut messages = Messages::default();
        messages.insert(&message("1111", "2222"));
        messages.insert(&message("3333", "4444"));
        let from = |member: &str, peer: &str| {
            messages.find("A", number(member), Chat::Direct(number(peer))).map(|message| message.from)
        };
        assert_eq!(from("1111", "2222"), Some(number("1111")));
        assert_eq!(from("2222", "1111"), Some(number("1111")));
        assert_eq!(from("4444", "3333"), Some(number("3333")));
        assert_eq!(from("1111", "4444"), None);
    }

    #[test]
    fn a_message_that_is_shared_stays_small() {
        assert!(std::mem::size_of::<Message>() <= 168, "{}", std::mem::size_of::<Message>());
    }
}

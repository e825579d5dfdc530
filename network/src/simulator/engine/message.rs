//! A message as the network holds it: once, small, and shared by the ledger, inboxes and mailboxes.

use std::collections::HashMap;
use std::sync::Arc;

use model::address::Address;
use model::id::MessageId;
use model::message::{Content, MessageKey, Surroundings};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::groups::GroupId;
use super::newsletters::NewsletterId;
use crate::simulator::number::Number;

/// A conversation, as its sender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Chat {
    Direct(Number),
    Group(GroupId),
    Newsletter(NewsletterId),
}

#[derive(Debug)]
pub struct Message {
    pub id: Arc<str>,
    pub from: Number,
    /// The device that sent it; `None` when the phone did.
    pub device: Option<u32>,
    pub chat: Chat,
    /// As the sender addressed it.
    pub to: Address,
    pub body: Body,
    pub around: Option<Box<Surroundings>>,
    /// What it reacts to, edits, deletes, pins, stars or votes on.
    pub target: Option<Arc<Message>>,
    /// Who wrote what it quotes, where the network knows that message.
    pub quoted_from: Option<Number>,
    pub at: Timestamp,
}

/// Most messages are texts; what others say is large and rare.
#[derive(Debug)]
pub enum Body {
    Text(Box<str>),
    Other(Box<Content>),
}

impl Body {
    pub fn of(content: Content) -> Self {
        match content {
            Content::Text { text } => Self::Text(text.into()),
            other => Self::Other(Box::new(other)),
        }
    }

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

    /// Whether it stands in the conversation that `member` has in `chat`.
    pub fn is_in(&self, member: Number, chat: Chat) -> bool {
        match (self.chat, chat) {
            (Chat::Direct(to), Chat::Direct(peer)) => {
                (self.from == member && to == peer) || (self.from == peer && to == member)
            }
            (own, other) => own == other,
        }
    }

    /// The conversation that `viewer` sees it in.
    pub fn chat_for(&self, viewer: Number) -> Chat {
        match self.chat {
            Chat::Direct(_) if self.from != viewer => Chat::Direct(self.from),
            chat => chat,
        }
    }

    /// What it says to `viewer`, who sees the conversation under the address `chat`.
    pub fn content_for(&self, viewer: Number, chat: &Address) -> Content {
        let mut content = self.body.content();
        if let (Some(key), Some(target)) = (content.target_mut(), &self.target) {
            *key = MessageKey { id: target.message_id(), from_me: target.from == viewer, remote_jid: chat.clone() };
        }
        content
    }
}

/// A message as it is stored: what it points at is named by its number.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredMessage {
    id: Arc<str>,
    from: Number,
    device: Option<u32>,
    chat: Chat,
    to: Address,
    content: Content,
    around: Option<Box<Surroundings>>,
    target: Option<u32>,
    quoted_from: Option<Number>,
    at: Timestamp,
}

impl StoredMessage {
    pub fn of(message: &Message, target: Option<u32>) -> Self {
        Self {
            id: Arc::clone(&message.id),
            from: message.from,
            device: message.device,
            chat: message.chat,
            to: message.to.clone(),
            content: message.body.content(),
            around: message.around.clone(),
            target,
            quoted_from: message.quoted_from,
            at: message.at,
        }
    }

    /// The message, among those that were stored before it; `None` when it points at none of these.
    pub fn restore(self, earlier: &[Arc<Message>]) -> Option<Message> {
        let target = match self.target {
            Some(number) => Some(Arc::clone(earlier.get(number as usize)?)),
            None => None,
        };
        Some(Message {
            id: self.id,
            from: self.from,
            device: self.device,
            chat: self.chat,
            to: self.to,
            body: Body::of(self.content),
            around: self.around,
            target,
            quoted_from: self.quoted_from,
            at: self.at,
        })
    }
}

/// A shared message, stored as its number.
pub mod numbered {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Message;
    use crate::simulator::engine::stored::{message_of, number_of};

    pub fn serialize<S: Serializer>(message: &Arc<Message>, serializer: S) -> Result<S::Ok, S::Error> {
        number_of(message).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Message>, D::Error> {
        message_of(u32::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Shared messages, each with a count, stored as their numbers.
pub mod numbered_with {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Message;
    use crate::simulator::engine::stored::{message_of, number_of};

    pub fn serialize<S: Serializer>(messages: &[(Arc<Message>, u32)], serializer: S) -> Result<S::Ok, S::Error> {
        let numbers: Result<Vec<(u32, u32)>, _> =
            messages.iter().map(|(message, count)| Ok((number_of(message)?, *count))).collect();
        numbers.map_err(|error: std::io::Error| serde::ser::Error::custom(error))?.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Arc<Message>, u32)>, D::Error> {
        let numbers = Vec::<(u32, u32)>::deserialize(deserializer)?;
        let messages = numbers.into_iter().map(|(number, count)| Ok((message_of(number)?, count)));
        messages.collect::<Result<_, std::io::Error>>().map_err(serde::de::Error::custom)
    }
}

/// All messages by their ids: what reactions, edits and quotes name.
#[derive(Debug, Default)]
pub struct Messages {
    by_id: HashMap<Arc<str>, Arc<Message>>,
    /// Further messages of an id that another sender has used, too.
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

    /// The message of an id, in the conversation that `member` has in `chat`.
    pub fn find(&self, id: &str, member: Number, chat: Chat) -> Option<&Arc<Message>> {
        self.named(id).find(|message| message.is_in(member, chat))
    }

    /// All messages of an id; of one sender's the last.
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
            body: Body::of(Content::Text { text: "hi".into() }),
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

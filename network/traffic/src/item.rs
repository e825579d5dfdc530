//! What goes between a channel's session and its network, and what the network keeps of it: messages, receipts, items to
//! acknowledge. Plain values; how they travel is the driver's matter.

use model::address::Address;
use model::chat::SyncedChat;
use model::contact::Person;
use model::id::MessageId;
use model::media::MediaHandle;
use model::message::{Content, Surroundings};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::notice::Notice;

/// How many inbound items a session may have out without acknowledgement. Event queues are larger than this.
pub const EVENT_WINDOW: usize = 64;

/// One change of a channel's stored state; `None` deletes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuthWrite {
    pub key: String,
    #[serde(with = "in_one_piece")]
    pub value: Option<Vec<u8>>,
}

impl AuthWrite {
    pub fn put(key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), value: Some(value.into()) }
    }

    pub fn delete(key: impl Into<String>) -> Self {
        Self { key: key.into(), value: None }
    }

    /// Of its name and its value.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// Bytes as MessagePack's bytes, and not as the list of numbers that serde makes of them: half of those take two bytes each. Former
/// releases write such lists, and read either.
mod in_one_piece {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    struct OnePiece<'a>(&'a [u8]);

    impl Serialize for OnePiece<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(self.0)
        }
    }

    pub fn serialize<S: Serializer>(value: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_deref().map(OnePiece).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Bytes>::deserialize(deserializer)?.map(Vec::from))
    }
}

/// Bytes that the network keeps for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uploaded {
    pub handle: MediaHandle,
    pub expires_at: Timestamp,
}

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outbound {
    pub id: MessageId,
    /// A phone, group or newsletter address, or a LID.
    pub to: Address,
    pub content: Content,
    #[serde(default, skip_serializing_if = "Surroundings::is_empty")]
    pub around: Surroundings,
}

impl Outbound {
    /// What is written for it: a story with a large audience goes out in parts, all under its id, and is accepted when the
    /// network has all of them.
    pub fn in_parts(self) -> Vec<Self> {
        let Self { id, to, content, around } = self;
        match content {
            Content::Story(story) => {
                let part = |story| Self {
                    id: id.clone(),
                    to: to.clone(),
                    content: Content::Story(Box::new(story)),
                    around: around.clone(),
                };
                story.in_parts().into_iter().map(part).collect()
            }
            content => vec![Self { id, to, content, around }],
        }
    }
}

/// A code to type on the phone, `ABCD-1234`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCode {
    pub code: String,
    pub expires_at: Timestamp,
}

/// Who a channel is on the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Digits, no `+`.
    pub phone_number: String,
    pub lid: Option<Address>,
    pub push_name: Option<String>,
}

/// Why a session ended, or could not log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// The transport failed, or the network closed without a verdict.
    Transport(String),
    /// Another connection of the same device took the stream.
    Replaced,
    /// A newer owner's login ended this one, or the fence passed.
    Fenced,
    /// The device was unlinked on the phone.
    Unlinked,
    /// The network calls the session invalid; the credentials are worthless.
    Invalidated,
    /// The number is banned.
    Banned { until: Option<Timestamp> },
    /// The network refuses this client's version.
    ClientOutdated,
    /// The credentials could not be read or stored.
    AuthState(String),
    /// The network has had too many log-ins: the transport failed, and the node is to log in more slowly.
    TooManyLogins,
}

/// The network's own name of an item, to acknowledge it by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(pub String);

/// An item that the network keeps, and sends again at the next login, until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboundItem {
    pub id: ItemId,
    /// The network's time of the item.
    pub at: Timestamp,
    pub kind: InboundKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum InboundKind {
    /// What somebody wrote.
    Message(InboundMessage),
    /// What the channel's own phone wrote (`source: device`): `from` is the channel, `to` and `chat` the conversation.
    OwnMessage(InboundMessage),
    /// How far a message of the channel has come.
    Receipt(Receipt),
    /// The phone address behind a LID became known.
    LidDisclosed { lid: Address, phone: Address },
    /// A change in the world of the channel.
    Notice(Box<Notice>),
    /// A part of what the account has had from before.
    Synced(Box<SyncedPart>),
}

/// Chats and people of the account, at most [`MOST_SYNCED`] of both together: what the answers to
/// [`ChatOperation::List`](crate::operation::chats::ChatOperation::List) and
/// [`ContactOperation::List`](crate::operation::contacts::ContactOperation::List) bring, from a network that tells it by
/// itself. It makes no events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncedPart {
    pub chats: Vec<SyncedChat>,
    pub people: Vec<Person>,
}

/// How many chats and people one part brings at most.
pub const MOST_SYNCED: usize = 100;

/// A message for a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboundMessage {
    pub id: MessageId,
    /// The conversation: the peer's address in a direct chat (as `from`), else the group or newsletter.
    pub chat: Address,
    /// The author as the network gave it: a phone address or a LID.
    pub from: Address,
    /// The author's phone address, when the network gave it beside a LID.
    pub from_phone: Option<Address>,
    /// The channel's own address in a direct chat; the group in a group.
    pub to: Address,
    pub push_name: Option<String>,
    pub content: Content,
    #[serde(default, skip_serializing_if = "Surroundings::is_empty")]
    pub around: Surroundings,
}

/// A receipt for a message that this channel sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    pub message_id: MessageId,
    /// The conversation in which the message stands.
    pub chat: Address,
    /// The group member that acknowledges; `None` in a direct chat.
    pub participant: Option<Address>,
    pub status: ReceiptStatus,
}

/// In the order in which a receiver gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptStatus {
    Delivered,
    Read,
    Played,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::msgpack;

    use super::*;

    /// As former releases write it and read it.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Former {
        key: String,
        value: Option<Vec<u8>>,
    }

    #[test]
    fn a_stored_value_takes_its_own_bytes_and_is_the_same_to_former_releases() {
        for value in [None, Some(Vec::new()), Some(vec![0xff; 300])] {
            let length = value.as_ref().map_or(0, Vec::len);
            let former = Former { key: "k".into(), value: value.clone() };
            let written = msgpack::to_vec_named(&AuthWrite { key: "k".into(), value }).unwrap();
            assert!(written.len() <= length + 16, "{} bytes for {length}", written.len());
            assert_eq!(msgpack::from_slice::<Former>(&written).unwrap(), former);
            let read: AuthWrite = msgpack::from_slice(&msgpack::to_vec_named(&former).unwrap()).unwrap();
            assert_eq!((read.key, read.value), (former.key, former.value));
        }
    }
}

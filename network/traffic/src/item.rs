//! What a channel's session and its network exchange: messages, receipts, items to acknowledge. Plain values; the
//! driver decides how they travel.

use model::address::Address;
use model::chat::SyncedChat;
use model::contact::Person;
use model::id::MessageId;
use model::media::MediaHandle;
use model::message::{Content, Surroundings};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::notice::Notice;

/// Maximum number of inbound items that a session delivers without acknowledgement. Event queues are larger than this.
pub const EVENT_WINDOW: usize = 64;

/// One write to a channel's stored state; `None` deletes the key.
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

    /// Size of key and value, in bytes.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// Serializes bytes as MessagePack binary instead of serde's default, a list of numbers, half of which take two bytes
/// each. Earlier releases write lists and read both.
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

/// Media that the network stores until it expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uploaded {
    pub handle: MediaHandle,
    pub expires_at: Timestamp,
}

/// An outbound message.
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
    /// The frames to write for the message: a story with a large audience is sent in parts under one id, and is
    /// accepted when the network has all of them.
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

/// A code to enter on the phone, such as `ABCD-1234`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCode {
    pub code: String,
    pub expires_at: Timestamp,
}

/// A channel's identity on the network.
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
    /// The transport failed, or the network closed the connection without a reason.
    Transport(String),
    /// Another connection of the same device replaced this one.
    Replaced,
    /// A newer owner's login ended the session, or the fence expired.
    Fenced,
    /// The device was unlinked on the phone.
    Unlinked,
    /// The network declared the session invalid; the credentials are worthless.
    Invalidated,
    /// The number is banned.
    Banned { until: Option<Timestamp> },
    /// The network refused this client's version.
    ClientOutdated,
    /// The credentials could not be read or stored.
    AuthState(String),
    /// The network saw too many logins: the transport failed, and the node must log in more slowly.
    TooManyLogins,
}

/// The network's id of an item, by which it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(pub String);

/// An item that the network keeps until it is acknowledged, and sends again after the next login.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboundItem {
    pub id: ItemId,
    /// The network's time of the item.
    pub at: Timestamp,
    pub kind: InboundKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum InboundKind {
    /// A message from somebody else.
    Message(InboundMessage),
    /// A message of the channel's own phone (`source: device`): `from` is the channel, `to` and `chat` the
    /// conversation.
    OwnMessage(InboundMessage),
    /// A delivery or read receipt for a message of the channel.
    Receipt(Receipt),
    /// The phone address behind a LID became known.
    LidDisclosed { lid: Address, phone: Address },
    /// A change of groups, chats, contacts and the like.
    Notice(Box<Notice>),
    /// A part of the account's earlier chats and contacts.
    Synced(Box<SyncedPart>),
}

/// Chats and contacts of the account, at most [`MOST_SYNCED`] in total: what
/// [`ChatOperation::List`](crate::operation::chats::ChatOperation::List) and
/// [`ContactOperation::List`](crate::operation::contacts::ContactOperation::List) return, pushed by a network that
/// reports it unasked. It produces no events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncedPart {
    pub chats: Vec<SyncedChat>,
    pub people: Vec<Person>,
}

/// Maximum number of chats and contacts in one part.
pub const MOST_SYNCED: usize = 100;

/// A message to a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboundMessage {
    pub id: MessageId,
    /// The conversation: the peer's address in a direct chat (same as `from`), otherwise the group or newsletter.
    pub chat: Address,
    /// The author as reported by the network: a phone address or a LID.
    pub from: Address,
    /// The author's phone address, if the network reported it with a LID.
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
    /// The conversation that contains the message.
    pub chat: Address,
    /// The acknowledging member in a group; `None` in a direct chat.
    pub participant: Option<Address>,
    pub status: ReceiptStatus,
}

/// Ordered by progress.
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

    /// The form that earlier releases write and read.
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

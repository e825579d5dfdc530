//! The `data` of each event, and the chat type by which endpoints filter events.

mod data;
pub(crate) mod example;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

pub use self::data::{
    CallOffered, CallTerminated, CartUpdated, ChatArchived, ChatField, ChatPinned, ChatUpdated, GroupCreated,
    GroupMembers, GroupUpdated, MembersReason, OrderCancelled, OrderPlaced, PresenceUpdated, StoryViewed,
};
use crate::address::Address;
use crate::id::{ChannelId, MessageId};
use crate::message::{MessageKey, Quoted, TYPE_NAMES};
pub use crate::received::ReceivedBody;
use crate::status::{DisconnectReason, Reason, Status, StatusDetails};
use crate::time::Timestamp;

/// The sender: `from` is the phone address if known, otherwise the linked-device address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Sender {
    from: Address,
    /// Whether `from` is a phone address.
    from_resolved: bool,
    /// The linked-device address; absent if the network gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_lid: Option<Address>,
    /// The phone address, equal to `from`; absent unless `from_resolved` is `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_phone: Option<Address>,
}

impl Sender {
    /// The sender of a message that the network delivered under a phone address.
    pub fn phone(phone: Address) -> Self {
        Self { from: phone.clone(), from_resolved: true, from_lid: None, from_phone: Some(phone) }
    }

    /// The sender of a message that the network delivered under a LID with a known phone address.
    pub fn resolved(lid: Address, phone: Address) -> Self {
        Self { from_lid: Some(lid), ..Self::phone(phone) }
    }

    /// The sender of a message that the network delivered under a LID without a known phone address.
    pub fn unresolved(lid: Address) -> Self {
        Self { from: lid.clone(), from_resolved: false, from_lid: Some(lid), from_phone: None }
    }

    /// A sender that is not a person: a newsletter stands for itself.
    pub fn unnamed(chat: Address) -> Self {
        Self { from: chat, from_resolved: false, from_lid: None, from_phone: None }
    }

    pub fn from(&self) -> &Address {
        &self.from
    }

    pub fn is_resolved(&self) -> bool {
        self.from_resolved
    }

    pub fn lid(&self) -> Option<&Address> {
        self.from_lid.as_ref()
    }

    pub fn phone_address(&self) -> Option<&Address> {
        self.from_phone.as_ref()
    }
}

/// The conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Chat {
    pub chat_id: Address,
    pub is_group: bool,
    /// The author; only in groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participant: Option<Address>,
}

/// The channel received a message.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "MessageReceivedData")]
pub struct MessageReceived {
    pub message_id: MessageId,
    #[serde(flatten)]
    pub sender: Sender,
    /// The channel's own address.
    pub to: Address,
    #[serde(flatten)]
    pub chat: Chat,
    /// Name that the sender uses; `null` if unknown.
    pub push_name: Option<String>,
    /// Content of the message: a type and its fields.
    pub body: ReceivedBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Quoted>,
    /// Members of the group who are mentioned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Address>,
    /// Whether everybody in the group is mentioned.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mentions_all: bool,
    /// Whether the message was forwarded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
    /// Whether the message can be opened only once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_view_once: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral_expiration: Option<u32>,
    /// Whether an undecryptable message with the same id came before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
    /// Time when the gateway received the message.
    pub received_at: Timestamp,
    /// Time of the message in the network, in Unix seconds.
    pub timestamp: i64,
    /// Whether the text was cut because the event was too large.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// How a message was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SendSource {
    Api,
    /// From the channel's own phone.
    Device,
}

/// The network has accepted a message.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "MessageSentData")]
pub struct MessageSent {
    pub message_id: MessageId,
    pub client_ref: Option<String>,
    /// The recipient.
    pub to: Address,
    #[serde(flatten)]
    pub chat: Chat,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = TYPE_NAMES))]
    pub message_type: &'static str,
    /// Whether the message was sent through the API, or from the phone itself.
    pub source: SendSource,
    /// Time when the network accepted the message.
    pub sent_at: Timestamp,
}

crate::words! {
    /// Status of the sent message.
    #[derive(JsonSchema)]
    #[schemars(inline)]
    AckStatus {
        Sent = "sent",
        Delivered = "delivered",
        Read = "read",
        Played = "played",
        Failed = "failed",
    }
}

/// Why a message failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SendFailure")]
pub struct SendError {
    pub code: String,
    pub message: String,
}

/// The status of a sent message has changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "MessageStatusData")]
pub struct MessageStatus {
    pub message_id: MessageId,
    /// The recipient.
    pub to: Address,
    pub status: AckStatus,
    pub is_group: bool,
    /// Time of the status in Unix seconds.
    pub timestamp: i64,
    /// Member who acknowledged the message; only in groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participant: Option<Address>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ref: Option<String>,
    /// Why the message failed; only with the status `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<SendError>,
}

/// A reaction to a message; one from the channel's own phone has `from_me`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "MessageReactionData")]
pub struct MessageReaction {
    #[serde(flatten)]
    pub sender: Sender,
    #[serde(flatten)]
    pub chat: Chat,
    /// Id of the reaction itself.
    pub message_id: MessageId,
    /// The message that the reaction refers to.
    pub message_key: MessageKey,
    /// The emoji; empty if the reaction was removed.
    pub emoji: String,
    pub from_me: bool,
    /// Time of the reaction in the network, in Unix seconds.
    pub timestamp: i64,
}

/// The channel is connected.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChannelConnectedData")]
pub struct ChannelConnected {
    pub phone_number: String,
    pub lid: Option<Address>,
    /// Name that the account uses; `null` if unknown.
    pub push_name: Option<String>,
    /// Time when the channel connected.
    pub connected_at: Timestamp,
}

/// The channel is not connected any more.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChannelDisconnectedData")]
pub struct ChannelDisconnected {
    pub reason: DisconnectReason,
    /// Whether the gateway reconnects automatically.
    pub will_retry: bool,
    /// Time of the next attempt to connect; `null` if there is none, or if it is made at once.
    pub next_retry_at: Option<Timestamp>,
}

/// The status of the channel changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChannelStatusData")]
pub struct ChannelStatus {
    /// Status before the change.
    pub previous_status: Status,
    /// Status after the change.
    pub status: Status,
    /// Why the status changed.
    pub reason: Reason,
    /// Time of the change.
    pub changed_at: Timestamp,
    /// Details of a ban whose end the network has announced; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
}

/// There is a new QR code.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "QrUpdatedData")]
pub struct QrUpdated {
    /// The QR code: a PNG as a data URL.
    pub qr: String,
    pub raw: String,
    pub expires_at: Timestamp,
    /// Number of the code within the pairing, from 1 to 6.
    pub sequence: u8,
}

/// The phone number behind a LID is known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ContactResolvedData")]
pub struct ContactResolved {
    pub channel_id: ChannelId,
    pub lid: Address,
    /// The phone address.
    pub phone_jid: Address,
    /// Time when the pair first became known to the channel.
    pub first_seen_at: Timestamp,
}

/// Declares the events: name, `data` type, name on the wire, and description.
macro_rules! events {
    ($($name:ident($data:ty) $text:literal $about:literal,)*) => {
        crate::words! {
            /// Name of an event.
            #[derive(PartialOrd, Ord, JsonSchema)]
            EventName { $($name = $text,)* }
        }

        impl EventName {
            /// What the event announces.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$name => $about,)*
                }
            }

            /// The schema of the event's `data`.
            pub fn schema(self, schemas: &mut SchemaGenerator) -> Schema {
                match self {
                    $(Self::$name => schemas.subschema_for::<$data>(),)*
                }
            }
        }

        /// The `data` of an event.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Payload { $($name($data),)* }

        impl Payload {
            pub fn name(&self) -> EventName {
                match self {
                    $(Self::$name(_) => EventName::$name,)*
                }
            }
        }
    };
}

events! {
    MessageReceived(Box<MessageReceived>) "message.received" "The channel received a message, in a direct chat, a group or a newsletter.",
    MessageSent(MessageSent) "message.sent" "The network has accepted a message of the channel, sent through the API or from the phone itself.",
    MessageReaction(MessageReaction) "message.reaction" "Somebody reacted to a message, or removed the reaction.",
    MessageStatus(MessageStatus) "message.status" "The status of a sent message has changed: accepted by the network, delivered, read, played or failed.",
    ChannelConnected(ChannelConnected) "channel.connected" "The channel is connected and can send.",
    ChannelDisconnected(ChannelDisconnected) "channel.disconnected" "The channel has lost its connection, or has closed it.",
    ChannelStatus(ChannelStatus) "channel.status" "The status of the channel has changed.",
    QrUpdated(QrUpdated) "qr.updated" "There is a new QR code for pairing the channel. Mostly for pages that show it.",
    GroupCreated(Box<GroupCreated>) "group.created" "The channel is in a group from now on: it created the group, joined it or was added.",
    GroupUpdated(GroupUpdated) "group.updated" "The subject, the description or settings of a group have changed.",
    GroupParticipantAdded(GroupMembers) "group.participant_added" "Somebody joined a group or was added.",
    GroupParticipantRemoved(GroupMembers) "group.participant_removed" "Somebody left a group or was removed.",
    GroupAdminPromoted(GroupMembers) "group.admin_promoted" "Members of a group have become admins.",
    GroupAdminDemoted(GroupMembers) "group.admin_demoted" "Admins of a group have become ordinary members again.",
    ChatUpdated(ChatUpdated) "chat.updated" "Settings of a chat have changed: unread, muted, disappearing messages, labels; or it was cleared or deleted.",
    ChatArchived(ChatArchived) "chat.archived" "A chat was archived or unarchived.",
    ChatPinned(ChatPinned) "chat.pinned" "A chat was pinned to the top or unpinned.",
    PresenceUpdated(PresenceUpdated) "presence.updated" "Somebody whose presence the channel subscribes to is available, unavailable, typing or recording.",
    OrderPlaced(Box<OrderPlaced>) "order.placed" "Somebody has ordered from the channel's catalog.",
    OrderCancelled(OrderCancelled) "order.cancelled" "An order was cancelled.",
    CartUpdated(CartUpdated) "cart.updated" "Somebody's cart has changed.",
    StoryViewed(StoryViewed) "story.viewed" "Somebody has seen a story of the channel for the first time.",
    CallOffered(CallOffered) "call.offered" "Somebody calls the channel.",
    CallTerminated(CallTerminated) "call.terminated" "A call has ended for the channel.",
    ContactResolved(ContactResolved) "contact.resolved" "The phone number behind a LID has become known.",
}

impl Payload {
    pub fn chat_type(&self) -> ChatType {
        match self {
            Self::MessageReceived(data) => ChatType::of(data.chat.is_group),
            Self::MessageSent(data) => ChatType::of(data.chat.is_group),
            Self::MessageReaction(data) => ChatType::of(data.chat.is_group),
            Self::MessageStatus(data) => ChatType::of(data.is_group),
            Self::CallOffered(data) => ChatType::of(data.is_group),
            Self::CallTerminated(data) => ChatType::of(data.is_group),
            Self::ChannelConnected(_)
            | Self::ChannelDisconnected(_)
            | Self::ChannelStatus(_)
            | Self::QrUpdated(_)
            | Self::ContactResolved(_)
            | Self::StoryViewed(_)
            | Self::OrderPlaced(_)
            | Self::OrderCancelled(_)
            | Self::CartUpdated(_) => ChatType::None,
            Self::GroupCreated(_)
            | Self::GroupUpdated(_)
            | Self::GroupParticipantAdded(_)
            | Self::GroupParticipantRemoved(_)
            | Self::GroupAdminPromoted(_)
            | Self::GroupAdminDemoted(_) => ChatType::Group,
            Self::ChatUpdated(data) => ChatType::of(data.is_group),
            Self::ChatArchived(data) => ChatType::of(data.is_group),
            Self::ChatPinned(data) => ChatType::of(data.is_group),
            Self::PresenceUpdated(data) => ChatType::of(data.is_group),
        }
    }

    /// Halves the longest text of a received message and flags it as truncated; `false` if nothing is left to cut.
    pub(crate) fn halve_text(&mut self) -> bool {
        let Self::MessageReceived(data) = self else { return false };
        let halved = data.body.halve() || data.mentions.drain(data.mentions.len() / 2..).next().is_some();
        data.truncated |= halved;
        halved
    }
}

/// The kind of conversation that an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatType {
    Direct,
    Group,
    /// No conversation: `channel.*`, `qr.updated`, `contact.resolved`, stories and orders.
    None,
}

impl ChatType {
    pub fn of(is_group: bool) -> Self {
        if is_group { Self::Group } else { Self::Direct }
    }
}

crate::words! {
    /// The kind of chats whose events an endpoint receives.
    #[derive(Default, JsonSchema)]
    ChatTypeFilter {
        #[default]
        All = "all",
        DirectOnly = "direct_only",
        GroupsOnly = "groups_only",
    }
}

impl ChatTypeFilter {
    /// Whether events of this chat type pass. Events without a chat pass every filter.
    pub fn passes(self, chat_type: ChatType) -> bool {
        match chat_type {
            ChatType::None => true,
            ChatType::Direct => self != Self::GroupsOnly,
            ChatType::Group => self != Self::DirectOnly,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    fn data(payload: Payload) -> Value {
        serde_json::to_value(payload).unwrap()
    }

    #[test]
    fn senders_show_what_is_known_of_them() {
        let (lid, phone) = (address("25@lid"), address("1555@s.example"));
        let table = [
            (
                Sender::phone(phone.clone()),
                json!({ "from": "1555@s.example", "from_resolved": true, "from_phone": "1555@s.example" }),
            ),
            (
                Sender::resolved(lid.clone(), phone),
                json!({
                    "from": "1555@s.example",
                    "from_resolved": true,
                    "from_phone": "1555@s.example",
                    "from_lid": "25@lid",
                }),
            ),
            (Sender::unresolved(lid), json!({ "from": "25@lid", "from_resolved": false, "from_lid": "25@lid" })),
            (Sender::unnamed(address("12@n.example")), json!({ "from": "12@n.example", "from_resolved": false })),
        ];
        for (sender, expected) in table {
            assert_eq!(serde_json::to_value(sender).unwrap(), expected);
        }
    }

    #[test]
    fn nullable_fields_are_null_and_optional_ones_are_left_out() {
        let sent = data(Payload::MessageSent(MessageSent {
            message_id: MessageId("3EB0".into()),
            client_ref: None,
            to: address("1555@s.example"),
            chat: Chat { chat_id: address("1555@s.example"), is_group: false, participant: None },
            message_type: "text",
            source: SendSource::Api,
            sent_at: Timestamp(0),
        }));
        assert_eq!(
            sent,
            json!({
                "message_id": "3EB0", "client_ref": null, "to": "1555@s.example", "chat_id": "1555@s.example",
                "is_group": false, "type": "text", "source": "api", "sent_at": "1970-01-01T00:00:00.000Z",
            })
        );
        let lost = data(Payload::ChannelDisconnected(ChannelDisconnected {
            reason: DisconnectReason::KickedOtherDevice,
            will_retry: false,
            next_retry_at: None,
        }));
        assert_eq!(lost, json!({ "reason": "kicked_other_device", "will_retry": false, "next_retry_at": null }));
    }

    #[test]
    fn filters_pass_by_the_type_of_the_chat() {
        let table = [
            (ChatTypeFilter::All, [true, true, true]),
            (ChatTypeFilter::DirectOnly, [true, false, true]),
            (ChatTypeFilter::GroupsOnly, [false, true, true]),
        ];
        for ((filter, passes), word) in table.into_iter().zip(ChatTypeFilter::WORDS) {
            for (chat_type, expected) in [ChatType::Direct, ChatType::Group, ChatType::None].into_iter().zip(passes) {
                assert_eq!(filter.passes(chat_type), expected, "{filter:?} {chat_type:?}");
            }
            assert_eq!(ChatTypeFilter::parse(word), Some(filter));
        }
    }
}

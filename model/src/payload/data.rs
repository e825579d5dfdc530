//! The `data` of events about groups, chats, presences, orders, stories and calls.

use schemars::JsonSchema;
use serde::Serialize;

use super::Sender;
use crate::address::Address;
use crate::business::{CartItem, Order};
use crate::call::CallEnd;
use crate::chat::Chat;
use crate::group::{AddedReason, Group, GroupChanges, GroupOrigin, RemovedReason};
use crate::id::MessageId;
use crate::presence::Presence;

/// The channel is in a group from now on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "GroupCreatedData")]
pub struct GroupCreated {
    /// The group at that time.
    pub group: Group,
    /// How the channel joined it.
    pub origin: GroupOrigin,
    pub actor: Option<Address>,
    /// Unix seconds.
    pub timestamp: i64,
}

/// Fields of a group changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "GroupUpdatedData")]
pub struct GroupUpdated {
    pub group_id: Address,
    /// Only the fields that changed.
    pub changes: GroupChanges,
    pub actor: Option<Address>,
    /// Unix seconds.
    pub timestamp: i64,
}

/// Of the four events about members.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "GroupMembersData")]
pub struct GroupMembers {
    pub group_id: Address,
    /// The members that it is about.
    pub participants: Vec<Address>,
    pub actor: Option<Address>,
    /// How they joined or left; absent for promotions and demotions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["added", "invite_link", "approved", "removed", "left"]))]
    pub reason: Option<MembersReason>,
    /// Unix seconds.
    pub timestamp: i64,
}

/// Why members joined or left.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MembersReason {
    Added(AddedReason),
    Removed(RemovedReason),
}

/// What changed of a chat. `labels` are those of the chat, or of messages in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ChatField {
    Unread,
    MutedUntil,
    EphemeralExpiration,
    Labels,
    Cleared,
    Deleted,
}

/// Flags of a chat changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChatUpdatedData")]
pub struct ChatUpdated {
    pub chat: Chat,
    /// Which of its fields changed.
    pub changed: Vec<ChatField>,
    /// Unix seconds.
    pub timestamp: i64,
    /// Read by the chat type filter.
    #[serde(skip)]
    pub is_group: bool,
}

/// A chat went into the archive, or came out of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChatArchivedData")]
pub struct ChatArchived {
    pub chat_id: Address,
    pub archived: bool,
    /// Unix seconds.
    pub timestamp: i64,
    #[serde(skip)]
    pub is_group: bool,
}

/// A chat was pinned, or is no more.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChatPinnedData")]
pub struct ChatPinned {
    pub chat_id: Address,
    pub pinned: bool,
    /// Unix seconds.
    pub timestamp: i64,
    #[serde(skip)]
    pub is_group: bool,
}

/// Somebody is there, away, typing or recording.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PresenceUpdatedData")]
pub struct PresenceUpdated {
    /// Whose presence it is.
    pub id: Address,
    pub chat_id: Address,
    pub presence: Presence,
    /// Unix seconds.
    pub last_seen_at: Option<i64>,
    /// In a group, the member whose presence it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participant: Option<Address>,
    /// Read by the chat type filter.
    #[serde(skip)]
    pub is_group: bool,
}

/// Somebody has ordered.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OrderPlacedData")]
pub struct OrderPlaced {
    /// The order.
    pub order: Order,
    /// The buyer.
    #[serde(flatten)]
    pub sender: Sender,
    pub message_id: MessageId,
    /// Unix seconds.
    pub timestamp: i64,
}

/// An order was cancelled.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OrderCancelledData")]
pub struct OrderCancelled {
    /// The order.
    pub order_id: String,
    /// Who cancelled: the buyer, or the channel's own phone.
    #[serde(flatten)]
    pub sender: Sender,
    pub reason: Option<String>,
    /// Unix seconds.
    pub timestamp: i64,
}

/// Somebody's cart has changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CartUpdatedData")]
pub struct CartUpdated {
    /// Whose cart it is.
    #[serde(flatten)]
    pub sender: Sender,
    /// The cart.
    pub cart_id: Option<String>,
    /// Its items.
    pub items: Vec<CartItem>,
    /// In thousandths of the currency's unit.
    pub total_amount: Option<u64>,
    pub currency: String,
    /// Unix seconds.
    pub timestamp: i64,
}

/// Somebody saw a story of the channel for the first time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "StoryViewedData")]
pub struct StoryViewed {
    pub story_id: MessageId,
    /// The phone address when it is known, otherwise the LID.
    pub viewer: Address,
    /// The phone address, where it is known.
    pub viewer_phone: Option<Address>,
    /// Unix seconds.
    pub viewed_at: i64,
}

/// Somebody calls the channel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CallOfferedData")]
pub struct CallOffered {
    /// The call, by its id in the network.
    pub call_id: String,
    /// The caller.
    #[serde(flatten)]
    pub sender: Sender,
    /// Whether it is a video call.
    pub is_video: bool,
    pub is_group: bool,
    pub group_id: Option<Address>,
    /// Whether it was offered while the channel was not connected.
    pub offline: bool,
    /// Unix seconds.
    pub timestamp: i64,
}

/// A call is over for the channel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CallTerminatedData")]
pub struct CallTerminated {
    /// The call, by its id in the network.
    pub call_id: String,
    /// The caller.
    #[serde(flatten)]
    pub sender: Sender,
    pub reason: CallEnd,
    /// Whether the API or the settings of the channel rejected it.
    pub rejected_by_gateway: bool,
    /// How long the call lasted, if it was answered.
    pub duration_seconds: Option<u32>,
    /// Unix seconds.
    pub timestamp: i64,
    /// Read by the chat type filter.
    #[serde(skip)]
    pub is_group: bool,
}

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
    /// How the channel came to be in the group.
    pub origin: GroupOrigin,
    pub actor: Option<Address>,
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
}

/// Fields of a group changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "GroupUpdatedData")]
pub struct GroupUpdated {
    pub group_id: Address,
    /// The fields that changed, with their new values.
    pub changes: GroupChanges,
    pub actor: Option<Address>,
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
}

/// Members of a group joined, left, were promoted or demoted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "GroupMembersData")]
pub struct GroupMembers {
    pub group_id: Address,
    /// Addresses of the members concerned.
    pub participants: Vec<Address>,
    pub actor: Option<Address>,
    /// How the members joined or left; absent for promotions and demotions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["added", "invite_link", "approved", "removed", "left"]))]
    pub reason: Option<MembersReason>,
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
}

/// Why members joined or left.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MembersReason {
    Added(AddedReason),
    Removed(RemovedReason),
}

/// A changed property of a chat; `labels` are those of the chat, or of messages in it.
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
    /// The properties of the chat that changed.
    pub changed: Vec<ChatField>,
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
    /// Read by the chat type filter.
    #[serde(skip)]
    pub is_group: bool,
}

/// A chat was archived or unarchived.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChatArchivedData")]
pub struct ChatArchived {
    pub chat_id: Address,
    pub archived: bool,
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
    #[serde(skip)]
    pub is_group: bool,
}

/// A chat was pinned or unpinned.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ChatPinnedData")]
pub struct ChatPinned {
    pub chat_id: Address,
    pub pinned: bool,
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
    #[serde(skip)]
    pub is_group: bool,
}

/// Somebody is available, unavailable, typing or recording.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PresenceUpdatedData")]
pub struct PresenceUpdated {
    /// Address of the person whose presence changed.
    pub id: Address,
    pub chat_id: Address,
    pub presence: Presence,
    /// Time when the person was last online, in Unix seconds; `null` if unknown.
    pub last_seen_at: Option<i64>,
    /// Address of the member whose presence changed; only in groups.
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
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
}

/// An order was cancelled.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OrderCancelledData")]
pub struct OrderCancelled {
    /// Id of the order.
    pub order_id: String,
    /// Who cancelled: the buyer, or the channel's own phone.
    #[serde(flatten)]
    pub sender: Sender,
    pub reason: Option<String>,
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
}

/// Somebody's cart has changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CartUpdatedData")]
pub struct CartUpdated {
    /// Whose cart it is.
    #[serde(flatten)]
    pub sender: Sender,
    /// Id of the cart; `null` if unknown.
    pub cart_id: Option<String>,
    /// Items in the cart.
    pub items: Vec<CartItem>,
    /// Total in thousandths of the currency's unit; `null` if unknown.
    pub total_amount: Option<u64>,
    pub currency: String,
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
}

/// Somebody saw a story of the channel for the first time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "StoryViewedData")]
pub struct StoryViewed {
    /// Id of the story.
    pub story_id: MessageId,
    /// Phone address of the viewer if known, otherwise the linked-device address.
    pub viewer: Address,
    /// Phone address of the viewer; `null` if unknown.
    pub viewer_phone: Option<Address>,
    /// Time of the view in Unix seconds.
    pub viewed_at: i64,
}

/// Somebody calls the channel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CallOfferedData")]
pub struct CallOffered {
    /// Id of the call in the network.
    pub call_id: String,
    /// The caller.
    #[serde(flatten)]
    pub sender: Sender,
    /// Whether the call is a video call.
    pub is_video: bool,
    pub is_group: bool,
    pub group_id: Option<Address>,
    /// Whether the call was offered while the channel was not connected.
    pub offline: bool,
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
}

/// A call has ended for the channel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CallTerminatedData")]
pub struct CallTerminated {
    /// Id of the call in the network.
    pub call_id: String,
    /// The caller.
    #[serde(flatten)]
    pub sender: Sender,
    pub reason: CallEnd,
    /// Whether the API or the settings of the channel rejected the call.
    pub rejected_by_gateway: bool,
    /// Duration of the call in seconds; `null` if it was not answered.
    pub duration_seconds: Option<u32>,
    /// Time of the event in Unix seconds.
    pub timestamp: i64,
    /// Read by the chat type filter.
    #[serde(skip)]
    pub is_group: bool,
}

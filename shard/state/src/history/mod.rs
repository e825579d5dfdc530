//! Stored messages: the types of a query, and the row as the interface shows it.
//!
//! - [`mod@page`]: reads a page from a shard's rows; [`merge`] merges the pages of several shards.
//! - [`deliveries`]: the deliveries of one message. `withhold`: removes the body of a message.
//! - `show`: the row as the interface shows it; `content`: the fields of its type beyond the common ones.

mod content;
pub mod deliveries;
mod page;
mod show;
mod withhold;

use model::address::Address;
use model::id::{ChannelId, MessageId, RowId};
use model::media::MediaRef;
use model::message::MessageKey;
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::page::{Budget, merge, page};
pub use self::show::best;
pub use self::withhold::{is_withheld, withhold};
use crate::deliveries::view::DeliveryView;
pub use crate::keys::Direction;
pub use crate::records::{MessageError, MessageStatus, Source};

/// A query for a page of history. All fields except the order are filters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HistoryQuery {
    /// The queried channels; never empty.
    pub channels: Vec<ChannelId>,
    pub limit: usize,
    /// Ascending by `(occurred_at, id)`; descending when false.
    pub ascending: bool,
    /// Only rows after this one, in the direction of the order.
    pub after: Option<Place>,
    pub direction: Option<Direction>,
    pub chat_id: Option<Address>,
    pub from: Option<Address>,
    pub to: Option<Address>,
    pub participant: Option<Address>,
    /// Type names; empty means every type.
    pub types: Vec<String>,
    pub statuses: Vec<MessageStatus>,
    pub message_ids: Vec<MessageId>,
    pub client_ref: Option<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub has_media: Option<bool>,
    /// Omits the deliveries.
    pub without_deliveries: bool,
}

/// The position of a row in the order of the history; the row's id orders rows of the same millisecond.
pub type Place = (Timestamp, RowId);

/// A page of history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Page {
    pub rows: Vec<StoredMessage>,
    /// If set, the page contains every matching row up to this position, and there may be more after it. `None` if the
    /// page contains all matching rows.
    pub frontier: Option<Place>,
}

/// Stored message; every field is always present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoredMessage {
    pub id: RowId,
    pub message_id: MessageId,
    pub channel_id: ChannelId,
    pub direction: Direction,
    /// Origin: sent through the API (`api`), sent from the phone (`device`), or received (`network`).
    pub source: Source,
    pub chat_id: Address,
    pub is_group: bool,
    pub from: Address,
    /// Whether `from` is a phone address.
    pub from_resolved: bool,
    /// Linked-device address of the sender; `null` if the network gave none.
    pub from_lid: Option<Address>,
    /// Phone address of the sender; `null` if unknown.
    pub from_phone: Option<Address>,
    /// Address of the recipient; the channel's own for direct messages that it received.
    pub to: Address,
    pub participant: Option<Address>,
    /// Name that the sender uses; `null` if unknown.
    pub push_name: Option<String>,
    #[serde(rename = "type")]
    pub kind: String,
    /// Text, caption, or new text of an edit; `null` if there is none, or if it was not stored.
    pub text: Option<String>,
    pub media: Option<MediaRef>,
    pub message_key: Option<MessageKey>,
    /// Emoji of a reaction, empty if it was removed; `null` for other types.
    pub emoji: Option<String>,
    /// Id of the message that this one replies to; `null` if it is no reply.
    pub quoted_message_id: Option<MessageId>,
    /// Further fields, such as a location, contacts, a poll, an order or receipts; `null` if there are none.
    pub content: Option<serde_json::Value>,
    pub client_ref: Option<String>,
    pub status: MessageStatus,
    /// Time when the message reached this status.
    pub status_at: Timestamp,
    /// Why the message failed; `null` unless `status` is `failed`.
    pub error: Option<MessageError>,
    /// `X-Request-Id` of the send; `null` if the message was not sent through the API.
    pub request_id: Option<String>,
    /// Value of the header `X-Gateway-Correlation-Id`.
    pub correlation_id: String,
    /// Time of the message in the network.
    pub occurred_at: Timestamp,
    pub created_at: Timestamp,
    /// Webhook deliveries that carried the message.
    pub webhook_deliveries: Vec<DeliveryView>,
}

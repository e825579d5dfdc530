//! What `order.*` and `cart.updated` say.

use schemars::JsonSchema;
use serde::Serialize;

use super::Sender;
use crate::business::{CartItem, Order};
use crate::id::MessageId;

/// Somebody has ordered.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OrderPlacedData")]
pub struct OrderPlaced {
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
    pub items: Vec<CartItem>,
    pub total_amount: Option<u64>,
    pub currency: String,
    /// Unix seconds.
    pub timestamp: i64,
}

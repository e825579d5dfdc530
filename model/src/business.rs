//! What a business account has: profile, catalog, collections, orders; the same from the network to the answer.

mod body;
mod currency;
mod hours;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::body::{
    read_collection, read_collection_changes, read_product, read_product_changes, read_profile_changes,
};
pub use self::currency::currency;
pub use self::hours::{Day, DayHours, Hours, Mode};
use crate::address::Address;
use crate::error::CallError;
use crate::field::Change;
use crate::id::MessageId;

/// What the network says of an account that is no business, and what callers are told.
pub const NOT_BUSINESS: &str = "not_business";

/// The network's code for it.
pub const NOT_BUSINESS_CODE: u16 = 403;

/// Of a channel, or a contact, that is no business.
pub fn not_business() -> CallError {
    CallError::upstream_refused(u32::from(NOT_BUSINESS_CODE), NOT_BUSINESS)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusinessProfile {
    pub id: Address,
    pub description: Option<String>,
    pub category: Option<String>,
    pub email: Option<String>,
    pub websites: Vec<String>,
    pub address: Option<String>,
    pub latitude: Option<f64>,
    pub longitude: Option<f64>,
    pub hours: Option<Hours>,
    /// Whether customers can gather products in a cart.
    pub cart_enabled: bool,
}

impl BusinessProfile {
    /// Of an account that has told nothing of itself.
    pub fn empty(id: Address) -> Self {
        Self {
            id,
            description: None,
            category: None,
            email: None,
            websites: Vec::new(),
            address: None,
            latitude: None,
            longitude: None,
            hours: None,
            cart_enabled: true,
        }
    }

    pub fn change(&mut self, changes: ProfileChanges) {
        changes.description.apply(&mut self.description);
        changes.category.apply(&mut self.category);
        changes.email.apply(&mut self.email);
        changes.websites.apply(&mut self.websites);
        changes.address.apply(&mut self.address);
        changes.latitude.apply(&mut self.latitude);
        changes.longitude.apply(&mut self.longitude);
        changes.hours.apply(&mut self.hours);
        changes.cart_enabled.apply(&mut self.cart_enabled);
    }
}

/// What a patch does to the profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileChanges {
    pub description: Change<Option<String>>,
    pub category: Change<Option<String>>,
    pub email: Change<Option<String>>,
    pub websites: Change<Vec<String>>,
    pub address: Change<Option<String>>,
    pub latitude: Change<Option<f64>>,
    pub longitude: Change<Option<f64>>,
    pub hours: Change<Option<Hours>>,
    pub cart_enabled: Change<bool>,
}

/// A product to add.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProductInput {
    pub name: String,
    pub description: Option<String>,
    /// In thousandths of the currency's unit.
    pub price_amount: Option<u64>,
    pub currency: Option<String>,
    /// The seller's own number of it.
    pub retailer_id: Option<String>,
    pub url: Option<String>,
    pub image_urls: Vec<String>,
    pub hidden: bool,
}

/// What a patch does to a product.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProductChanges {
    pub name: Change<String>,
    pub description: Change<Option<String>>,
    pub price_amount: Change<Option<u64>>,
    pub currency: Change<Option<String>>,
    pub retailer_id: Change<Option<String>>,
    pub url: Change<Option<String>>,
    pub image_urls: Change<Vec<String>>,
    pub hidden: Change<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Product {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    /// In thousandths of the currency's unit.
    pub price_amount: Option<u64>,
    pub currency: Option<String>,
    pub retailer_id: Option<String>,
    pub url: Option<String>,
    /// The network's own.
    pub image_urls: Vec<String>,
    pub hidden: bool,
    /// What the network thinks of it.
    pub review_status: Option<Review>,
    /// The collections that it is in.
    pub collection_ids: Vec<String>,
}

impl Product {
    pub fn change(&mut self, changes: ProductChanges) {
        changes.name.apply(&mut self.name);
        changes.description.apply(&mut self.description);
        changes.price_amount.apply(&mut self.price_amount);
        changes.currency.apply(&mut self.currency);
        changes.retailer_id.apply(&mut self.retailer_id);
        changes.url.apply(&mut self.url);
        changes.image_urls.apply(&mut self.image_urls);
        changes.hidden.apply(&mut self.hidden);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    Approved,
    Pending,
    Rejected,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collection {
    pub id: String,
    pub name: String,
    pub status: Option<Review>,
    /// Products in it.
    pub product_count: u32,
}

/// What a patch does to a collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectionChanges {
    pub name: Option<String>,
    pub add_product_ids: Vec<String>,
    pub remove_product_ids: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Order {
    pub id: String,
    /// Shows the network that the order may be read.
    pub token: Option<String>,
    /// The buyer.
    pub from: Address,
    pub from_phone: Option<Address>,
    pub status: OrderStatus,
    pub note: Option<String>,
    pub currency: String,
    /// Amounts are in thousandths of the currency's unit.
    pub subtotal_amount: u64,
    /// In thousandths of the currency's unit; null for none.
    pub tax_amount: Option<u64>,
    pub total_amount: u64,
    pub items: Vec<OrderItem>,
    /// The message that brought it.
    pub message_id: MessageId,
    /// Unix seconds.
    pub placed_at: i64,
}

crate::words! {
    #[derive(JsonSchema)]
    OrderStatus {
        Placed = "placed",
        Cancelled = "cancelled",
        Accepted = "accepted",
        Unknown = "unknown",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderItem {
    pub product_id: String,
    pub name: String,
    /// How many.
    pub quantity: u32,
    /// Of one piece.
    pub price_amount: u64,
    pub currency: String,
    pub image_url: Option<String>,
}

/// A product in somebody's cart, as `cart.updated` tells of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CartItem {
    pub product_id: String,
    pub name: Option<String>,
    /// How many.
    pub quantity: u32,
    pub price_amount: u64,
    pub currency: String,
}

//! Business accounts: profile, catalog, collections and orders, in the shape that the driver reports and the API shows.

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

/// The network's text for an account that is not a business; passed on to callers.
pub const NOT_BUSINESS: &str = "not_business";

/// The network's code for an account that is not a business.
pub const NOT_BUSINESS_CODE: u16 = 403;

/// The error for a channel or contact that is not a business.
pub fn not_business() -> CallError {
    CallError::upstream_refused(u32::from(NOT_BUSINESS_CODE), NOT_BUSINESS)
}

/// Declares the patch of a record with the fields that it may change.
macro_rules! changes {
    ($(#[$about:meta])* $changes:ident of $record:ident { $($field:ident: $kind:ty,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct $changes { $(pub $field: Change<$kind>,)+ }

        impl $record {
            pub fn change(&mut self, changes: $changes) {
                $(changes.$field.apply(&mut self.$field);)+
            }
        }
    };
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
    /// The profile of an account that has published nothing.
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
}

changes! {
    /// A patch of the profile.
    ProfileChanges of BusinessProfile {
        description: Option<String>,
        category: Option<String>,
        email: Option<String>,
        websites: Vec<String>,
        address: Option<String>,
        latitude: Option<f64>,
        longitude: Option<f64>,
        hours: Option<Hours>,
        cart_enabled: bool,
    }
}

/// A product to add.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProductInput {
    pub name: String,
    pub description: Option<String>,
    /// The price, in thousandths of the currency's unit.
    pub price_amount: Option<u64>,
    pub currency: Option<String>,
    /// The seller's own product number.
    pub retailer_id: Option<String>,
    pub url: Option<String>,
    pub image_urls: Vec<String>,
    pub hidden: bool,
}

changes! {
    /// A patch of a product.
    ProductChanges of Product {
        name: String,
        description: Option<String>,
        price_amount: Option<u64>,
        currency: Option<String>,
        retailer_id: Option<String>,
        url: Option<String>,
        image_urls: Vec<String>,
        hidden: bool,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Product {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    /// Price in thousandths of the currency's unit; `null` for none.
    pub price_amount: Option<u64>,
    pub currency: Option<String>,
    pub retailer_id: Option<String>,
    pub url: Option<String>,
    /// URLs of the pictures in the network, the main one first.
    pub image_urls: Vec<String>,
    pub hidden: bool,
    /// Result of the network's review; `null` if there is none.
    pub review_status: Option<Review>,
    /// Ids of the collections that contain the product.
    pub collection_ids: Vec<String>,
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
    /// Number of products in the collection.
    pub product_count: u32,
}

/// A patch of a collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectionChanges {
    pub name: Option<String>,
    pub add_product_ids: Vec<String>,
    pub remove_product_ids: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Order {
    pub id: String,
    /// Token with which the order can be read from the network.
    pub token: Option<String>,
    /// Address of the buyer.
    pub from: Address,
    /// Phone address of the buyer; `null` if unknown.
    pub from_phone: Option<Address>,
    pub status: OrderStatus,
    /// Note of the buyer; `null` for none.
    pub note: Option<String>,
    pub currency: String,
    /// Subtotal in thousandths of the currency's unit.
    pub subtotal_amount: u64,
    /// Tax in thousandths of the currency's unit; `null` for none.
    pub tax_amount: Option<u64>,
    /// Total in thousandths of the currency's unit.
    pub total_amount: u64,
    /// Items of the order.
    pub items: Vec<OrderItem>,
    /// Message that contained the order.
    pub message_id: MessageId,
    /// Time of the order in Unix seconds.
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
    /// Number of pieces.
    pub quantity: u32,
    /// Price of one piece in thousandths of the currency's unit.
    pub price_amount: u64,
    pub currency: String,
    pub image_url: Option<String>,
}

/// A product in a cart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CartItem {
    pub product_id: String,
    pub name: Option<String>,
    /// Number of pieces.
    pub quantity: u32,
    pub price_amount: u64,
    pub currency: String,
}

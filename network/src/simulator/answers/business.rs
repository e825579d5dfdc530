//! Orders and carts of phones.

use serde::Deserialize;

/// `POST /phones/{n}/orders`.
#[derive(Clone, Debug, Deserialize)]
pub struct NewOrder {
    pub to: String,
    pub items: Vec<GivenItem>,
    pub note: Option<String>,
}

/// `PUT /phones/{n}/cart`.
#[derive(Clone, Debug, Deserialize)]
pub struct NewCart {
    pub to: String,
    pub items: Vec<GivenItem>,
}

/// A product in an order or a cart; omitted fields are taken from the catalog.
#[derive(Clone, Debug, Deserialize)]
pub struct GivenItem {
    pub product_id: String,
    #[serde(default = "one")]
    pub quantity: u32,
    pub name: Option<String>,
    pub price_amount: Option<u64>,
    pub currency: Option<String>,
}

fn one() -> u32 {
    1
}

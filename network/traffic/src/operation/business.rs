//! What is asked about business accounts.

use model::address::Address;
use model::business::{
    BusinessProfile, Collection, CollectionChanges, Order, Product, ProductChanges, ProductInput, ProfileChanges,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BusinessOperation {
    /// All that the account has, if it is a business.
    Show,
    ChangeProfile(Box<ProfileChanges>),
    AddProduct(Box<ProductInput>),
    ChangeProduct {
        product: String,
        changes: Box<ProductChanges>,
    },
    DeleteProduct {
        product: String,
    },
    AddCollection {
        name: String,
        products: Vec<String>,
    },
    ChangeCollection {
        collection: String,
        changes: CollectionChanges,
    },
    DeleteCollection {
        collection: String,
    },
    /// An order of the account, shown to whoever has its token.
    Order {
        order: String,
        token: String,
    },
    ProfileOf {
        contact: Address,
    },
    /// Products of another business, in the order of their ids.
    CatalogOf {
        contact: Address,
        after: Option<String>,
        limit: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BusinessAnswer {
    Done,
    /// `None`: the account is no business.
    Account(Option<Box<BusinessState>>),
    Profile(Box<BusinessProfile>),
    Product(Box<Product>),
    Products(Vec<Product>),
    Collection(Collection),
    Order(Box<Order>),
}

/// All that a business has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusinessState {
    pub profile: BusinessProfile,
    pub products: Vec<Product>,
    pub collections: Vec<Collection>,
}

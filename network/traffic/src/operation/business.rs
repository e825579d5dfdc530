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
    /// What is set of the profile.
    ChangeProfile(Box<ProfileChanges>),
    /// A new product.
    AddProduct(Box<ProductInput>),
    /// What is set of a product.
    ChangeProduct { product: String, changes: Box<ProductChanges> },
    /// Takes a product away.
    DeleteProduct { product: String },
    /// A new collection, with products that are there.
    AddCollection { name: String, products: Vec<String> },
    /// Another name, or other products.
    ChangeCollection { collection: String, changes: CollectionChanges },
    /// Takes a collection away; its products stay.
    DeleteCollection { collection: String },
    /// An order of the account, shown to whoever has its token.
    Order { order: String, token: String },
    /// The profile of another business.
    ProfileOf { contact: Address },
    /// Products of another business, in the order of their ids.
    CatalogOf { contact: Address, after: Option<String>, limit: usize },
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

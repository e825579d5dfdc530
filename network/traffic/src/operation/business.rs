//! Operations on business accounts.

use model::address::Address;
use model::business::{
    BusinessProfile, Collection, CollectionChanges, Order, Product, ProductChanges, ProductInput, ProfileChanges,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BusinessOperation {
    /// Returns everything of the account, if it is a business.
    Show,
    /// Changes the given fields of the profile.
    ChangeProfile(Box<ProfileChanges>),
    /// Adds a product.
    AddProduct(Box<ProductInput>),
    /// Changes the given fields of a product.
    ChangeProduct { product: String, changes: Box<ProductChanges> },
    /// Deletes a product.
    DeleteProduct { product: String },
    /// Adds a collection of existing products.
    AddCollection { name: String, products: Vec<String> },
    /// Changes the name or the products of a collection.
    ChangeCollection { collection: String, changes: CollectionChanges },
    /// Deletes a collection; its products stay.
    DeleteCollection { collection: String },
    /// Returns an order of the account, given its token.
    Order { order: String, token: String },
    /// Returns the profile of another business.
    ProfileOf { contact: Address },
    /// Returns products of another business, ordered by id.
    CatalogOf { contact: Address, after: Option<String>, limit: usize },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BusinessAnswer {
    Done,
    /// `None` if the account is not a business.
    Account(Option<Box<BusinessState>>),
    Profile(Box<BusinessProfile>),
    Product(Box<Product>),
    Products(Vec<Product>),
    Collection(Collection),
    Order(Box<Order>),
}

/// The complete state of a business.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusinessState {
    pub profile: BusinessProfile,
    pub products: Vec<Product>,
    pub collections: Vec<Collection>,
}

//! Business accounts: profiles, catalogs, collections, orders. Their labels are in [`super::labels`].
//!
//! Pure state and rules; requests and notices are in [`super::operations`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::address::Address;
use model::business::{
    BusinessProfile, Collection, CollectionChanges, NOT_BUSINESS, NOT_BUSINESS_CODE, Order, OrderStatus, Product,
    ProductChanges, ProductInput, Review,
};

use model::field::Change;
use serde::{Deserialize, Serialize};

use super::labels::Labels;
use super::rules::{Allowed, CONFLICT, NOT_FOUND, Refusal};
use crate::simulator::number::Number;

/// Maximum number of products, and of collections, in a catalog.
const MOST: usize = 500;

pub const NO_BUSINESS: Refusal = Refusal::new(NOT_BUSINESS_CODE, NOT_BUSINESS);
pub const NO_SUCH_PRODUCT: Refusal = Refusal::new(NOT_FOUND, "no-such-product");
pub const NO_SUCH_COLLECTION: Refusal = Refusal::new(NOT_FOUND, "no-such-collection");
pub const NO_SUCH_ORDER: Refusal = Refusal::new(NOT_FOUND, "no-such-order");
const CATALOG_FULL: Refusal = Refusal::new(CONFLICT, "catalog-full");
const NOT_OPEN: Refusal = Refusal::new(CONFLICT, "order-not-open");

/// What a business account has published, and its labels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Business {
    pub profile: BusinessProfile,
    pub labels: Labels,
    products: BTreeMap<String, Product>,
    collections: BTreeMap<String, Listed>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Listed {
    name: String,
    products: BTreeSet<String>,
}

impl Business {
    pub fn new(address: Address) -> Self {
        Self {
            profile: BusinessProfile::empty(address),
            labels: Labels::default(),
            products: BTreeMap::new(),
            collections: BTreeMap::new(),
        }
    }

    /// All products as others see them, with the collections that contain them.
    pub fn products(&self) -> impl Iterator<Item = Product> {
        self.products.values().map(|product| self.shown(product))
    }

    pub fn product(&self, id: &str) -> Allowed<Product> {
        self.products.get(id).map(|product| self.shown(product)).ok_or(NO_SUCH_PRODUCT)
    }

    fn shown(&self, product: &Product) -> Product {
        let listed = self.collections.iter().filter(|(_, listed)| listed.products.contains(&product.id));
        Product { collection_ids: listed.map(|(id, _)| id.clone()).collect(), ..product.clone() }
    }

    pub fn add_product(&mut self, id: String, input: ProductInput) -> Allowed<Product> {
        if self.products.len() >= MOST {
            return Err(CATALOG_FULL);
        }
        let ProductInput { name, description, price_amount, currency, retailer_id, url, image_urls, hidden } = input;
        let product = Product {
            image_urls: kept_images(&id, &image_urls),
            id: id.clone(),
            name,
            description,
            price_amount,
            currency,
            retailer_id,
            url,
            hidden,
            review_status: Some(Review::Approved),
            collection_ids: Vec::new(),
        };
        self.products.insert(id, product.clone());
        Ok(product)
    }

    pub fn change_product(&mut self, id: &str, changes: ProductChanges) -> Allowed<Product> {
        let product = self.products.get_mut(id).ok_or(NO_SUCH_PRODUCT)?;
        let image_urls = match &changes.image_urls {
            Change::To(urls) => Change::To(kept_images(id, urls)),
            Change::Keep => Change::Keep,
        };
        product.change(ProductChanges { image_urls, ..changes });
        self.product(id)
    }

    pub fn delete_product(&mut self, id: &str) -> Allowed<()> {
        self.products.remove(id).ok_or(NO_SUCH_PRODUCT)?;
        for listed in self.collections.values_mut() {
            listed.products.remove(id);
        }
        Ok(())
    }

    pub fn collections(&self) -> impl Iterator<Item = Collection> {
        self.collections.iter().map(|(id, listed)| listed.shown(id))
    }

    pub fn collection(&self, id: &str) -> Allowed<Collection> {
        self.collections.get(id).map(|listed| listed.shown(id)).ok_or(NO_SUCH_COLLECTION)
    }

    /// The ids of the products in a collection.
    pub fn products_in(&self, id: &str) -> Vec<String> {
        self.collections.get(id).map(|listed| listed.products.iter().cloned().collect()).unwrap_or_default()
    }

    pub fn add_collection(&mut self, id: String, name: String, products: Vec<String>) -> Allowed<Collection> {
        self.check_products(&products)?;
        if self.collections.len() >= MOST {
            return Err(CATALOG_FULL);
        }
        let listed = Listed { name, products: products.into_iter().collect() };
        let shown = listed.shown(&id);
        self.collections.insert(id, listed);
        Ok(shown)
    }

    pub fn change_collection(&mut self, id: &str, changes: CollectionChanges) -> Allowed<Collection> {
        self.collection(id)?;
        self.check_products(&changes.add_product_ids)?;
        let listed = self.collections.get_mut(id).ok_or(NO_SUCH_COLLECTION)?;
        if let Some(name) = changes.name {
            listed.name = name;
        }
        listed.products.extend(changes.add_product_ids);
        listed.products.retain(|product| !changes.remove_product_ids.contains(product));
        Ok(listed.shown(id))
    }

    pub fn delete_collection(&mut self, id: &str) -> Allowed<()> {
        self.collections.remove(id).map(drop).ok_or(NO_SUCH_COLLECTION)
    }

    fn check_products(&self, ids: &[String]) -> Allowed<()> {
        if ids.iter().all(|id| self.products.contains_key(id)) { Ok(()) } else { Err(NO_SUCH_PRODUCT) }
    }
}

impl Listed {
    fn shown(&self, id: &str) -> Collection {
        Collection {
            id: id.to_owned(),
            name: self.name.clone(),
            status: Some(Review::Approved),
            product_count: u32::try_from(self.products.len()).unwrap_or(u32::MAX),
        }
    }
}

/// The URLs under which the network keeps a product's pictures.
fn kept_images(product: &str, urls: &[String]) -> Vec<String> {
    (0..urls.len()).map(|at| format!("https://media.s.example/products/{product}/{at}.jpg")).collect()
}

/// An order as placed by its buyer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlacedOrder {
    pub seller: Number,
    pub buyer: Number,
    pub order: Order,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Businesses {
    accounts: HashMap<Number, Business>,
    orders: HashMap<String, PlacedOrder>,
    named: u64,
}

impl Businesses {
    /// Skips names that a killed process may have assigned.
    pub fn leave_out(&mut self, names: u64) {
        self.named += names;
    }

    /// Allocates a name: 16 digits, increasing.
    pub fn next_id(&mut self) -> String {
        self.named += 1;
        (7_000_000_000_000_000 + self.named).to_string()
    }

    /// The data of a business account; created empty if there is none.
    pub fn of(&mut self, number: Number, address: impl FnOnce() -> Address) -> &mut Business {
        self.accounts.entry(number).or_insert_with(|| Business::new(address()))
    }

    pub fn place(&mut self, placed: PlacedOrder) {
        self.orders.insert(placed.order.id.clone(), placed);
    }

    pub fn order(&self, id: &str) -> Allowed<&PlacedOrder> {
        self.orders.get(id).ok_or(NO_SUCH_ORDER)
    }

    /// Changes the status of an open order, by its buyer or seller.
    pub fn move_order(&mut self, id: &str, by: Number, to: OrderStatus) -> Allowed<&PlacedOrder> {
        let placed = self.orders.get_mut(id).ok_or(NO_SUCH_ORDER)?;
        let allowed = by == placed.seller || (by == placed.buyer && to == OrderStatus::Cancelled);
        if !allowed {
            return Err(NO_SUCH_ORDER);
        }
        if placed.order.status == OrderStatus::Cancelled || placed.order.status == to {
            return Err(NOT_OPEN);
        }
        placed.order.status = to;
        Ok(placed)
    }

    pub fn remove_number(&mut self, number: Number) {
        self.accounts.remove(&number);
    }
}

//! Operations on business accounts, and their notices.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::business::{CartItem, Order, OrderItem, OrderStatus};
use model::message::{Content, Surroundings};
use model::time::Timestamp;
use rand::RngExt;

use crate::notice::{BusinessNews, News};
use crate::operation::business::{BusinessAnswer, BusinessOperation, BusinessState};
use crate::simulator::answers::business::{GivenItem, NewCart, NewOrder};
use crate::simulator::engine::business::{Business, NO_BUSINESS, NO_SUCH_ORDER, PlacedOrder};
use crate::simulator::engine::rules::{Allowed, BAD_REQUEST, FORBIDDEN, NOT_FOUND, Refusal};
use crate::simulator::engine::traffic::Writing;
use crate::simulator::engine::{ControlError, Engine};
use crate::simulator::number::Number;

/// Default currency.
const CURRENCY: &str = "USD";

const NO_SUCH_CONTACT: Refusal = Refusal::new(NOT_FOUND, "no-such-contact");
const CART_DISABLED: Refusal = Refusal::new(FORBIDDEN, "cart-disabled");
const NOTHING_ORDERED: Refusal = Refusal::new(BAD_REQUEST, "no-items");

impl Engine {
    pub(super) fn business_operation(&mut self, by: Number, operation: BusinessOperation) -> Allowed<BusinessAnswer> {
        match operation {
            BusinessOperation::Show => Ok(BusinessAnswer::Account(self.business_state(by).map(Box::new))),
            BusinessOperation::ChangeProfile(changes) => {
                let business = self.business(by)?;
                business.profile.change(*changes);
                let profile = Box::new(business.profile.clone());
                self.tell_business(by, BusinessNews::Profile(profile.clone()));
                Ok(BusinessAnswer::Profile(profile))
            }
            BusinessOperation::AddProduct(input) => {
                self.business(by)?;
                let id = self.businesses.next_id();
                let product = Box::new(self.business(by)?.add_product(id, *input)?);
                self.tell_business(by, BusinessNews::Product(product.clone()));
                Ok(BusinessAnswer::Product(product))
            }
            BusinessOperation::ChangeProduct { product, changes } => {
                let product = Box::new(self.business(by)?.change_product(&product, *changes)?);
                self.tell_business(by, BusinessNews::Product(product.clone()));
                Ok(BusinessAnswer::Product(product))
            }
            BusinessOperation::DeleteProduct { product } => {
                let business = self.business(by)?;
                let listed = business.product(&product)?.collection_ids;
                business.delete_product(&product)?;
                self.tell_business(by, BusinessNews::ProductGone { product });
                self.tell_collections(by, &listed)?;
                Ok(BusinessAnswer::Done)
            }
            BusinessOperation::AddCollection { name, products } => {
                self.business(by)?;
                let id = self.businesses.next_id();
                let collection = self.business(by)?.add_collection(id.clone(), name, products)?;
                self.tell_collections(by, std::slice::from_ref(&id))?;
                let listed = self.business(by)?.products_in(&id);
                self.tell_products(by, listed)?;
                Ok(BusinessAnswer::Collection(collection))
            }
            BusinessOperation::ChangeCollection { collection, changes } => {
                let business = self.business(by)?;
                let before: BTreeSet<String> = business.products_in(&collection).into_iter().collect();
                let changed = business.change_collection(&collection, changes)?;
                let after: BTreeSet<String> = business.products_in(&collection).into_iter().collect();
                self.tell_collections(by, &[collection])?;
                self.tell_products(by, before.symmetric_difference(&after).cloned().collect())?;
                Ok(BusinessAnswer::Collection(changed))
            }
            BusinessOperation::DeleteCollection { collection } => {
                let business = self.business(by)?;
                let listed = business.products_in(&collection);
                business.delete_collection(&collection)?;
                self.tell_business(by, BusinessNews::CollectionGone { collection });
                self.tell_products(by, listed)?;
                Ok(BusinessAnswer::Done)
            }
            BusinessOperation::Order { order, token } => {
                let placed = self.businesses.order(&order)?;
                let shown = placed.seller == by && placed.order.token.as_ref() == Some(&token);
                if !shown {
                    return Err(NO_SUCH_ORDER);
                }
                let order = self.order_for_seller(placed);
                Ok(BusinessAnswer::Order(Box::new(order)))
            }
            BusinessOperation::ProfileOf { contact } => {
                let number = self.registered(&contact).map_err(|_| NO_SUCH_CONTACT)?;
                Ok(BusinessAnswer::Profile(Box::new(self.business(number)?.profile.clone())))
            }
            BusinessOperation::CatalogOf { contact, after, limit } => {
                let number = self.registered(&contact).map_err(|_| NO_SUCH_CONTACT)?;
                let products = self.business(number)?.products().filter(|product| !product.hidden);
                let behind = products.filter(|product| after.as_ref().is_none_or(|after| product.id > *after));
                Ok(BusinessAnswer::Products(behind.take(limit).collect()))
            }
        }
    }

    pub(super) fn business(&mut self, number: Number) -> Allowed<&mut Business> {
        if !self.subscribers.get(&number).is_some_and(|subscriber| subscriber.business) {
            return Err(NO_BUSINESS);
        }
        let suffixes = &self.suffixes;
        Ok(self.businesses.of(number, || suffixes.phone_address(&number.to_string())))
    }

    fn business_state(&mut self, number: Number) -> Option<BusinessState> {
        let business = self.business(number).ok()?;
        Some(BusinessState {
            profile: business.profile.clone(),
            products: business.products().collect(),
            collections: business.collections().collect(),
        })
    }

    /// Reports that an account became a business, or ceased to be one.
    pub(in crate::simulator::engine) fn tell_business_account(&mut self, number: Number) {
        let state = self.business_state(number).map(Box::new);
        self.tell_business(number, BusinessNews::Account(state));
        self.tell_all_labels(number);
    }

    fn tell_business(&mut self, whom: Number, news: BusinessNews) {
        self.notify(whom, Some(whom), News::Business(Box::new(news)));
    }

    fn tell_collections(&mut self, whom: Number, ids: &[String]) -> Allowed<()> {
        for id in ids {
            let collection = self.business(whom)?.collection(id)?;
            self.tell_business(whom, BusinessNews::Collection(collection));
        }
        Ok(())
    }

    fn tell_products(&mut self, whom: Number, ids: Vec<String>) -> Allowed<()> {
        for id in ids {
            // A deletion was reported already.
            if let Ok(product) = self.business(whom)?.product(&id) {
                self.tell_business(whom, BusinessNews::Product(Box::new(product)));
            }
        }
        Ok(())
    }

    /// A phone orders from a business, which receives a message and the order.
    pub fn place_order(&mut self, now: Timestamp, buyer: Number, new: &NewOrder) -> Result<String, ControlError> {
        self.acting(now, buyer)?;
        let seller = self.parse_peer(&new.to)?;
        let items = self.items(seller, &new.items)?;
        if items.is_empty() {
            return Err(NOTHING_ORDERED.into());
        }
        let currency = items[0].currency.clone();
        let total = items.iter().map(|item| item.price_amount.saturating_mul(item.quantity.into())).sum();
        let (id, token) = (self.businesses.next_id(), format!("{:032x}", self.rng.random::<u128>()));
        let content = Content::Order {
            order_id: id.clone(),
            token: token.clone(),
            item_count: u32::try_from(items.len()).unwrap_or(u32::MAX),
            total_amount: i64::try_from(total).unwrap_or(i64::MAX),
            currency: currency.clone(),
        };
        let to = self.parse_address(&new.to)?;
        let (content, around) = (Arc::new(content), Surroundings::default());
        let writing = Writing { to, content, around, recovers: None, id: None };
        let sent = self.phone_send(now, buyer, &writing, 1)?;
        let message_id = sent.into_iter().next().ok_or(NOTHING_ORDERED)?;
        let order = Order {
            id: id.clone(),
            token: Some(token),
            from: self.suffixes.phone_address(&buyer.to_string()),
            from_phone: None,
            status: OrderStatus::Placed,
            note: new.note.clone(),
            currency,
            subtotal_amount: total,
            tax_amount: None,
            total_amount: total,
            items,
            message_id,
            placed_at: now.unix_seconds(),
        };
        let placed = PlacedOrder { seller, buyer, order };
        let order = Box::new(self.order_for_seller(&placed));
        self.businesses.place(placed);
        self.notify(seller, Some(buyer), News::Business(Box::new(BusinessNews::OrderPlaced(order))));
        Ok(id)
    }

    /// An order as the seller sees it: the buyer may hide its number.
    fn order_for_seller(&self, placed: &PlacedOrder) -> Order {
        let from = self.name_of(placed.buyer, placed.seller);
        Order { from, ..placed.order.clone() }
    }

    /// Changes an order's status: buyer or business cancels, or the business accepts.
    pub fn move_order(
        &mut self,
        now: Timestamp,
        by: Number,
        id: &str,
        to: OrderStatus,
        reason: Option<String>,
    ) -> Result<(), ControlError> {
        self.acting(now, by)?;
        let seller = self.businesses.move_order(id, by, to)?.seller;
        let news = BusinessNews::OrderMoved { order: id.to_owned(), status: to, reason };
        self.notify(seller, Some(by), News::Business(Box::new(news)));
        Ok(())
    }

    /// A phone sets its cart at a business.
    pub fn fill_cart(&mut self, now: Timestamp, buyer: Number, new: &NewCart) -> Result<String, ControlError> {
        self.acting(now, buyer)?;
        let seller = self.parse_peer(&new.to)?;
        if !self.business(seller)?.profile.cart_enabled {
            return Err(CART_DISABLED.into());
        }
        let items = self.items(seller, &new.items)?;
        let cart = format!("{buyer}-{seller}");
        let total: u64 = items.iter().map(|item| item.price_amount.saturating_mul(item.quantity.into())).sum();
        let currency = items.first().map_or(CURRENCY, |item| item.currency.as_str()).to_owned();
        let items = items.into_iter().map(|item| CartItem {
            product_id: item.product_id,
            name: Some(item.name),
            quantity: item.quantity,
            price_amount: item.price_amount,
            currency: item.currency,
        });
        let news = BusinessNews::Cart {
            cart: Some(cart.clone()),
            items: items.collect(),
            total_amount: Some(total),
            currency,
        };
        self.notify(seller, Some(buyer), News::Business(Box::new(news)));
        Ok(cart)
    }

    /// The ordered items, with omitted fields taken from the catalog.
    fn items(&mut self, seller: Number, given: &[GivenItem]) -> Allowed<Vec<OrderItem>> {
        let business = self.business(seller)?;
        let item = |given: &GivenItem| {
            let known = business.product(&given.product_id).ok();
            let named = known.as_ref().map(|product| product.name.clone());
            let price = known.as_ref().and_then(|product| product.price_amount);
            let currency = known.as_ref().and_then(|product| product.currency.clone());
            OrderItem {
                product_id: given.product_id.clone(),
                name: given.name.clone().or(named).unwrap_or_else(|| given.product_id.clone()),
                quantity: given.quantity,
                price_amount: given.price_amount.or(price).unwrap_or(0),
                currency: given.currency.clone().or(currency).unwrap_or_else(|| CURRENCY.to_owned()),
                image_url: known.and_then(|product| product.image_urls.into_iter().next()),
            }
        };
        Ok(given.iter().map(item).collect())
    }
}

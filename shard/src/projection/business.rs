//! Business accounts: rows of the profile, the catalog and the orders (supplement 16).

use model::address::Address;
use model::business::{self, BusinessProfile, Collection, Order, OrderStatus, Product};
use model::error::ApiError;
use model::issue::{Fault, IssueCode};
use model::payload::{CartUpdated, OrderCancelled, OrderPlaced, Payload, Sender};
use network::notice::BusinessNews;
use network::operation::Refused;
use network::operation::business::{BusinessAnswer, BusinessOperation, BusinessState};
use serde::{Deserialize, Serialize};

use super::{Context, Entity, Kind, Rows, Synced, Told};

pub const AREA: &str = "business";

/// The network's code for what it does not know.
const NOT_FOUND: u16 = 404;

/// Whether the channel's account is a business, once that is known, and what it tells of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusinessAccount {
    /// `None`: it is no business.
    pub profile: Option<BusinessProfile>,
}

impl BusinessAccount {
    /// A channel has one account.
    pub const ID: &str = "";
}

impl Entity for BusinessAccount {
    const KIND: Kind = Kind::BusinessAccount;

    fn id(&self) -> String {
        Self::ID.to_owned()
    }
}

impl Entity for Product {
    const KIND: Kind = Kind::Product;

    fn id(&self) -> String {
        self.id.clone()
    }
}

impl Entity for Collection {
    const KIND: Kind = Kind::Collection;

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// Orders stand in the order of their list: the latest first.
impl Entity for Order {
    const KIND: Kind = Kind::Order;

    fn id(&self) -> String {
        format!("{:016x}/{}", i64::MAX - self.placed_at, self.id)
    }
}

/// Where an order stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderPlace {
    pub order: String,
    /// The id of its row.
    pub row: String,
}

impl Entity for OrderPlace {
    const KIND: Kind = Kind::OrderPlace;

    fn id(&self) -> String {
        self.order.clone()
    }
}

pub fn check(operation: &BusinessOperation, rows: &Rows<'_>) -> Result<(), ApiError> {
    match operation {
        BusinessOperation::Show | BusinessOperation::ProfileOf { .. } | BusinessOperation::CatalogOf { .. } => {
            return Ok(());
        }
        _ => {}
    }
    let account = rows.get(BusinessAccount::ID);
    check_business(account.as_ref())?;
    if account.is_none() {
        // Nothing is known of it yet: the network decides.
        return Ok(());
    }
    match operation {
        BusinessOperation::ChangeProduct { product, changes } => {
            let mut changed = rows.get::<Product>(product).ok_or_else(|| not_found("product", product))?;
            changed.change((**changes).clone());
            if changed.price_amount.is_some() && changed.currency.is_none() {
                return Err(Fault::new(IssueCode::Required, "is required with a price").at(&["currency"]));
            }
            Ok(())
        }
        BusinessOperation::DeleteProduct { product } => known::<Product>(rows, "product", product),
        BusinessOperation::AddCollection { products, .. } => all_known(rows, products),
        BusinessOperation::ChangeCollection { collection, changes } => {
            known::<Collection>(rows, "collection", collection)?;
            all_known(rows, &changes.add_product_ids)
        }
        BusinessOperation::DeleteCollection { collection } => known::<Collection>(rows, "collection", collection),
        _ => Ok(()),
    }
}

/// Refuses where the account is known to be no business.
///
/// # Errors
/// 422 `other` (supplement 16; 31, row 26).
pub fn check_business(account: Option<&BusinessAccount>) -> Result<(), ApiError> {
    match account {
        Some(BusinessAccount { profile: None }) => Err(business::not_business()),
        _ => Ok(()),
    }
}

fn known<E: Entity>(rows: &Rows<'_>, resource: &str, id: &str) -> Result<(), ApiError> {
    if rows.has::<E>(id) { Ok(()) } else { Err(not_found(resource, id)) }
}

fn all_known(rows: &Rows<'_>, products: &[String]) -> Result<(), ApiError> {
    products.iter().try_for_each(|id| known::<Product>(rows, "product", id))
}

fn not_found(resource: &str, id: &str) -> ApiError {
    ApiError::not_found(resource, id)
}

pub fn refusal(operation: &BusinessOperation, refused: &Refused) -> Option<ApiError> {
    if refused.code != NOT_FOUND {
        return None;
    }
    match operation {
        BusinessOperation::ChangeProduct { product, .. } | BusinessOperation::DeleteProduct { product } => {
            Some(not_found("product", product))
        }
        BusinessOperation::DeleteCollection { collection } => Some(not_found("collection", collection)),
        BusinessOperation::Order { order, .. } => Some(not_found("order", order)),
        BusinessOperation::ProfileOf { contact } | BusinessOperation::CatalogOf { contact, .. } => {
            Some(ApiError::contact_not_found(contact.as_str()))
        }
        _ => None,
    }
}

pub fn absorb(operation: &BusinessOperation, answer: &BusinessAnswer, rows: &mut Rows<'_>, context: &Context<'_>) {
    match (operation, answer) {
        (BusinessOperation::Show, BusinessAnswer::Account(state)) => {
            take_over(state.as_deref(), rows);
            rows.put(&Synced { area: AREA.to_owned() });
        }
        (BusinessOperation::Order { .. }, BusinessAnswer::Order(order)) => put_order(seen(order, context), rows),
        _ => {}
    }
}

/// All that the account has, from the network.
fn take_over(state: Option<&BusinessState>, rows: &mut Rows<'_>) {
    let (products, collections) =
        state.map_or((&[][..], &[][..]), |state| (&state.products[..], &state.collections[..]));
    rows.replace_all(products);
    rows.replace_all(collections);
    rows.put(&BusinessAccount { profile: state.map(|state| state.profile.clone()) });
}

/// An order with the buyer by the best address.
fn seen(order: &Order, context: &Context<'_>) -> Order {
    let from = context.best(&order.from);
    Order { from_phone: (!from.is_lid()).then(|| from.clone()), from, ..order.clone() }
}

fn put_order(order: Order, rows: &mut Rows<'_>) {
    rows.put(&OrderPlace { order: order.id.clone(), row: Entity::id(&order) });
    rows.put(&order);
}

/// The order of an id.
fn find_order(id: &str, rows: &Rows<'_>) -> Option<Order> {
    rows.get::<Order>(&rows.get::<OrderPlace>(id)?.row)
}

pub fn take(news: &BusinessNews, actor: Option<&Address>, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<Told> {
    let timestamp = context.at.unix_seconds();
    let sender = |named: Option<&Address>| match named.or(context.own.first()) {
        Some(named) => context.sender(named),
        None => Sender::unnamed(Address::stories()),
    };
    let payload = match news {
        BusinessNews::Account(state) => {
            take_over(state.as_deref(), rows);
            None
        }
        BusinessNews::Profile(profile) => {
            rows.put(&BusinessAccount { profile: Some((**profile).clone()) });
            None
        }
        BusinessNews::Product(product) => {
            rows.put(&**product);
            None
        }
        BusinessNews::ProductGone { product } => {
            rows.remove::<Product>(product);
            None
        }
        BusinessNews::Collection(collection) => {
            rows.put(collection);
            None
        }
        BusinessNews::CollectionGone { collection } => {
            rows.remove::<Collection>(collection);
            None
        }
        BusinessNews::OrderPlaced(order) if !rows.has::<OrderPlace>(&order.id) => {
            let sender = context.sender(&order.from);
            let order = seen(order, context);
            put_order(order.clone(), rows);
            let message_id = order.message_id.clone();
            Some(Payload::OrderPlaced(Box::new(OrderPlaced { order, sender, message_id, timestamp })))
        }
        BusinessNews::OrderPlaced(_) => None,
        BusinessNews::OrderMoved { order, status, reason } => match find_order(order, rows) {
            Some(known) if known.status != *status => {
                rows.put(&Order { status: *status, ..known });
                (*status == OrderStatus::Cancelled).then(|| {
                    Payload::OrderCancelled(OrderCancelled {
                        order_id: order.clone(),
                        sender: sender(actor),
                        reason: reason.clone(),
                        timestamp,
                    })
                })
            }
            _ => None,
        },
        BusinessNews::Cart { cart, items, total_amount, currency } => Some(Payload::CartUpdated(CartUpdated {
            sender: sender(actor),
            cart_id: cart.clone(),
            items: items.clone(),
            total_amount: *total_amount,
            currency: currency.clone(),
            timestamp,
        })),
    };
    payload.map(|payload| Told { payload, chat: None }).into_iter().collect()
}

//! Business accounts: rows of the profile, the catalog and the orders.

use machine::View;
use model::address::Address;
use model::business::{self, BusinessProfile, Collection, Order, OrderStatus, Product};
use model::error::CallError;
use model::id::ChannelId;
use model::issue::{IssueCode, Violation};
use model::payload::{CartUpdated, OrderCancelled, OrderPlaced, Payload, Sender};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use traffic::notice::BusinessNews;
use traffic::operation::Refused;
use traffic::operation::business::{BusinessAnswer, BusinessOperation, BusinessState};

use super::{Context, EmittedEvent, Entity, Kind, NOT_FOUND, Rows, Synced, entity};
use crate::keys;
use crate::records::decode;

pub const AREA: &str = "business";

/// Whether the channel's account is a business account, once that is known, and its profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusinessAccount {
    /// `None` if it is not a business account.
    pub profile: Option<BusinessProfile>,
}

impl BusinessAccount {
    /// The id of the row; a channel has one account.
    pub const ID: &str = "";
}

entity!(BusinessAccount, BusinessAccount, |_row| BusinessAccount::ID.to_owned());
entity!(Product, Product, |row| row.id.clone());
entity!(Collection, Collection, |row| row.id.clone());

// Orders are stored in the order of their list: latest first.
entity!(Order, Order, |row| order_row(row.placed_at, &row.id));

/// The id of an order's row; with an empty order id, one that sorts before all orders of that time.
fn order_row(placed_at: i64, order: &str) -> String {
    // A time before 1970 wraps around to the upper half, which has as many digits and sorts after all others.
    format!("{:016x}/{order}", i64::MAX.wrapping_sub(placed_at))
}

/// The row of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderPlace {
    pub order: String,
    /// The id of the order's row.
    pub row: String,
}

entity!(OrderPlace, OrderPlace, |row| row.order.clone());

/// The rows of at most `limit` orders that were placed before a time, newest first, and the rows of their places.
pub fn orders_before(view: &dyn View, channel: ChannelId, before: Timestamp, limit: usize) -> Vec<(Kind, String)> {
    let (from, to) = keys::projected_after(channel, Kind::Order, Some(&order_row(before.unix_seconds(), "")));
    let orders = view.scan(&from, &to, limit).into_iter().map(|(_, row)| decode::<Order>(&row));
    orders.flat_map(|order| [(Kind::Order, Entity::id(&order)), (Kind::OrderPlace, order.id)]).collect()
}

pub fn check(operation: &BusinessOperation, rows: &Rows<'_>) -> Result<(), CallError> {
    match operation {
        BusinessOperation::Show | BusinessOperation::ProfileOf { .. } | BusinessOperation::CatalogOf { .. } => {
            return Ok(());
        }
        _ => {}
    }
    let account = rows.get(BusinessAccount::ID);
    check_business(account.as_ref())?;
    if account.is_none() {
        // The account is not known yet, so the network decides.
        return Ok(());
    }
    match operation {
        BusinessOperation::ChangeProduct { product, changes } => {
            let mut changed = rows.find::<Product>("product", product)?;
            changed.change((**changes).clone());
            if changed.price_amount.is_some() && changed.currency.is_none() {
                return Err(Violation::new(IssueCode::Required, "is required with a price").at(&["currency"]));
            }
            Ok(())
        }
        BusinessOperation::DeleteProduct { product } => rows.find::<Product>("product", product).map(drop),
        BusinessOperation::AddCollection { products, .. } => all_known(rows, products),
        BusinessOperation::ChangeCollection { collection, changes } => {
            rows.find::<Collection>("collection", collection)?;
            all_known(rows, &changes.add_product_ids)
        }
        BusinessOperation::DeleteCollection { collection } => {
            rows.find::<Collection>("collection", collection).map(drop)
        }
        _ => Ok(()),
    }
}

/// Refuses an account that is known not to be a business account.
///
/// # Errors
/// 422 `other` for such an account.
pub fn check_business(account: Option<&BusinessAccount>) -> Result<(), CallError> {
    match account {
        Some(BusinessAccount { profile: None }) => Err(business::not_business()),
        _ => Ok(()),
    }
}

fn all_known(rows: &Rows<'_>, products: &[String]) -> Result<(), CallError> {
    products.iter().try_for_each(|id| rows.find::<Product>("product", id).map(drop))
}

pub fn refusal(operation: &BusinessOperation, refused: &Refused) -> Option<CallError> {
    if refused.code != NOT_FOUND {
        return None;
    }
    match operation {
        BusinessOperation::ChangeProduct { product, .. } | BusinessOperation::DeleteProduct { product } => {
            Some(CallError::not_found("product", product))
        }
        BusinessOperation::DeleteCollection { collection } => Some(CallError::not_found("collection", collection)),
        BusinessOperation::Order { order, .. } => Some(CallError::not_found("order", order)),
        BusinessOperation::ProfileOf { contact } | BusinessOperation::CatalogOf { contact, .. } => {
            Some(CallError::contact_not_found(contact.as_str()))
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

/// Replaces all rows by the account's state, as reported by the network.
fn take_over(state: Option<&BusinessState>, rows: &mut Rows<'_>) {
    let (products, collections) =
        state.map_or((&[][..], &[][..]), |state| (&state.products[..], &state.collections[..]));
    rows.replace_all(products);
    rows.replace_all(collections);
    rows.put(&BusinessAccount { profile: state.map(|state| state.profile.clone()) });
}

/// An order with the buyer's best address.
fn seen(order: &Order, context: &Context<'_>) -> Order {
    let from = context.best(&order.from);
    Order { from_phone: (!from.is_lid()).then(|| from.clone()), from, ..order.clone() }
}

fn put_order(order: Order, rows: &mut Rows<'_>) {
    rows.put(&OrderPlace { order: order.id.clone(), row: Entity::id(&order) });
    rows.put(&order);
}

/// The order with an id.
fn find_order(id: &str, rows: &Rows<'_>) -> Option<Order> {
    rows.get::<Order>(&rows.get::<OrderPlace>(id)?.row)
}

pub fn take(
    news: &BusinessNews,
    actor: Option<&Address>,
    rows: &mut Rows<'_>,
    context: &Context<'_>,
) -> Vec<EmittedEvent> {
    let timestamp = context.at.unix_seconds();
    let sender = |named: Option<&Address>| match named.or(context.own.first()) {
        Some(named) => context.sender(named),
        None => Sender::unnamed(Address::stories()),
    };
    let told = |payload: Payload| vec![EmittedEvent { payload, chat: None }];
    match news {
        BusinessNews::Account(state) => take_over(state.as_deref(), rows),
        BusinessNews::Profile(profile) => rows.put(&BusinessAccount { profile: Some((**profile).clone()) }),
        BusinessNews::Product(product) => rows.put(&**product),
        BusinessNews::ProductGone { product } => rows.remove::<Product>(product),
        BusinessNews::Collection(collection) => rows.put(collection),
        BusinessNews::CollectionGone { collection } => rows.remove::<Collection>(collection),
        BusinessNews::OrderPlaced(order) if !rows.has::<OrderPlace>(&order.id) => {
            let sender = context.sender(&order.from);
            let order = seen(order, context);
            put_order(order.clone(), rows);
            let message_id = order.message_id.clone();
            return told(Payload::OrderPlaced(Box::new(OrderPlaced { order, sender, message_id, timestamp })));
        }
        BusinessNews::OrderPlaced(_) => {}
        BusinessNews::OrderMoved { order, status, reason } => {
            if let Some(known) = find_order(order, rows).filter(|known| known.status != *status) {
                rows.put(&Order { status: *status, ..known });
                if *status == OrderStatus::Cancelled {
                    let (order_id, sender, reason) = (order.clone(), sender(actor), reason.clone());
                    return told(Payload::OrderCancelled(OrderCancelled { order_id, sender, reason, timestamp }));
                }
            }
        }
        BusinessNews::Cart { cart, items, total_amount, currency } => {
            return told(Payload::CartUpdated(CartUpdated {
                sender: sender(actor),
                cart_id: cart.clone(),
                items: items.clone(),
                total_amount: *total_amount,
                currency: currency.clone(),
                timestamp,
            }));
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use machine::{MemoryState, State};
    use model::business::ProductInput;
    use model::id::MessageId;

    use super::*;
    use crate::projection::fixture::{Projection, address};
    use crate::records::encode;

    fn order(id: &str, placed_at: i64) -> Order {
        Order {
            id: id.to_owned(),
            token: Some("t".to_owned()),
            from: address("25@lid"),
            from_phone: None,
            status: OrderStatus::Placed,
            note: None,
            currency: "EUR".to_owned(),
            subtotal_amount: 5000,
            tax_amount: None,
            total_amount: 5000,
            items: Vec::new(),
            message_id: MessageId("M".to_owned()),
            placed_at,
        }
    }

    #[test]
    fn an_order_is_told_once_and_cancelled_once() {
        let mut projection = Projection::new().knowing("25@lid", "1555@s.example");
        let mut told = |news: BusinessNews| {
            let buyer = address("25@lid");
            projection.at(Timestamp(1000), |rows, context| take(&news, Some(&buyer), rows, context).len())
        };
        let moved = |status| BusinessNews::OrderMoved { order: "7".to_owned(), status, reason: None };
        assert_eq!(told(moved(OrderStatus::Accepted)), 0);
        let placed = || BusinessNews::OrderPlaced(Box::new(order("7", 1)));
        assert_eq!((told(placed()), told(placed())), (1, 0));
        // No event reports that it was accepted.
        assert_eq!(told(moved(OrderStatus::Accepted)), 0);
        assert_eq!((told(moved(OrderStatus::Cancelled)), told(moved(OrderStatus::Cancelled))), (1, 0));
        let stored = projection.at(Timestamp(2000), |rows, _| find_order("7", rows));
        let stored = stored.map(|order| (order.status, order.from.to_string()));
        assert_eq!(stored, Some((OrderStatus::Cancelled, "1555@s.example".to_owned())));
    }

    #[test]
    fn only_a_business_changes_its_catalog_and_only_what_is_in_it() {
        let mut projection = Projection::new();
        let product = |id: &str| BusinessOperation::DeleteProduct { product: id.to_owned() };
        let mut refused = |news: Option<BusinessNews>, operation: BusinessOperation| {
            projection.at(Timestamp(0), |rows, context| {
                news.iter().for_each(|news| drop(take(news, None, rows, context)));
                check(&operation, rows).map_err(|error| error.message).err()
            })
        };
        // The account is not known, so the network decides.
        assert_eq!(refused(None, product("1")), None);
        let none = refused(Some(BusinessNews::Account(None)), product("1"));
        assert_eq!(none, Some(business::not_business().message));
        let profile = BusinessProfile::empty(address("1@s.example"));
        let state = BusinessState { profile, products: Vec::new(), collections: Vec::new() };
        let unknown = refused(Some(BusinessNews::Account(Some(Box::new(state)))), product("1"));
        assert_eq!(unknown, Some(CallError::not_found("product", "1").message));
        let input = ProductInput {
            name: "Tea".to_owned(),
            description: None,
            price_amount: None,
            currency: None,
            retailer_id: None,
            url: None,
            image_urls: Vec::new(),
            hidden: false,
        };
        assert_eq!(refused(None, BusinessOperation::AddProduct(Box::new(input))), None);
    }

    #[test]
    fn orders_of_before_a_time_are_found_with_where_they_stand() {
        let (mut state, channel) = (MemoryState::new(), ChannelId::random());
        for order in [order("new", 300), order("old", 100), order("older", 99)] {
            state.put(&keys::projected(channel, Kind::Order, &Entity::id(&order)), &encode(&order));
        }
        let found = |before: i64, limit| -> Vec<String> {
            let rows = orders_before(&state, channel, Timestamp(before * 1000), limit);
            rows.into_iter().filter(|(kind, _)| *kind == Kind::OrderPlace).map(|(_, id)| id).collect()
        };
        assert_eq!(found(200, 10), ["old", "older"]);
        assert_eq!(found(200, 1), ["old"]);
        assert_eq!(found(99, 10), ["older"]);
        assert!(found(98, 10).is_empty());
        assert_eq!(orders_before(&state, channel, Timestamp(200_000), 10).len(), 4);
    }
}

//! Business accounts: the channel's own, and those of contacts.

use model::business::{
    self, BusinessProfile, Collection, Order, OrderStatus, Product, ProductChanges, ProfileChanges, read_collection,
    read_collection_changes, read_product, read_product_changes, read_profile_changes,
};
use model::error::{CallError, ErrorCode};
use model::field::{Body, Change, rule};
use model::page::ListId;
use network::operation::business::{BusinessAnswer, BusinessOperation};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use shard::call::read::Filter;
use shard::projection::{BusinessAccount, Entity, OrderPlace};

use super::contacts::LOOKED_UP;
use crate::failure::of_kind;
use crate::projection::{Page, read_refresh};
use crate::query::Query;
use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{DELETE, GET, PATCH, POST, PUT, Route};

pub fn routes() -> Vec<Route> {
    let product = || json!({ "name": "Tea", "price_amount": 4500, "currency": "EUR", "image_urls": ["https://example.com/tea.jpg"] });
    // All of these routes call the network.
    let routes = [
        Route::channel(GET, "/v1/channels/{id}/business/profile", show_profile)
            .doc("get_business_profile", "Get the business profile")
            .query(read_refresh)
            .ok::<BusinessProfile>(),
        Route::channel(PATCH, "/v1/channels/{id}/business/profile", change_profile)
            .doc("update_business_profile", "Change the business profile")
            .body(read_profile_changes, json!({ "description": "Tea and more", "websites": ["https://example.com"] }))
            .ok::<BusinessProfile>(),
        Route::channel(PUT, "/v1/channels/{id}/business/cart", set_cart)
            .doc("set_cart_enabled", "Switch the cart on or off")
            .body(read_cart, json!({ "enabled": true }))
            .ok::<CartSwitch>(),
        Route::channel(GET, "/v1/channels/{id}/business/products", list_products)
            .doc("list_products", "List the products of the catalog")
            .query(|query| (Page::read(query, ListId::only()), read_filter(query)))
            .page::<Product>(),
        Route::channel(POST, "/v1/channels/{id}/business/products", add_product)
            .doc("create_product", "Add a product to the catalog")
            .body(read_product, product())
            .created::<Product>(),
        Route::channel(GET, "/v1/channels/{id}/business/products/{product_id}", show_product)
            .doc("get_product", "Get a product")
            .ok::<Product>(),
        Route::channel(PATCH, "/v1/channels/{id}/business/products/{product_id}", change_product)
            .doc("update_product", "Change a product")
            .body(read_product_changes, json!({ "hidden": true }))
            .ok::<Product>(),
        Route::channel(DELETE, "/v1/channels/{id}/business/products/{product_id}", delete_product)
            .doc("delete_product", "Delete a product")
            .no_content(),
        Route::channel(GET, "/v1/channels/{id}/business/collections", list_collections)
            .doc("list_collections", "List the collections of the catalog")
            .query(|query| Page::read(query, ListId::only()))
            .page::<Collection>(),
        Route::channel(POST, "/v1/channels/{id}/business/collections", add_collection)
            .doc("create_collection", "Add a collection")
            .body(read_collection, json!({ "name": "Teas", "product_ids": ["7000000000000001"] }))
            .created::<Collection>()
            .errors(&[ErrorCode::NotFound]),
        Route::channel(GET, "/v1/channels/{id}/business/collections/{collection_id}", show_collection)
            .doc("get_collection", "Get a collection")
            .ok::<Collection>(),
        Route::channel(PATCH, "/v1/channels/{id}/business/collections/{collection_id}", change_collection)
            .doc("update_collection", "Rename a collection, or change its products")
            .body(read_collection_changes, json!({ "remove_product_ids": ["7000000000000001"] }))
            .ok::<Collection>(),
        Route::channel(DELETE, "/v1/channels/{id}/business/collections/{collection_id}", delete_collection)
            .doc("delete_collection", "Delete a collection, not its products")
            .no_content(),
        Route::channel(GET, "/v1/channels/{id}/business/orders", list_orders)
            .doc("list_orders", "List orders that were received as events, the latest first")
            .query(|query| (Page::read(query, ListId::only()), read_orders(query)))
            .page::<Order>(),
        Route::channel(GET, "/v1/channels/{id}/business/orders/{order_id}", show_order)
            .doc("get_order", "Get an order")
            .about("The `token` of `order.placed` is needed for an order from before the channel was linked.")
            .query(read_token)
            .ok::<Order>(),
        Route::channel(GET, "/v1/channels/{id}/contacts/{contact_id}/catalog", show_catalog)
            .doc("get_contact_catalog", "List the products of a contact's business")
            .about(LOOKED_UP)
            .query(|query| Page::read(query, ListId::only()))
            .page::<Product>(),
        Route::channel(GET, "/v1/channels/{id}/contacts/{contact_id}/business-profile", show_contacts_profile)
            .doc("get_contact_business_profile", "Get the profile of a contact's business")
            .about(LOOKED_UP)
            .ok::<BusinessProfile>(),
    ];
    routes.map(Route::on_network).into()
}

/// Returns the profile of the channel's own business.
///
/// # Errors
/// 422 `other` for an account that is no business. Asking for an unknown profile needs a connected channel.
async fn own(call: &mut ChannelCall) -> Result<BusinessProfile, CallError> {
    let mut account = call.find::<BusinessAccount>(BusinessAccount::ID).await?;
    if account.is_none() {
        call.operate(BusinessOperation::Show).await?;
        account = call.find::<BusinessAccount>(BusinessAccount::ID).await?;
    }
    account.and_then(|account| account.profile).ok_or_else(business::not_business)
}

async fn show_profile(call: &mut ChannelCall) -> Outcome {
    call.refresh(call.asked(read_refresh)?, BusinessOperation::Show).await?;
    Ok(Reply::ok(&own(call).await?))
}

async fn change(call: &mut ChannelCall, changes: ProfileChanges) -> Result<BusinessProfile, CallError> {
    call.operate(BusinessOperation::ChangeProfile(Box::new(changes))).await?;
    own(call).await
}

async fn change_profile(call: &mut ChannelCall) -> Outcome {
    let changes = read_profile_changes(&call.object().await?)?;
    Ok(Reply::ok(&change(call, changes).await?))
}

/// Whether customers can gather products in a cart.
#[derive(Serialize, JsonSchema)]
struct CartSwitch {
    enabled: bool,
}

fn read_cart(body: &Body) -> Result<bool, CallError> {
    body.read(|fields| fields.required("enabled", rule::boolean))
}

async fn set_cart(call: &mut ChannelCall) -> Outcome {
    let enabled = read_cart(&call.object().await?)?;
    let changes = ProfileChanges { cart_enabled: Change::To(enabled), ..ProfileChanges::default() };
    let BusinessProfile { cart_enabled, .. } = change(call, changes).await?;
    Ok(Reply::ok(&CartSwitch { enabled: cart_enabled }))
}

/// Lists a page of the own business's entities that pass the filter.
async fn list<E: Entity>(call: &mut ChannelCall, wanted: fn(&Query<'_>) -> Filter) -> Outcome {
    let (page, filter) = call.asked(|query| (call.page::<E>(query), wanted(query)))?;
    own(call).await?;
    Ok(Reply::ok(&call.page_of::<E>(filter, page).await?))
}

fn read_filter(query: &Query<'_>) -> Filter {
    let collection = query.text("collection_id").map(str::to_owned);
    collection.map_or(Filter::All, |collection| Filter::InCollection { collection })
}

async fn list_products(call: &mut ChannelCall) -> Outcome {
    list::<Product>(call, read_filter).await
}

/// Finds an entity of the own business by the id in the path.
async fn found<E: Entity>(call: &mut ChannelCall, parameter: &str, resource: &str) -> Result<E, CallError> {
    own(call).await?;
    let id = call.parameter(parameter).to_owned();
    call.find::<E>(&id).await?.ok_or_else(|| CallError::not_found(resource, &id))
}

async fn add_product(call: &mut ChannelCall) -> Outcome {
    let input = Box::new(read_product(&call.object().await?)?);
    let answer = call.operate(BusinessOperation::AddProduct(input)).await?;
    of_kind!(answer, BusinessAnswer::Product(product) => Reply::created(&product))
}

async fn show_product(call: &mut ChannelCall) -> Outcome {
    Ok(Reply::ok(&found::<Product>(call, "product_id", "product").await?))
}

async fn change_product(call: &mut ChannelCall) -> Outcome {
    let changes: Box<ProductChanges> = Box::new(read_product_changes(&call.object().await?)?);
    let product = call.parameter("product_id").to_owned();
    let answer = call.operate(BusinessOperation::ChangeProduct { product, changes }).await?;
    of_kind!(answer, BusinessAnswer::Product(product) => Reply::ok(&product))
}

async fn delete_product(call: &mut ChannelCall) -> Outcome {
    call.done(BusinessOperation::DeleteProduct { product: call.parameter("product_id").to_owned() }).await
}

async fn list_collections(call: &mut ChannelCall) -> Outcome {
    list::<Collection>(call, |_| Filter::All).await
}

async fn add_collection(call: &mut ChannelCall) -> Outcome {
    let (name, products) = read_collection(&call.object().await?)?;
    let answer = call.operate(BusinessOperation::AddCollection { name, products }).await?;
    of_kind!(answer, BusinessAnswer::Collection(collection) => Reply::created(&collection))
}

async fn show_collection(call: &mut ChannelCall) -> Outcome {
    Ok(Reply::ok(&found::<Collection>(call, "collection_id", "collection").await?))
}

async fn change_collection(call: &mut ChannelCall) -> Outcome {
    let changes = read_collection_changes(&call.object().await?)?;
    let collection = call.parameter("collection_id").to_owned();
    let answer = call.operate(BusinessOperation::ChangeCollection { collection, changes }).await?;
    of_kind!(answer, BusinessAnswer::Collection(collection) => Reply::ok(&collection))
}

async fn delete_collection(call: &mut ChannelCall) -> Outcome {
    call.done(BusinessOperation::DeleteCollection { collection: call.parameter("collection_id").to_owned() }).await
}

fn read_orders(query: &Query<'_>) -> Filter {
    let [since, until] = ["since", "until"].map(|name| query.time(name));
    let statuses = query.words("status", OrderStatus::WORDS, OrderStatus::parse);
    Filter::Orders { since, until, statuses }
}

async fn list_orders(call: &mut ChannelCall) -> Outcome {
    list::<Order>(call, read_orders).await
}

fn read_token(query: &Query<'_>) -> Option<String> {
    query.text("token").map(str::to_owned)
}

async fn show_order(call: &mut ChannelCall) -> Outcome {
    let token = call.asked(read_token)?;
    own(call).await?;
    let id = call.parameter("order_id").to_owned();
    let not_found = || CallError::not_found("order", &id);
    let stored = match call.find::<OrderPlace>(&id).await? {
        Some(place) => call.find::<Order>(&place.row).await?,
        None => None,
    };
    if let Some(order) = stored {
        // A wrong token finds no order.
        let fits = token.is_none_or(|token| order.token.as_ref().is_none_or(|known| *known == token));
        return if fits { Ok(Reply::ok(&order)) } else { Err(not_found()) };
    }
    let token = token.ok_or_else(not_found)?;
    let answer = call.operate(BusinessOperation::Order { order: id, token }).await?;
    of_kind!(answer, BusinessAnswer::Order(order) => Reply::ok(&order))
}

async fn show_catalog(call: &mut ChannelCall) -> Outcome {
    let contact = call.contact()?;
    let list = ListId::of(&[call.customer_id().as_bytes(), call.channel.id.as_bytes(), contact.as_str().as_bytes()]);
    let page = call.asked(|query| Page::read(query, list))?;
    // One product more tells whether there is a next page.
    let (after, limit) = (page.after().map(str::to_owned), page.limit + 1);
    let answer = call.operate(BusinessOperation::CatalogOf { contact, after, limit }).await?;
    of_kind!(answer, BusinessAnswer::Products(products) =>
        Reply::ok(&page.up_to_limit(products, |product| product.id.clone())))
}

async fn show_contacts_profile(call: &mut ChannelCall) -> Outcome {
    let contact = call.contact()?;
    let answer = call.operate(BusinessOperation::ProfileOf { contact }).await?;
    of_kind!(answer, BusinessAnswer::Profile(profile) => Reply::ok(&profile))
}

//! A phone's business account and its orders, with the request and response bodies of the gateway's own routes.

use model::business::{
    OrderStatus, read_collection, read_collection_changes, read_product, read_product_changes, read_profile_changes,
};
use network::operation::business::{BusinessAnswer, BusinessOperation};
use network::simulator::answers::ControlError;
use network::simulator::answers::business::{NewCart, NewOrder};
use salvo::http::StatusCode;
use serde_json::json;

use super::call::{Answer, Call, DELETE, GET, Outcome, PATCH, POST, PUT, Route};

pub const ROUTES: &[Route] = &[
    (GET, "business", |call| run(call, StatusCode::OK, BusinessOperation::Show)),
    (PATCH, "business/profile", |call| {
        let changes = Box::new(call.read(read_profile_changes)?);
        run(call, StatusCode::OK, BusinessOperation::ChangeProfile(changes))
    }),
    (POST, "business/products", |call| {
        let product = Box::new(call.read(read_product)?);
        run(call, StatusCode::CREATED, BusinessOperation::AddProduct(product))
    }),
    (PATCH, "business/products/{product}", |call| {
        let changes = Box::new(call.read(read_product_changes)?);
        let product = call.param("product").to_owned();
        run(call, StatusCode::OK, BusinessOperation::ChangeProduct { product, changes })
    }),
    (DELETE, "business/products/{product}", |call| {
        let product = call.param("product").to_owned();
        run(call, StatusCode::OK, BusinessOperation::DeleteProduct { product })
    }),
    (POST, "business/collections", |call| {
        let (name, products) = call.read(read_collection)?;
        run(call, StatusCode::CREATED, BusinessOperation::AddCollection { name, products })
    }),
    (PATCH, "business/collections/{collection}", |call| {
        let changes = call.read(read_collection_changes)?;
        let collection = call.param("collection").to_owned();
        run(call, StatusCode::OK, BusinessOperation::ChangeCollection { collection, changes })
    }),
    (DELETE, "business/collections/{collection}", |call| {
        let collection = call.param("collection").to_owned();
        run(call, StatusCode::OK, BusinessOperation::DeleteCollection { collection })
    }),
    (POST, "orders", |call| {
        let order: NewOrder = call.body()?;
        let order_id = call.act(|engine, now, number| engine.place_order(now, number, &order))?;
        Answer::json(StatusCode::CREATED, &json!({ "order_id": order_id }))
    }),
    (POST, "orders/{order}/cancel", |call| move_order(call, OrderStatus::Cancelled, call.field("reason")?)),
    (POST, "orders/{order}/accept", |call| move_order(call, OrderStatus::Accepted, None)),
    (PUT, "cart", fill_cart),
    // The simulator's web page uses this method.
    (POST, "cart", fill_cart),
];

fn run(call: &Call, status: StatusCode, operation: BusinessOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
        BusinessAnswer::Done => Answer::done(),
        BusinessAnswer::Account(account) => match account {
            Some(state) => {
                let (products, collections) = (state.products, state.collections);
                Answer::ok(&json!({ "profile": state.profile, "products": products, "collections": collections }))
            }
            None => Err(ControlError::NotFound("the phone is no business".into())),
        },
        BusinessAnswer::Profile(profile) => Answer::json(status, &profile),
        BusinessAnswer::Product(product) => Answer::json(status, &product),
        BusinessAnswer::Products(products) => Answer::list(&products),
        BusinessAnswer::Collection(collection) => Answer::json(status, &collection),
        BusinessAnswer::Order(order) => Answer::json(status, &order),
    }
}

/// Lets the buyer or the business change the status of an order.
fn move_order(call: &Call, to: OrderStatus, reason: Option<String>) -> Outcome {
    let order_id = call.param("order");
    call.act(|engine, now, number| engine.move_order(now, number, order_id, to, reason))?;
    Answer::json(StatusCode::CREATED, &json!({ "order_id": order_id }))
}

fn fill_cart(call: &Call) -> Outcome {
    let cart: NewCart = call.body()?;
    let cart_id = call.act(|engine, now, number| engine.fill_cart(now, number, &cart))?;
    Answer::json(StatusCode::CREATED, &json!({ "cart_id": cart_id }))
}

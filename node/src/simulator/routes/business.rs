//! What a phone's business account has, and what phones order, with the bodies and answers of the gateway's own routes.

use model::business::{
    OrderStatus, read_collection, read_collection_changes, read_product, read_product_changes, read_profile_changes,
};
use network::operation::business::{BusinessAnswer, BusinessOperation};
use network::simulator::answers::ControlError;
use network::simulator::answers::business::{NewCart, NewOrder};
use salvo::http::StatusCode;
use salvo::prelude::Router;
use serde_json::json;

use super::call::{Answer, Call, Outcome, Routes};

pub fn business(routes: &Routes<'_>) -> Router {
    let product = Router::with_path("{product}").patch(routes.to(change_product)).delete(routes.to(delete_product));
    let collection =
        Router::with_path("{collection}").patch(routes.to(change_collection)).delete(routes.to(delete_collection));
    Router::with_path("business")
        .push(Router::new().get(routes.to(show)))
        .push(Router::with_path("profile").patch(routes.to(change_profile)))
        .push(Router::with_path("products").post(routes.to(add_product)).push(product))
        .push(Router::with_path("collections").post(routes.to(add_collection)).push(collection))
}

pub fn orders(routes: &Routes<'_>) -> Router {
    let order = Router::with_path("{order}")
        .push(Router::with_path("cancel").post(routes.to(cancel_order)))
        .push(Router::with_path("accept").post(routes.to(accept_order)));
    Router::with_path("orders").post(routes.to(place_order)).push(order)
}

/// By `PUT`, or by `POST` as the simulator's page has it.
pub fn cart(routes: &Routes<'_>) -> Router {
    Router::with_path("cart").put(routes.to(fill_cart)).post(routes.to(fill_cart))
}

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

fn show(call: Call) -> Outcome {
    run(&call, StatusCode::OK, BusinessOperation::Show)
}

fn change_profile(call: Call) -> Outcome {
    let changes = Box::new(call.read(read_profile_changes)?);
    run(&call, StatusCode::OK, BusinessOperation::ChangeProfile(changes))
}

fn add_product(call: Call) -> Outcome {
    let product = Box::new(call.read(read_product)?);
    run(&call, StatusCode::CREATED, BusinessOperation::AddProduct(product))
}

fn change_product(call: Call) -> Outcome {
    let changes = Box::new(call.read(read_product_changes)?);
    let product = call.param("product").to_owned();
    run(&call, StatusCode::OK, BusinessOperation::ChangeProduct { product, changes })
}

fn delete_product(call: Call) -> Outcome {
    let product = call.param("product").to_owned();
    run(&call, StatusCode::OK, BusinessOperation::DeleteProduct { product })
}

fn add_collection(call: Call) -> Outcome {
    let (name, products) = call.read(read_collection)?;
    run(&call, StatusCode::CREATED, BusinessOperation::AddCollection { name, products })
}

fn change_collection(call: Call) -> Outcome {
    let changes = call.read(read_collection_changes)?;
    let collection = call.param("collection").to_owned();
    run(&call, StatusCode::OK, BusinessOperation::ChangeCollection { collection, changes })
}

fn delete_collection(call: Call) -> Outcome {
    let collection = call.param("collection").to_owned();
    run(&call, StatusCode::OK, BusinessOperation::DeleteCollection { collection })
}

fn place_order(call: Call) -> Outcome {
    let order: NewOrder = call.body()?;
    let order_id = call.act(|engine, now, number| engine.place_order(now, number, &order))?;
    Answer::json(StatusCode::CREATED, &json!({ "order_id": order_id }))
}

fn cancel_order(call: Call) -> Outcome {
    move_order(&call, OrderStatus::Cancelled, call.field("reason")?)
}

fn accept_order(call: Call) -> Outcome {
    move_order(&call, OrderStatus::Accepted, None)
}

/// The buyer or the business moves an order on.
fn move_order(call: &Call, to: OrderStatus, reason: Option<String>) -> Outcome {
    let order_id = call.param("order");
    call.act(|engine, now, number| engine.move_order(now, number, order_id, to, reason))?;
    Answer::json(StatusCode::CREATED, &json!({ "order_id": order_id }))
}

fn fill_cart(call: Call) -> Outcome {
    let cart: NewCart = call.body()?;
    let cart_id = call.act(|engine, now, number| engine.fill_cart(now, number, &cart))?;
    Answer::json(StatusCode::CREATED, &json!({ "cart_id": cart_id }))
}

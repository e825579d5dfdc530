//! Newsletters of a phone, with the bodies and answers of the gateway's own routes (supplement 14).

use network::simulator::answers::gatherings::NewNewsletter;
use salvo::http::StatusCode;
use salvo::prelude::Router;
use serde_json::json;

use super::call::{Answer, Call, Outcome, Routes};

pub fn newsletters(routes: &Routes<'_>) -> Router {
    let admin = Router::with_path("admins/{contact}").post(routes.to(add_admin)).delete(routes.to(remove_admin));
    let newsletter = Router::with_path("{newsletter}")
        .push(Router::new().get(routes.to(show_newsletter)))
        .push(Router::with_path("subscription").post(routes.to(subscribe)).delete(routes.to(unsubscribe)))
        .push(admin);
    Router::with_path("newsletters")
        .push(Router::new().get(routes.to(list_newsletters)).post(routes.to(create_newsletter)))
        .push(newsletter)
}

async fn create_newsletter(call: Call) -> Outcome {
    let newsletter = call.simulator.create_newsletter(&call.phone, &call.body::<NewNewsletter>()?)?;
    Answer::json(StatusCode::CREATED, &newsletter)
}

async fn list_newsletters(call: Call) -> Outcome {
    let newsletters = call.simulator.newsletters(&call.phone)?;
    Answer::ok(&json!({ "total": newsletters.len(), "data": newsletters }))
}

async fn show_newsletter(call: Call) -> Outcome {
    Answer::ok(&call.simulator.newsletter(&call.phone, call.param("newsletter"))?)
}

async fn subscribe(call: Call) -> Outcome {
    Answer::ok(&call.simulator.subscribe(&call.phone, call.param("newsletter"), true)?)
}

async fn unsubscribe(call: Call) -> Outcome {
    call.simulator.subscribe(&call.phone, call.param("newsletter"), false)?;
    Answer::done()
}

async fn add_admin(call: Call) -> Outcome {
    call.simulator.set_newsletter_admin(&call.phone, call.param("newsletter"), call.param("contact"), true)?;
    Answer::done()
}

async fn remove_admin(call: Call) -> Outcome {
    call.simulator.set_newsletter_admin(&call.phone, call.param("newsletter"), call.param("contact"), false)?;
    Answer::done()
}

//! Newsletters of a phone, with the bodies and answers of the gateway's own routes.

use model::address::Address;
use model::field::Change;
use model::newsletter::NewsletterChanges;
use network::operation::newsletters::{NewsletterAnswer, NewsletterOperation};
use network::simulator::answers::{ControlError, Listing};
use salvo::http::StatusCode;
use salvo::prelude::Router;
use serde::Deserialize;
use serde_json::json;

use super::call::{Answer, Call, Outcome, Routes};

pub fn routes(routes: &Routes<'_>) -> Router {
    let admins = Router::with_path("admins")
        .push(Router::with_path("accept").post(routes.to(accept_admin)))
        .push(Router::with_path("{contact}").post(routes.to(invite_admin)).delete(routes.to(remove_admin)));
    let messages = Router::with_path("messages")
        .push(Router::new().get(routes.to(list_messages)))
        .push(Router::with_path("{server_id}/reaction").post(routes.to(react)));
    let newsletter = Router::with_path("{newsletter}")
        .push(Router::new().get(routes.to(show)).patch(routes.to(change)).delete(routes.to(delete)))
        .push(Router::with_path("subscription").post(routes.to(subscribe)).delete(routes.to(unsubscribe)))
        .push(Router::with_path("mute").put(routes.to(mute)))
        .push(messages)
        .push(admins);
    Router::with_path("newsletters").push(Router::new().get(routes.to(list)).post(routes.to(create))).push(newsletter)
}

/// The address in the path.
fn newsletter(call: &Call) -> Result<Address, ControlError> {
    call.simulator.address(call.param("newsletter"))
}

fn answer(answer: NewsletterAnswer) -> Outcome {
    match answer {
        NewsletterAnswer::Done => Answer::done(),
        NewsletterAnswer::Newsletters(newsletters) => Answer::list(&newsletters),
        NewsletterAnswer::Newsletter(newsletter) => Answer::ok(&newsletter),
        NewsletterAnswer::Messages(messages) => Answer::list(&messages),
        NewsletterAnswer::Invited { invite_expires_at } => {
            Answer::json(StatusCode::ACCEPTED, &json!({ "invite_expires_at": invite_expires_at }))
        }
    }
}

fn run(call: &Call, operation: NewsletterOperation) -> Outcome {
    answer(call.simulator.operate(&call.phone, operation)?)
}

fn list(call: Call) -> Outcome {
    run(&call, NewsletterOperation::List)
}

/// As the gateway's body, and by what a search finds it.
#[derive(Deserialize)]
struct NewNewsletter {
    name: String,
    description: Option<String>,
    #[serde(flatten)]
    listing: Listing,
}

fn create(call: Call) -> Outcome {
    let NewNewsletter { name, description, listing } = call.body()?;
    let create = NewsletterOperation::Create { name, description, picture: None };
    match call.simulator.operate(&call.phone, create)? {
        NewsletterAnswer::Newsletter(made) => {
            call.simulator.act(|engine, _| engine.list_newsletter(&made.id, listing))?;
            Answer::json(StatusCode::CREATED, &made)
        }
        other => answer(other),
    }
}

fn show(call: Call) -> Outcome {
    run(&call, NewsletterOperation::Show { newsletter: newsletter(&call)? })
}

fn change(call: Call) -> Outcome {
    let changes: NewsletterChanges = call.body()?;
    run(&call, NewsletterOperation::Change { newsletter: newsletter(&call)?, changes, picture: Change::Keep })
}

fn delete(call: Call) -> Outcome {
    run(&call, NewsletterOperation::Delete { newsletter: newsletter(&call)? })
}

fn subscribe(call: Call) -> Outcome {
    run(&call, NewsletterOperation::Subscribe { newsletter: newsletter(&call)? })
}

fn unsubscribe(call: Call) -> Outcome {
    run(&call, NewsletterOperation::Unsubscribe { newsletter: newsletter(&call)? })
}

fn mute(call: Call) -> Outcome {
    run(&call, NewsletterOperation::Mute { newsletter: newsletter(&call)?, muted: call.field("muted")? })
}

fn list_messages(call: Call) -> Outcome {
    let (before, limit) = (call.number("before")?, call.limit()?.unwrap_or(usize::MAX));
    run(&call, NewsletterOperation::Messages { newsletter: newsletter(&call)?, before, limit })
}

fn react(call: Call) -> Outcome {
    let emoji: String = call.field("emoji")?;
    let server_id = call.param("server_id").parse();
    let server_id = server_id.map_err(|_| ControlError::NotFound("a server_id is a whole number".into()))?;
    run(&call, NewsletterOperation::React { newsletter: newsletter(&call)?, server_id, emoji })
}

fn contact(call: &Call) -> Result<Address, ControlError> {
    call.simulator.address(call.param("contact"))
}

fn invite_admin(call: Call) -> Outcome {
    run(&call, NewsletterOperation::InviteAdmin { newsletter: newsletter(&call)?, whom: contact(&call)? })
}

fn accept_admin(call: Call) -> Outcome {
    run(&call, NewsletterOperation::AcceptAdmin { newsletter: newsletter(&call)? })
}

fn remove_admin(call: Call) -> Outcome {
    run(&call, NewsletterOperation::RemoveAdmin { newsletter: newsletter(&call)?, whom: contact(&call)? })
}

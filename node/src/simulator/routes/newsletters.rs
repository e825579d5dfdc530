//! Newsletters of a phone, with the request and response bodies of the gateway's own routes.

use model::field::Change;
use network::operation::newsletters::{NewsletterAnswer, NewsletterOperation};
use network::simulator::answers::{ControlError, Listing};
use salvo::http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::call::{Answer, Call, DELETE, GET, Outcome, PATCH, POST, PUT, Route};

pub const ROUTES: &[Route] = &[
    (GET, "newsletters", |call| run(call, NewsletterOperation::List)),
    (POST, "newsletters", create),
    (GET, "newsletters/{newsletter}", |call| {
        run(call, NewsletterOperation::Show { newsletter: call.address("newsletter")? })
    }),
    (PATCH, "newsletters/{newsletter}", |call| {
        let changes = call.body()?;
        let newsletter = call.address("newsletter")?;
        run(call, NewsletterOperation::Change { newsletter, changes, picture: Change::Keep })
    }),
    (DELETE, "newsletters/{newsletter}", |call| {
        run(call, NewsletterOperation::Delete { newsletter: call.address("newsletter")? })
    }),
    (POST, "newsletters/{newsletter}/subscription", |call| {
        run(call, NewsletterOperation::Subscribe { newsletter: call.address("newsletter")? })
    }),
    (DELETE, "newsletters/{newsletter}/subscription", |call| {
        run(call, NewsletterOperation::Unsubscribe { newsletter: call.address("newsletter")? })
    }),
    (PUT, "newsletters/{newsletter}/mute", |call| {
        let newsletter = call.address("newsletter")?;
        run(call, NewsletterOperation::Mute { newsletter, muted: call.field("muted")? })
    }),
    (GET, "newsletters/{newsletter}/messages", |call| {
        let (before, limit) = (call.number("before")?, call.limit()?.unwrap_or(usize::MAX));
        run(call, NewsletterOperation::Messages { newsletter: call.address("newsletter")?, before, limit })
    }),
    (POST, "newsletters/{newsletter}/messages/{server_id}/reaction", |call| {
        let emoji = call.field("emoji")?;
        let server_id = call.param("server_id").parse();
        let server_id = server_id.map_err(|_| ControlError::NotFound("a server_id is a whole number".into()))?;
        run(call, NewsletterOperation::React { newsletter: call.address("newsletter")?, server_id, emoji })
    }),
    (POST, "newsletters/{newsletter}/admins/accept", |call| {
        run(call, NewsletterOperation::AcceptAdmin { newsletter: call.address("newsletter")? })
    }),
    (POST, "newsletters/{newsletter}/admins/{contact}", |call| {
        let (newsletter, whom) = (call.address("newsletter")?, call.address("contact")?);
        run(call, NewsletterOperation::InviteAdmin { newsletter, whom })
    }),
    (DELETE, "newsletters/{newsletter}/admins/{contact}", |call| {
        let (newsletter, whom) = (call.address("newsletter")?, call.address("contact")?);
        run(call, NewsletterOperation::RemoveAdmin { newsletter, whom })
    }),
];

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

/// The gateway's body, with additional fields by which searches find the newsletter.
#[derive(Deserialize)]
struct NewNewsletter {
    name: String,
    description: Option<String>,
    #[serde(flatten)]
    listing: Listing,
}

fn create(call: &Call) -> Outcome {
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

//! Support tickets of all customers: `/v1/admin/support/tickets`, for answering and closing them.

use model::error::ErrorCode as E;
use model::id::{CustomerId, TicketMessageId};
use model::page::ListId;
use model::ticket::{Author, parse_answer, parse_status};
use raft::directory::support::{TicketCommand, TicketMessage, TicketRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::query::Query;
use crate::reply::{Outcome, Reply};
use crate::request_context::{OperatorCall, RequestContext};
use crate::resources::tickets::{Conversation, Page, TicketView, find, update};
use crate::route::{GET, PATCH, POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/support/tickets", list)
            .doc("list_all_tickets", "List the support tickets of all customers, the newest first")
            .query(asked)
            .page::<OwnedTicket>(),
        Route::operator(GET, "/v1/admin/support/tickets/{id}", show)
            .doc("get_any_ticket", "Get a support ticket with its messages")
            .ok::<Conversation<OwnedTicket>>(),
        Route::operator(PATCH, "/v1/admin/support/tickets/{id}", patch)
            .doc("set_ticket_status", "Set the status of a support ticket")
            .body(parse_status, json!({ "status": "closed" }))
            .ok::<OwnedTicket>()
            .errors(&[E::NoOp]),
        Route::operator(POST, "/v1/admin/support/tickets/{id}/messages", answer)
            .doc("answer_ticket", "Answer a support ticket")
            .about("The ticket then waits for the customer (`waiting`), unless the body says otherwise.")
            .body(parse_answer, json!({ "message": "Please try again now." }))
            .created::<TicketMessage>(),
    ]
}

/// A ticket with its account, and the request that it is about.
#[derive(Serialize, JsonSchema)]
pub struct OwnedTicket {
    #[serde(flatten)]
    ticket: TicketView,
    /// Account that the ticket belongs to.
    customer: CustomerView,
    /// `X-Request-Id` of the request that the ticket is about; `null` if none was named.
    request_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct CustomerView {
    id: CustomerId,
    /// Name of the account; `null` once the account's data is removed.
    name: Option<String>,
}

impl OwnedTicket {
    pub fn of(ctx: &RequestContext, ticket: &TicketRecord) -> Self {
        let id = ticket.customer_id;
        let customers = ctx.directory();
        let name = customers.read(|state| state.customers.get(&id).map(|customer| customer.name.clone()));
        Self {
            ticket: TicketView::from(ticket),
            customer: CustomerView { id, name },
            request_id: ticket.request_id.clone(),
        }
    }
}

/// Reads the customer if only one is asked about, and the page.
fn asked(query: &Query<'_>) -> (Option<CustomerId>, Page) {
    (query.id("customer_id"), Page::asked(query, ListId::only()))
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let (customer, page) = call.asked(asked)?;
    let tickets = page.read(call, customer).await?;
    Ok(Reply::ok(&tickets.map(|ticket| OwnedTicket::of(call, &ticket))))
}

async fn show(call: &mut OperatorCall) -> Outcome {
    let ticket = find(call).await?;
    Ok(Reply::ok(&Conversation::of(call, ticket.id, OwnedTicket::of(call, &ticket)).await?))
}

/// Sets the status, also of a closed ticket, so that it can be opened again.
async fn patch(call: &mut OperatorCall) -> Outcome {
    let status = parse_status(&call.object().await?)?;
    let ticket = find(call).await?.id;
    let ticket = update(call, TicketCommand::SetStatus { ticket, status }).await?;
    Ok(Reply::ok(&OwnedTicket::of(call, &ticket)))
}

/// Adds an answer. The ticket then waits for the customer, unless the body sets another status.
async fn answer(call: &mut OperatorCall) -> Outcome {
    let (message, status) = parse_answer(&call.object().await?)?;
    let ticket = find(call).await?.id;
    let message = TicketMessage { id: TicketMessageId::new(), author: Author::Support, message, created_at: call.now };
    let say = TicketCommand::Say { ticket, customer: None, message: message.clone(), status, forward: false };
    update(call, say).await?;
    Ok(Reply::created(&message))
}

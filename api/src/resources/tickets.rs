//! `/v1/support/tickets`: for members with a dashboard session.

use model::error::{CallError, ErrorCode as E};
use model::id::{ChannelId, CustomerId, TicketId, TicketMessageId};
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::ticket::{Author, Category, NewTicket, Priority, TicketStatus, parse_message};
use model::time::Timestamp;
use raft::directory::Directory;
use raft::directory::command::{Command, Reply as Updated};
use raft::directory::support::{TicketCommand, TicketMessage, TicketRecord};
use raft::supervise;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::failure::{self, of_kind};
use crate::query::Query;
use crate::reply::{List, Outcome, Reply, view_of};
use crate::request_context::{AccountCall, RequestContext};
use crate::route::{GET, POST, Route};

pub fn routes() -> Vec<Route> {
    // All of these routes require a dashboard session.
    let routes = [
        Route::account(GET, "/v1/support/tickets", list)
            .doc("list_tickets", "List the account's support tickets, the newest first")
            .query(|query| Page::asked(query, ListId::only()))
            .page::<TicketView>(),
        Route::account(POST, "/v1/support/tickets", create)
            .doc("create_ticket", "Open a support ticket")
            .about("An account can open at most ten tickets per day (UTC).")
            .body(
                NewTicket::parse,
                json!({ "subject": "No messages", "message": "None since noon", "category": "delivery" }),
            )
            .created::<TicketView>()
            .errors(&[E::ChannelNotFound, E::PlanLimit]),
        Route::account(GET, "/v1/support/tickets/{id}", show)
            .doc("get_ticket", "Get a support ticket with its messages")
            .ok::<Conversation<TicketView>>(),
        Route::account(POST, "/v1/support/tickets/{id}/messages", say)
            .doc("add_ticket_message", "Add a message to a support ticket")
            .about("Reopens the ticket, unless it is closed: then the call is refused with `bad_request`.")
            .body(parse_message, json!({ "message": "It began after an update" }))
            .created::<TicketMessage>(),
    ];
    routes.map(Route::session).into()
}

/// A ticket, without its messages.
#[derive(Serialize, JsonSchema)]
pub struct TicketView {
    id: TicketId,
    number: u32,
    /// Subject of the ticket.
    subject: String,
    /// What the ticket is about.
    category: Category,
    priority: Priority,
    status: TicketStatus,
    channel_id: Option<ChannelId>,
    created_by: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&TicketRecord> for TicketView {
    fn from(ticket: &TicketRecord) -> Self {
        view_of!(ticket => id, number, subject, category, priority, status, channel_id, created_by, created_at, updated_at)
    }
}

/// A ticket with its messages.
#[derive(Serialize, JsonSchema)]
pub struct Conversation<T> {
    #[serde(flatten)]
    ticket: T,
    /// The messages, oldest first.
    messages: Vec<TicketMessage>,
}

impl<T> Conversation<T> {
    /// # Errors
    /// `internal_error` when the store cannot be read.
    pub async fn of(ctx: &RequestContext, id: TicketId, ticket: T) -> Result<Self, CallError> {
        let messages = read(ctx, move |directory| directory.ticket_messages(id)).await?;
        Ok(Self { ticket, messages })
    }
}

model::cursor! {
    /// The last ticket of a page.
    TicketCursor("tickets.1") { id: TicketId }
}

/// The requested page.
pub struct Page {
    of: ListId,
    limit: usize,
    status: Option<TicketStatus>,
    after: Option<TicketId>,
}

impl Page {
    pub fn asked(query: &Query<'_>, of: ListId) -> Self {
        Self {
            of,
            limit: query.limit().unwrap_or(DEFAULT_LIMIT),
            status: query.word("status", TicketStatus::WORDS, TicketStatus::parse),
            after: query.cursor::<TicketCursor>(of).map(|cursor| cursor.id),
        }
    }

    /// Reads the newest tickets of a customer, or of all customers.
    ///
    /// # Errors
    /// `internal_error` when the store cannot be read.
    pub async fn read(
        self,
        ctx: &RequestContext,
        customer: Option<CustomerId>,
    ) -> Result<List<TicketRecord>, CallError> {
        let Self { of, limit, status, after } = self;
        let one_more = move |directory: &Directory| directory.tickets(customer, status, after, limit + 1);
        let tickets = read(ctx, one_more).await?;
        Ok(List::first(tickets, limit, |ticket| TicketCursor { id: ticket.id }.encode(of)))
    }
}

/// Reads on a thread of its own, since tickets are on disk, and the reads must not delay other requests.
///
/// # Errors
/// `internal_error` when the store cannot be read.
pub async fn read<T: Send + 'static>(
    ctx: &RequestContext,
    reading: impl FnOnce(&Directory) -> T + Send + 'static,
) -> Result<T, CallError> {
    let app = ctx.app.clone();
    let read = supervise::on_thread(move || reading(app.cluster.directory()));
    read.await.map_err(|error| failure::internal("tickets could not be read", &error))
}

/// The ticket that the path names, of any account.
///
/// # Errors
/// `not_found`.
pub async fn find(ctx: &RequestContext) -> Result<TicketRecord, CallError> {
    let missing = || CallError::not_found("ticket", ctx.parameter("id"));
    let id: TicketId = ctx.id("id").ok_or_else(missing)?;
    read(ctx, move |directory| directory.ticket(id)).await?.ok_or_else(missing)
}

/// Changes a ticket.
///
/// # Errors
/// The interface's code for the rejection, or 503 while no leader answers.
pub async fn update(ctx: &RequestContext, command: TicketCommand) -> Result<TicketRecord, CallError> {
    of_kind!(ctx.update(Command::Tickets(command), Vec::new()).await?, Updated::Ticket(ticket) => *ticket)
}

async fn find_own(call: &AccountCall) -> Result<TicketRecord, CallError> {
    let ticket = find(call).await?;
    if ticket.customer_id == call.customer_id() {
        Ok(ticket)
    } else {
        Err(CallError::not_found("ticket", call.parameter("id")))
    }
}

async fn list(call: &mut AccountCall) -> Outcome {
    let page = call.asked(|query| Page::asked(query, call.list(None, false)))?;
    let tickets = page.read(call, Some(call.customer_id())).await?;
    Ok(Reply::ok(&tickets.map(|ticket| TicketView::from(&ticket))))
}

async fn create(call: &mut AccountCall) -> Outcome {
    let body = call.object().await?;
    let NewTicket { subject, message, category, priority, channel_id, request_id } = NewTicket::parse(&body)?;
    if let Some(id) = channel_id {
        call.own_channel(id)?;
    }
    let created_by = call.caller.require_session()?.email.clone();
    let message = TicketMessage { id: TicketMessageId::new(), author: Author::Customer, message, created_at: call.now };
    let ticket = TicketRecord {
        id: TicketId::new(),
        customer_id: call.customer_id(),
        number: 0,
        subject,
        category,
        priority,
        status: TicketStatus::Open,
        channel_id,
        request_id,
        created_by,
        created_at: call.now,
        updated_at: call.now,
        messages: 0,
    };
    let forward = call.app.config.support.hears();
    let ticket = update(call, TicketCommand::Open { ticket, message, forward }).await?;
    Ok(Reply::created(&TicketView::from(&ticket)))
}

async fn show(call: &mut AccountCall) -> Outcome {
    let ticket = find_own(call).await?;
    Ok(Reply::ok(&Conversation::of(call, ticket.id, TicketView::from(&ticket)).await?))
}

/// Adds a message to a ticket, which opens it again unless the support has closed it.
async fn say(call: &mut AccountCall) -> Outcome {
    let message = parse_message(&call.object().await?)?;
    let ticket = find_own(call).await?.id;
    let message = TicketMessage { id: TicketMessageId::new(), author: Author::Customer, message, created_at: call.now };
    let say = TicketCommand::Say {
        ticket,
        customer: Some(call.customer_id()),
        message: message.clone(),
        status: TicketStatus::Open,
        forward: call.app.config.support.hears(),
    };
    update(call, say).await?;
    Ok(Reply::created(&message))
}
